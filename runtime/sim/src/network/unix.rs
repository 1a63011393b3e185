//! Simulated Unix sockets: their names, and how they are connected. Streams are those of `tcp.rs`, and
//! `datagram.rs` has the protocol of datagrams.
//!
//! A name belongs to one node, and stands for the socket that is bound to it. That of a path is the inode on
//! the node's disk. So a path that is removed, renamed or linked leads where it does on Linux.

use std::collections::BTreeMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use super::addr::Addr;
use super::tcp::{Listener, Phase, Stream};
use super::{Kind, Network, NetworkState};
use crate::disk;
use crate::errors::error;

/// The names of all nodes.
#[derive(Debug, Default)]
pub(super) struct Names {
    bound: BTreeMap<(u32, Name), u64>,
    /// How many abstract names were given out.
    given: u32,
}

/// What a socket is bound to, within a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// The number of an inode.
    File(u64),
    Abstract(Type, Vec<u8>),
}

/// The types of sockets, which have abstract names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Stream,
    Datagrams,
}

impl Names {
    pub(super) fn bind(&mut self, node: u32, name: Name, socket: u64) {
        self.bound.insert((node, name), socket);
    }

    /// Gives up the name of a socket.
    pub(super) fn release(&mut self, socket: u64) {
        self.bound.retain(|_, bound| *bound != socket);
    }

    /// Gives up all names of a node.
    pub(super) fn close_all(&mut self, node: u32) {
        self.bound.retain(|(of, _), _| *of != node);
    }

    fn get(&self, node: u32, name: Name) -> Option<u64> {
        self.bound.get(&(node, name)).copied()
    }

    /// Returns an address that no socket has.
    fn free(&mut self, node: u32, kind: Type) -> io::Result<SocketAddr> {
        loop {
            self.given += 1;
            let name = format!("{:05x}", self.given);
            if self.get(node, Name::Abstract(kind, name.clone().into())).is_none() {
                return SocketAddr::from_abstract_name(name);
            }
        }
    }
}

impl Network {
    /// Returns the name of `addr` for a new socket of `node`, and the address that the socket then has: one
    /// that is given out, if `addr` is without a name. A path is made on the disk.
    ///
    /// # Errors
    /// Returns `EADDRINUSE` if something is there, and the errors of finding a path.
    pub(super) fn new_name(
        &self,
        node: u32,
        kind: Type,
        addr: &SocketAddr,
    ) -> io::Result<(Name, SocketAddr)> {
        self.with(|state| state.nodes.get(node).check_up())?;
        if let Some(path) = addr.as_pathname() {
            let disks = disk::here().ok_or_else(|| error(libc::ENETDOWN))?;
            return Ok((Name::File(disks.bind(node, path)?), addr.clone()));
        }
        self.with(|state| {
            let addr = if addr.is_unnamed() { state.names.free(node, kind)? } else { addr.clone() };
            let name = Name::Abstract(kind, addr.as_abstract_name().unwrap_or_default().to_vec());
            match state.names.get(node, name.clone()) {
                Some(_) => Err(error(libc::EADDRINUSE)),
                None => Ok((name, addr)),
            }
        })
    }

    /// Returns the socket of `node` that is bound to `addr`.
    ///
    /// # Errors
    /// Returns `ECONNREFUSED` if there is none, `EINVAL` for an address without a name, and the errors of
    /// finding a path.
    pub(super) fn bound_to(&self, node: u32, kind: Type, addr: &SocketAddr) -> io::Result<u64> {
        self.with(|state| state.nodes.get(node).check_up())?;
        let name = if let Some(path) = addr.as_pathname() {
            let disks = disk::here().ok_or_else(|| error(libc::ENETDOWN))?;
            Name::File(disks.socket_at(node, path)?)
        } else {
            let name = addr.as_abstract_name().ok_or_else(|| error(libc::EINVAL))?;
            Name::Abstract(kind, name.to_vec())
        };
        self.with(|state| state.names.get(node, name)).ok_or_else(|| error(libc::ECONNREFUSED))
    }
}

impl NetworkState {
    pub(super) fn listen_unix(&mut self, node: u32, name: Name, addr: SocketAddr) -> u64 {
        let id = self.add(node, Kind::Listener(Listener::new(Addr::Unix(addr))));
        self.names.bind(node, name, id);
        id
    }

    /// Begins to connect to a listener. The stream waits if the queue is full.
    pub(super) fn connect_unix(&mut self, node: u32, listener: u64) -> io::Result<u64> {
        // A socket for datagrams may have the name.
        let to = self.listener(listener).map_err(|_| error(libc::EPROTOTYPE))?;
        let peer = to.local.clone();
        let stream = Stream::new(Addr::unnamed()?, peer, None, 0, Phase::Connecting);
        let id = self.add(node, Kind::Stream(Box::new(stream)));
        self.listener(listener)?.waiting.push_back(id);
        self.admit_waiting(listener);
        Ok(id)
    }

    /// Connects the streams that wait for a Unix listener, as long as there is room in its queue.
    pub(super) fn admit_waiting(&mut self, id: u64) {
        while let Ok(listener) = self.listener(id)
            && listener.has_room()
            && let Some(client) = listener.waiting.pop_front()
        {
            let local = listener.local.clone();
            // A client that has given up is gone.
            let Some(node) = self.sockets.get(&client).map(|socket| socket.node) else { continue };
            let Ok(unnamed) = Addr::unnamed() else { continue };
            self.admit(id, node, Stream::new(local, unnamed, None, client, Phase::Connected));
        }
    }

    /// Makes two streams that are connected with each other.
    pub(super) fn pair(&mut self, node: u32) -> io::Result<(u64, u64)> {
        self.nodes.get(node).check_up()?;
        let mut end = |peer| -> io::Result<u64> {
            let stream = Stream::new(Addr::unnamed()?, Addr::unnamed()?, None, peer, Phase::Connected);
            Ok(self.add(node, Kind::Stream(Box::new(stream))))
        };
        let one = end(0)?;
        let other = end(one)?;
        self.stream(one)?.peer_socket = other;
        Ok((one, other))
    }
}
