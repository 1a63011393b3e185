//! The protocol of simulated UDP: datagrams, which a link may lose, double or reorder.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::inbox::Inbox;
use super::link::{Body, Link, Packet};
use super::node::Protocol;
use super::{Kind, NetworkState};
use crate::errors::error;

/// The most bytes of a datagram over IPv4.
const LONGEST: usize = 65_507;
/// How many bytes may wait to be received. Later datagrams are lost.
const ROOM: usize = 208 << 10;

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Udp {
    pub(super) local: SocketAddr,
    pub(super) peer: Option<SocketAddr>,
    pub(super) error: Option<i32>,
    inbox: Inbox<SocketAddr>,
    pub(super) options: Options,
}

/// Settings without an effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) ttl: u32,
    pub(super) broadcast: bool,
    pub(super) multicast_loop_v4: bool,
    pub(super) multicast_loop_v6: bool,
    pub(super) multicast_ttl_v4: u32,
}

impl Udp {
    pub(super) fn is_readable(&self) -> bool {
        !self.inbox.is_empty() || self.error.is_some()
    }
}

impl NetworkState {
    /// Returns the socket with this id, which belongs to no node that is down.
    pub(super) fn udp(&mut self, id: u64) -> io::Result<&mut Udp> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.kind) {
            Some(Kind::Udp(udp)) => Ok(udp),
            _ => Err(error(libc::ENETDOWN)),
        }
    }

    pub(super) fn bind_udp(&mut self, node: u32, addr: SocketAddr) -> io::Result<u64> {
        let options = Options {
            ttl: 64,
            broadcast: false,
            multicast_loop_v4: true,
            multicast_loop_v6: true,
            multicast_ttl_v4: 1,
        };
        let udp = Udp { local: addr, peer: None, error: None, inbox: Inbox::default(), options };
        let id = self.add(node, Kind::Udp(udp));
        match self.nodes.get_mut(node).bind(Protocol::Udp, addr, id) {
            Ok(local) => {
                self.udp(id)?.local = local;
                Ok(id)
            }
            Err(error) => {
                self.sockets.remove(&id);
                Err(error)
            }
        }
    }

    pub(super) fn connect_udp(&mut self, id: u64, peer: SocketAddr) -> io::Result<()> {
        let udp = self.udp(id)?;
        if udp.local.is_ipv4() != peer.is_ipv4() {
            return Err(error(libc::EAFNOSUPPORT));
        }
        udp.peer = Some(peer);
        Ok(())
    }

    pub(super) fn send_udp(&mut self, id: u64, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        let udp = self.udp(id)?;
        if let Some(number) = udp.error.take() {
            return Err(error(number));
        }
        let Some(to) = to.or(udp.peer) else { return Err(error(libc::EDESTADDRREQ)) };
        if bytes.len() > LONGEST {
            return Err(error(libc::EMSGSIZE));
        }
        let local = udp.local;
        let Some(node) = self.sockets.get(&id).map(|socket| socket.node) else { return Ok(0) };
        let route = self.nodes.route(node, to.ip())?;
        let from: IpAddr = if local.ip().is_unspecified() { route.source } else { local.ip() };
        let (source, target) =
            (SocketAddr::new(from, local.port()), SocketAddr::new(route.target, to.port()));
        if let Some(peer_node) = route.node {
            let body = Body::Datagram { source, target, bytes: bytes.to_vec() };
            self.send(Packet { link: (node, peer_node), from: id, to: 0, body });
        }
        Ok(bytes.len())
    }

    /// Takes a datagram that has arrived. `from` is the socket that has sent it.
    pub(super) fn take_datagram(
        &mut self,
        link: Link,
        from: u64,
        (source, target): (SocketAddr, SocketAddr),
        bytes: Vec<u8>,
    ) {
        let Some(id) = self.nodes.bound(link.1, Protocol::Udp, target) else {
            return self.send(Packet {
                link: (link.1, link.0),
                from: 0,
                to: from,
                body: Body::Unreachable(target),
            });
        };
        let Ok(udp) = self.udp(id) else { return };
        let is_wanted = udp.peer.is_none_or(|peer| peer == source);
        if is_wanted && udp.inbox.bytes() + bytes.len() <= ROOM {
            udp.inbox.push(bytes, source);
            self.report(id, true, false);
        }
    }

    /// No socket has `target`. A connected sender is told.
    pub(super) fn take_unreachable(&mut self, id: u64, target: SocketAddr) {
        if let Ok(udp) = self.udp(id)
            && udp.peer == Some(target)
        {
            udp.error = Some(libc::ECONNREFUSED);
            self.report(id, true, true);
        }
    }

    /// Receives a datagram; what does not fit into `buf` is lost. Leaves it there if this is a look only.
    pub(super) fn receive_udp(
        &mut self,
        id: u64,
        buf: &mut [u8],
        looks: bool,
    ) -> io::Result<(usize, SocketAddr)> {
        let udp = self.udp(id)?;
        if let Some(number) = udp.error.take() {
            return Err(error(number));
        }
        let received = udp.inbox.look(buf).ok_or(io::ErrorKind::WouldBlock)?;
        if !looks {
            udp.inbox.pop();
        }
        Ok(received)
    }
}
