//! `UCred`: the process at the other end of a Unix socket.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use netpoll::raw::call;

/// The process at the other end of a Unix socket. Linux only.
///
/// [`UnixStream::peer_cred`](super::UnixStream::peer_cred) returns it.
///
/// The system keeps what held when the connection, or the listener, was made. The process may have changed
/// its user since.
///
/// ```
/// let (one, other) = runtime::net::unix::UnixStream::pair()?;
/// let peer = one.peer_cred()?;
/// assert_eq!(peer, other.peer_cred()?);
/// assert_eq!(peer.pid(), Some(std::process::id() as i32));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<i32>,
    uid: u32,
    gid: u32,
}

impl UCred {
    /// Asks the system about the peer of a socket.
    pub(super) fn of_peer(socket: &impl AsFd) -> io::Result<UCred> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `peer` has room for `len` bytes, any bytes are valid for its integers, and the call keeps
        // neither pointer. The borrow of `socket` keeps the descriptor open.
        let code = unsafe {
            call!(
                libc::SYS_getsockopt,
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                &raw mut peer,
                &raw mut len
            )
        };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(-code as i32));
        }
        // The system writes 0 for a process that the caller's namespace of processes does not have.
        Ok(UCred { pid: Some(peer.pid).filter(|&pid| pid != 0), uid: peer.uid, gid: peer.gid })
    }

    /// Returns the id of the process, or `None` if the system does not say.
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// assert!(one.peer_cred()?.pid().is_some());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Returns the id of the effective user.
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// assert_eq!(one.peer_cred()?.uid(), std::fs::metadata("/proc/self")?.uid());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the id of the effective group.
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// assert_eq!(one.peer_cred()?.gid(), std::fs::metadata("/proc/self")?.gid());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn gid(&self) -> u32 {
        self.gid
    }
}
