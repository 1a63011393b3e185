//! The protocol of simulated TCP: each packet has a number in its stream, and the receiver puts packets into
//! their order.
//!
//! ```text
//!   connect    Syn(addresses) ──►  a listener? a stream for it, which waits to be accepted
//!                             ◄──  SynAck, number 0; or Rst
//!   write      Data, number n ──►
//!   read                      ◄──  Read(bytes): room for as many more
//!   close      Fin, number n  ──►  the end
//!              Rst            ──►  an error
//! ```
//!
//! A stream of a Unix socket is the same without packets: what it sends arrives at once. It has one message
//! more: `Stop` says that nothing will be read, so that the next write fails.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};

use super::addr::Addr;
use super::link::{Body, Link, Packet};
use super::node::{Protocol, Route};
use super::{At, Event, Kind, NetworkState};
use crate::errors::error;

/// How many bytes may be on the way, or not yet read.
const WINDOW: usize = 256 << 10;
/// The most bytes in a packet.
const SEGMENT: usize = 16 << 10;
/// The most connections that may wait to be accepted, as in the system.
pub(super) const BACKLOG: usize = 4096;
/// How often a connect asks; the pauses double from a second on. So it gives up after 127 s, as Linux does.
const ASKS: u32 = 7;
const FIRST_PAUSE_NS: u64 = 1_000_000_000;

/// A listener.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) local: Addr,
    /// How many streams may wait to be accepted; 0 of a socket that has an address and does not listen.
    pub(super) room: usize,
    /// Streams that wait to be accepted.
    pub(super) queue: VecDeque<u64>,
    /// Unix streams that wait for room in the queue.
    pub(super) waiting: VecDeque<u64>,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) local: Addr,
    pub(super) peer: Addr,
    /// The node at the other end; `None` if no node has the address, and for a Unix socket.
    peer_node: Option<u32>,
    /// The socket at the other end; 0 if it is not known.
    pub(super) peer_socket: u64,
    /// When the next Syn is sent, before there is an answer.
    asks: Option<At>,
    pub(super) state: Phase,
    pub(super) error: Option<i32>,
    inbox: VecDeque<u8>,
    /// Packets that came before others with lower numbers.
    early: BTreeMap<u64, Segment>,
    received: u64,
    sent: u64,
    /// How many bytes were sent and not read.
    unread: usize,
    peer_ended: bool,
    /// The other end of a Unix socket reads no more.
    peer_stopped: bool,
    ended: bool,
    read_shut: bool,
    pub(super) options: Options,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Connected,
    /// Reset, refused or given up.
    Broken,
}

/// Settings without an effect, except for `linger`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) nodelay: bool,
    pub(super) ttl: u32,
    pub(super) linger: Option<std::time::Duration>,
}

/// What a packet of TCP says. Numbers count the packets of one direction.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    Syn { source: SocketAddr, target: SocketAddr },
    SynAck,
    Data(u64, Vec<u8>),
    Fin(u64),
    Read(usize),
    Stop,
    Rst,
}

impl Segment {
    /// Returns `true` if it is sent again until it arrives.
    pub(super) fn is_sent_again(&self) -> bool {
        !matches!(self, Segment::Syn { .. } | Segment::Rst)
    }

    /// Returns `true` if its sender ends the connection when it does not arrive for long.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self, Segment::SynAck | Segment::Data(..) | Segment::Fin(_))
    }

    /// Its number, if it has one.
    fn number(&self) -> Option<u64> {
        match self {
            Segment::SynAck => Some(0),
            Segment::Data(number, _) | Segment::Fin(number) => Some(*number),
            _ => None,
        }
    }
}

impl Listener {
    pub(super) fn new(local: Addr) -> Self {
        Listener { local, room: BACKLOG, queue: VecDeque::new(), waiting: VecDeque::new() }
    }

    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.room
    }
}

impl Stream {
    pub(super) fn new(
        local: Addr,
        peer: Addr,
        peer_node: Option<u32>,
        peer_socket: u64,
        state: Phase,
    ) -> Self {
        Stream {
            local,
            peer,
            peer_node,
            peer_socket,
            asks: None,
            state,
            error: None,
            inbox: VecDeque::new(),
            early: BTreeMap::new(),
            // The other end begins with its SynAck, or has begun with its Syn.
            received: u64::from(state == Phase::Connected),
            sent: 1,
            unread: 0,
            peer_ended: false,
            peer_stopped: false,
            ended: false,
            read_shut: false,
            options: Options { nodelay: false, ttl: 64, linger: None },
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        let is_over =
            self.peer_ended || self.read_shut || self.state == Phase::Broken || self.error.is_some();
        self.state != Phase::Connecting && (!self.inbox.is_empty() || is_over)
    }

    /// Returns how many bytes a read would find.
    pub(super) fn available(&self) -> usize {
        self.inbox.len()
    }

    /// Returns which directions have ended: that of the peer, and that to the peer.
    pub(super) fn ended(&self) -> (bool, bool) {
        let broken = self.state == Phase::Broken;
        (self.peer_ended || self.read_shut || broken, self.cannot_write())
    }

    pub(super) fn is_writable(&self) -> bool {
        let has_room = self.state == Phase::Connected && self.unread < WINDOW;
        has_room || self.cannot_write()
    }

    fn cannot_write(&self) -> bool {
        self.ended || self.peer_stopped || self.state == Phase::Broken
    }

    /// Returns an error if the stream has no peer. The peer of a Unix socket is known after the connection
    /// has ended, too.
    pub(super) fn check_connected(&self) -> io::Result<()> {
        let connected = match self.state {
            Phase::Connecting => false,
            Phase::Connected => true,
            Phase::Broken => self.is_unix(),
        };
        if connected { Ok(()) } else { Err(error(libc::ENOTCONN)) }
    }

    fn is_unix(&self) -> bool {
        matches!(self.local, Addr::Unix(_))
    }

    fn break_with(&mut self, number: i32) {
        self.state = Phase::Broken;
        self.error = Some(number);
    }
}

impl NetworkState {
    /// Returns the listener with this id, which belongs to no node that is down.
    pub(super) fn listener(&mut self, id: u64) -> io::Result<&mut Listener> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.kind) {
            Some(Kind::Listener(listener)) => Ok(listener),
            _ => Err(error(libc::ENETDOWN)),
        }
    }

    /// Returns the stream with this id, which belongs to no node that is down.
    pub(super) fn stream(&mut self, id: u64) -> io::Result<&mut Stream> {
        self.stream_if_open(id).ok_or_else(|| error(libc::ENETDOWN))
    }

    fn stream_if_open(&mut self, id: u64) -> Option<&mut Stream> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.kind) {
            Some(Kind::Stream(stream)) => Some(&mut **stream),
            _ => None,
        }
    }

    /// Makes a listener.
    pub(super) fn listen(&mut self, node: u32, addr: SocketAddr) -> io::Result<u64> {
        let id = self.add(node, Kind::Listener(Listener::new(Addr::Ip(addr))));
        match self.nodes.get_mut(node).bind(Protocol::Tcp, addr, id) {
            Ok(local) => {
                self.listener(id)?.local = Addr::Ip(local);
                Ok(id)
            }
            Err(error) => {
                self.sockets.remove(&id);
                Err(error)
            }
        }
    }

    pub(super) fn accept(&mut self, id: u64) -> io::Result<(u64, Addr)> {
        loop {
            let stream = self.listener(id)?.queue.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            self.admit_waiting(id);
            // A stream that was reset meanwhile is still accepted, as in Linux.
            if let Ok(accepted) = self.stream(stream) {
                return Ok((stream, accepted.peer.clone()));
            }
        }
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, node: u32, addr: SocketAddr) -> io::Result<u64> {
        self.nodes.get(node).check_up()?;
        let Route { source, target, node: peer_node } = self.nodes.route(node, addr.ip())?;
        let port = self.nodes.get_mut(node).free_port(Protocol::Tcp)?;
        let local = Addr::Ip(SocketAddr::new(source, port));
        let peer = Addr::Ip(SocketAddr::new(target, addr.port()));
        let stream = Stream::new(local, peer, peer_node, 0, Phase::Connecting);
        let id = self.add(node, Kind::Stream(Box::new(stream)));
        self.ask_again(id, 0);
        Ok(id)
    }

    /// Sends a Syn, unless there was an answer or there were enough.
    pub(super) fn ask_again(&mut self, id: u64, times: u32) {
        let at = self.now + (FIRST_PAUSE_NS << times);
        let Some(stream) = self.stream_if_open(id).filter(|stream| stream.state == Phase::Connecting) else {
            return;
        };
        if times == ASKS {
            return self.abort(id, libc::ETIMEDOUT);
        }
        let (Addr::Ip(source), Addr::Ip(target)) = (&stream.local, &stream.peer) else { return };
        let syn = Segment::Syn { source: *source, target: *target };
        let again = self.at(at, Event::AsksAgain(id, times + 1));
        if let Some(stream) = self.stream_if_open(id) {
            stream.asks = Some(again);
        }
        self.send_of(id, syn);
    }

    /// Sends a segment of a stream.
    fn send_of(&mut self, id: u64, segment: Segment) {
        let Some(node) = self.sockets.get(&id).map(|socket| socket.node) else { return };
        let Some(stream) = self.stream_if_open(id) else { return };
        let to = stream.peer_socket;
        if stream.is_unix() {
            return self.take_segment((node, node), id, to, segment);
        }
        // What goes to an address without a node is lost.
        let Some(peer_node) = stream.peer_node else { return };
        self.send(Packet { link: (node, peer_node), from: id, to, body: Body::Tcp(segment) });
    }

    /// Ends a connection with an error.
    pub(super) fn abort(&mut self, id: u64, number: i32) {
        let Some(stream) = self.stream_if_open(id) else { return };
        stream.break_with(number);
        let asks = stream.asks.take();
        asks.into_iter().for_each(|at| drop(self.events.remove(&at)));
        self.report(id, true, true);
    }

    /// Takes a segment that has arrived.
    pub(super) fn take_segment(&mut self, link: Link, from: u64, to: u64, segment: Segment) {
        if let Segment::Syn { source, target } = segment {
            return self.take_syn(link, from, source, target);
        }
        let known = self.stream_if_open(to).is_some_and(|stream| stream.state != Phase::Broken);
        if !known {
            if matches!(segment, Segment::Data(..) | Segment::SynAck) {
                self.answer_rst(link, to, from);
            }
            return;
        }
        match segment {
            Segment::Rst => self.take_rst(to),
            Segment::Read(bytes) => self.take_read(to, bytes),
            Segment::Stop => self.take_stop(to),
            segment => self.take_numbered(from, to, segment),
        }
    }

    /// Resets the stream `to` at the other end of a link.
    fn answer_rst(&mut self, link: Link, from: u64, to: u64) {
        self.send(Packet { link: (link.1, link.0), from, to, body: Body::Tcp(Segment::Rst) });
    }

    fn take_syn(&mut self, link: Link, client: u64, source: SocketAddr, target: SocketAddr) {
        let Some(stream) = self.stream_if_open(client) else { return };
        if stream.state != Phase::Connecting || stream.peer_socket != 0 {
            return;
        }
        let bound = self.nodes.bound(link.1, Protocol::Tcp, target);
        let Some(listener) = bound.filter(|&id| self.listener(id).is_ok_and(|found| found.room > 0)) else {
            return self.answer_rst(link, 0, client);
        };
        if self.listener(listener).is_ok_and(|listener| listener.has_room()) {
            let (local, peer) = (Addr::Ip(target), Addr::Ip(source));
            let stream = Stream::new(local, peer, Some(link.0), client, Phase::Connected);
            self.admit(listener, link.1, stream);
        }
    }

    /// Puts the other end of a connection into the queue of a listener, and answers the end that connects.
    pub(super) fn admit(&mut self, listener: u64, node: u32, stream: Stream) {
        let client = stream.peer_socket;
        let id = self.add(node, Kind::Stream(Box::new(stream)));
        if let Some(stream) = self.stream_if_open(client) {
            stream.peer_socket = id;
        }
        if let Ok(listener) = self.listener(listener) {
            listener.queue.push_back(id);
        }
        self.report(listener, true, false);
        self.send_of(id, Segment::SynAck);
    }

    fn take_rst(&mut self, id: u64) {
        let Some(stream) = self.stream_if_open(id) else { return };
        let number = match stream.state {
            Phase::Connecting => libc::ECONNREFUSED,
            _ if stream.peer_ended && !stream.is_unix() => libc::EPIPE,
            _ => libc::ECONNRESET,
        };
        self.abort(id, number);
    }

    fn take_stop(&mut self, id: u64) {
        let Some(stream) = self.stream_if_open(id) else { return };
        stream.peer_stopped = true;
        self.report(id, false, true);
    }

    fn take_read(&mut self, id: u64, bytes: usize) {
        let Some(stream) = self.stream_if_open(id) else { return };
        stream.unread = stream.unread.saturating_sub(bytes);
        self.report(id, false, true);
    }

    /// Takes a packet in its turn, and those that came before their turn.
    fn take_numbered(&mut self, from: u64, id: u64, body: Segment) {
        let Some(stream) = self.stream_if_open(id) else { return };
        let Some(number) = body.number() else { return };
        stream.early.insert(number, body);
        let (mut read, mut write, mut refused) = (false, false, false);
        while let Some(body) = stream.early.remove(&stream.received) {
            stream.received += 1;
            match body {
                Segment::SynAck => {
                    (stream.state, stream.peer_socket) = (Phase::Connected, from);
                    write = true;
                }
                Segment::Data(..) if stream.read_shut => refused = true,
                Segment::Data(_, bytes) => stream.inbox.extend(bytes),
                _ => stream.peer_ended = true,
            }
            read = true;
        }
        let asks = if write { stream.asks.take() } else { None };
        asks.into_iter().for_each(|at| drop(self.events.remove(&at)));
        if refused {
            self.send_of(id, Segment::Rst);
        }
        if read {
            self.report(id, true, write);
        }
    }

    /// Reads into `buf`; leaves the bytes there if this is a look only.
    pub(super) fn read(&mut self, id: u64, buf: &mut [u8], looks: bool) -> io::Result<usize> {
        let stream = self.stream(id)?;
        if stream.inbox.is_empty() && !buf.is_empty() {
            return match stream.error.take() {
                Some(number) => Err(error(number)),
                None if stream.is_readable() => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let n = stream.inbox.len().min(buf.len());
        stream.inbox.iter().zip(&mut *buf).for_each(|(from, to)| *to = *from);
        if !looks && n > 0 {
            stream.inbox.drain(..n);
            self.send_of(id, Segment::Read(n));
        }
        Ok(n)
    }

    pub(super) fn write(&mut self, id: u64, buf: &[u8]) -> io::Result<usize> {
        let stream = self.stream(id)?;
        if stream.cannot_write() {
            // A Unix socket keeps its error for a read.
            let pending = if stream.is_unix() { None } else { stream.error.take() };
            return Err(error(pending.unwrap_or(libc::EPIPE)));
        }
        let room = if stream.state == Phase::Connecting { 0 } else { WINDOW.saturating_sub(stream.unread) };
        let n = room.min(buf.len());
        if n == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        stream.unread += n;
        for piece in buf[..n].chunks(SEGMENT) {
            let body = Segment::Data(self.next_number(id), piece.to_vec());
            self.send_of(id, body);
        }
        Ok(n)
    }

    fn next_number(&mut self, id: u64) -> u64 {
        let Some(stream) = self.stream_if_open(id) else { return 0 };
        stream.sent += 1;
        stream.sent - 1
    }

    pub(super) fn shutdown(&mut self, id: u64, how: Shutdown) -> io::Result<()> {
        let stream = self.stream(id)?;
        stream.check_connected()?;
        if how != Shutdown::Write {
            stream.read_shut = true;
            self.stop(id);
        }
        if how != Shutdown::Read {
            self.end(id);
        }
        self.report(id, true, true);
        Ok(())
    }

    /// Sends the end of a stream, once.
    fn end(&mut self, id: u64) {
        let Some(stream) = self.stream_if_open(id).filter(|stream| !stream.ended) else { return };
        stream.ended = true;
        if stream.state == Phase::Connected {
            let body = Segment::Fin(self.next_number(id));
            self.send_of(id, body);
        }
    }

    /// Says that a Unix stream reads no more.
    fn stop(&mut self, id: u64) {
        let is_connected = |stream: &&mut Stream| stream.is_unix() && stream.state == Phase::Connected;
        if self.stream_if_open(id).filter(is_connected).is_some() {
            self.send_of(id, Segment::Stop);
        }
    }

    /// Resets the connection of a stream, and all that wait for a listener.
    pub(super) fn reset_peer(&mut self, id: u64) {
        if let Ok(listener) = self.listener(id) {
            let (queue, waiting) =
                (std::mem::take(&mut listener.queue), std::mem::take(&mut listener.waiting));
            for stream in queue {
                self.reset_peer(stream);
                self.sockets.remove(&stream);
            }
            waiting.into_iter().for_each(|stream| self.abort(stream, libc::ECONNREFUSED));
            return;
        }
        let Some(stream) = self.stream_if_open(id) else { return };
        let asks = stream.asks.take();
        let connected = stream.state == Phase::Connected;
        asks.into_iter().for_each(|at| drop(self.events.remove(&at)));
        if connected {
            self.send_of(id, Segment::Rst);
        }
    }

    /// Resets all connections between two nodes, at both ends.
    pub(crate) fn reset_all(&mut self, a: u32, b: u32) {
        let is_between = |socket: &super::Socket| match &socket.kind {
            Kind::Stream(stream) if stream.state == Phase::Connected => {
                let ends = (socket.node, stream.peer_node);
                ends == (a, Some(b)) || ends == (b, Some(a))
            }
            _ => false,
        };
        let ids: Vec<u64> = self.sockets.iter().filter(|(_, s)| is_between(s)).map(|(&id, _)| id).collect();
        ids.into_iter().for_each(|id| self.abort(id, libc::ECONNRESET));
    }

    /// Closes a socket that its user has dropped.
    pub(super) fn close(&mut self, id: u64) {
        let Some(socket) = self.sockets.get(&id) else { return };
        let node = socket.node;
        match &socket.kind {
            Kind::Listener(listener) => {
                match listener.local {
                    Addr::Ip(local) => self.nodes.get_mut(node).release(Protocol::Tcp, local),
                    Addr::Unix(_) => self.names.release(id),
                }
                self.reset_peer(id);
            }
            Kind::Udp(udp) => {
                let local = udp.local;
                self.nodes.get_mut(node).release(Protocol::Udp, local);
            }
            Kind::Datagrams(_) => self.close_datagrams(id),
            Kind::Counter(_) => {}
            Kind::Timer(timer) => {
                let event = timer.event;
                event.map(|at| self.events.remove(&at));
            }
            Kind::Stream(stream) => {
                let lingers = stream.options.linger == Some(std::time::Duration::ZERO);
                if !stream.inbox.is_empty() || lingers || stream.state != Phase::Connected {
                    self.reset_peer(id);
                } else {
                    self.end(id);
                    self.stop(id);
                }
            }
        }
        self.sockets.remove(&id);
    }
}
