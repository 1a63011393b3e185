//! Sockets of the system or of a simulation. (Feature `sim`.)
//!
//! A socket that is made in a simulation is simulated. It is registered with the netpoller as a socket of the
//! system is, and the simulated network reports its events. So waiting is the same for both.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{fmt, vec};

use netpoll::Direction;
use netpoll::net as system;
use netpoll::source::{Interest, Registry, Source, Token};
use socket2::SockRef;

use super::Sourced;
use crate::net::sys;
use sim::network::{self as simulated, Readiness, StreamIo};

/// A socket of the system or of a simulation.
pub(crate) enum Either<R, S> {
    System(R),
    Simulated(S),
}

use Either::{Simulated, System};

pub(crate) type TcpListener = Either<system::TcpListener, simulated::TcpListener>;
pub(crate) type TcpStream = Either<system::TcpStream, simulated::TcpStream>;

pub(crate) type UdpSocket = Either<system::UdpSocket, simulated::UdpSocket>;

impl<R: Source, S: Source> Source for Either<R, S> {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            System(socket) => socket.register(registry, token, interests),
            Simulated(socket) => socket.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            System(socket) => socket.reregister(registry, token, interests),
            Simulated(socket) => socket.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            System(socket) => socket.deregister(registry),
            Simulated(socket) => socket.deregister(registry),
        }
    }
}

impl<R: Sourced, S: Source + Readiness> Sourced for Either<R, S> {
    fn number(&self) -> i64 {
        match self {
            System(socket) => socket.number(),
            Simulated(socket) => socket.number(),
        }
    }

    fn is_ready(&self, direction: Direction) -> io::Result<bool> {
        match self {
            System(socket) => socket.is_ready(direction),
            Simulated(socket) => Ok(socket.is_ready(direction)),
        }
    }

    fn look(&self, interest: crate::net::Interest) -> io::Result<crate::net::Ready> {
        let socket = match self {
            System(socket) => return socket.look(interest),
            Simulated(socket) => socket,
        };
        let (read, write) = (interest.is_readable(), interest.is_writable());
        Ok(crate::net::Ready::found(netpoll::source::Look {
            readable: read && socket.is_ready(Direction::Read),
            writable: write && socket.is_ready(Direction::Write),
            read_closed: read && socket.has_ended(Direction::Read),
            write_closed: write && socket.has_ended(Direction::Write),
            error: false,
        }))
    }

    fn reports_room(&self) -> bool {
        matches!(self, Simulated(_))
    }

    fn check_descriptor(&self) -> io::Result<()> {
        match self {
            System(_) => Ok(()),
            Simulated(_) => Err(io::Error::new(io::ErrorKind::Unsupported, NO_DESCRIPTOR)),
        }
    }
}

const NO_DESCRIPTOR: &str =
    "a simulated socket has no descriptor: it cannot be given to code that uses the system's sockets";

impl<R, S> Either<R, S> {
    #[inline]
    #[track_caller]
    fn system(&self) -> &R {
        match self {
            System(socket) => socket,
            Simulated(_) => panic!("{NO_DESCRIPTOR}"),
        }
    }
}

impl<R: AsFd, S> AsFd for Either<R, S> {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.system().as_fd()
    }
}

impl<R: AsRawFd, S> AsRawFd for Either<R, S> {
    #[track_caller]
    fn as_raw_fd(&self) -> RawFd {
        self.system().as_raw_fd()
    }
}

impl<R: IntoRawFd, S> IntoRawFd for Either<R, S> {
    fn into_raw_fd(self) -> RawFd {
        self.into_system().into_raw_fd()
    }
}

impl<R: From<OwnedFd>, S> From<OwnedFd> for Either<R, S> {
    fn from(descriptor: OwnedFd) -> Self {
        System(R::from(descriptor))
    }
}

impl<R: fmt::Debug, S: fmt::Debug> fmt::Debug for Either<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            System(socket) => socket.fmt(f),
            Simulated(socket) => socket.fmt(f),
        }
    }
}

impl<'a, R, S> Read for &'a Either<R, S>
where
    &'a R: Read,
    &'a S: Read,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match *self {
            System(socket) => (&mut { socket }).read(buf),
            Simulated(socket) => (&mut { socket }).read(buf),
        }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match *self {
            System(socket) => (&mut { socket }).read_vectored(bufs),
            Simulated(socket) => (&mut { socket }).read_vectored(bufs),
        }
    }
}

impl<'a, R, S> Write for &'a Either<R, S>
where
    &'a R: Write,
    &'a S: Write,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match *self {
            System(socket) => (&mut { socket }).write(buf),
            Simulated(socket) => (&mut { socket }).write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {
            System(socket) => (&mut { socket }).write_vectored(bufs),
            Simulated(socket) => (&mut { socket }).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads what a stream has. Never waits.
#[inline]
pub(crate) fn receive<E: Stream>(stream: &E, buf: &mut [u8]) -> io::Result<usize> {
    stream.receive(buf)
}

/// Writes as much as there is room for. Never waits, and raises no signal if the peer has closed.
#[inline]
pub(crate) fn send<E: Stream>(stream: &E, buf: &[u8]) -> io::Result<usize> {
    stream.send(buf)
}

/// A stream of either kind.
pub(crate) trait Stream {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn send(&self, buf: &[u8]) -> io::Result<usize>;
}

impl<R: AsFd, S: StreamIo> Stream for Either<R, S> {
    #[inline]
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            System(stream) => sys::receive(stream, buf),
            Simulated(stream) => stream.receive(buf),
        }
    }

    #[inline]
    fn send(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            System(stream) => sys::send(stream, buf),
            Simulated(stream) => stream.send(buf),
        }
    }
}

/// Reading into memory that is not initialised.
#[cfg(feature = "hyper")]
pub(crate) trait ReceiveUninit {
    /// Reads what the stream has into `room`. Never waits.
    fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize>;
}

#[cfg(feature = "hyper")]
impl<R: AsFd, S: StreamIo> ReceiveUninit for Either<R, S> {
    fn receive_uninit(&self, room: &mut [std::mem::MaybeUninit<u8>]) -> io::Result<usize> {
        match self {
            System(stream) => SockRef::from(stream).recv(room),
            Simulated(stream) => {
                let mut bytes = vec![0; room.len()];
                let got = stream.receive(&mut bytes)?;
                room.iter_mut().zip(&bytes[..got]).for_each(|(to, from)| {
                    to.write(*from);
                });
                Ok(got)
            }
        }
    }
}

/// Writes methods that both kinds have.
macro_rules! forward {
    ($(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => { $(
        pub(crate) fn $name(&self $(, $arg: $type)*) -> $result {
            match self {
                System(socket) => socket.$name($($arg),*),
                Simulated(socket) => socket.$name($($arg),*),
            }
        }
    )* };
}

mod unix;

pub(crate) use unix::*;

impl TcpStream {
    pub(crate) fn from_std(stream: std::net::TcpStream) -> Self {
        System(system::TcpStream::from_std(stream))
    }

    /// Begins to connect. Never waits.
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<Self> {
        match simulated::TcpStream::connect(addr) {
            Some(stream) => stream.map(Simulated),
            None => system::TcpStream::connect(addr).map(System),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn peer_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
        fn shutdown(&self, how: Shutdown) -> io::Result<()>;
        fn peek(&self, buf: &mut [u8]) -> io::Result<usize>;
        fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
        fn nodelay(&self) -> io::Result<bool>;
        fn set_ttl(&self, ttl: u32) -> io::Result<()>;
        fn ttl(&self) -> io::Result<u32>;
    }
}

/// Returns the sender of the next datagram, which stays. Never waits.
pub(crate) fn peek_sender(socket: &UdpSocket) -> io::Result<SocketAddr> {
    match socket {
        System(socket) => sys::peek_sender(socket),
        Simulated(socket) => socket.peek_from(&mut []).map(|(_, sender)| sender),
    }
}

pub(crate) fn set_linger(stream: &TcpStream, linger: Option<Duration>) -> io::Result<()> {
    match stream {
        System(stream) => SockRef::from(stream).set_linger(linger),
        Simulated(stream) => stream.set_linger(linger),
    }
}

pub(crate) fn linger(stream: &TcpStream) -> io::Result<Option<Duration>> {
    match stream {
        System(stream) => SockRef::from(stream).linger(),
        Simulated(stream) => stream.linger(),
    }
}

impl From<TcpStream> for std::net::TcpStream {
    fn from(stream: TcpStream) -> Self {
        stream.into_system().into()
    }
}

impl From<TcpStream> for OwnedFd {
    fn from(stream: TcpStream) -> Self {
        stream.into_system().into()
    }
}

impl TcpListener {
    pub(crate) fn from_std(listener: std::net::TcpListener) -> Self {
        System(system::TcpListener::from_std(listener))
    }

    pub(crate) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            System(listener) => listener.accept().map(|(stream, peer)| (System(stream), peer)),
            Simulated(listener) => listener.accept().map(|(stream, peer)| (Simulated(stream), peer)),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
        fn set_ttl(&self, ttl: u32) -> io::Result<()>;
        fn ttl(&self) -> io::Result<u32>;
    }
}

impl From<TcpListener> for std::net::TcpListener {
    fn from(listener: TcpListener) -> Self {
        listener.into_system().into()
    }
}

impl From<TcpListener> for OwnedFd {
    fn from(listener: TcpListener) -> Self {
        listener.into_system().into()
    }
}

impl UdpSocket {
    pub(crate) fn from_std(socket: std::net::UdpSocket) -> Self {
        System(system::UdpSocket::from_std(socket))
    }

    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        match simulated::UdpSocket::bind(addr) {
            Some(socket) => socket.map(Simulated),
            None => system::UdpSocket::bind(addr).map(System),
        }
    }

    forward! {
        fn local_addr(&self) -> io::Result<SocketAddr>;
        fn peer_addr(&self) -> io::Result<SocketAddr>;
        fn take_error(&self) -> io::Result<Option<io::Error>>;
        fn connect(&self, addr: SocketAddr) -> io::Result<()>;
        fn send(&self, buf: &[u8]) -> io::Result<usize>;
        fn send_to(&self, buf: &[u8], addr: SocketAddr) -> io::Result<usize>;
        fn recv(&self, buf: &mut [u8]) -> io::Result<usize>;
        fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
        fn peek(&self, buf: &mut [u8]) -> io::Result<usize>;
        fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
        fn set_ttl(&self, value: u32) -> io::Result<()>;
        fn ttl(&self) -> io::Result<u32>;
        fn set_broadcast(&self, value: bool) -> io::Result<()>;
        fn broadcast(&self) -> io::Result<bool>;
        fn set_multicast_loop_v4(&self, value: bool) -> io::Result<()>;
        fn multicast_loop_v4(&self) -> io::Result<bool>;
        fn set_multicast_loop_v6(&self, value: bool) -> io::Result<()>;
        fn multicast_loop_v6(&self) -> io::Result<bool>;
        fn set_multicast_ttl_v4(&self, value: u32) -> io::Result<()>;
        fn multicast_ttl_v4(&self) -> io::Result<u32>;
    }

    pub(crate) fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.of_system("multicast")?.join_multicast_v4(group, interface)
    }

    pub(crate) fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.of_system("multicast")?.join_multicast_v6(group, interface)
    }

    pub(crate) fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.of_system("multicast")?.leave_multicast_v4(group, interface)
    }

    pub(crate) fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.of_system("multicast")?.leave_multicast_v6(group, interface)
    }

    /// Returns the socket of the system, or an error that names what is not simulated.
    fn of_system(&self, what: &str) -> io::Result<&system::UdpSocket> {
        match self {
            System(socket) => Ok(socket),
            Simulated(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, format!("a simulation has no {what}")))
            }
        }
    }
}

impl From<UdpSocket> for std::net::UdpSocket {
    fn from(socket: UdpSocket) -> Self {
        socket.into_system().into()
    }
}

impl From<UdpSocket> for OwnedFd {
    fn from(socket: UdpSocket) -> Self {
        socket.into_system().into()
    }
}

impl<R, S> Either<R, S> {
    /// Returns the socket of the system. `check_descriptor` has returned no error.
    fn into_system(self) -> R {
        match self {
            System(socket) => socket,
            Simulated(_) => panic!("{NO_DESCRIPTOR}"),
        }
    }
}

/// Returns the listener that `system` makes for `addr`, or a simulated one.
pub(crate) fn listen(
    addr: SocketAddr,
    system: impl FnOnce() -> io::Result<system::TcpListener>,
) -> io::Result<TcpListener> {
    match simulated::TcpListener::bind(addr) {
        Some(listener) => listener.map(Simulated),
        None => system().map(System),
    }
}

/// Returns the addresses of a simulated socket: its own and its peer's.
pub(crate) fn describe(number: i64) -> Option<(Option<String>, Option<String>)> {
    simulated::describe(number)
}

/// Returns the addresses of a name in the simulation around the caller, if there is one.
pub(crate) fn look_up(host: &str, port: u16) -> Option<io::Result<vec::IntoIter<SocketAddr>>> {
    simulated::look_up(host, port)
}
