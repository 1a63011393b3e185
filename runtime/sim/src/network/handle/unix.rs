//! What takes the place of the system's Unix sockets in a simulation.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;

use netpoll::Direction;
use netpoll::source::{Interest, Registry, Source, Token};
use sched::simulation;

use super::super::unix::Type;
use super::{Handle, NetworkState, Readiness, StreamIo, here};
use crate::errors::error;

/// A simulated Unix stream.
pub struct UnixStream(Handle);

/// A simulated Unix listener.
pub struct UnixListener(Handle);

/// A simulated Unix socket for datagrams.
pub struct UnixDatagram(Handle);

socket! { UnixStream "UnixStream" UnixListener "UnixListener" UnixDatagram "UnixDatagram" }
stream!(UnixStream);
listener!(UnixListener);

impl Handle {
    /// Makes two sockets in the simulation around the caller; `None` if there is none.
    fn make_two(
        f: impl FnOnce(&mut NetworkState, u32) -> io::Result<(u64, u64)>,
    ) -> Option<io::Result<(Handle, Handle)>> {
        let network = here()?;
        simulation::point();
        let made = network.with(|state| f(state, simulation::node()));
        let handle = |id| Handle { network: network.clone(), id };
        Some(made.map(|(one, other)| (handle(one), handle(other))))
    }

    /// Returns the socket for datagrams that is bound to `addr` on the node of this socket.
    pub(in super::super) fn find(&self, addr: &SocketAddr) -> io::Result<u64> {
        let node = self.with(|state, id| state.sockets.get(&id).map(|socket| socket.node));
        self.network.bound_to(node.ok_or_else(|| error(libc::ENETDOWN))?, Type::Datagrams, addr)
    }
}

impl UnixStream {
    /// Begins to connect. Returns `None` outside of a simulation.
    pub fn connect(addr: &SocketAddr) -> Option<io::Result<Self>> {
        let stream = Handle::make_on(|network, node| {
            let listener = network.bound_to(node, Type::Stream, addr)?;
            network.with(|state| state.connect_unix(node, listener))
        });
        Some(stream?.map(UnixStream))
    }

    /// Makes two streams that are connected with each other. Returns `None` outside of a simulation.
    pub fn pair() -> Option<io::Result<(Self, Self)>> {
        let ends = Handle::make_two(NetworkState::pair)?;
        Some(ends.map(|(one, other)| (UnixStream(one), UnixStream(other))))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.stream(id)?.local.unix())
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| {
            let stream = state.stream(id)?;
            stream.check_connected()?;
            stream.peer.unix()
        })
    }
}

impl UnixListener {
    /// Makes a listener. Returns `None` outside of a simulation.
    pub fn bind(addr: &SocketAddr) -> Option<io::Result<Self>> {
        let listener = Handle::make_on(|network, node| {
            let (name, addr) = network.new_name(node, Type::Stream, addr)?;
            Ok(network.with(|state| state.listen_unix(node, name, addr)))
        });
        Some(listener?.map(UnixListener))
    }

    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (id, peer) = self.0.run(NetworkState::accept)?;
        Ok((UnixStream(Handle { network: self.0.network.clone(), id }), peer.unix()?))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.listener(id)?.local.unix())
    }
}

impl UnixDatagram {
    /// Makes a socket with an address. Returns `None` outside of a simulation.
    pub fn bind(addr: &SocketAddr) -> Option<io::Result<Self>> {
        let socket = Handle::make_on(|network, node| {
            let (name, addr) = network.new_name(node, Type::Datagrams, addr)?;
            network.with(|state| state.bind_datagrams(node, name, addr))
        });
        Some(socket?.map(UnixDatagram))
    }

    /// Makes a socket without an address. Returns `None` outside of a simulation.
    pub fn unbound() -> Option<io::Result<Self>> {
        Some(Handle::make(NetworkState::unbound)?.map(UnixDatagram))
    }

    /// Makes two sockets that are each other's peers. Returns `None` outside of a simulation.
    pub fn pair() -> Option<io::Result<(Self, Self)>> {
        let ends = Handle::make_two(NetworkState::pair_of_datagrams)?;
        Some(ends.map(|(one, other)| (UnixDatagram(one), UnixDatagram(other))))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.datagrams(id)?.local.unix())
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.datagrams(id)?.peer().ok_or_else(|| error(libc::ENOTCONN))?.unix())
    }

    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.with(|state, id| Ok(state.datagrams(id)?.error.take().map(error)))
    }

    pub fn connect(&self, addr: &SocketAddr) -> io::Result<()> {
        simulation::point();
        let peer = self.0.find(addr)?;
        self.0.with(|state, id| state.connect_datagrams(id, peer))
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.run(|state, id| state.shutdown_datagrams(id, how))
    }

    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(|state, id| state.send_datagram(id, buf, None))
    }

    pub fn send_to(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        simulation::point();
        let to = self.0.find(addr)?;
        self.0.with(|state, id| state.send_datagram(id, buf, Some(to)))
    }

    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, addr) = self.0.run(|state, id| state.receive_datagram(id, buf))?;
        Ok((n, addr.unix()?))
    }

    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.recv_from(buf).map(|(n, _)| n)
    }
}

impl Readiness for UnixDatagram {
    fn number(&self) -> i64 {
        self.0.number()
    }

    fn is_ready(&self, direction: Direction) -> bool {
        self.0.with(|state, id| match direction {
            Direction::Read => state.datagrams(id).map_or(true, |socket| socket.is_readable()),
            Direction::Write => state.is_datagram_writable(id),
        })
    }
}
