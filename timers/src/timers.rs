//! The timers of one P: checks, tidies and moves the P's heap in bounded portions.
//!
//! Each portion holds the heap's lock once; `timers/locked.rs` has the steps. Callbacks and drops run after
//! the unlock.

mod batch;
mod locked;
#[cfg(all(test, not(loom)))]
mod properties;

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::Handle;
use crate::clock::NEVER;
use crate::counts::Counts;
use crate::heap::Item;
use crate::index_set::IndexSet;
use crate::state::State::{self, *};
use crate::sync::{Mutex, broken, yield_now};
use crate::timer::{Claim, Timer};
use batch::{BATCH, Batch};
pub(crate) use locked::Locked;
use locked::Sorted;

/// How many heads one lock hold takes, moves or removes at most while it takes due timers.
const HEADS: usize = 64;

/// How many entries one portion of the P's owner examines for deleted timers. A portion takes some tens of
/// microseconds.
const PORTION: usize = 512;

/// How many entries one portion of adjust examines. A portion takes some hundred microseconds. In a model,
/// each portion examines one entry, so that the lock is released between any two entries.
const ADJUST_PORTION: usize = if cfg!(loom) { 1 } else { 16 * 1024 };
/// How many entries adjust examines in one check, in several portions.
const ADJUST_AT_CHECK: usize = 4 * ADJUST_PORTION;

/// How many heads an insertion moves or removes.
const HEADS_AT_INSERTION: usize = 4;
/// How many entries an insertion examines if more than a quarter of the heap is deleted. On average this
/// removes more than one deleted timer, and the insertion adds one timer. So such a heap shrinks.
const PORTION_AT_INSERTION: usize = 16;

/// The result of [`Heaps::check`](crate::Heaps::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The time by which this heap must be checked again; [`NEVER`] if no timer in the heap will fire.
    pub next: u64,
    /// True if any timer fired.
    pub ran: bool,
    /// True if the call has done its portion and there is more to tidy, to adjust or to fire: check again
    /// soon.
    pub more: bool,
}

impl<H: Handle> Item for H {
    #[inline]
    fn keep_place(&self, place: u32) {
        self.timer().keep_place(place);
    }
}

/// One P's heap and its counts.
// Aligned to two cache lines, because the processor fetches lines in pairs. So no two Ps share a pair.
#[repr(align(128))]
pub(crate) struct Timers<H: Handle> {
    pub(crate) counts: Counts,
    index: usize,
    /// The Ps with timers; [`Sorted`] says if this one is among them.
    occupied: Arc<IndexSet>,
    sorted: Mutex<Sorted<H>>,
}

impl<H: Handle> Drop for Timers<H> {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// The state of a timer in the heap, as the lock's holder found it. A timer that must be removed or moved is
/// claimed.
enum Met {
    Waiting,
    /// The timer is in Modifying, and its next state is not known yet.
    Busy,
    /// The timer was in Deleted and is in Removing.
    Deleted(Claim),
    /// The timer was in ModifiedEarlier or ModifiedLater and is in Moving. The time is the new one; the
    /// timer's `when` has it already.
    Modified(Claim, u64),
}

impl<H: Handle> Timers<H> {
    pub(crate) fn new(index: usize, occupied: Arc<IndexSet>) -> Self {
        Self { counts: Counts::new(), index, occupied, sorted: Mutex::new(Sorted::new()) }
    }

    pub(crate) fn lock(&self) -> Locked<'_, H> {
        Locked::new(self, self.sorted.lock())
    }

    /// Locks the heap; returns `None` if another thread has the lock.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, H>> {
        Some(Locked::new(self, self.sorted.try_lock()?))
    }

    /// Fires the due timers: see [`Heaps::check`](crate::Heaps::check). Go: `checkTimers`. Runs on: any
    /// thread; `own` is true on the owner of the P.
    #[inline(always)]
    pub(crate) fn check(&self, now: u64, own: bool, fire: &mut impl FnMut(H, u64, u64)) -> Checked {
        // A timer for NEVER is never due.
        let now = now.min(NEVER - 1);
        let mut sweep = own && self.counts.mostly_deleted();
        let (mut ran, mut removed, mut adjusted) = (false, 0, 0);
        let over = |sweep: bool, ran: bool, removed: usize, adjusted: usize| {
            let next = self.counts.earliest();
            if next > now && !sweep {
                return Some(Checked { next, ran, more: own && self.counts.many_deleted(PORTION) });
            }
            (removed >= PORTION || adjusted >= ADJUST_AT_CHECK).then_some(Checked { next, ran, more: true })
        };
        if let Some(checked) = over(sweep, ran, removed, adjusted) {
            return checked;
        }
        // One batch, filled in place, because a copy would copy each of its places. `fire` empties it, also
        // if a callback panics, so it has nothing to drop, and no place needs a look.
        let mut due = ManuallyDrop::new(Batch::new());
        loop {
            self.take_due(now, sweep, &mut due);
            // Sweeps once a call: a sweep cannot remove a deleted timer in a brief state, so more sweeps
            // might not end.
            sweep = false;
            removed += due.removed;
            adjusted += due.adjusted;
            ran |= due.taken > 0;
            due.fire(fire);
            if let Some(checked) = over(sweep, ran, removed, adjusted) {
                return checked;
            }
        }
    }

    /// Adjusts a portion, and takes due timers out of the heap into the empty batch `due`; then sweeps a
    /// portion if `sweep`. The callbacks run after this, without the lock: they may add timers (Go's issue
    /// 35532).
    fn take_due(&self, now: u64, sweep: bool, due: &mut Batch<H>) {
        let mut locked = self.lock();
        due.adjusted = locked.adjust(now, ADJUST_PORTION);
        let mut heads = 0;
        while due.taken < BATCH && heads < HEADS && locked.run_head(now, due) {
            heads += 1;
        }
        if sweep {
            locked.sweep(PORTION);
        }
        due.removed = locked.count_removed();
    }

    /// Removes a portion of the deleted timers if they are many. Returns `true` if they were many: call again
    /// soon. Runs on: the owner of the P.
    pub(crate) fn tidy(&self) -> bool {
        let many = self.counts.many_deleted(PORTION);
        if many {
            self.lock().sweep(PORTION);
        }
        many
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the time by which this heap must be checked; NEVER if it is empty. An empty heap leaves the
    /// set of heaps with timers. Runs on: any thread.
    #[inline]
    pub(crate) fn look(&self) -> u64 {
        let earliest = self.counts.earliest();
        if earliest == NEVER && self.counts.timers() == 0 {
            self.leave_out();
        }
        earliest
    }

    /// Leaves the set, unless another thread has the lock, and so may be adding a timer.
    fn leave_out(&self) {
        if broken!("timers_leave_out_unlocked") {
            self.occupied.remove(self.index);
        } else if let Some(mut sorted) = self.sorted.try_lock() {
            sorted.leave_if_empty(&self.occupied, self.index);
        }
    }

    /// Moves every live timer to `to`, and removes the deleted timers. Returns the earliest time of a moved
    /// timer. Go: `moveTimers`. Runs on: any thread.
    pub(crate) fn move_all(&self, to: &Self) -> u64 {
        assert_ne!(self.index, to.index, "timers: a heap cannot move to itself");
        // Locks the heap with the lower index first. Two movers use the same order, so they cannot deadlock.
        let (mut from, mut to) = if self.index < to.index {
            let from = self.lock();
            (from, to.lock())
        } else {
            let to = to.lock();
            (self.lock(), to)
        };
        from.move_to(&mut to)
    }

    /// Stops and removes every timer: a timer may outlive its heap and be armed again in another heap. Runs
    /// on: the thread that drops the heap.
    fn release_all(&self) {
        let mut locked = self.lock();
        locked.drain(|h| {
            h.timer().delete(|_| &self.counts);
            match self.meet(h.timer()) {
                Met::Deleted(claim) => h.timer().settle(claim, Removed),
                Met::Waiting | Met::Busy | Met::Modified(..) => unreachable!("no other thread has this heap"),
            }
            Some(h)
        });
    }

    /// Reads the state of a timer of this heap, and claims the timer if it must be removed or moved. Runs on:
    /// the lock's holder.
    fn meet(&self, timer: &Timer) -> Met {
        loop {
            let met = match timer.state() {
                Waiting => return Met::Waiting,
                Modifying => return Met::Busy,
                Deleted => self.claim_deleted(timer).map(Met::Deleted),
                from @ (ModifiedEarlier | ModifiedLater) => {
                    self.claim_modified(timer, from).map(|(claim, when)| Met::Modified(claim, when))
                }
                state @ (NoStatus | Running | Removing | Removed | Moving) => self.corrupt(state),
            };
            if let Some(met) = met {
                return met;
            }
        }
    }

    /// Claims a timer, to remove it. Returns `None` if the timer is not in Deleted. Runs on: the lock's
    /// holder.
    fn claim_deleted(&self, timer: &Timer) -> Option<Claim> {
        let claim = timer.claim(Deleted, Removing)?;
        self.counts.count_removed();
        Some(claim)
    }

    /// Claims a modified timer, to move it to its new time. Returns the claim and that time; `None` if the
    /// timer is not in `from`. Runs on: the lock's holder.
    fn claim_modified(&self, timer: &Timer, from: State) -> Option<(Claim, u64)> {
        let claim = timer.claim(from, Moving)?;
        if from == ModifiedEarlier {
            self.counts.uncount_earlier();
        }
        let when = timer.take_nextwhen(&claim);
        Some((claim, when))
    }

    /// Claims a timer that must leave the heap. Returns the claim and the time of a live timer; for a deleted
    /// timer, the claim as an error. Waits while the timer is in Modifying. Runs on: the lock's holder.
    fn meet_to_move(&self, timer: &Timer) -> Result<(Claim, u64), Claim> {
        loop {
            match self.meet(timer) {
                Met::Waiting => {
                    if let Some(claim) = timer.claim(Waiting, Moving) {
                        return Ok((claim, timer.when()));
                    }
                }
                Met::Busy => yield_now(),
                Met::Modified(claim, when) => return Ok((claim, when)),
                Met::Deleted(claim) => return Err(claim),
            }
        }
    }

    #[cold]
    fn corrupt(&self, state: State) -> ! {
        panic!("timers: heap {} is corrupt: it holds a timer in {state:?}", self.index)
    }
}

#[cfg(all(test, loom))]
mod models {
    use crate::models::{World, explore};
    use loom::thread::spawn;

    #[test]
    fn owner_against_thief() {
        explore(2, || {
            let world = World::new(1);
            world.add(0, 10, 0, 1);
            world.add(0, 10, 0, 2);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false).ran
            });
            world.check(0, 10, true);
            thief.join().unwrap();
            assert_eq!(world.fired(), [1, 2]);
            world.finish(10);
        });
    }

    #[test]
    fn a_tick_fires_once() {
        explore(5, || {
            let world = World::new(1);
            // The next tick is beyond the end of the clock: the ticker fires once only.
            world.add(0, 10, crate::clock::NEVER, 1);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false).ran
            });
            let ran = world.check(0, 10, true).ran;
            assert!(ran ^ thief.join().unwrap());
            world.heaps.verify_idle(0);
        });
    }

    #[test]
    fn delete_against_owner_and_thief() {
        explore(2, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false).ran
            });
            let deleter = spawn({
                let world = world.clone();
                move || world.delete(&timer)
            });
            world.check(0, 10, true);
            thief.join().unwrap();
            deleter.join().unwrap();
            world.finish(10);
        });
    }

    /// A timer is modified to an earlier time while a walk looks for another timer. The next check fires
    /// both.
    #[test]
    fn modify_against_adjust() {
        explore(5, || {
            let world = World::new(1);
            let (timer, other) = (world.add(0, 100, 0, 1), world.add(0, 90, 0, 2));
            world.modify_unlocked(0, &other, 5, 3);
            let modifier = spawn({
                let world = world.clone();
                move || world.modify_unlocked(0, &timer, 6, 4)
            });
            world.check(0, 10, true);
            assert_eq!(modifier.join().unwrap().wake_for, Some(6));
            world.check(0, 10, false);
            assert_eq!(world.fired(), [3, 4]);
            world.finish(100);
        });
    }

    /// Adjust moves a time from `modified_earliest` to `timer0_when`. A reader always finds the time in one
    /// of these fields.
    #[test]
    fn earliest_is_never_too_late() {
        explore(5, || {
            let world = World::new(1);
            let (soon, later) = (world.add(0, 100, 0, 1), world.add(0, 100, 0, 2));
            world.modify_unlocked(0, &soon, 5, 3);
            world.modify_unlocked(0, &later, 50, 4);
            let checker = spawn({
                let world = world.clone();
                move || world.check(0, 10, false)
            });
            assert!(world.earliest(0) <= 50);
            assert_eq!(checker.join().unwrap().next, 50);
            world.finish(100);
        });
    }

    /// A modifier publishes a time while adjust moves another time to `timer0_when`. A reader never gets too
    /// late a time.
    #[test]
    fn earliest_is_never_too_late_for_a_modifier() {
        explore(5, || {
            let world = World::new(1);
            let (soon, later) = (world.add(0, 100, 0, 1), world.add(0, 100, 0, 2));
            world.modify_unlocked(0, &soon, 20, 3);
            let checker = spawn({
                let world = world.clone();
                move || world.check(0, 20, false)
            });
            world.modify_unlocked(0, &later, 50, 4);
            assert!(world.earliest(0) <= 50);
            checker.join().unwrap();
            assert_eq!(world.earliest(0), 50);
            world.finish(100);
        });
    }
}
