//! The netpoller: polls mio's sources and returns the waiters that their events wake.

#[cfg(all(feature = "foreign", target_os = "linux"))]
use std::os::fd::AsRawFd;
use std::sync::Arc;
#[cfg(all(feature = "foreign", target_os = "linux"))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use mio::Token;
#[cfg(all(feature = "foreign", target_os = "linux"))]
use mio::unix::SourceFd;
use parking_lot::{Mutex, MutexGuard};

use crate::arena::{Arena, MOST_NEAR, SHARED, Slot, SlotToken, What};
use crate::blocker::{Blocker, Break, WakeBy};
use crate::desc::PollDesc;
#[cfg(all(feature = "foreign", target_os = "linux"))]
use crate::foreign::{Foreign, Station, wait_for_any};
use crate::near::{self, Near, Nears};
use crate::source::Source;
use crate::sys::selector::{Event, Events, Poll, Registry, Waker};
use crate::sys::{Alarm, INTERESTS, Number, Numbers, explain};
use crate::waiter::Waiter;

/// How many sources beyond its share of those near any place a place may have. All packets may come to one
/// processor (a device with one queue, a client of the same machine): then few sources move.
const SPARE: usize = 8;
/// The most events that a wait returns: one of these. The rest come with the next wait, in their order.
const BATCHES: [usize; 2] = [32, 1024];

const BREAK: Token = Token(SlotToken::reserved(0).0);
const ALARM: Token = Token(SlotToken::reserved(1).0);
#[cfg(all(feature = "foreign", target_os = "linux"))]
const STATION: Token = Token(SlotToken::reserved(2).0);

/// The readiness of all registered sources.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::net::Ipv4Addr;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use netpoll::{Direction, Netpoll, Wait, Waiter, net::UdpSocket};
///
/// let netpoll = Arc::new(Netpoll::new()?);
/// let mut socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into())?;
/// let desc = netpoll.register(&mut socket)?;
///
/// let me = Waiter::new(7);
/// let attempt = desc.prepare(Direction::Read);
/// assert!(socket.recv(&mut [0; 8]).is_err(), "nothing has been sent yet");
/// assert_eq!(desc.wait(attempt, me), Ok(Wait::Park));
///
/// socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut ready = Vec::new();
/// while ready.is_empty() {
///     let mut turn = netpoll.begin_block().expect("no other thread polls");
///     turn.publish(u64::MAX);
///     turn.block(u64::MAX, None, &mut ready)?;
/// }
/// assert_eq!(ready, [me]);
/// # Ok(())
/// # }
/// ```
pub struct Netpoll {
    blocker: Blocker,
    polling: Polling,
    registry: Registry,
    /// Shared with the alarm of systems where that rings by the waker.
    waker: Arc<Waker>,
    arena: Arena,
    nears: Nears,
    /// The descriptor of `poller`, where there are near pollers.
    shared: i32,
    numbers: Numbers,
    /// True if no thread will poll any more: each source registered from now on is closed at once.
    closed: AtomicBool,
    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    untold: crate::sys::Untold,
    #[cfg(all(feature = "foreign", target_os = "linux"))]
    foreign: OnceLock<Foreign>,
}

/// What each poll writes: in this order, so that it lies on as few cache lines as possible.
#[repr(C, align(128))]
struct Polling {
    last_poll: AtomicU64,
    counts: Counts,
    poller: Mutex<Poller>,
}

/// The data of the poller, under its lock: only the thread that polls uses them.
struct Poller {
    poll: Poll,
    /// One for each of `BATCHES`.
    events: [Events; BATCHES.len()],
    /// Which of them has the events of the last wait.
    batch: usize,
    alarm: Alarm,
}

#[derive(Default)]
struct Counts {
    polls: AtomicU64,
    delivered: AtomicU64,
    breaks_written: AtomicU64,
    breaks_saved: AtomicU64,
    moves: AtomicU64,
}

/// An event of a source that no system knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// With what the source was registered.
    pub token: Token,
    /// Readers must try again.
    pub read: bool,
    /// Writers must try again.
    pub write: bool,
}

/// What a poll has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polled {
    /// How many waiters it has woken.
    pub woken: usize,
    /// More events may wait than the poll was to return.
    pub more: bool,
}

/// What a poller has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Waits for events, including those that did not block.
    pub polls: u64,
    /// Waiters handed to the thread that polled.
    pub delivered: u64,
    /// Breaks that made a system call.
    pub breaks_written: u64,
    /// Breaks that an earlier break served.
    pub breaks_saved: u64,
    /// Sources moved to the poller of a place, or away from it.
    pub moves: u64,
    /// Places with a poller of their own, which has two descriptors and stays.
    pub near_pollers: usize,
}

/// Explains why the system refused what every poller needs. The kind of the error stays.
fn explain_start(refusal: io::Error) -> io::Error {
    match refusal.kind() {
        kind @ (io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => io::Error::new(
            kind,
            format!(
                "the system refuses the calls that wait for events ({refusal}); a sandbox must allow them, on \
                 Linux epoll_create1 and eventfd2"
            ),
        ),
        _ => refusal,
    }
}

impl Netpoll {
    /// Makes a poller with no sources.
    ///
    /// # Errors
    ///
    /// When the process or the system has no descriptors left, or a sandbox refuses the calls.
    pub fn new() -> io::Result<Netpoll> {
        let poll = Poll::new().map_err(explain_start)?;
        let registry = poll.registry().try_clone()?;
        let waker = Arc::new(Waker::new(&registry, BREAK).map_err(explain_start)?);
        let alarm = Alarm::new(&registry, ALARM, &waker);
        let poller = Poller { poll, events: BATCHES.map(Events::with_capacity), batch: 0, alarm };
        Ok(Netpoll::of(poller, registry, waker, Nears::new()))
    }

    /// Makes a poller with no sources from the descriptors of this one. That saves the system calls of `new`.
    /// A break or an alarm from before may end its first wait early.
    #[must_use]
    pub fn renewed(self) -> Netpoll {
        self.nears().for_each(Near::reset_counts);
        Netpoll::of(self.polling.poller.into_inner(), self.registry, self.waker, self.nears)
    }

    fn of(poller: Poller, registry: Registry, waker: Arc<Waker>, nears: Nears) -> Netpoll {
        Netpoll {
            shared: near::descriptor(&poller.poll),
            nears,
            blocker: Blocker::new(),
            polling: Polling {
                last_poll: AtomicU64::new(0),
                counts: Counts::default(),
                poller: Mutex::new(poller),
            },
            registry,
            waker,
            arena: Arena::new(),
            numbers: Numbers::default(),
            closed: AtomicBool::new(false),
            #[cfg(any(windows, all(portable, not(kqueue_model))))]
            untold: crate::sys::Untold::default(),
            #[cfg(all(feature = "foreign", target_os = "linux"))]
            foreign: OnceLock::new(),
        }
    }

    /// Registers a source, edge-triggered and for both directions. *Runs on: any thread.*
    ///
    /// # Errors
    ///
    /// When the system cannot wait for such a source (on Linux a regular file) or a limit is reached. Nothing
    /// else is disturbed.
    pub fn register<S: Source + ?Sized>(self: &Arc<Self>, source: &mut S) -> io::Result<PollDesc> {
        self.register_numbered(source, -1)
    }

    /// Registers a source as `register` does. `number` is that of its descriptor, or less than zero if it has
    /// none. No other registration has this number. *Runs on: any thread.*
    ///
    /// # Errors
    ///
    /// As `register`, and `AlreadyExists` for a descriptor that is registered already.
    pub fn register_numbered<S: Source + ?Sized>(
        self: &Arc<Self>,
        source: &mut S,
        number: i64,
    ) -> io::Result<PollDesc> {
        let token = self.arena.take().ok_or_else(all_slots_taken)?;
        let fd = number;
        let number = self.numbers.note(number).inspect_err(|_| self.arena.give_back(token.index()))?;
        // From here on dropping `desc` gives the slot and the number back.
        let desc = PollDesc::new(Arc::clone(self), token.index(), fd, number);
        register_with(&self.registry, source, Token(token.0)).map_err(explain)?;
        // SeqCst: after the slot was taken. The partner is `close_all`, which stores first and then looks at
        // the slots.
        if self.closed.load(Ordering::SeqCst) {
            desc.close(&mut Vec::new());
        }
        Ok(desc)
    }

    /// Closes every descriptor, now and in future: no thread will poll any more. Adds all waiters to `ready`.
    /// *Runs on: any thread.*
    pub fn close_all(&self, ready: &mut Vec<Waiter>) {
        // SeqCst: before the look at the slots; the partner is `register`.
        self.closed.store(true, Ordering::SeqCst);
        self.arena.slots().for_each(|slot| slot.close(ready));
    }

    /// Gives the descriptors of a leaked netpoller back to the system. Those of the shared station and
    /// of near pollers stay.
    ///
    /// # Safety
    /// The netpoller is never dropped. No thread polls any more, nor registers a source of the system or
    /// removes one.
    #[allow(unsafe_code)]
    pub unsafe fn close_leaked(&self) {
        // The last break: no thread takes note of it, so later ones write nothing.
        self.break_poll();
        let poller = self.polling.poller.lock();
        // SAFETY: by this contract nothing uses the three any more, and they are not dropped a second time.
        unsafe {
            drop(std::ptr::read(&raw const *poller));
            drop(std::ptr::read(&raw const self.waker));
            drop(std::ptr::read(&raw const self.registry));
        }
    }

    /// Removes the source of a slot. *Runs on: the owner of the descriptor. No thread waits for the source.*
    pub(crate) fn deregister<S: Source + ?Sized>(
        &self,
        index: usize,
        fd: i32,
        source: &mut S,
    ) -> io::Result<()> {
        let was_near = self.nears.leave(&self.slot(index).at, fd);
        // Also then: mio notes in debug builds that the source is registered.
        let done = deregister_from(&self.registry, source);
        if was_near { Ok(()) } else { done }
    }

    /// Moves the source of a slot to the near poller of a place, or to the shared one. *Runs on: any thread
    /// that keeps the source open.*
    pub(crate) fn change(&self, index: usize, fd: i32, place: Option<usize>) {
        let (slot, token) = (self.slot(index), Token(self.arena.token(index).0));
        let shared = (&self.registry, self.shared);
        if self.nears.change(&slot.at, fd, place, token, shared, |poller| slot.join(poller)) {
            self.polling.counts.moves.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns near which place the source of a slot belongs if its packets come to that processor. `None` if
    /// no thread of a place is there, or if that place has more than its share of the sources.
    pub(crate) fn near_place(&self, index: usize, processor: u32, places: usize) -> Option<usize> {
        // The threads of several places may be there for a while: then a source stays.
        let now = self.slot(index).at.poller().and_then(|poller| poller.checked_sub(1));
        if let Some(now) = now
            && now < places
            && self.nears.is_at(now, processor)
        {
            return Some(now);
        }
        let place = self.nears.place_of(processor).filter(|place| *place < places)?;
        let share = (0..places).map(|place| self.nears.sources(place)).sum::<usize>() / places;
        (self.nears.sources(place) < share + share / 8 + SPARE).then_some(place)
    }

    /// Returns the token of a slot. *Runs on: the owner of the descriptor.*
    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    pub(crate) fn token(&self, index: usize) -> SlotToken {
        self.arena.token(index)
    }

    /// Delivers an event to the owner of the slot, although the system does not report it. The next poll does
    /// so. After the end of that owner it delivers nothing. *Runs on: any thread.*
    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    pub(crate) fn deliver_soon(&self, token: SlotToken, what: What) {
        self.untold.push(token, what);
        self.break_poll();
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        self.arena.slot(index)
    }

    pub(crate) fn give_back(&self, index: usize) {
        self.nears.forget(&self.slot(index).at);
        self.arena.give_back(index);
    }

    pub(crate) fn forget(&self, number: &Number) {
        self.numbers.forget(number);
    }

    /// Polls without blocking, for some `most` events: the others stay for the next poll. Also takes the
    /// events of each place if its thread has not called [`poll_near`](Netpoll::poll_near) since
    /// `overdue`. Adds the woken waiters to `ready`. Returns `None` if another thread polls. *Runs on: any
    /// thread.*
    pub fn poll_now(&self, most: usize, overdue: u64, ready: &mut Vec<Waiter>) -> Option<Polled> {
        let mut poller = self.polling.poller.try_lock()?;
        let before = ready.len();
        // The wait fails only if the process has closed the poller's descriptor: then there is no event to
        // deliver.
        let outcome = self.blocker.poll(|| wait_for_events(&mut poller, most, Some(Duration::ZERO)));
        let events = self.deliver(&mut poller, outcome, overdue, ready).unwrap_or(0);
        Some(Polled { woken: ready.len() - before, more: events >= BATCHES[poller.batch] })
    }

    /// Polls the sources that are near a place, without blocking. The caller's thread is on that `processor`
    /// now. Adds the woken waiters to `ready`. Returns `None` if no source is near it. *Runs on: the thread
    /// that has the place.*
    pub fn poll_near(
        &self,
        place: usize,
        processor: u32,
        now: u64,
        ready: &mut Vec<Waiter>,
    ) -> Option<Polled> {
        self.nears.note_processor(place, processor);
        let near = self.nears.get(place).filter(|near| near.has_sources())?;
        near.polls_at(now);
        let before = ready.len();
        let more = self.take_near(near, place, ready);
        Some(Polled { woken: ready.len() - before, more })
    }

    /// Takes the events of the sources near a place. Returns `true` if more may wait. *Runs on: any thread.*
    fn take_near(&self, near: &Near, place: usize, ready: &mut Vec<Waiter>) -> bool {
        let before = ready.len();
        let more = near.poll(|events| {
            let round = self.arena.begin_round(place + 1);
            events.for_each(|event| round.deliver(SlotToken(event.token().0), what(event), ready));
        });
        near.count_poll(ready.len() - before);
        more
    }

    fn nears(&self) -> impl Iterator<Item = &Near> {
        (0..MOST_NEAR).filter_map(|place| self.nears.get(place))
    }

    /// Reports events of sources that no system knows, and adds the woken waiters to `ready`. No such source
    /// is dropped meanwhile. *Runs on: any thread.*
    pub fn report(&self, events: &[Report], ready: &mut Vec<Waiter>) {
        for event in events {
            let what = What { read: event.read, write: event.write, unreported: true };
            // Without a round, which belongs to the poller: the owners stay.
            self.arena.deliver(SlotToken(event.token.0), what, ready);
        }
    }

    /// Takes the right to block. Returns `None` if another thread has it. *Runs on: any thread.*
    pub fn begin_block(&self) -> Option<Turn<'_>> {
        if !self.blocker.claim() {
            return None;
        }
        // Not `try_lock`: a thread in `poll_now` releases the lock at once. Giving up for its sake would
        // leave no thread blocked in the poller.
        let poller = self.polling.poller.lock();
        Some(Turn { netpoll: self, poller, until: None, most: usize::MAX })
    }

    /// Breaks the poll: makes the present wait return, or the next wait if no thread blocks. Further breaks
    /// are free until the poller notices the first. *Runs on: any thread.*
    pub fn break_poll(&self) {
        // The write fails only if the waker's count is full. Such a waker wakes the poller without it.
        let count = match self.blocker.break_with(|| drop(wake(&self.waker))) {
            Break::Written => &self.polling.counts.breaks_written,
            Break::Saved => &self.polling.counts.breaks_saved,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a thread that blocks in the poller return by `when`. The caller has just made a timer for `when`
    /// visible; this function fences, so the caller needs no fence. *Runs on: any thread.*
    #[inline]
    pub fn wake_by(&self, when: u64) -> WakeBy {
        match self.blocker.published() {
            None => WakeBy::NobodyBlocks,
            Some(until) if until <= when => WakeBy::Served,
            Some(_) => {
                self.break_poll();
                WakeBy::Broken
            }
        }
    }

    /// Returns `true` if a thread blocks in the poller until a time after `when`. Fences, as `wake_by`. *Runs
    /// on: any thread.*
    pub fn blocks_beyond(&self, when: u64) -> bool {
        self.blocker.published().is_some_and(|until| until > when)
    }

    /// The time of the last poll, as told by [`polled`](Netpoll::polled); `u64::MAX` while a thread blocks in
    /// the poller.
    pub fn last_poll(&self) -> u64 {
        if self.blocker.is_blocked() { u64::MAX } else { self.polling.last_poll.load(Ordering::Relaxed) }
    }

    /// Records the time of a poll, for [`last_poll`](Netpoll::last_poll). The caller of
    /// [`poll_now`](Netpoll::poll_now) or [`Turn::block`] calls it with the clock that it has just read.
    pub fn polled(&self, now: u64) {
        self.polling.last_poll.store(now, Ordering::Relaxed);
    }

    /// Returns `true` if any source is registered, so that a poll may find events. Foreign descriptors count
    /// if they are waited for at the shared station: each M polls its own. The answer may be stale at once.
    pub fn has_sources(&self) -> bool {
        #[cfg(all(feature = "foreign", target_os = "linux"))]
        if self.foreign.get().is_some_and(Foreign::is_shared_in_use) {
            return true;
        }
        self.arena.in_use() != 0
    }

    /// How many sources are registered, with the waiters for foreign descriptors. The answer may be stale at
    /// once.
    pub fn sources(&self) -> usize {
        #[cfg(all(feature = "foreign", target_os = "linux"))]
        let foreign = self.foreign.get().map_or(0, |foreign| foreign.waiters());
        #[cfg(not(all(feature = "foreign", target_os = "linux")))]
        let foreign = 0;
        self.arena.in_use() + foreign
    }

    /// Returns what `foreign` returns, if that was called before. *Runs on: any thread.*
    #[cfg(all(feature = "foreign", target_os = "linux"))]
    pub fn foreign_if_any(&self) -> Option<&Foreign> {
        self.foreign.get()
    }

    /// Returns the waiters for descriptors of code that does not know the netpoller. *Runs on: any thread.*
    #[cfg(all(feature = "foreign", target_os = "linux"))]
    pub fn foreign(&self) -> &Foreign {
        self.foreign.get_or_init(Foreign::new)
    }

    /// Returns the station of all waiters that may go on at any M. Each poll looks at it. *Runs on: any
    /// thread.*
    ///
    /// # Errors
    ///
    /// When the process or the system has no descriptors left. The next call tries again.
    #[cfg(all(feature = "foreign", target_os = "linux"))]
    pub fn shared_station(&self) -> io::Result<&Station> {
        // Edge-triggered, as each source of mio's: a look takes all events that the station has.
        self.foreign().shared(|station| {
            self.registry.register(&mut SourceFd(&station.at()), STATION, mio::Interest::READABLE)
        })
    }

    /// What this netpoller has done so far.
    pub fn counters(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            polls: read(&self.polling.counts.polls) + self.nears().map(|near| near.counts()[0]).sum::<u64>(),
            delivered: read(&self.polling.counts.delivered)
                + self.nears().map(|near| near.counts()[1]).sum::<u64>(),
            breaks_written: read(&self.polling.counts.breaks_written),
            breaks_saved: read(&self.polling.counts.breaks_saved),
            moves: read(&self.polling.counts.moves),
            near_pollers: self.nears().count(),
        }
    }

    /// Turns the events of a wait into waiters, and returns the number of events. *Runs on: the thread that
    /// has the poller's lock.*
    fn deliver(
        &self,
        poller: &mut Poller,
        waited: io::Result<bool>,
        overdue: u64,
        ready: &mut Vec<Waiter>,
    ) -> io::Result<usize> {
        self.polling.counts.polls.fetch_add(1, Ordering::Relaxed);
        if !waited? {
            return Ok(0);
        }
        Ok(self.deliver_events(poller, overdue, ready))
    }

    fn deliver_events(&self, poller: &mut Poller, overdue: u64, ready: &mut Vec<Waiter>) -> usize {
        let Poller { events, batch, alarm, .. } = poller;
        let (round, mut count, mut delivered) = (self.arena.begin_round(SHARED), 0, 0);
        for event in events[*batch].iter() {
            count += 1;
            match event.token() {
                // Each untold event comes before its break, and the poller has noticed all breaks before
                // this. A break that was noticed before its write ends a later wait, which comes here.
                #[cfg(any(windows, all(portable, not(kqueue_model))))]
                BREAK => {
                    self.untold.take().into_iter().for_each(|(token, what)| round.deliver(token, what, ready))
                }
                #[cfg(not(any(windows, all(portable, not(kqueue_model)))))]
                BREAK => {}
                ALARM => alarm.rang(),
                #[cfg(all(feature = "foreign", target_os = "linux"))]
                STATION => {
                    let station =
                        self.foreign_if_any().and_then(|foreign| Some((foreign, foreign.shared_if_any()?)));
                    if let Some((foreign, station)) = station {
                        foreign.poll(station, ready);
                    }
                }
                token => match near::place_of(token) {
                    Some(place) => {
                        if let Some(near) = self.nears.get(place).filter(|near| near.polled_before(overdue)) {
                            self.take_near(near, place, ready);
                        }
                    }
                    None => {
                        let before = ready.len();
                        round.deliver(SlotToken(token.0), what(event), ready);
                        delivered += ready.len() - before;
                    }
                },
            }
        }
        self.polling.counts.delivered.fetch_add(delivered as u64, Ordering::Relaxed);
        count
    }
}

impl fmt::Debug for Netpoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Netpoll")
            .field("sources", &self.sources())
            .field("blocks_until", &self.blocker.published())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// The right to block in the poller.
///
/// ```text
/// let mut turn = netpoll.begin_block()?;
/// turn.publish(until);
/// // look at all timers and queues: work -> drop the turn; an earlier timer -> publish that
/// turn.block(until, timeout, &mut ready)?;
/// // look at all timers and queues
/// ```
///
/// Dropping a turn gives the right up and withdraws the published time. The caller then looks at the timers:
/// a thread that added a timer meanwhile may rely on that look.
#[must_use]
pub struct Turn<'a> {
    netpoll: &'a Netpoll,
    poller: MutexGuard<'a, Poller>,
    /// The time that was published last.
    until: Option<u64>,
    /// About how many events the wait returns at most.
    most: usize,
}

impl Turn<'_> {
    /// Lets the wait return some `most` events: the others stay for the next poll.
    pub fn at_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Publishes until when the caller will block, by the caller's clock (`u64::MAX`: for ever). The caller's
    /// last look at timers and queues comes after this call, which fences: that look needs no fence.
    pub fn publish(&mut self, until: u64) {
        self.until = Some(until);
        self.netpoll.blocker.publish(until);
    }

    /// Blocks until an event, a break or the time-out, and adds the woken waiters to `ready`. It may also
    /// return early without any, after a signal or an alarm set by an earlier turn.
    ///
    /// `until` is the time that was published last, and `timeout` the time from now until then: `None` blocks
    /// for ever, zero does not block.
    ///
    /// On Linux a timerfd keeps the time-out, to some tens of microseconds. kqueue keeps it to the
    /// nanosecond, but ends a wait of more than 1,000,000 s early. On Windows a waitable timer of high
    /// resolution keeps it. Where Windows has none (before 2018), it rounds the time-out up to a tick of its
    /// clock, 1 to 16 ms.
    ///
    /// # Errors
    ///
    /// The system's error if the wait fails. It fails only if this process has closed the poller's descriptor
    /// by mistake.
    pub fn block(self, until: u64, timeout: Option<Duration>, ready: &mut Vec<Waiter>) -> io::Result<()> {
        let most = self.most;
        self.block_by(until, timeout, ready, |poller, timeout| wait_for_events(poller, most, timeout))
    }

    /// Blocks as `block` does, and also until `station` has an event, which the caller then polls. Returns
    /// `true` if it has.
    ///
    /// # Errors
    ///
    /// As `block`.
    #[cfg(all(feature = "foreign", target_os = "linux"))]
    pub fn block_beside(
        self,
        station: &Station,
        until: u64,
        timeout: Option<Duration>,
        ready: &mut Vec<Waiter>,
    ) -> io::Result<bool> {
        let (mut is_ready, most) = (false, self.most);
        self.block_by(until, timeout, ready, |poller, timeout| {
            let [ours, foreign] = wait_for_any([poller.poll.as_raw_fd(), station.at()], timeout);
            is_ready = foreign;
            // A break that is not read here ends the next wait.
            if ours { wait_for_events(poller, most, Some(Duration::ZERO)) } else { Ok(false) }
        })?;
        Ok(is_ready)
    }

    /// Blocks by `wait`, which returns `false` if it has no events.
    fn block_by(
        mut self,
        until: u64,
        timeout: Option<Duration>,
        ready: &mut Vec<Waiter>,
        wait: impl FnOnce(&mut Poller, Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<()> {
        debug_assert!(
            self.until == Some(until) || timeout == Some(Duration::ZERO),
            "a turn blocks until what it has published"
        );
        let poller = &mut *self.poller;
        let timeout = match timeout {
            None => None,
            Some(Duration::ZERO) => Some(Duration::ZERO),
            Some(timeout) => poller.alarm.set(until, timeout),
        };
        let waited = self.netpoll.blocker.block(|| wait(poller, timeout));
        // `Blocker::block` has withdrawn it.
        self.until = None;
        // The wait has ended for events near any place.
        self.netpoll.deliver(poller, waited, u64::MAX, ready).map(drop)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.until.is_some() {
            self.netpoll.blocker.withdraw();
        }
        self.netpoll.blocker.yield_claim();
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("until", &self.until).finish_non_exhaustive()
    }
}

/// Returns what an event reports. An error or a hang-up ends every wait, and the next attempt returns it. A
/// read of TCP stops at an urgent byte, and the system reports no event for the bytes behind that byte which
/// have come already.
fn what(event: &Event) -> What {
    let over = event.is_read_closed() || event.is_write_closed() || event.is_error();
    What {
        read: event.is_readable() || event.is_read_closed() || event.is_error(),
        write: event.is_writable() || event.is_write_closed() || event.is_error(),
        unreported: over || event.is_priority(),
    }
}

fn all_slots_taken() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "as many descriptors are registered as a token can number")
}

// The system calls. Each stands with the reading of its error in a function that is never inlined. The
// reason: `errno` is a thread-local, and a caller that may resume on another OS thread must not keep its
// address.

/// Waits for some `most` events. Returns `false` if a signal ended the wait, which then has no events.
#[inline(never)]
fn wait_for_events(poller: &mut Poller, most: usize, timeout: Option<Duration>) -> io::Result<bool> {
    poller.batch = usize::from(most > BATCHES[0]);
    match poller.poll.poll(&mut poller.events[poller.batch], timeout) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

#[inline(never)]
fn register_with<S: Source + ?Sized>(registry: &Registry, source: &mut S, token: Token) -> io::Result<()> {
    registry.register(source, token, INTERESTS)
}

#[inline(never)]
fn deregister_from<S: Source + ?Sized>(registry: &Registry, source: &mut S) -> io::Result<()> {
    registry.deregister(source)
}

#[inline(never)]
fn wake(waker: &Waker) -> io::Result<()> {
    waker.wake()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Each M that looks for work asks whether there are sources, and each poll writes to the lock and the
    /// counts.
    #[test]
    fn the_number_of_sources_lies_apart_from_what_polls_write() {
        const { assert!(align_of::<Netpoll>() >= 128) };
        let line = |offset: usize| offset / 128;
        let read = line(offset_of!(Netpoll, arena) + Arena::OFFSET_OF_IN_USE);
        let written = [
            offset_of!(Netpoll, polling),
            offset_of!(Netpoll, polling) + size_of::<Polling>() - 1,
            offset_of!(Netpoll, waker),
        ];
        assert!(written.iter().all(|&offset| line(offset) != read), "{written:?}, in use: line {read}");
    }

    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    #[test]
    fn what_this_process_has_shut_is_reported_once_and_to_that_direction() {
        use crate::{Direction, Wait};
        use std::net::{Ipv4Addr, Shutdown};

        let netpoll = Arc::new(Netpoll::new().unwrap());
        let mut socket = crate::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let register = |socket: &mut _| {
            let desc = netpoll.register(socket).unwrap();
            // There is room to write.
            while netpoll.counters().polls == 0
                || netpoll.poll_now(usize::MAX, 0, &mut Vec::new()).is_none_or(|polled| polled.woken > 0)
            {
                netpoll.poll_now(usize::MAX, 0, &mut Vec::new());
            }
            desc
        };
        let wait = |desc: &PollDesc, direction, word| {
            assert_eq!(desc.wait(desc.prepare(direction), Waiter::new(word)), Ok(Wait::Park));
        };
        let polled = || {
            let mut ready = Vec::new();
            netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
            ready.sort_unstable_by_key(|waiter: &Waiter| waiter.word());
            ready.into_iter().map(Waiter::word).collect::<Vec<_>>()
        };
        let desc = register(&mut socket);
        wait(&desc, Direction::Read, 1);
        wait(&desc, Direction::Read, 2);
        wait(&desc, Direction::Write, 3);
        desc.report_shut(Shutdown::Write);
        assert_eq!(polled(), [3]);
        desc.report_shut(Shutdown::Read);
        assert_eq!(polled(), [1, 2]);
        wait(&desc, Direction::Read, 4);
        assert_eq!(polled(), []);

        // A report ends a wait that blocks, whichever comes first.
        for _ in 0..300 {
            let turn = netpoll.begin_block();
            let mut ready = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| desc.report_shut(Shutdown::Both));
                let mut turn = turn.unwrap();
                turn.publish(u64::MAX);
                turn.block(u64::MAX, None, &mut ready).unwrap();
            });
            assert_eq!(ready, [Waiter::new(4)]);
            wait(&desc, Direction::Read, 4);
        }

        // The next owner of a place gets nothing.
        desc.report_shut(Shutdown::Both);
        desc.deregister(&mut socket).unwrap();
        drop(desc);
        let next = netpoll.register(&mut socket).unwrap();
        assert_eq!(next.index(), 0);
        let seen = next.prepare(Direction::Read);
        assert_eq!(polled(), []);
        assert_eq!(next.wait(seen, Waiter::new(5)), Ok(Wait::Park));
    }
}
