//! `network`: the network of one simulation: its nodes, the links between them, the packets under way, and
//! the sockets.
//!
//! ```text
//!   a socket's call ──► NetworkState (under one lock) ──► packets, each with the time at which it arrives
//!                                                      │
//!   all green threads wait: the clock moves to the next arrival ──► NetworkState ──► reports to the netpoller
//! ```
//!
//! A call changes the state under the lock, takes the reports that this has caused out, and delivers them
//! without the lock. Points of choice come before the lock is taken.
//!
//! - `node.rs` has the nodes with their addresses and ports, `clocks.rs` what time it is there.
//! - `link.rs` has the links, and decides when a packet arrives.
//! - `tcp.rs` has the protocol of streams and listeners, `udp.rs` that of datagrams, with the queue in
//!   `inbox.rs`.
//! - `unix.rs` has the names of Unix sockets, `datagram.rs` the protocol of their datagrams, `addr.rs` the
//!   addresses of all sockets.
//! - `faults.rs` decides for faults.
//! - `notifiers.rs` has what is no socket, and is waited for as sockets are: a count (`counter.rs`), which
//!   `eventfd` makes, and a timer (`timer.rs`), which `timerfd_create` makes.
//! - `handle.rs` has what takes the place of the system's sockets.
//! - `descriptors.rs` has the sockets that programs of std make, with numbers as descriptors of the system.

mod addr;
mod clocks;
mod counter;
mod datagram;
#[doc(hidden)]
pub mod descriptors;
mod faults;
mod handle;
mod inbox;
mod link;
mod node;
mod notifiers;
mod tcp;
mod timer;
mod udp;
mod unix;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::vec;

use netpoll::Report;
use netpoll::source::Token;
use sched::GHandle;
use sched::sync::Mutex;

pub(super) use clocks::MOST_PPM;
pub(super) use faults::Decisions;
pub use handle::{
    Readiness, StreamIo, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream, describe,
};
pub(super) use link::{Link, Works};

use super::parts;
use super::quality::Quality;
use super::schedule::Fault;
use addr::Addr;
use clocks::Clocks;
use counter::Counter;
use datagram::Datagrams;
use link::{Links, Packet};
use node::Nodes;
use tcp::{Listener, Stream};
use timer::Timer;
use udp::Udp;
use unix::Names;

/// The network of one simulation.
pub struct Network {
    /// The simulated time, on the clock that `Instant` reads on the main node.
    now: AtomicU64,
    clocks: Arc<Clocks>,
    state: Mutex<NetworkState>,
    ticks: Mutex<Ticks>,
    /// What runs on the nodes, from node 1 on.
    machines: Mutex<Vec<Arc<dyn Machine>>>,
    /// How far the clocks of the nodes are ahead, in ns.
    skews: Mutex<Vec<i64>>,
    most_skew: u64,
    /// By how many parts per million the clocks of nodes are fast or slow at most.
    most_drift: u32,
    /// How long the program may still go on, and from when.
    limit: Mutex<Option<(Duration, u64)>>,
}

/// With what a network begins.
#[derive(Debug)]
pub(super) struct Setup {
    /// The quality of links for which no other one is set.
    pub(super) quality: Quality,
    /// The time between two ticks of the faults in ns, if there are any.
    pub(super) every: Option<u64>,
    /// How far the clocks of nodes are wrong at most.
    pub(super) most_skew: Duration,
    /// True if each node has a clock of its own.
    pub(super) node_clocks: bool,
    /// By how many parts per million the clocks of nodes are fast or slow at most.
    pub(super) most_drift: u32,
    /// The faults of an earlier run, which are made again.
    pub(super) replay: Option<BTreeMap<(Fault, u64), usize>>,
}

/// What runs on a node.
pub(super) trait Machine: Send + Sync {
    fn kill(&self);
    fn cut_power(&self);
    fn restart(&self);
}

/// The ticks at which faults begin.
struct Ticks {
    every: Option<u64>,
    next: u64,
    count: u64,
    /// The green thread that makes the faults.
    wakes: Option<GHandle>,
}

/// What the network knows.
#[derive(Debug)]
pub(super) struct NetworkState {
    now: u64,
    clocks: Arc<Clocks>,
    pub(super) nodes: Nodes,
    pub(super) links: Links,
    pub(super) decisions: Decisions,
    /// True if no fault begins any more.
    pub(super) healed: bool,
    /// The nodes that faults have stopped, and will start again.
    pub(super) down_by_faults: BTreeSet<u32>,
    /// How many nodes faults are about to stop.
    pub(super) stopping: u32,
    names: Names,
    /// How many calls green threads have made that have to end, by their ids.
    calls_after_end: BTreeMap<u64, u32>,
    sockets: BTreeMap<u64, Socket>,
    /// How many sockets of nodes that were killed the netpoller still knows.
    lost_sources: usize,
    last_socket: u64,
    events: BTreeMap<At, Event>,
    last_event: u64,
    /// What the netpoller is to be told after the present call.
    reports: Vec<Report>,
}

/// When an event happens. Events of one time happen in the order in which they were made.
type At = (u64, u64);

/// What will happen.
#[derive(Debug)]
enum Event {
    Arrives(Packet),
    /// A stream that has no answer yet asks again, for the n-th time.
    AsksAgain(u64, u32),
    /// A packet has been held for so long that its sender gives the connection up.
    GivenUp(Link, u64),
    /// A timer has expired.
    Expires(u64),
}

/// A socket that is open.
#[derive(Debug)]
struct Socket {
    node: u32,
    /// With what it is registered.
    token: Option<Token>,
    /// How often attempts to read, and to write, may have begun to find something.
    activity: [u64; 2],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Listener(Listener),
    Stream(Box<Stream>),
    Udp(Udp),
    Datagrams(Box<Datagrams>),
    Counter(Counter),
    Timer(Timer),
}

impl Socket {
    /// Returns its address and that of its peer, for dumps.
    fn addresses(&self) -> (String, Option<String>) {
        match &self.kind {
            Kind::Listener(listener) => (listener.local.to_string(), None),
            Kind::Stream(stream) => (stream.local.to_string(), Some(stream.peer.to_string())),
            Kind::Udp(udp) => (udp.local.to_string(), udp.peer.map(|peer| peer.to_string())),
            Kind::Datagrams(socket) => (socket.local.to_string(), socket.peer().map(Addr::to_string)),
            Kind::Counter(_) => ("eventfd".into(), None),
            Kind::Timer(_) => ("timerfd".into(), None),
        }
    }
}

/// Returns the network of the simulation around the caller.
pub(super) fn here() -> Option<Arc<Network>> {
    parts::here()
}

/// Returns the addresses of a name in the simulation around the caller, if there is one.
pub fn look_up(host: &str, port: u16) -> Option<io::Result<vec::IntoIter<SocketAddr>>> {
    let network = here()?;
    sched::simulation::point();
    let found = network.with(|state| state.nodes.look_up(host));
    Some(found.map(|ips| ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect::<Vec<_>>().into_iter()))
}

impl Network {
    pub(super) fn new(now: u64, seed: u64, setup: Setup) -> Arc<Network> {
        let Setup { quality, every, most_skew, node_clocks, most_drift, replay } = setup;
        let clocks = Arc::new(Clocks::new(node_clocks));
        Arc::new(Network {
            now: AtomicU64::new(now),
            clocks: clocks.clone(),
            state: Mutex::new(NetworkState {
                now,
                clocks,
                nodes: Nodes::new(),
                links: Links::new(seed, quality),
                decisions: Decisions::new(seed, replay),
                healed: false,
                down_by_faults: BTreeSet::new(),
                stopping: 0,
                names: Names::default(),
                calls_after_end: BTreeMap::new(),
                sockets: BTreeMap::new(),
                lost_sources: 0,
                last_socket: 0,
                events: BTreeMap::new(),
                last_event: 0,
                reports: Vec::new(),
            }),
            ticks: Mutex::new(Ticks { every, next: now + every.unwrap_or(0), count: 0, wakes: None }),
            machines: Mutex::default(),
            skews: Mutex::default(),
            most_skew: u64::try_from(most_skew.as_nanos()).unwrap_or(u64::MAX),
            most_drift,
            limit: Mutex::default(),
        })
    }

    pub(super) fn now(&self) -> u64 {
        // Relaxed: one M runs all green threads.
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Returns what the clock of a node shows.
    pub(super) fn now_on(&self, node: u32) -> u64 {
        self.clocks.shown(self.clocks.number(node), self.now())
    }

    /// Calls `f` with the state, and tells the netpoller what has happened.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut NetworkState) -> T) -> T {
        let mut state = self.state.lock();
        state.now = self.now();
        let result = f(&mut state);
        state.run_due();
        let reports = std::mem::take(&mut state.reports);
        drop(state);
        if !reports.is_empty() {
            sched::simulation::deliver(&reports);
        }
        result
    }

    /// Sets how long the program may go on, and from when. Returns what was set before.
    pub(super) fn set_limit(&self, limit: Option<(Duration, u64)>) -> Option<(Duration, u64)> {
        std::mem::replace(&mut self.limit.lock(), limit)
    }

    /// Returns the time that the program has, if it is over at `now`.
    pub(super) fn over_limit(&self, now: u64) -> Option<Duration> {
        let (limit, from) = (*self.limit.lock())?;
        (Duration::from_nanos(now.saturating_sub(from)) > limit).then_some(limit)
    }

    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<u64> {
        self.state.lock().events.keys().next().map(|&(time, _)| time)
    }

    /// Moves the clock to `now`, and lets happen what is due.
    pub(super) fn move_to(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
        self.with(|_| ());
    }

    /// Moves the clock to the next tick, if that is before `next`, and wakes the green thread that makes the
    /// faults.
    pub(super) fn tick_before(&self, next: u64) -> bool {
        let mut ticks = self.ticks.lock();
        let Some(every) = ticks.every.filter(|_| ticks.next <= next) else { return false };
        let now = ticks.next.max(self.now());
        ticks.next += every;
        ticks.count += 1;
        let wakes = ticks.wakes.clone();
        drop(ticks);
        self.move_to(now);
        wakes.iter().for_each(GHandle::unpark);
        true
    }

    /// Makes `thread` the one that ticks wake.
    pub(super) fn wake_at_ticks(&self, thread: GHandle) {
        self.ticks.lock().wakes = Some(thread);
    }

    /// Returns how many ticks there were.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.lock().count
    }

    /// Takes the faults that were made, and forgets the nodes.
    pub(super) fn take_faults(&self) -> BTreeMap<(Fault, u64), usize> {
        // The nodes refer to the network.
        let machines = std::mem::take(&mut *self.machines.lock());
        drop(machines);
        let wakes = self.ticks.lock().wakes.take();
        drop(wakes);
        self.state.lock().decisions.take_noted()
    }

    /// Adds what runs on the next node.
    pub(super) fn add_machine(&self, machine: Arc<dyn Machine>) {
        self.machines.lock().push(machine);
    }

    /// Returns what runs on a node; `None` for the main node.
    pub(super) fn machine(&self, node: u32) -> Option<Arc<dyn Machine>> {
        self.machines.lock().get(node.checked_sub(1)? as usize).cloned()
    }

    /// Returns how far the clock of a node is ahead, in ns.
    pub(super) fn skew(&self, node: u32) -> i64 {
        self.skews.lock().get(node as usize).copied().unwrap_or(0)
    }

    /// Sets the clock of a node `by` ns ahead. The timers there that expire at dates follow.
    pub(super) fn advance_clock(&self, node: u32, by: i64) {
        let mut skews = self.skews.lock();
        let at = node as usize;
        if skews.len() <= at {
            skews.resize(at + 1, 0);
        }
        skews[at] = skews[at].saturating_add(by);
        drop(skews);
        self.with(|state| state.move_timers(node, by));
    }

    /// Sets by how many parts per million the clock of a node is fast. Returns `false` if the node has no
    /// clock of its own.
    pub(super) fn set_clock_rate(&self, node: u32, ppm: i32) -> bool {
        let is_set = self.clocks.set_rate(node, self.now(), ppm);
        self.with(|state| state.arm_timers(node));
        is_set
    }

    /// Gives a new node its clock. The clock has a wrong date if dates are wrong, and a wrong rate if rates
    /// are.
    pub(super) fn give_clock(&self, node: u32) {
        self.clocks.add(
            self.now(),
            if self.most_drift > 0 { self.with(|state| state.drift(self.most_drift)) } else { 0 },
        );
        if self.most_skew > 0 {
            let by = self.with(|state| {
                let (wrong, number) = state.decisions.decide(Fault::Clock, &[1.0]);
                let most = self.most_skew.min(i64::MAX as u64 / 2);
                let by = state.decisions.random(Fault::Clock, number).below(2 * most as usize + 1) as i64;
                if wrong == 1 { by - most as i64 } else { 0 }
            });
            self.advance_clock(node, by);
        }
    }

    /// Returns the number of sockets that the netpoller knows.
    pub(super) fn sources(&self) -> usize {
        let state = self.state.lock();
        state.lost_sources + state.sockets.values().filter(|socket| socket.token.is_some()).count()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl NetworkState {
    /// Decides by how many parts per million a new clock is fast.
    fn drift(&mut self, most: u32) -> i32 {
        let (wrong, number) = self.decisions.decide(Fault::Drift, &[1.0]);
        let ppm = self.decisions.random(Fault::Drift, number).below(2 * most as usize + 1);
        if wrong == 1 { ppm as i32 - most as i32 } else { 0 }
    }

    /// Returns what the clock shows that a socket has.
    pub(super) fn now_at(&self, id: u64) -> u64 {
        self.now_on(self.sockets.get(&id).map_or(0, |socket| socket.node))
    }

    fn now_on(&self, node: u32) -> u64 {
        self.clocks.shown(self.clocks.number(node), self.now)
    }

    fn at(&mut self, time: u64, event: Event) -> At {
        self.last_event += 1;
        let at = (time, self.last_event);
        self.events.insert(at, event);
        at
    }

    /// Lets all events happen that are due.
    fn run_due(&mut self) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Event::Arrives(packet) => self.arrive(packet),
                Event::AsksAgain(socket, times) => self.ask_again(socket, times),
                Event::GivenUp(link, packet) => self.give_up(link, packet),
                Event::Expires(timer) => self.report(timer, true, false),
            }
        }
    }

    /// Makes the event of a timer's next expiration, in the place of the earlier one.
    fn arm_timer(&mut self, id: u64) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Kind::Timer(timer) = &mut socket.kind else { return };
        let clock = self.clocks.number(socket.node);
        let next = timer.next().map(|next| self.clocks.reached(clock, next));
        let earlier = timer.event.take();
        earlier.map(|at| self.events.remove(&at));
        let event = next.map(|next| self.at(next, Event::Expires(id)));
        if let Some(Kind::Timer(timer)) = self.sockets.get_mut(&id).map(|socket| &mut socket.kind) {
            timer.event = event;
        }
    }

    /// Lets the timers of a node that expire at dates follow its clock, which was set `by` ns ahead.
    fn move_timers(&mut self, node: u32, by: i64) {
        let now = self.now_on(node);
        let follows = |(&id, socket): (&u64, &mut Socket)| match &mut socket.kind {
            Kind::Timer(timer) if socket.node == node => timer.follow_clock(now, by).then_some(id),
            _ => None,
        };
        let moved: Vec<u64> = self.sockets.iter_mut().filter_map(follows).collect();
        moved.into_iter().for_each(|id| self.arm_timer(id));
    }

    /// Makes the events of the timers of a node anew, because the rate of its clock has changed.
    fn arm_timers(&mut self, node: u32) {
        let is_timer = |socket: &Socket| socket.node == node && matches!(socket.kind, Kind::Timer(_));
        let timers = self.sockets.iter().filter(|(_, socket)| is_timer(socket)).map(|(&id, _)| id);
        timers.collect::<Vec<_>>().into_iter().for_each(|id| self.arm_timer(id));
    }

    fn add(&mut self, node: u32, kind: Kind) -> u64 {
        self.last_socket += 1;
        self.sockets.insert(self.last_socket, Socket { node, token: None, activity: [0; 2], kind });
        self.last_socket
    }

    /// Tells the netpoller that attempts on a socket may find something.
    fn report(&mut self, socket: u64, read: bool, write: bool) {
        let Some(socket) = self.sockets.get_mut(&socket) else { return };
        socket.activity[0] += u64::from(read);
        socket.activity[1] += u64::from(write);
        self.reports.extend(socket.token.map(|token| Report { token, read, write }));
    }

    /// Ends a node, which has no sockets from now on.
    pub(super) fn kill(&mut self, node: u32) {
        if std::mem::replace(&mut self.nodes.get_mut(node).up, false) {
            self.close_all(node);
        }
    }

    /// A fault is about to stop a node. Returns `false` if no fault begins any more.
    pub(super) fn begin_stop(&mut self) -> bool {
        self.stopping += u32::from(!self.healed);
        !self.healed
    }

    /// A fault has stopped a node, and will start it again.
    pub(super) fn end_stop(&mut self, node: u32) {
        self.stopping -= 1;
        self.down_by_faults.insert(node);
    }

    /// Lets a node that was killed take part again.
    pub(super) fn start(&mut self, node: u32) {
        self.nodes.get_mut(node).up = true;
        self.release_to(node);
    }

    /// Closes all sockets of a node, without a word to their users. Its streams are reset.
    fn close_all(&mut self, node: u32) {
        let of_node = |(&id, socket): (&u64, &Socket)| (socket.node == node).then_some(id);
        let ids: Vec<u64> = self.sockets.iter().filter_map(of_node).collect();
        for id in ids {
            self.report(id, true, true);
            self.reset_peer(id);
            let socket = self.sockets.remove(&id);
            self.lost_sources += usize::from(socket.is_some_and(|socket| socket.token.is_some()));
        }
        self.nodes.close_all(node);
        self.names.close_all(node);
        self.links.forget_held_of(node).into_iter().for_each(|at| drop(self.events.remove(&at)));
    }
}
