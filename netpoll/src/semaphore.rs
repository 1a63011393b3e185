//! One direction of one descriptor: who waits for it, and whether something has happened since they looked.
//!
//! Two words. `slot` holds nobody or one waiter. `events` counts what has happened, and two flags share its
//! word: `CROWD` says that more waiters stand in a list beside the slot, `CLOSED` that nobody may wait any
//! more. `lib.rs` has the protocol as two lists. What makes it work is that while the descriptor has its
//! owner both words are only ever changed by read-modify-writes: those of one word stand in one order, and
//! one that acquires sees what came before every earlier one that releases. No fence is needed, nor any
//! `SeqCst`.
//!
//! - **slot**: the waiter's exchange stands before or after the event's. Before: the event finds the waiter.
//!   After: it acquires from the event's, so the waiter's next look at the count sees the event.
//! - **drained**: an attempt that has taken all there was says so by the count it had seen *before*. Whatever comes later
//!   changes the count; while it is the same, another attempt would find nothing, and may be left out.
//! - **crowd**: raising the flag stands before or after the event's addition. Before: the addition returns
//!   the flag. After: raising it returns the event.

use std::error::Error;
use std::{fmt, io};

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, broken};
use crate::waiter::Waiter;

const NOBODY: u64 = 0;

const CLOSED: u32 = 1;
const CROWD: u32 = 2;
/// The other end has said that nothing more will come, or there is an error: attempts find that out, events may not.
const OVER: u32 = 4;
const EVENT: u32 = 8;

/// No count that anybody sees: see `Seen::of`.
const NEVER_DRAINED: u32 = CROWD;

/// How many events somebody had seen before an attempt. It wraps after 2^29 events, in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl Seen {
    /// The crowd flag is no event: it is taken out of what is compared.
    fn of(events: u32) -> Seen {
        Seen(events & !CROWD)
    }

    fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    fn over(self) -> bool {
        self.0 & OVER != 0
    }
}

/// What a waiter is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// It is written down, and will be woken exactly once unless it withdraws first: park.
    Park,
    /// Something has happened since the attempt was prepared; it is not written down: try again.
    Ready,
}

/// The descriptor has been closed: there is nothing to wait for.
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
    /// Those who found the slot taken. `CROWD` is up whenever this is not empty and the lock is free.
    crowd: Mutex<Vec<Waiter>>,
}

impl Semaphore {
    pub(crate) fn new() -> Semaphore {
        Semaphore {
            slot: AtomicU64::new(NOBODY),
            events: AtomicU32::new(0),
            drained: AtomicU32::new(NEVER_DRAINED),
            crowd: Mutex::new(Vec::new()),
        }
    }

    /// What has happened up to now, to be read before an attempt. *Runs on: any thread.*
    #[inline]
    pub(crate) fn seen(&self) -> Seen {
        // Acquire keeps the attempt's own loads, in the kernel, behind this one. An old count costs one more
        // attempt; a count newer than the attempt would lose an event.
        Seen::of(self.events.load(Ordering::Acquire))
    }

    /// The attempt that `seen` was read for has taken all there was. *Runs on: any thread.*
    #[inline]
    pub(crate) fn set_drained(&self, seen: Seen) {
        let seen = if broken!("netpoll_drained_as_of_now") { self.seen() } else { seen };
        // Relaxed: it says something of that count alone, to whoever has read the same.
        self.drained.store(seen.0, Ordering::Relaxed);
    }

    /// Whether an attempt now would find nothing: then wait for what comes after `seen`. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_drained(&self, seen: Seen) -> bool {
        self.drained.load(Ordering::Relaxed) == seen.0 && !seen.over()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.seen().closed()
    }

    /// Writes the waiter down unless something has happened since `seen`. *Runs on: any thread.*
    pub(crate) fn wait(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        if self.enter_slot(waiter) { self.settle_slot(seen, waiter) } else { self.join_crowd(seen, waiter) }
    }

    /// Takes out a waiter who no longer waits. `true`: nobody will wake it. `false`: it has been, or is about
    /// to be, handed to whoever polls or closes. *Runs on: any thread.*
    pub(crate) fn withdraw(&self, waiter: Waiter) -> bool {
        self.leave_slot(waiter) || self.leave_crowd(waiter)
    }

    /// Something has happened, which may be the end: all who wait are to look again. *Runs on: whoever polls.*
    pub(crate) fn event(&self, over: bool, woken: &mut Vec<Waiter>) {
        if over {
            // Relaxed: the addition below publishes it.
            self.events.fetch_or(OVER, Ordering::Relaxed);
        }
        // AcqRel: release for a waiter's look at the count, acquire from one who raised the crowd flag.
        let before = self.events.fetch_add(EVENT, Ordering::AcqRel);
        self.wake_all(before, woken);
    }

    /// Nobody may wait any more; wakes all who do. *Runs on: any thread.*
    pub(crate) fn close(&self, woken: &mut Vec<Waiter>) {
        // As in `event`: to those who wait, the mark is one more change of the count.
        let before = self.events.fetch_or(CLOSED, Ordering::AcqRel);
        self.wake_all(before, woken);
    }

    /// As new, for the next owner. *Runs on: the only one who has the descriptor.*
    pub(crate) fn reset(&self) {
        self.crowd.lock().clear();
        self.slot.store(NOBODY, Ordering::Relaxed);
        self.events.store(0, Ordering::Relaxed);
        self.drained.store(NEVER_DRAINED, Ordering::Relaxed);
    }

    fn enter_slot(&self, waiter: Waiter) -> bool {
        if broken!("netpoll_wait_plain_store") {
            self.slot.store(waiter.word(), Ordering::Release);
            return true;
        }
        // AcqRel: acquire from the last event's exchange, whose count `settle_slot` must then see; release
        // for the next event's, which hands the word to someone who opens it.
        self.slot.compare_exchange(NOBODY, waiter.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The waiter stands in the slot; has an event missed it?
    fn settle_slot(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        // Relaxed: if an event's exchange stood before ours, ours has acquired its count already.
        let now = Seen::of(self.events.load(Ordering::Relaxed));
        if now == seen && !now.closed() || broken!("netpoll_wait_no_recheck") {
            return Ok(Wait::Park);
        }
        // If the event has the waiter by now then it is being woken, and parks for that.
        if self.leave_slot(waiter) { happened(now) } else { Ok(Wait::Park) }
    }

    fn leave_slot(&self, waiter: Waiter) -> bool {
        // Relaxed: nothing is handed over, and a read-modify-write does not end the release sequence of the
        // last event's exchange: a waiter who enters after us acquires from that all the same.
        self.slot.compare_exchange(waiter.word(), NOBODY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn join_crowd(&self, seen: Seen, waiter: Waiter) -> Result<Wait, Closed> {
        let mut crowd = self.crowd.lock();
        crowd.push(waiter);
        // AcqRel: the partner is the addition in `event`, or the mark in `close`.
        let now = Seen::of(self.events.fetch_or(CROWD, Ordering::AcqRel));
        if now == seen && !now.closed() {
            return Ok(Wait::Park);
        }
        // The lock has been ours all along, so the waiter is still there. The flag may stay up over an empty
        // list: the next event looks, and lowers it.
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

    /// `before` is the count's word as the event or the close found it.
    fn wake_all(&self, before: u32, woken: &mut Vec<Waiter>) {
        woken.extend(self.take_slot());
        if before & CROWD != 0 && !broken!("netpoll_event_ignores_crowd") {
            self.take_crowd(woken);
        }
    }

    fn take_slot(&self) -> Option<Waiter> {
        if broken!("netpoll_event_load_store") {
            let word = self.slot.load(Ordering::Acquire);
            self.slot.store(NOBODY, Ordering::Release);
            return Waiter::from_slot(word);
        }
        // An exchange even where nobody waits: the next waiter's exchange acquires the count from this one.
        // AcqRel: acquire from the waiter's exchange, release for the next waiter's.
        Waiter::from_slot(self.slot.swap(NOBODY, Ordering::AcqRel))
    }

    #[cold]
    fn take_crowd(&self, woken: &mut Vec<Waiter>) {
        let mut crowd = self.crowd.lock();
        // Relaxed: the flag goes up and down under the lock only. It goes down with an empty list.
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
    fn an_event_between_attempt_and_wait_is_not_overlooked() {
        let side = Semaphore::new();
        let seen = side.seen();
        assert_eq!(woken_by(|w| side.event(false, w)), []);
        assert_eq!(side.wait(seen, Waiter::new(2)), Ok(Wait::Ready));
        assert_eq!(side.wait(seen, Waiter::new(3)), Ok(Wait::Ready), "nor by the second who looks");
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
    fn one_who_finds_the_slot_taken_and_an_event_come_leaves_nothing_behind() {
        let side = Semaphore::new();
        let stale = side.seen();
        assert_eq!(woken_by(|w| side.event(false, w)), []);
        assert_eq!(side.wait(side.seen(), Waiter::new(2)), Ok(Wait::Park));
        assert_eq!(side.wait(stale, Waiter::new(3)), Ok(Wait::Ready));
        assert_eq!(woken_by(|w| side.event(false, w)), [2]);
    }

    #[test]
    fn what_was_drained_is_so_until_the_next_event_and_never_at_the_end() {
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
        assert!(!side.is_drained(side.seen()), "the end is there to be read");
        side.reset();
        assert!(!side.is_drained(side.seen()));
        side.close(&mut Vec::new());
        assert!(!side.is_drained(side.seen()), "nobody will report more");
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

    /// A descriptor that has something to take, one direction of it, and two threads that may wait; waiter
    /// `i` has the word `i + 1`.
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

        /// The attempt, which leaves what others may take.
        fn take(&self) -> bool {
            let mut stock = self.stock.lock();
            let some = *stock > 0;
            *stock -= usize::from(some);
            some
        }

        /// One change, reported once.
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

        /// The life of a wait. Nobody else ends it: a lost wake-up is a deadlock here.
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

        /// Likewise, of one who takes all there is, until there were so many, and makes no attempt in vain.
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

        fn assert_nobody_left(&self) {
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

    /// With three threads all schedules are too many: all those in which a thread is interrupted, where it
    /// could go on, at most three times.
    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn one_waits_while_events_come() {
        loom::model(|| {
            let world = World::new();
            let taker = run(&world, |world| {
                world.take_one(0).unwrap();
                world.take_one(0).unwrap();
            });
            world.bring(1);
            world.bring(1);
            taker.join().unwrap();
            world.assert_nobody_left();
        });
    }

    #[test]
    fn one_takes_all_and_looks_again_when_more_has_come() {
        loom::model(|| {
            let world = World::new();
            let taker = run(&world, |world| world.take_all(0, 2));
            world.bring(1);
            world.bring(1);
            taker.join().unwrap();
            world.assert_nobody_left();
        });
    }

    #[test]
    fn two_wait_and_one_event_brings_something_for_both() {
        bounded(|| {
            let world = World::new();
            let takers = [0, 1].map(|i| run(&world, move |world| world.take_one(i).unwrap()));
            world.bring(2);
            for taker in takers {
                taker.join().unwrap();
            }
            world.assert_nobody_left();
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
            world.assert_nobody_left();
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
            world.assert_nobody_left();
        });
    }

    #[test]
    fn one_leaves_the_slot_while_another_enters_and_an_event_comes() {
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
            world.assert_nobody_left();
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
            world.assert_nobody_left();
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
            world.assert_nobody_left();
        });
    }
}
