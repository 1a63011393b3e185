//! Calls of a `UdpSocket` that never wait. The names are those of tokio.

use std::io;
use std::net::SocketAddr;

use netpoll::Direction;

use super::UdpSocket;
use crate::net::source as net;

impl UdpSocket {
    /// Sends a datagram to the connected address without waiting. Returns the number of bytes.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no room, and else the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// assert_eq!(socket.try_send(b"to myself")?, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.attempt_once(Direction::Write, |socket| socket.send(buf))
    }

    /// Sends a datagram to `addr` without waiting. Returns the number of bytes.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no room, and else the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.try_send_to(b"to myself", socket.local_addr()?)?, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_send_to(&self, buf: &[u8], addr: SocketAddr) -> io::Result<usize> {
        self.0.attempt_once(Direction::Write, |socket| socket.send_to(buf, addr))
    }

    /// Receives a datagram of the connected address without waiting. Returns its length.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and else the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.connect(socket.local_addr()?)?;
    /// assert_eq!(socket.try_recv(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
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
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.try_recv_from(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.attempt_once(Direction::Read, |socket| socket.recv_from(buf))
    }

    /// Looks at a datagram without waiting, and leaves it. Returns its length and its sender's address.
    ///
    /// The time-outs and the non-blocking mode have no effect on it.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and else the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.try_peek_from(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.attempt_once(Direction::Read, |socket| socket.peek_from(buf))
    }

    /// Looks for a datagram without waiting, leaves it, and returns its sender's address.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` if there is no datagram, and else the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.try_peek_sender().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.0.attempt_once(Direction::Read, net::peek_sender)
    }
}
