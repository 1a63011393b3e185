//! The semaphore of one direction of a descriptor: its waiters, and a count of events.
//!
//! There are two words. `slot` is empty or holds a waiter. `events` counts events and has flags: `CROWD` says
//! that more waiters stand in a list beside the slot, `CLOSED` that further waits are errors. `lib.rs` has
//! the protocol as two lists. It needs neither a fence nor `SeqCst`, because while the descriptor has its
//! owner both words are changed by read-modify-writes only. The read-modify-writes of a word have a single
//! order. Each acquire among them sees all that came before every earlier release.
//!
//! - **slot**: the waiter's exchange comes before or after the event's exchange. Before: the event finds the
//!   waiter. After: the waiter acquires from the event, so its next look at the count sees the event.
//! - **drained**: an attempt that took all there was records the count from *before* the attempt. A later
//!   event changes the count. While the count is the same, another attempt would find nothing and can be left
//!   out.
//! - **crowd**: raising the flag comes before or after the event's addition. Before: the addition returns the
//!   flag. After: raising the flag returns the event.

use std::error::Error;
use std::{fmt, io};

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, broken};
use crate::waiter::Waiter;

/// The word of an empty slot.
const EMPTY: u64 = 0;

const CLOSED: u32 = 1;
const CROWD: u32 = 2;
/// Attempts may find what no event reports: an end, an error, bytes behind an urgent byte. The mark stays, so
/// that from then on each wait follows an attempt.
const UNREPORTED: u32 = 4;
const EVENT: u32 = 8;

/// A value that `Seen::of` never has.
const NEVER_DRAINED: u32 = CROWD;

/// The count of events before an attempt. An attempt would have to last for 2^29 events to mistake it for a
/// later count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl Seen {
    /// The crowd flag is not an event, so comparisons leave it out.
    fn of(events: u32) -> Seen {
        Seen(events & !CROWD)
    }

    fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    fn unreported(self) -> bool {
        self.0 & UNREPORTED != 0
    }
}

/// What the waiter must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// Park: the waiter is registered, and is woken exactly once unless it withdraws first.
    Park,
    /// Try again: an event has come since the attempt was prepared, and the waiter is not registered.
    Ready,
}

/// The descriptor has been closed, so no event will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the descriptor has been closed")
    }
}

impl Error for Closed {}

impl From<Closed> for io::Error {
    fn from(closed: Closed) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, closed)
    }
}

pub(crate) struct Semaphore {
    slot: AtomicU64,
    events: AtomicU32,
    /// The count before the attempt that last took all there was.
    drained: AtomicU32,
    /// Waiters that found the slot taken. `CROWD` is up whenever the list is not empty and the lock is free.
    crowd: Mutex<Vec<Waiter>>,
}

impl Semaphore {
    pub(crate) fn new() -> Semaphore {
        Semaphore {
            slot: AtomicU64::new(EMPTY),
            events: AtomicU32::new(0),
            drained: AtomicU32::new(NEVER_DRAINED),
            crowd: Mutex::new(Vec::new()),
        }
    }

    /// The count of events up to now. A caller reads it before an attempt. *Runs on: any thread.*
    #[inline]
    pub(crate) fn seen(&self) -> Seen {
        // Acquire: keeps the attempt's own loads, in the kernel, behind this load. An old count costs another
        // attempt; a count newer than the attempt would lose an event.
        Seen::of(self.events.load(Ordering::Acquire))
    }

    /// Records that the attempt after `seen` took all there was. *Runs on: any thread.*
    #[inline]
    pub(crate) fn set_drained(&self, seen: Seen) {
        let seen = if broken!("netpoll_drained_as_of_now") { self.seen() } else { seen };
        // Relaxed: the record concerns that count alone, and only a caller with the same count compares it.
        self.drained.store(seen.0, Ordering::Relaxed);
    }

    /// Returns `true` if an attempt now would find nothing; then the caller waits for an event after `seen`.
    /// *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_drained(&self, seen: Seen) -> bool {
        self.drained.load(Ordering::Relaxed) == seen.0 && !seen.unreported()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.seen().closed()
    }

    /// Registers the waiter, unless an event has come since `seen`. *Runs on: any thread.*
    pub(crate) fn wait(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        if self.enter_slot(waiter) { self.settle_slot(seen, waiter) } else { self.join_crowd(seen, waiter) }
    }

    /// Removes a waiter that no longer waits. Returns `true` if it will not be woken; `false` if the poller
    /// or a closer has it already. *Runs on: any thread.*
    pub(crate) fn withdraw(&self, waiter: Waiter) -> bool {
        self.leave_slot(waiter) || self.leave_crowd(waiter)
    }

    /// Counts an event and wakes all waiters. `unreported`: from now on an attempt may find what no event
    /// reports. *Runs on: the poller.*
    pub(crate) fn event(&self, unreported: bool, woken: &mut Vec<Waiter>) {
        if unreported {
            // Relaxed: the addition below publishes it.
            self.events.fetch_or(UNREPORTED, Ordering::Relaxed);
        }
        // AcqRel: release for a waiter's look at the count; acquire from a waiter that raised the crowd flag
        // (`join_crowd`).
        let before = self.events.fetch_add(EVENT, Ordering::AcqRel);
        self.wake_all(before, woken);
    }

    /// Closes: wakes all waiters, and further waits are errors. *Runs on: any thread.*
    pub(crate) fn close(&self, woken: &mut Vec<Waiter>) {
        // AcqRel: as in `event`. To a waiter the mark is another change of the count.
        let before = self.events.fetch_or(CLOSED, Ordering::AcqRel);
        self.wake_all(before, woken);
    }

    /// Makes the semaphore as new, for the next owner. *Runs on: the thread that takes the slot.*
    pub(crate) fn reset(&self) {
        self.crowd.lock().clear();
        self.slot.store(EMPTY, Ordering::Relaxed);
        self.events.store(0, Ordering::Relaxed);
        self.drained.store(NEVER_DRAINED, Ordering::Relaxed);
    }

    fn enter_slot(&self, waiter: Waiter) -> bool {
        if broken!("netpoll_wait_plain_store") {
            self.slot.store(waiter.word(), Ordering::Release);
            return true;
        }
        // AcqRel: acquire from the last event's exchange, so that `settle_slot` sees its count. Release for
        // the next event's exchange, which hands the word to the poller.
        self.slot.compare_exchange(EMPTY, waiter.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Decides the outcome of `wait` for a waiter that has entered the slot. If an event came before that,
    /// takes the waiter out of the slot.
    fn settle_slot(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        // Relaxed: if an event's exchange came before the waiter's, the waiter's exchange has acquired that
        // count.
        let now = Seen::of(self.events.load(Ordering::Relaxed));
        if now == seen && !now.closed() || broken!("netpoll_wait_no_recheck") {
            return Ok(Wait::Park);
        }
        // If `leave_slot` fails, an event has taken the waiter and will wake it: the waiter parks until then.
        if self.leave_slot(waiter) { happened(now) } else { Ok(Wait::Park) }
    }

    fn leave_slot(&self, waiter: Waiter) -> bool {
        // Relaxed: nothing is handed over. A read-modify-write does not end the release sequence of the last
        // event's exchange, so a later waiter still acquires from that exchange.
        self.slot.compare_exchange(waiter.word(), EMPTY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn join_crowd(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        let mut crowd = self.crowd.lock();
        crowd.push(waiter);
        // AcqRel: the partners are the addition in `event` and the mark in `close`.
        let now = Seen::of(self.events.fetch_or(CROWD, Ordering::AcqRel));
        if now == seen && !now.closed() {
            return Ok(Wait::Park);
        }
        // This thread has held the lock all along, so the waiter is still the last. The flag may stay up over
        // an empty list: the next event lowers it.
        crowd.pop();
        happened(now)
    }

    #[cold]
    fn leave_crowd(&self, waiter: Waiter) -> bool {
        let mut crowd = self.crowd.lock();
        match crowd.iter().position(|other| *other == waiter) {
            Some(place) => {
                crowd.swap_remove(place);
                true
            }
            None => false,
        }
    }

    /// Takes all waiters. `before` is the count's word as the event or the close found it.
    fn wake_all(&self, before: u32, woken: &mut Vec<Waiter>) {
        woken.extend(self.take_slot());
        if before & CROWD != 0 && !broken!("netpoll_event_ignores_crowd") {
            self.take_crowd(woken);
        }
    }

    fn take_slot(&self) -> Option<Waiter> {
        if broken!("netpoll_event_load_store") {
            let word = self.slot.load(Ordering::Acquire);
            self.slot.store(EMPTY, Ordering::Release);
            return Waiter::from_slot(word);
        }
        // An exchange even if the slot is empty: the next waiter's exchange acquires the count from this
        // exchange.
        // AcqRel: acquire from the waiter's exchange, release for the next waiter's exchange.
        Waiter::from_slot(self.slot.swap(EMPTY, Ordering::AcqRel))
    }

    #[cold]
    fn take_crowd(&self, woken: &mut Vec<Waiter>) {
        let mut crowd = self.crowd.lock();
        // Relaxed: the flag changes under the lock only. It goes down together with emptying the list.
        self.events.fetch_and(!CROWD, Ordering::Relaxed);
        woken.append(&mut crowd);
    }
}

fn happened(now: Seen) -> Result<Wait, Closed> {
    if now.closed() { Err(Closed) } else { Ok(Wait::Ready) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn woken_by(act: impl FnOnce(&mut Vec<Waiter>)) -> Vec<u64> {
        let mut woken = Vec::new();
        act(&mut woken);
        woken.into_iter().map(Waiter::word).collect()
    }

    #[test]
    fn an_event_between_attempt_and_wait_is_seen() {
        let side = Semaphore::new();
        let seen = side.seen();
        assert_eq!(woken_by(|w| side.event(false, w)), []);
        assert_eq!(side.wait(seen, Waiter::new(2)), Ok(Wait::Ready));
        assert_eq!(side.wait(seen, Waiter::new(3)), Ok(Wait::Ready), "a second waiter sees the event, too");
        assert_eq!(side.wait(side.seen(), Waiter::new(2)), Ok(Wait::Park));
        assert_eq!(woken_by(|w| side.event(false, w)), [2]);
        assert_eq!(woken_by(|w| side.event(false, w)), []);
    }

    #[test]
    fn an_event_wakes_the_crowd_once() {
        let side = Semaphore::new();
        let seen = side.seen();
        for word in 1..=5 {
            assert_eq!(side.wait(seen, Waiter::new(word)), Ok(Wait::Park));
        }
        assert!(side.withdraw(Waiter::new(1)) && side.withdraw(Waiter::new(4)));
        assert!(!side.withdraw(Waiter::new(4)));
        let mut woken = woken_by(|w| side.event(false, w));
        woken.sort_unstable();
        assert_eq!(woken, [2, 3, 5]);
        assert_eq!(woken_by(|w| side.event(false, w)), []);
    }

    #[test]
    fn a_waiter_that_missed_an_event_leaves_nothing_in_the_crowd() {
        let side = Semaphore::new();
        let stale = side.seen();
        assert_eq!(woken_by(|w| side.event(false, w)), []);
        assert_eq!(side.wait(side.seen(), Waiter::new(2)), Ok(Wait::Park));
        assert_eq!(side.wait(stale, Waiter::new(3)), Ok(Wait::Ready));
        assert_eq!(woken_by(|w| side.event(false, w)), [2]);
    }

    #[test]
    fn drained_lasts_until_the_next_event_and_never_holds_at_the_end() {
        let side = Semaphore::new();
        assert!(!side.is_drained(side.seen()));
        let seen = side.seen();
        side.set_drained(seen);
        assert!(side.is_drained(side.seen()));
        side.event(false, &mut Vec::new());
        assert!(!side.is_drained(side.seen()));
        side.set_drained(seen);
        assert!(!side.is_drained(side.seen()), "an event has come during that attempt");
        side.event(true, &mut Vec::new());
        side.set_drained(side.seen());
        assert!(!side.is_drained(side.seen()), "an attempt would find the end");
        side.reset();
        assert!(!side.is_drained(side.seen()));
        side.close(&mut Vec::new());
        assert!(!side.is_drained(side.seen()), "no event will follow");
    }

    #[test]
    fn closing_wakes_all_and_stays() {
        let side = Semaphore::new();
        let seen = side.seen();
        assert_eq!(side.wait(seen, Waiter::new(2)), Ok(Wait::Park));
        assert_eq!(side.wait(seen, Waiter::new(3)), Ok(Wait::Park));
        assert_eq!(woken_by(|w| side.close(w)), [2, 3]);
        assert_eq!(side.wait(seen, Waiter::new(4)), Err(Closed));
        assert_eq!(side.wait(side.seen(), Waiter::new(4)), Err(Closed));
        assert_eq!(woken_by(|w| side.event(false, w)), []);
        assert_eq!(woken_by(|w| side.close(w)), []);
        side.reset();
        assert_eq!(side.wait(side.seen(), Waiter::new(4)), Ok(Wait::Park));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::model::Gate;
    use loom::sync::Arc;
    use loom::thread::{self, JoinHandle};

    /// A direction of a descriptor with a stock of pieces, and two threads that may wait. Waiter `i` has the
    /// word `i + 1`.
    struct World {
        side: Semaphore,
        stock: Mutex<usize>,
        gates: [Gate; 2],
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                side: Semaphore::new(),
                stock: Mutex::new(0),
                gates: [Gate::new(), Gate::new()],
            })
        }

        /// The attempt: takes a piece if there is any.
        fn take(&self) -> bool {
            let mut stock = self.stock.lock();
            let some = *stock > 0;
            *stock -= usize::from(some);
            some
        }

        /// Adds pieces, and reports that by a single event.
        fn bring(&self, pieces: usize) {
            *self.stock.lock() += pieces;
            self.wake(|woken| self.side.event(false, woken));
        }

        fn wake(&self, act: impl FnOnce(&mut Vec<Waiter>)) {
            let mut woken = Vec::new();
            act(&mut woken);
            for waiter in woken {
                self.gates[waiter.word() as usize - 1].open();
            }
        }

        /// Takes a piece, and waits for it if need be. Only an event ends the wait: a lost wake-up is a
        /// deadlock here.
        fn take_one(&self, i: usize) -> Result<(), Closed> {
            loop {
                let seen = self.side.seen();
                if self.take() {
                    return Ok(());
                }
                if self.side.wait(seen, waiter(i))? == Wait::Park {
                    self.gates[i].wait();
                }
            }
        }

        /// Takes all there is, again and again until it has taken `pieces`. It makes no attempt in vain.
        fn take_all(&self, i: usize, pieces: usize) {
            let mut taken = 0;
            while taken < pieces {
                let seen = self.side.seen();
                if !self.side.is_drained(seen) {
                    let some = std::mem::take(&mut *self.stock.lock());
                    if some > 0 {
                        taken += some;
                        self.side.set_drained(seen);
                        continue;
                    }
                }
                if self.side.wait(seen, waiter(i)).unwrap() == Wait::Park {
                    self.gates[i].wait();
                }
            }
        }

        fn assert_no_waiter_left(&self) {
            assert_eq!(self.side.take_slot(), None);
            assert!(self.side.crowd.lock().is_empty());
        }
    }

    fn waiter(i: usize) -> Waiter {
        Waiter::new(i as u64 + 1)
    }

    fn run<T: 'static>(world: &Arc<World>, f: impl FnOnce(&World) -> T + 'static) -> JoinHandle<T> {
        let world = Arc::clone(world);
        thread::spawn(move || f(&world))
    }

    fn woken_by(act: impl FnOnce(&mut Vec<Waiter>)) -> Vec<Waiter> {
        let mut woken = Vec::new();
        act(&mut woken);
        woken
    }

    /// Explores the schedules with at most three preemptions. With three threads all schedules would be too
    /// many.
    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // It has `LOOM_MAX_PREEMPTIONS`, by which ci/models.sh may allow fewer.
        let allowed = builder.preemption_bound.unwrap_or(3);
        builder.preemption_bound = Some(allowed.min(3));
        builder.check(model);
    }

    #[test]
    fn a_waiter_gets_each_of_two_events() {
        loom::model(|| {
            let world = World::new();
            let taker = run(&world, |world| {
                world.take_one(0).unwrap();
                world.take_one(0).unwrap();
            });
            world.bring(1);
            world.bring(1);
            taker.join().unwrap();
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn a_drained_waiter_tries_again_after_an_event() {
        loom::model(|| {
            let world = World::new();
            let taker = run(&world, |world| world.take_all(0, 2));
            world.bring(1);
            world.bring(1);
            taker.join().unwrap();
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn one_event_wakes_both_waiters() {
        bounded(|| {
            let world = World::new();
            let takers = [0, 1].map(|i| run(&world, move |world| world.take_one(i).unwrap()));
            world.bring(2);
            for taker in takers {
                taker.join().unwrap();
            }
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn withdrawn_or_woken_never_both_never_neither() {
        loom::model(|| {
            let world = World::new();
            assert_eq!(world.side.wait(world.side.seen(), waiter(0)), Ok(Wait::Park));
            let event = run(&world, |world| woken_by(|woken| world.side.event(false, woken)));
            let withdrawn = world.side.withdraw(waiter(0));
            let expected = if withdrawn { vec![] } else { vec![waiter(0)] };
            assert_eq!(event.join().unwrap(), expected);
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn withdrawn_from_the_crowd_or_woken_never_both_never_neither() {
        loom::model(|| {
            let world = World::new();
            let seen = world.side.seen();
            assert_eq!(world.side.wait(seen, waiter(0)), Ok(Wait::Park));
            assert_eq!(world.side.wait(seen, waiter(1)), Ok(Wait::Park));
            let event = run(&world, |world| woken_by(|woken| world.side.event(false, woken)));
            let first = world.side.withdraw(waiter(0));
            let second = world.side.withdraw(waiter(1));
            let woken = event.join().unwrap();
            assert_eq!(woken.contains(&waiter(0)), !first);
            assert_eq!(woken.contains(&waiter(1)), !second);
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn a_waiter_leaves_the_slot_while_another_enters_and_an_event_comes() {
        bounded(|| {
            let world = World::new();
            assert_eq!(world.side.wait(world.side.seen(), waiter(0)), Ok(Wait::Park));
            let taker = run(&world, |world| world.take_one(1).unwrap());
            let leaver = run(&world, |world| {
                if !world.side.withdraw(waiter(0)) {
                    world.gates[0].wait();
                }
            });
            world.bring(1);
            taker.join().unwrap();
            leaver.join().unwrap();
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn closing_ends_every_wait() {
        bounded(|| {
            let world = World::new();
            let takers = [0, 1].map(|i| run(&world, move |world| world.take_one(i)));
            world.wake(|woken| world.side.close(woken));
            for taker in takers {
                assert_eq!(taker.join().unwrap(), Err(Closed));
            }
            world.assert_no_waiter_left();
        });
    }

    #[test]
    fn an_event_and_a_close_wake_one_waiter_once() {
        loom::model(|| {
            let world = World::new();
            let event = run(&world, |world| woken_by(|woken| world.side.event(false, woken)));
            let close = run(&world, |world| woken_by(|woken| world.side.close(woken)));
            let outcome = world.side.wait(world.side.seen(), waiter(0));
            let mut woken = event.join().unwrap();
            woken.extend(close.join().unwrap());
            let expected = if outcome == Ok(Wait::Park) { vec![waiter(0)] } else { vec![] };
            assert_eq!(woken, expected, "{outcome:?}");
            world.assert_no_waiter_left();
        });
    }
}
