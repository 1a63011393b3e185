//! Calls of a `UnixDatagram` that never wait. The names are those of tokio.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use netpoll::Direction;

use super::UnixDatagram;
use crate::net::source as net;

impl UnixDatagram {
    /// Sends a datagram to the peer without waiting. Returns the number of bytes.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no room, and else the system's error.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(one.try_send(b"hello")?, 5);
    /// # drop(other);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.attempt_once(Direction::Write, |socket| socket.send(buf))
    }

    /// Sends a datagram to the socket at `path` without waiting. Returns the number of bytes.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no room, and else the system's error.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("try-send-to-{}", std::process::id()));
    /// # let _ = std::fs::remove_file(&path);
    /// let socket = runtime::net::unix::UnixDatagram::bind(&path)?;
    /// assert_eq!(socket.try_send_to(b"to myself", &path)?, 9);
    /// # std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        let addr = SocketAddr::from_pathname(path)?;
        self.0.attempt_once(Direction::Write, |socket| net::send_to_unix(socket, buf, &addr))
    }

    /// Receives a datagram without waiting. Returns its length.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and else the system's error.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(one.try_recv(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # drop(other);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.attempt_once(Direction::Read, |socket| socket.recv(buf))
    }

    /// Receives a datagram without waiting. Returns its length and its sender's address.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and else the system's error.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(one.try_recv_from(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # drop(other);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.attempt_once(Direction::Read, |socket| socket.recv_from(buf))
    }
}
