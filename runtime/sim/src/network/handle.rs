//! What takes the place of the system's sockets in a simulation.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netpoll::Direction;
use netpoll::source::{Interest, Registry, Source, Token};
use sched::simulation;

use super::tcp::Options;
use super::{Network, NetworkState, here, udp};
use crate::errors::error;

/// An open socket. Dropping it closes it.
pub(super) struct Handle {
    pub(super) network: Arc<Network>,
    pub(super) id: u64,
}

/// A simulated TCP stream.
pub struct TcpStream(Handle);

/// A simulated TCP listener.
pub struct TcpListener(Handle);

/// A simulated UDP socket.
pub struct UdpSocket(Handle);

/// Whether a call would have to wait.
pub trait Readiness {
    /// Returns `true` if an attempt in that direction would not block.
    fn is_ready(&self, direction: Direction) -> bool;

    /// Returns `true` if that direction of a stream has ended.
    fn has_ended(&self, direction: Direction) -> bool {
        let _ = direction;
        false
    }

    /// Returns the number by which a dump finds the socket, below -1.
    fn number(&self) -> i64;
}

/// The number of the first socket, counted downwards from there.
const FIRST_NUMBER: i64 = -1;

/// Returns the addresses of the socket with this number: its own and its peer's.
pub fn describe(number: i64) -> Option<(Option<String>, Option<String>)> {
    let id = u64::try_from(FIRST_NUMBER.checked_sub(number)?).ok()?;
    here()?.with(|state| {
        let (local, peer) = state.sockets.get(&id)?.addresses();
        Some((Some(local), peer))
    })
}

impl Handle {
    /// Makes a socket in the simulation around the caller; `None` if there is none.
    fn make(f: impl FnOnce(&mut NetworkState, u32) -> io::Result<u64>) -> Option<io::Result<Handle>> {
        Handle::make_on(|network, node| network.with(|state| f(state, node)))
    }

    /// Makes a socket as `make` does. `f` may use the disk of the node as well.
    fn make_on(f: impl FnOnce(&Network, u32) -> io::Result<u64>) -> Option<io::Result<Handle>> {
        let network = here()?;
        simulation::point();
        let made = f(&network, simulation::node());
        Some(made.map(|id| Handle { network, id }))
    }

    /// Calls `f` with the state and the id of this socket.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut NetworkState, u64) -> T) -> T {
        self.network.with(|state| f(state, self.id))
    }

    /// Calls `f` as `with` does, after a point of choice.
    fn run<T>(&self, f: impl FnOnce(&mut NetworkState, u64) -> T) -> T {
        simulation::point();
        self.with(f)
    }

    pub(super) fn number(&self) -> i64 {
        FIRST_NUMBER - self.id as i64
    }

    pub(super) fn set_token(&self, token: Option<Token>) -> io::Result<()> {
        self.with(|state, id| match state.sockets.get_mut(&id) {
            Some(socket) => socket.token = token,
            // The node is down. Attempts return the error.
            None if token.is_some() => state.lost_sources += 1,
            None => state.lost_sources = state.lost_sources.saturating_sub(1),
        });
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.with(NetworkState::close);
    }
}

/// Writes what all kinds of sockets share.
macro_rules! socket {
    ($($socket:ident $name:literal)*) => { $(
        impl Source for $socket {
            fn register(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
                self.0.set_token(Some(token))
            }

            fn reregister(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
                self.0.set_token(Some(token))
            }

            fn deregister(&mut self, _: &Registry) -> io::Result<()> {
                self.0.set_token(None)
            }
        }

        impl fmt::Debug for $socket {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("addr", &self.local_addr().ok()).field("simulated", &self.0.id).finish()
            }
        }
    )* };
}

socket! { TcpStream "TcpStream" TcpListener "TcpListener" UdpSocket "UdpSocket" }

/// Reading and writing. Never waits.
pub trait StreamIo {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn send(&self, buf: &[u8]) -> io::Result<usize>;
}

/// Writes what both kinds of streams share.
macro_rules! stream {
    ($stream:ident) => {
        impl $stream {
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.0.with(|state, id| Ok(state.stream(id)?.error.take().map(error)))
            }

            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.0.run(|state, id| state.shutdown(id, how))
            }
        }

        impl StreamIo for $stream {
            fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.run(|state, id| state.read(id, buf, false))
            }

            fn send(&self, buf: &[u8]) -> io::Result<usize> {
                self.0.run(|state, id| state.write(id, buf))
            }
        }

        impl Readiness for $stream {
            fn number(&self) -> i64 {
                self.0.number()
            }

            fn is_ready(&self, direction: Direction) -> bool {
                self.0.with(|state, id| {
                    state.stream(id).map_or(true, |stream| match direction {
                        Direction::Read => stream.is_readable(),
                        Direction::Write => stream.is_writable(),
                    })
                })
            }

            fn has_ended(&self, direction: Direction) -> bool {
                self.0.with(|state, id| {
                    state.stream(id).map_or(true, |stream| {
                        let (read, write) = stream.ended();
                        if direction == Direction::Read { read } else { write }
                    })
                })
            }
        }

        impl Read for &$stream {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.receive(buf)
            }
        }

        impl Write for &$stream {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.send(buf)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

/// Writes what both kinds of listeners share.
macro_rules! listener {
    ($listener:ident) => {
        impl $listener {
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                Ok(None)
            }
        }

        impl Readiness for $listener {
            fn number(&self) -> i64 {
                self.0.number()
            }

            fn is_ready(&self, direction: Direction) -> bool {
                let waits = |state: &mut NetworkState, id| {
                    state.listener(id).map_or(true, |listener| !listener.queue.is_empty())
                };
                direction == Direction::Read && self.0.with(waits)
            }
        }
    };
}

mod unix;

pub use unix::{UnixDatagram, UnixListener, UnixStream};

stream!(TcpStream);
listener!(TcpListener);

impl TcpStream {
    /// Begins to connect. Returns `None` outside of a simulation.
    pub fn connect(addr: SocketAddr) -> Option<io::Result<Self>> {
        Some(Handle::make(|state, node| state.connect(node, addr))?.map(TcpStream))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.stream(id)?.local.ip())
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| {
            let stream = state.stream(id)?;
            stream.check_connected()?;
            stream.peer.ip()
        })
    }

    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(|state, id| state.read(id, buf, true))
    }

    fn options<T>(&self, f: impl FnOnce(&mut Options) -> T) -> io::Result<T> {
        self.0.with(|state, id| state.stream(id).map(|stream| f(&mut stream.options)))
    }

    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.options(|options| options.nodelay = nodelay)
    }

    pub fn nodelay(&self) -> io::Result<bool> {
        self.options(|options| options.nodelay)
    }

    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.options(|options| options.ttl = ttl)
    }

    pub fn ttl(&self) -> io::Result<u32> {
        self.options(|options| options.ttl)
    }

    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.options(|options| options.linger = linger)
    }

    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.options(|options| options.linger)
    }
}

impl TcpListener {
    /// Makes a listener. Returns `None` outside of a simulation.
    pub fn bind(addr: SocketAddr) -> Option<io::Result<Self>> {
        Some(Handle::make(|state, node| state.listen(node, addr))?.map(TcpListener))
    }

    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (id, peer) = self.0.run(NetworkState::accept)?;
        Ok((TcpStream(Handle { network: self.0.network.clone(), id }), peer.ip()?))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.listener(id)?.local.ip())
    }

    pub fn set_ttl(&self, _ttl: u32) -> io::Result<()> {
        Ok(())
    }

    pub fn ttl(&self) -> io::Result<u32> {
        Ok(64)
    }
}

impl UdpSocket {
    /// Makes a socket. Returns `None` outside of a simulation.
    pub fn bind(addr: SocketAddr) -> Option<io::Result<Self>> {
        Some(Handle::make(|state, node| state.bind_udp(node, addr))?.map(UdpSocket))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.udp(id).map(|udp| udp.local))
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.udp(id)?.peer.ok_or_else(|| error(libc::ENOTCONN)))
    }

    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.with(|state, id| Ok(state.udp(id)?.error.take().map(error)))
    }

    pub fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        self.0.run(|state, id| state.connect_udp(id, addr))
    }

    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(|state, id| state.send_udp(id, buf, None))
    }

    pub fn send_to(&self, buf: &[u8], addr: SocketAddr) -> io::Result<usize> {
        self.0.run(|state, id| state.send_udp(id, buf, Some(addr)))
    }

    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run(|state, id| state.receive_udp(id, buf, false))
    }

    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run(|state, id| state.receive_udp(id, buf, true))
    }

    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buf).map(|(n, _)| n)
    }

    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).map(|(n, _)| n)
    }

    fn options<T>(&self, f: impl FnOnce(&mut udp::Options) -> T) -> io::Result<T> {
        self.0.with(|state, id| state.udp(id).map(|udp| f(&mut udp.options)))
    }
}

/// Writes settings that have no effect.
macro_rules! settings {
    ($($set:ident $get:ident $type:ty;)*) => {
        impl UdpSocket { $(
            pub fn $set(&self, value: $type) -> io::Result<()> {
                self.options(|options| options.$get = value)
            }

            pub fn $get(&self) -> io::Result<$type> {
                self.options(|options| options.$get)
            }
        )* }
    };
}

settings! {
    set_ttl ttl u32;
    set_broadcast broadcast bool;
    set_multicast_loop_v4 multicast_loop_v4 bool;
    set_multicast_loop_v6 multicast_loop_v6 bool;
    set_multicast_ttl_v4 multicast_ttl_v4 u32;
}

impl Readiness for UdpSocket {
    fn number(&self) -> i64 {
        self.0.number()
    }

    fn is_ready(&self, direction: Direction) -> bool {
        direction == Direction::Write
            || self.0.with(|state, id| state.udp(id).map_or(true, |udp| udp.is_readable()))
    }
}
