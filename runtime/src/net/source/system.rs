//! The sockets of the system.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::vec;

pub(crate) use netpoll::net::*;
use socket2::SockRef;

#[cfg(unix)]
pub(crate) use crate::net::sys::{connect_unix, send_to_unix};
pub(crate) use crate::net::sys::{receive, send};

/// Returns the addresses of a simulated socket: there is none.
pub(crate) fn describe(_number: i64) -> Option<(Option<String>, Option<String>)> {
    None
}

/// Returns the addresses of a name that only a simulation knows.
pub(crate) fn look_up(_host: &str, _port: u16) -> Option<io::Result<vec::IntoIter<SocketAddr>>> {
    None
}

/// Returns the listener that `system` makes for `addr`.
pub(crate) fn listen(
    _addr: SocketAddr,
    system: impl FnOnce() -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    system()
}

/// Returns the listener that `system` makes for `addr`.
#[cfg(unix)]
pub(crate) fn listen_unix(
    _addr: &std::os::unix::net::SocketAddr,
    system: impl FnOnce() -> io::Result<UnixListener>,
) -> io::Result<UnixListener> {
    system()
}

/// Begins to connect a simulated stream: there is none.
#[cfg(unix)]
pub(crate) fn begin_unix(_addr: &std::os::unix::net::SocketAddr) -> Option<io::Result<UnixStream>> {
    None
}

/// Returns the sender of the next datagram, which stays. Never waits.
pub(crate) fn peek_sender(socket: &UdpSocket) -> io::Result<SocketAddr> {
    crate::net::sys::peek_sender(socket)
}

pub(crate) fn set_linger(stream: &TcpStream, linger: Option<Duration>) -> io::Result<()> {
    SockRef::from(stream).set_linger(linger)
}

pub(crate) fn linger(stream: &TcpStream) -> io::Result<Option<Duration>> {
    SockRef::from(stream).linger()
}

/// Reading into memory that is not initialised.
#[cfg(feature = "hyper")]
pub(crate) trait ReceiveUninit {
    /// Reads what the stream has into `room`. Never waits.
    fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize>;
}

#[cfg(feature = "hyper")]
impl ReceiveUninit for TcpStream {
    fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
        self.try_io(|| SockRef::from(self).recv(room))
    }
}

#[cfg(all(feature = "hyper", unix))]
impl ReceiveUninit for UnixStream {
    fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
        self.try_io(|| SockRef::from(self).recv(room))
    }
}
