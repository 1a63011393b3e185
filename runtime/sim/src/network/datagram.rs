//! The protocol of simulated Unix datagrams: a datagram is in the queue of its receiver at once, and a sender
//! waits for room.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;

use super::addr::Addr;
use super::inbox::Inbox;
use super::unix::Name;
use super::{Kind, NetworkState};
use crate::errors::error;

/// The longest queue to which a socket may send that is not the receiver's peer, as in Linux
/// (`net.unix.max_dgram_qlen`, and one).
const QUEUE: usize = 11;
/// How many bytes a socket may have sent that are not yet received. That bounds what the ends of a pair send
/// to each other.
const SENT: usize = 208 << 10;
/// What a datagram takes besides its bytes.
const EXTRA: usize = 768;
/// The most bytes of a datagram: the system's own part of its buffer is left out.
const LONGEST: usize = SENT - 32;

/// A Unix socket for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) local: Addr,
    /// The number of the peer, and its address when it became the peer.
    peer: Option<(u64, Addr)>,
    pub(super) error: Option<i32>,
    /// Datagrams with the sockets that have sent them, and the addresses of these.
    inbox: Inbox<(u64, Addr)>,
    /// How much it has sent that is not yet received.
    sent: usize,
    /// Sockets that wait for room in the inbox.
    waiting: Vec<u64>,
    read_shut: bool,
    write_shut: bool,
}

impl Datagrams {
    fn new(local: Addr) -> Self {
        Datagrams {
            local,
            peer: None,
            error: None,
            inbox: Inbox::default(),
            sent: 0,
            waiting: Vec::new(),
            read_shut: false,
            write_shut: false,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.has_datagram() || self.error.is_some() || self.read_shut
    }

    pub(super) fn has_datagram(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Returns whether reads, and writes, were shut down.
    pub(super) fn shut(&self) -> (bool, bool) {
        (self.read_shut, self.write_shut)
    }

    /// Returns the address of the peer.
    pub(super) fn peer(&self) -> Option<&Addr> {
        self.peer.as_ref().map(|(_, addr)| addr)
    }

    fn is_peer(&self, id: u64) -> bool {
        self.peer.as_ref().is_some_and(|(peer, _)| *peer == id)
    }

    /// Returns `true` if a socket that is no peer's may send to it.
    fn accepts(&self, sender: u64) -> bool {
        self.peer.is_none() || self.is_peer(sender)
    }
}

impl NetworkState {
    /// Returns the socket with this id, which belongs to no node that is down.
    pub(super) fn datagrams(&mut self, id: u64) -> io::Result<&mut Datagrams> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.kind) {
            Some(Kind::Datagrams(socket)) => Ok(socket),
            _ => Err(error(libc::ENETDOWN)),
        }
    }

    /// Makes a socket without an address.
    pub(super) fn unbound(&mut self, node: u32) -> io::Result<u64> {
        self.nodes.get(node).check_up()?;
        let socket = Datagrams::new(Addr::unnamed()?);
        Ok(self.add(node, Kind::Datagrams(Box::new(socket))))
    }

    pub(super) fn bind_datagrams(&mut self, node: u32, name: Name, addr: SocketAddr) -> io::Result<u64> {
        let id = self.unbound(node)?;
        self.name_datagrams(id, node, name, addr)?;
        Ok(id)
    }

    /// Gives an unbound socket of `node` a name.
    pub(super) fn name_datagrams(
        &mut self,
        id: u64,
        node: u32,
        name: Name,
        addr: SocketAddr,
    ) -> io::Result<()> {
        self.datagrams(id)?.local = Addr::Unix(addr);
        self.names.bind(node, name, id);
        Ok(())
    }

    /// Makes two sockets that are each other's peers.
    pub(super) fn pair_of_datagrams(&mut self, node: u32) -> io::Result<(u64, u64)> {
        let (one, other) = (self.unbound(node)?, self.unbound(node)?);
        for (socket, peer) in [(one, other), (other, one)] {
            self.datagrams(socket)?.peer = Some((peer, Addr::unnamed()?));
        }
        Ok((one, other))
    }

    /// Makes `peer` the peer of a socket. What an earlier peer has sent is lost, and that peer is told.
    ///
    /// # Errors
    /// Returns `EPROTOTYPE` if `peer` is a listener, and `EPERM` if it has another peer.
    pub(super) fn connect_datagrams(&mut self, id: u64, peer: u64) -> io::Result<()> {
        self.datagrams(id)?;
        let to = self.datagrams(peer).map_err(|_| error(libc::EPROTOTYPE))?;
        if !to.accepts(id) {
            return Err(error(libc::EPERM));
        }
        let addr = to.local.clone();
        let earlier = self.datagrams(id)?.peer.replace((peer, addr));
        self.leave_peer(id, earlier.map(|(earlier, _)| earlier).filter(|&earlier| earlier != peer));
        Ok(())
    }

    /// Leaves a socket without a peer. What the peer has sent is lost, and that peer is told.
    pub(super) fn disconnect_datagrams(&mut self, id: u64) -> io::Result<()> {
        let earlier = self.datagrams(id)?.peer.take();
        self.leave_peer(id, earlier.map(|(earlier, _)| earlier));
        Ok(())
    }

    /// Drops what the earlier peer of a socket has sent, if there was another one.
    fn leave_peer(&mut self, id: u64, earlier: Option<u64>) {
        if let Some(earlier) = earlier
            && self.empty(id)
            && let Ok(socket) = self.datagrams(earlier)
            && socket.is_peer(id)
        {
            socket.error = Some(libc::ECONNRESET);
            self.report(earlier, true, true);
        }
        self.report(id, true, true);
    }

    /// Sends a datagram to the socket `to`, or to the peer.
    ///
    /// # Errors
    /// Returns `WouldBlock` if there is no room; the socket is then told when there may be. Other errors are
    /// Linux'.
    pub(super) fn send_datagram(&mut self, id: u64, bytes: &[u8], to: Option<u64>) -> io::Result<usize> {
        let socket = self.datagrams(id)?;
        let Some(target) = to.or(socket.peer.as_ref().map(|(peer, _)| *peer)) else {
            return Err(error(libc::ENOTCONN));
        };
        if bytes.len() > LONGEST {
            return Err(error(libc::EMSGSIZE));
        }
        if let Some(number) = socket.error.take() {
            return Err(error(number));
        }
        if socket.write_shut {
            return Err(error(libc::EPIPE));
        }
        let local = socket.local.clone();
        if let Err(number) = self.check_receiver(id, target) {
            if number == libc::ECONNREFUSED && self.datagrams(id)?.is_peer(target) {
                // The peer is closed. From now on there is none.
                self.datagrams(id)?.peer = None;
            }
            return Err(error(number));
        }
        if !self.has_room(id, target) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.datagrams(id)?.sent += bytes.len() + EXTRA;
        self.datagrams(target)?.inbox.push(bytes.to_vec(), (id, local));
        self.report(target, true, false);
        Ok(bytes.len())
    }

    /// Returns the number of an error if `target` takes no datagram of `id`.
    fn check_receiver(&self, id: u64, target: u64) -> Result<(), i32> {
        match self.sockets.get(&target).map(|socket| &socket.kind) {
            None => Err(libc::ECONNREFUSED),
            Some(Kind::Datagrams(receiver)) if !receiver.accepts(id) => Err(libc::EPERM),
            Some(Kind::Datagrams(receiver)) if receiver.read_shut => Err(libc::EPIPE),
            Some(Kind::Datagrams(_)) => Ok(()),
            Some(_) => Err(libc::EPROTOTYPE),
        }
    }

    /// Returns `true` if `id` may send to `target` now. If not, `id` is told when there may be room.
    fn has_room(&mut self, id: u64, target: u64) -> bool {
        if self.datagrams(id).is_ok_and(|socket| socket.sent >= SENT) {
            return false;
        }
        let Ok(receiver) = self.datagrams(target) else { return true };
        let is_full = receiver.inbox.count() >= QUEUE && target != id && !receiver.is_peer(id);
        if is_full && !receiver.waiting.contains(&id) {
            receiver.waiting.push(id);
        }
        !is_full
    }

    /// Returns `true` if a send to the peer would not block.
    pub(super) fn is_datagram_writable(&mut self, id: u64) -> bool {
        let Ok(socket) = self.datagrams(id) else { return true };
        let cannot = socket.write_shut || socket.error.is_some();
        // Without a peer, what was sent alone counts.
        let target = socket.peer.as_ref().map_or(id, |(peer, _)| *peer);
        cannot || self.has_room(id, target)
    }

    /// Returns `true` if `poll` is to report room. As in Linux, that is so if the peer's queue is not full, and
    /// what was sent takes a quarter of its room at most. If not, `id` is told when there may be room.
    pub(super) fn polls_writable(&mut self, id: u64) -> bool {
        let Ok(socket) = self.datagrams(id) else { return true };
        let target = socket.peer.as_ref().map_or(id, |(peer, _)| *peer);
        socket.sent <= SENT / 4 && self.has_room(id, target)
    }

    /// Receives a datagram; what does not fit into `buf` is lost.
    pub(super) fn receive_datagram(&mut self, id: u64, buf: &mut [u8]) -> io::Result<(usize, Addr)> {
        let (bytes, addr) = self.next_datagram(id, false)?;
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok((n, addr))
    }

    /// Receives a whole datagram. Leaves it there if this is a look only. After the shutdown of reads, an
    /// empty inbox gives an empty datagram.
    pub(super) fn next_datagram(&mut self, id: u64, looks: bool) -> io::Result<(Vec<u8>, Addr)> {
        let socket = self.datagrams(id)?;
        if let Some(number) = socket.error.take() {
            return Err(error(number));
        }
        if socket.inbox.is_empty() && socket.read_shut {
            return Ok((Vec::new(), Addr::unnamed()?));
        }
        let first = if looks { socket.inbox.first().cloned() } else { self.take_first(id) };
        let (bytes, (_, addr)) = first.ok_or(io::ErrorKind::WouldBlock)?;
        Ok((bytes, addr))
    }

    /// Takes the first datagram out of an inbox. Its sender may send as much again, and those that wait may
    /// try. Returns `None` if there is none.
    fn take_first(&mut self, id: u64) -> Option<(Vec<u8>, (u64, Addr))> {
        let socket = self.datagrams(id).ok()?;
        let (bytes, from) = socket.inbox.pop()?;
        let sender = from.0;
        let waiting = std::mem::take(&mut socket.waiting);
        if let Ok(socket) = self.datagrams(sender) {
            socket.sent = socket.sent.saturating_sub(bytes.len() + EXTRA);
        }
        waiting.into_iter().chain([sender]).for_each(|waits| self.report(waits, false, true));
        Some((bytes, from))
    }

    /// Empties the inbox of a socket. Returns `true` if there was something.
    fn empty(&mut self, id: u64) -> bool {
        let mut any = false;
        while self.take_first(id).is_some() {
            any = true;
        }
        any
    }

    pub(super) fn shutdown_datagrams(&mut self, id: u64, how: Shutdown) -> io::Result<()> {
        let socket = self.datagrams(id)?;
        socket.read_shut |= how != Shutdown::Write;
        socket.write_shut |= how != Shutdown::Read;
        let waiting = std::mem::take(&mut socket.waiting);
        waiting.into_iter().for_each(|waits| self.report(waits, false, true));
        self.report(id, true, true);
        Ok(())
    }

    /// Ends a socket. Those that wait for room there find that the socket is gone.
    pub(super) fn close_datagrams(&mut self, id: u64) {
        self.names.release(id);
        let waiting = self.datagrams(id).map(|socket| std::mem::take(&mut socket.waiting));
        waiting.into_iter().flatten().for_each(|waits| self.report(waits, false, true));
        self.empty(id);
    }
}
