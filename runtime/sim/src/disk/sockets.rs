//! The names of Unix sockets on a simulated disk. A bind makes one, which stays until the program removes it.

use std::io;
use std::path::Path;

use super::Disks;
use super::tree::Kind;
use crate::errors::error;

impl Disks {
    /// Makes the name of a socket of `node`. Returns the number of the name's inode.
    ///
    /// # Errors
    /// Returns `EADDRINUSE` if something exists at `path`, and the errors of finding its directory.
    pub(crate) fn bind(&self, node: u32, path: &Path) -> io::Result<u64> {
        self.with(node, |disk| {
            let place = disk.find(path, false)?;
            if place.found.is_some() {
                return Err(error(libc::EADDRINUSE));
            }
            disk.make(&place, Kind::Socket, 0o777)
        })
    }

    /// Returns the number of the inode at `path` on the disk of `node`.
    ///
    /// # Errors
    /// Returns `ENOENT` if nothing exists there, and `ECONNREFUSED` if that is no socket.
    pub(crate) fn socket_at(&self, node: u32, path: &Path) -> io::Result<u64> {
        self.with(node, |disk| {
            let inode = disk.inode_at(path, true)?;
            match disk.get(inode).kind {
                Kind::Socket => Ok(inode),
                _ => Err(error(libc::ECONNREFUSED)),
            }
        })
    }
}
