//! What takes the place of the system's Unix sockets in a simulation.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;

use netpoll::Direction;
use netpoll::source::{Interest, Registry, Source, Token};
use sched::simulation;

use super::super::unix::Type;
use super::{Handle, Readiness, State, StreamIo, error, here};

/// A simulated Unix stream.
pub(crate) struct UnixStream(Handle);

/// A simulated Unix listener.
pub(crate) struct UnixListener(Handle);

socket! { UnixStream "UnixStream" UnixListener "UnixListener" }
stream!(UnixStream);
listener!(UnixListener);

impl UnixStream {
    /// Begins to connect. Returns `None` outside of a simulation.
    pub(crate) fn connect(addr: &SocketAddr) -> Option<io::Result<Self>> {
        let stream = Handle::make_on(|network, node| {
            let listener = network.bound_to(node, Type::Stream, addr)?;
            network.with(|state| state.connect_unix(node, listener))
        });
        Some(stream?.map(UnixStream))
    }

    /// Makes two streams that are connected with each other. Returns `None` outside of a simulation.
    pub(crate) fn pair() -> Option<io::Result<(Self, Self)>> {
        let network = here()?;
        simulation::point();
        let stream = |id| UnixStream(Handle { network: network.clone(), id });
        let ends = network.with(|state| state.pair(simulation::node()));
        Some(ends.map(|(one, other)| (stream(one), stream(other))))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.stream(id)?.local.unix())
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| {
            let stream = state.stream(id)?;
            stream.check_connected()?;
            stream.peer.unix()
        })
    }
}

impl UnixListener {
    /// Makes a listener. Returns `None` outside of a simulation.
    pub(crate) fn bind(addr: &SocketAddr) -> Option<io::Result<Self>> {
        let listener = Handle::make_on(|network, node| {
            let (name, addr) = network.new_name(node, Type::Stream, addr)?;
            Ok(network.with(|state| state.listen_unix(node, name, addr)))
        });
        Some(listener?.map(UnixListener))
    }

    pub(crate) fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (id, peer) = self.0.run(State::accept)?;
        Ok((UnixStream(Handle { network: self.0.network.clone(), id }), peer.unix()?))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.with(|state, id| state.listener(id)?.local.unix())
    }
}
