//! Unix sockets of the system or of a simulation.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::SocketAddr;

use netpoll::net as system;

use super::Either::{self, Simulated, System};
use super::simulated;
use crate::net::sys;

pub(crate) type UnixDatagram = Either<system::UnixDatagram, simulated::UnixDatagram>;
pub(crate) type UnixListener = Either<system::UnixListener, simulated::UnixListener>;
pub(crate) type UnixStream = Either<system::UnixStream, simulated::UnixStream>;

/// Writes the conversions of a socket that is the system's.
macro_rules! conversions {
    ($($socket:ident)*) => { $(
        impl $socket {
            pub(crate) fn from_std(socket: std::os::unix::net::$socket) -> Self {
                System(system::$socket::from_std(socket))
            }
        }

        impl From<$socket> for std::os::unix::net::$socket {
            fn from(socket: $socket) -> Self {
                socket.into_system().into()
            }
        }

        impl From<$socket> for OwnedFd {
            fn from(socket: $socket) -> Self {
                socket.into_system().into()
            }
        }
    )* };
}

conversions! { UnixDatagram UnixListener UnixStream }

impl UnixStream {
    pub(crate) fn connect_addr(addr: &SocketAddr) -> io::Result<Self> {
        system::UnixStream::connect_addr(addr).map(System)
    }

    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        match simulated::UnixStream::pair() {
            Some(ends) => ends.map(|(one, other)| (Simulated(one), Simulated(other))),
            None => system::UnixStream::pair().map(|(one, other)| (System(one), System(other))),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn peer_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
        fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    }
}

/// Begins to connect a simulated stream. Returns `None` outside of a simulation.
pub(crate) fn begin_unix(addr: &SocketAddr) -> Option<io::Result<UnixStream>> {
    Some(simulated::UnixStream::connect(addr)?.map(Simulated))
}

impl UnixListener {
    pub(crate) fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        match self {
            System(listener) => listener.accept().map(|(stream, peer)| (System(stream), peer)),
            Simulated(listener) => listener.accept().map(|(stream, peer)| (Simulated(stream), peer)),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
    }
}

/// Returns the listener that `system` makes for `addr`, or a simulated one.
pub(crate) fn listen_unix(
    addr: &SocketAddr,
    system: impl FnOnce() -> io::Result<system::UnixListener>,
) -> io::Result<UnixListener> {
    match simulated::UnixListener::bind(addr) {
        Some(listener) => listener.map(Simulated),
        None => system().map(System),
    }
}

impl UnixDatagram {
    pub(crate) fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        match simulated::UnixDatagram::bind(addr) {
            Some(socket) => socket.map(Simulated),
            None => system::UnixDatagram::bind_addr(addr).map(System),
        }
    }

    pub(crate) fn unbound() -> io::Result<Self> {
        match simulated::UnixDatagram::unbound() {
            Some(socket) => socket.map(Simulated),
            None => system::UnixDatagram::unbound().map(System),
        }
    }

    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        match simulated::UnixDatagram::pair() {
            Some(ends) => ends.map(|(one, other)| (Simulated(one), Simulated(other))),
            None => system::UnixDatagram::pair().map(|(one, other)| (System(one), System(other))),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn peer_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
        fn shutdown(&self, how: Shutdown) -> io::Result<()>;
        fn send(&self, buf: &[u8]) -> io::Result<usize>;
        fn recv(&self, buf: &mut [u8]) -> io::Result<usize>;
        fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    }
}

/// Sets the peer of a socket for datagrams.
pub(crate) fn connect_unix(socket: &UnixDatagram, addr: &SocketAddr) -> io::Result<()> {
    match socket {
        System(socket) => sys::connect_unix(socket, addr),
        Simulated(socket) => socket.connect(addr),
    }
}

/// Sends a datagram. Never waits.
pub(crate) fn send_to_unix(socket: &UnixDatagram, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
    match socket {
        System(socket) => sys::send_to_unix(socket, buf, addr),
        Simulated(socket) => socket.send_to(buf, addr),
    }
}
