//! Addresses of simulated sockets: those of the internet, and those of Unix sockets.

use crate::errors::error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// An address of either family.
#[derive(Clone, Debug)]
pub(super) enum Addr {
    Ip(SocketAddr),
    Unix(UnixAddr),
}

impl Addr {
    /// Returns the address of a Unix socket that has none.
    pub(super) fn unnamed() -> io::Result<Addr> {
        // std makes an address without a name of an empty path.
        UnixAddr::from_pathname("").map(Addr::Unix)
    }

    /// Returns the address of a socket of the internet.
    ///
    /// # Errors
    /// Returns `EAFNOSUPPORT` if it is a Unix socket.
    pub(super) fn ip(&self) -> io::Result<SocketAddr> {
        match self {
            Addr::Ip(addr) => Ok(*addr),
            Addr::Unix(_) => Err(error(libc::EAFNOSUPPORT)),
        }
    }

    /// Returns the address of a Unix socket.
    ///
    /// # Errors
    /// Returns `EAFNOSUPPORT` if it is a socket of the internet.
    pub(super) fn unix(&self) -> io::Result<UnixAddr> {
        match self {
            Addr::Unix(addr) => Ok(addr.clone()),
            Addr::Ip(_) => Err(error(libc::EAFNOSUPPORT)),
        }
    }
}

/// For dumps.
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = match self {
            Addr::Ip(addr) => return addr.fmt(f),
            Addr::Unix(addr) => addr,
        };
        match (addr.as_pathname(), addr.as_abstract_name()) {
            (Some(path), _) => path.display().fmt(f),
            (None, Some(name)) => write!(f, "@{}", name.escape_ascii()),
            (None, None) => f.write_str("unnamed"),
        }
    }
}
