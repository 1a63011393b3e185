//! One P's heap while its lock is held: the lock's holder inserts, takes due timers, adjusts, sweeps, and
//! moves to another heap.
//!
//! Only the lock's holder, the owner of the P or a thief, moves entries. Only the lock's holder changes a
//! timer's `when` and owner, and its state to Running, Removing, Removed, Moving or NoStatus.
//!
//! # The walk of adjust
//!
//! Adjust moves each timer that was modified to an earlier time into its place. Adjust must examine all
//! entries, in portions; between two portions other threads insert, fire and sweep. A cursor goes from the
//! last entry to the first:
//!
//! ```text
//! entries   0 .. cursor            cursor .. len
//!           not examined yet       examined: each timer there that was modified to an earlier time
//!                                  before the walk began has been moved
//! ```
//!
//! This must hold after each change of the heap:
//!
//! - A removal at or before the cursor brings no unexamined entry to a place behind the cursor
//!   ([`Heap::remove`]).
//! - A removal behind the cursor may move the last entry up past it: as for a push, below
//!   ([`Locked::remove_deleted`]).
//! - The walk moves an entry within the heap ([`Heap::reschedule`]). If the entry moves up, the entries on
//!   its way stay before the cursor. If the entry moves down, only examined entries rise.
//! - An entry that a push or a modify moves up moves each entry on its way one step down. One of these may
//!   pass the cursor unexamined. So the inserter or modifier examines that entry first
//!   ([`Locked::examine_crossing`]).
//! - A sweep would remove entries anywhere. While a walk is under way, a sweep performs a portion of the walk
//!   instead.
//!
//! `Counts::earliest` must not be too late while a walk is under way. So the published time is at most the
//! time that adjust took out of `modified_earliest` when the walk began.

use std::ptr;

use crate::Handle;
use crate::clock::NEVER;
use crate::heap::{Heap, Spare};
use crate::index_set::IndexSet;
use crate::state::State::{self, *};
use crate::sync::{MutexGuard, broken, yield_now};
use crate::timer::{Claim, Modified, Timer, next_tick};

use super::batch::Batch;
use super::{HEADS_AT_INSERTION, Met, PORTION_AT_INSERTION, Timers};

/// How many entries a walk reads at once, without a branch between them. Each timer is a cache miss, and so
/// the processor fetches these timers together. A walk of a million entries takes 25 instead of 50 ms.
const AT_ONCE: usize = 16;

/// An entry that a walk moves or removes counts as so many entries that the walk only examines.
const MOVE_COST: usize = 8;

/// The data under the lock.
pub(super) struct Sorted<H> {
    heap: Heap<H>,
    /// The sweep has examined the entries from here on. If this is 0 or beyond the last entry, the sweep
    /// begins anew.
    sweep: usize,
    adjust: Walk,
    /// This heap is in the set of heaps with timers. So a thread that adds a timer reads no line that other Ps
    /// share.
    is_listed: bool,
}

/// The walk of adjust: see the head of this file.
struct Walk {
    /// The walk has examined the entries from here on. 0: no walk is under way.
    cursor: usize,
    /// No timer that the walk has yet to find is due before this time. NEVER if no walk is under way.
    time: u64,
}

impl Walk {
    const NONE: Self = Self { cursor: 0, time: NEVER };

    fn is_under_way(&self) -> bool {
        self.cursor > 0
    }
}

impl<H: Handle> Sorted<H> {
    pub(super) fn new() -> Self {
        Self { heap: Heap::new(), sweep: 0, adjust: Walk::NONE, is_listed: false }
    }

    /// Takes this heap, that of P `p`, out of the set of heaps with timers, if it is empty.
    pub(super) fn leave_if_empty(&mut self, occupied: &IndexSet, p: usize) {
        if self.heap.is_empty() {
            self.is_listed = false;
            occupied.remove(p);
        }
    }
}

/// The lock of one P's timers. Its drop publishes the state of the heap, unlocks, and then drops the handles
/// of the removed timers. Each handle may be the last reference to a large object, so handles are dropped
/// without the lock.
pub(crate) struct Locked<'a, H: Handle> {
    timers: &'a Timers<H>,
    // Fields are dropped in the order of their declaration. Dropping this field unlocks.
    sorted: MutexGuard<'a, Sorted<H>>,
    // The handles and the memory are dropped after the unlock.
    removed: Handles<H>,
    spare: Option<Spare<H>>,
}

/// Handles to be dropped. Mostly there is one handle; `first` holds it without an allocation.
struct Handles<H> {
    first: Option<H>,
    others: Vec<H>,
}

impl<'a, H: Handle> Locked<'a, H> {
    pub(super) fn new(timers: &'a Timers<H>, sorted: MutexGuard<'a, Sorted<H>>) -> Self {
        Self { timers, sorted, removed: Handles { first: None, others: Vec::new() }, spare: None }
    }

    /// Inserts a timer that is in no heap. Returns `when` if that may be the first time of the heap:
    /// [`Heaps`](crate::Heaps). Precondition: [`Locked::prepare`] was called in this lock hold.
    pub(crate) fn insert(&mut self, when: u64, h: H) -> Option<u64> {
        self.sorted.heap.push(when, h);
        self.wake_for(when)
    }

    /// Returns `when` if the heap has published no time that is as early; else `None`.
    fn wake_for(&self, when: u64) -> Option<u64> {
        (when < self.timers.counts.earliest()).then_some(when)
    }

    /// Returns the place of the timer's entry; `None` if the timer is not in this heap. Examines one entry
    /// for each level of the heap. A removal needs the lock, so the entry stays in the heap while the caller
    /// has the lock.
    fn place_of(&self, timer: &Timer) -> Option<usize> {
        let sorted_by = timer.when();
        self.sorted.heap.find(timer.kept_place(), |when, h| when == sorted_by && ptr::eq(h.timer(), timer))
    }

    /// [`Locked::place_of`]; `None` also if the entry is not later than `when`.
    pub(crate) fn place_if_later(&self, timer: &Timer, when: u64) -> Option<usize> {
        self.place_of(timer).filter(|_| when < timer.when())
    }

    /// Arms a timer of this heap for a time before that of its entry, and moves the entry up from place `i`.
    /// Returns `None` if the timer is no longer in state `from`.
    pub(crate) fn move_up(
        &mut self,
        i: usize,
        timer: &Timer,
        from: State,
        to @ (when, ..): (u64, u64, u64),
    ) -> Option<Modified> {
        if !broken!("timers_move_up_crosses_walk") {
            self.examine_crossing(i);
        }
        let claim = match broken!("timers_move_up_no_modifying") {
            false => timer.claim(from, Modifying)?,
            true => timer.seize(Modifying),
        };
        timer.begin_earlier(&claim, from, to, &self.timers.counts);
        self.sorted.heap.reschedule(i, when);
        timer.settle(claim, Waiting);
        Some(Modified { was_pending: from != Deleted, wake_for: self.wake_for(when) })
    }

    /// Prepares an insertion: moves or removes some heads, and makes room for one more entry. So no memory is
    /// allocated while the timer is in a brief state. Removes some deleted timers if they are more than a
    /// quarter. So the heap's size stays in proportion to the live timers even while its P is too busy to
    /// check the heap.
    #[inline]
    pub(crate) fn prepare(&mut self) {
        self.clean_head();
        if self.mostly_deleted() {
            self.sweep(PORTION_AT_INSERTION);
        }
        self.examine_crossing(self.sorted.heap.len());
        self.sorted.heap.reserve(1);
    }

    /// Removes or moves some heads that are deleted or modified. Go: `cleantimers`.
    fn clean_head(&mut self) {
        for _ in 0..HEADS_AT_INSERTION {
            let Some((_, h)) = self.sorted.heap.head() else { return };
            match self.timers.meet(h.timer()) {
                Met::Waiting | Met::Busy => return,
                Met::Deleted(claim) => self.remove(0, claim),
                Met::Modified(claim, when) => _ = self.move_entry(0, claim, when),
            }
        }
    }

    /// Takes the head into `due`, or moves or removes the head. Returns `false` if no head is due any more.
    /// Go: `runtimer`.
    #[inline(always)]
    pub(super) fn run_head(&mut self, now: u64, due: &mut Batch<H>) -> bool {
        let Some((when, h)) = self.sorted.heap.head() else { return false };
        let timer = h.timer();
        match self.timers.meet(timer) {
            // If a modifier sets this head for an earlier time, the modifier publishes that time.
            Met::Waiting | Met::Busy if when > now => return false,
            Met::Busy => yield_now(),
            Met::Waiting => {
                let claim = match broken!("timers_run_no_running") {
                    false => timer.claim(Waiting, Running),
                    true => Some(timer.seize(Running)),
                };
                if let Some(claim) = claim {
                    due.push(self.take_head(claim, when, now));
                }
            }
            Met::Deleted(claim) => self.remove(0, claim),
            Met::Modified(claim, when) => _ = self.move_entry(0, claim, when),
        }
        true
    }

    /// Takes the head, which is in Running. A one-shot leaves the heap; a ticker stays for its next tick.
    /// Returns the handle the `seq` to fire, and the time at which the timer was due. Go: `runOneTimer`, the
    /// part under the lock.
    fn take_head(&mut self, claim: Claim, when: u64, now: u64) -> (H, u64, u64) {
        let heap = &mut self.sorted.heap;
        let (_, h) = heap.get(0);
        let (period, seq) = (h.timer().period(), h.timer().seq());
        if period == 0 {
            let (_, h) = heap.remove(0);
            h.taken();
            h.timer().settle(claim, NoStatus);
            (h, seq, when)
        } else {
            let next = next_tick(when, period, now);
            h.timer().set_when(&claim, next);
            let at = heap.reschedule(0, next);
            let (_, h) = heap.get(at);
            h.timer().settle(claim, Waiting);
            (h.clone(), seq, when)
        }
    }

    /// Removes entry `i`, which is in Removing.
    fn remove(&mut self, i: usize, claim: Claim) {
        let (_, h) = self.sorted.heap.remove(i);
        h.timer().settle(claim, Removed);
        self.removed.push(h);
    }

    /// Removes a timer that is in Deleted. Does nothing if the timer is in another state, or in another heap.
    pub(crate) fn remove_deleted(&mut self, timer: &Timer) {
        let Some(i) = self.place_of(timer) else { return };
        // The last entry takes this place, and may move up from there.
        self.examine_crossing(i);
        if let Some(claim) = self.timers.claim_deleted(timer) {
            self.remove(i, claim);
        }
    }

    /// Gives entry `i`, which is in Moving, the time `when`. Returns its new place.
    fn move_entry(&mut self, i: usize, claim: Claim, when: u64) -> usize {
        let at = self.sorted.heap.reschedule(i, when);
        let (_, h) = self.sorted.heap.get(at);
        h.timer().settle(claim, Waiting);
        at
    }

    /// Moves timers that were modified to an earlier time into their places, if one of them may be due.
    /// Examines `most` entries at most. Returns how many it examined; the next call continues there. Go, all
    /// entries at once: `adjusttimers`.
    pub(super) fn adjust(&mut self, now: u64, most: usize) -> usize {
        if broken!("timers_adjust_clears_late") {
            self.sorted.adjust = Walk { cursor: self.sorted.heap.len(), time: NEVER };
            let examined = self.walk(usize::MAX);
            self.timers.counts.forget_earliest();
            return examined;
        }
        // A timer that is modified during a walk waits for the next walk: a walk that began anew each time
        // might not end.
        if !self.sorted.adjust.is_under_way() {
            let Some(time) = self.timers.counts.take_over_earliest(now) else { return 0 };
            self.sorted.adjust = Walk { cursor: self.sorted.heap.len(), time };
        }
        self.walk(most)
    }

    /// Performs a portion of the walk. Returns how many entries it examined; moves and removals count as
    /// several.
    fn walk(&mut self, most: usize) -> usize {
        let (mut examined, mut alone) = (0, 0);
        loop {
            let Sorted { heap, adjust, .. } = &mut *self.sorted;
            // The heap may have shrunk since the last portion, because heads were fired.
            adjust.cursor = adjust.cursor.min(heap.len());
            if adjust.cursor == 0 || self.timers.counts.earlier() == 0 {
                *adjust = Walk::NONE;
                if cfg!(debug_assertions) {
                    self.verify();
                }
                break;
            }
            // This comes after the test for the end: a walk that has ended must not keep its time.
            if examined >= most {
                break;
            }
            if alone == 0 && most - examined >= AT_ONCE {
                if all_wait(heap, adjust.cursor) {
                    adjust.cursor -= AT_ONCE;
                    examined += AT_ONCE;
                    continue;
                }
                alone = AT_ONCE;
            }
            alone = alone.saturating_sub(1);
            let i = adjust.cursor - 1;
            if self.is_right(i) {
                self.sorted.adjust.cursor = i;
                examined += 1;
            } else {
                examined += MOVE_COST;
            }
        }
        examined
    }

    /// Examines entry `i` for the walk, and moves or removes the entry if need be. Returns `false` if the
    /// walk must examine place `i` again: the place has another entry now, or its timer is being modified.
    fn is_right(&mut self, i: usize) -> bool {
        let (_, h) = self.sorted.heap.get(i);
        match self.timers.meet(h.timer()) {
            Met::Waiting => true,
            Met::Busy => {
                yield_now();
                false
            }
            Met::Deleted(claim) => {
                self.remove(i, claim);
                false
            }
            Met::Modified(claim, when) => self.move_entry(i, claim, when) == i,
        }
    }

    /// Examines the entry that may move past the cursor of a walk when an entry moves up from `place`, if
    /// there is such an entry. If its timer was modified to an earlier time, moves that entry up. Repeats
    /// this for the entry that then has its place. The entry at `place` stays there.
    #[inline]
    pub(super) fn examine_crossing(&mut self, place: usize) {
        if self.sorted.adjust.is_under_way() && !broken!("timers_push_crosses_walk") {
            self.examine_ancestor(place);
        }
    }

    #[cold]
    fn examine_ancestor(&mut self, place: usize) {
        let Sorted { heap, adjust, .. } = &mut *self.sorted;
        let Some(i) = heap.ancestor_before(place, adjust.cursor) else { return };
        // Each round examines another of the few entries between `i` and the root.
        loop {
            let (_, h) = self.sorted.heap.get(i);
            let timer = h.timer();
            match timer.state() {
                Modifying => yield_now(),
                ModifiedEarlier => {
                    if let Some((claim, when)) = self.timers.claim_modified(timer, ModifiedEarlier) {
                        self.move_entry(i, claim, when);
                    }
                }
                _ => return,
            }
        }
    }

    fn mostly_deleted(&self) -> bool {
        self.timers.counts.deleted() > self.sorted.heap.len() / 4
    }

    /// Examines `n` entries, from the last to the first, and removes the deleted timers. The next call
    /// continues there. Go, all entries at once: `clearDeletedTimers`.
    pub(super) fn sweep(&mut self, n: usize) {
        if self.sorted.adjust.is_under_way() {
            self.walk(n);
            return;
        }
        for _ in 0..n.min(self.sorted.heap.len()) {
            let Sorted { heap, sweep, .. } = &mut *self.sorted;
            if *sweep == 0 || *sweep > heap.len() {
                *sweep = heap.len();
            }
            let Some(i) = sweep.checked_sub(1) else { return };
            let timer = heap.get(i).1.timer();
            let deleted = if timer.state() == Deleted { self.timers.claim_deleted(timer) } else { None };
            match deleted {
                // Place `i` has another entry after the removal. The sweep examines that entry next.
                Some(claim) => self.remove(i, claim),
                None => *sweep = i,
            }
        }
    }

    /// Moves all live timers to `to`, and removes the deleted timers. Returns the earliest time of a moved
    /// timer.
    pub(super) fn move_to(&mut self, to: &mut Self) -> u64 {
        let timers = self.timers;
        to.sorted.heap.reserve(self.sorted.heap.len());
        let mut earliest = NEVER;
        self.drain(|h| match timers.meet_to_move(h.timer()) {
            Ok((claim, when)) => {
                earliest = earliest.min(when);
                h.timer().set_owner(&claim, to.timers.index);
                h.timer().settle(claim, Waiting);
                to.examine_crossing(to.sorted.heap.len());
                to.insert(when, h);
                None
            }
            Err(claim) => {
                h.timer().settle(claim, Removed);
                Some(h)
            }
        });
        // Publishes `to` first: a thread that reads the times of all heaps may see these timers twice, but
        // must not miss them.
        to.publish();
        self.publish();
        earliest
    }

    /// Takes all entries out. Handles that `each` returns are dropped after the unlock.
    pub(super) fn drain(&mut self, mut each: impl FnMut(H) -> Option<H>) {
        let Self { sorted, removed, .. } = self;
        sorted.adjust = Walk::NONE;
        sorted.heap.drain(|_, h| {
            if let Some(h) = each(h) {
                removed.push(h);
            }
        });
    }

    /// Returns how many timers were removed unfired in this lock hold.
    pub(super) fn count_removed(&self) -> usize {
        self.removed.len()
    }

    /// Returns how many entries the heap has.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.sorted.heap.len()
    }

    /// Puts this heap into the set of heaps with timers.
    #[cold]
    #[inline(never)]
    fn list(&mut self) {
        self.sorted.is_listed = true;
        if !broken!("timers_first_is_not_listed") {
            self.timers.occupied.insert(self.timers.index);
        }
    }

    /// Publishes the size of the heap, and the time by which it must be checked.
    fn publish(&mut self) {
        if !self.sorted.is_listed && !self.sorted.heap.is_empty() {
            self.list();
        }
        let Sorted { heap, adjust, .. } = &*self.sorted;
        debug_assert!(adjust.is_under_way() || adjust.time == NEVER, "a walk has ended and kept its time");
        let head = heap.head().map_or(NEVER, |(when, _)| when);
        let time = if broken!("timers_walk_unpublished") { head } else { head.min(adjust.time) };
        self.timers.counts.publish(time, heap.len());
    }

    /// Panics if the heap is out of order, or holds a timer that it must not hold. Other threads may delete
    /// and modify meanwhile: this function checks only fields that the lock protects, and states that the
    /// lock excludes.
    pub(crate) fn verify(&self) {
        let (heap, index) = (&self.sorted.heap, self.timers.index);
        if let Some(i) = heap.misplaced() {
            panic!("timers: heap {index} is corrupt: entry {i} of {} is earlier than its parent", heap.len());
        }
        for (i, (when, h)) in heap.iter().enumerate() {
            let timer = h.timer();
            assert_eq!(
                timer.when(),
                when,
                "timers: heap {index} is corrupt: an entry and its timer have different times"
            );
            assert_eq!(
                self.place_of(timer),
                Some(i),
                "timers: heap {index} is corrupt: an entry is not where its timer says"
            );
            assert_eq!(
                timer.owner(),
                index,
                "timers: heap {index} is corrupt: it holds a timer of another P"
            );
            if let state @ (NoStatus | Running | Removing | Removed | Moving) = timer.state() {
                self.timers.corrupt(state);
            }
        }
    }

    /// [`Locked::verify`], and panics if a count or a published time is wrong. Precondition: no other thread
    /// deletes or modifies.
    pub(crate) fn verify_idle(&self) {
        self.verify();
        let (heap, index, counts) = (&self.sorted.heap, self.timers.index, &self.timers.counts);
        let in_state = |state| heap.iter().filter(|(_, h)| h.timer().state() == state).count();
        assert_eq!(counts.timers(), heap.len(), "timers: heap {index} publishes a wrong size");
        assert_eq!(counts.deleted(), in_state(Deleted), "timers: heap {index} miscounts its deleted timers");
        assert_eq!(
            counts.earlier(),
            in_state(ModifiedEarlier),
            "timers: heap {index} miscounts its earlier timers"
        );
        let soonest = heap.iter().map(|(when, h)| h.timer().earliest(when)).min();
        assert!(
            counts.earliest() <= soonest.unwrap_or(NEVER),
            "timers: heap {index} publishes too late a time"
        );
        assert!(
            !heap.is_empty() || counts.earliest() == NEVER,
            "timers: heap {index} is empty, and publishes a time"
        );
    }
}

impl<H: Handle> Drop for Locked<'_, H> {
    #[inline]
    fn drop(&mut self) {
        let Sorted { heap, adjust, .. } = &mut *self.sorted;
        if heap.is_empty() {
            *adjust = Walk::NONE;
        }
        self.spare = heap.give_back();
        self.publish();
    }
}

/// Returns `true` if the [`AT_ONCE`] entries before `end` are all in Waiting; `false` if there are fewer
/// entries.
fn all_wait<H: Handle>(heap: &Heap<H>, end: usize) -> bool {
    let Some(begin) = end.checked_sub(AT_ONCE) else { return false };
    (begin..end).fold(true, |all, i| all & heap.get(i).1.timer().is_waiting())
}

impl<H> Handles<H> {
    fn push(&mut self, h: H) {
        match &self.first {
            None => self.first = Some(h),
            Some(_) => self.others.push(h),
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

#[cfg(all(test, loom))]
mod models {
    use crate::Timer;
    use crate::models::{World, explore};
    use loom::thread::spawn;
    use std::sync::Arc;

    /// The second timer is entry 1 when the walk begins, and `arm` moves an entry up from place 5. So entry 1
    /// moves to place 5, which the walk may have passed.
    fn walk_finds_its_timer(deep: bool, arm: fn(&World, Option<&Arc<Timer>>)) {
        explore(2, move || {
            let world = World::new(1);
            world.add(0, 10, 0, 1);
            let timer = world.add(0, 100, 0, 2);
            let _later = [100, 100, 100].map(|when| world.add(0, when, 0, 3));
            let deep = deep.then(|| world.add(0, 100, 0, 5));
            world.modify_unlocked(0, &timer, 5, 4);
            let walker = spawn({
                let world = world.clone();
                move || world.check(0, 5, false)
            });
            arm(&world, deep.as_ref());
            walker.join().unwrap();
            assert_eq!(world.fired(), [4]);
            world.finish(100);
        });
    }

    #[test]
    fn a_push_hides_no_timer_from_a_walk() {
        walk_finds_its_timer(false, |world, _| drop(world.add(0, 50, 0, 5)));
    }

    #[test]
    fn a_timer_made_earlier_hides_no_timer_from_a_walk() {
        walk_finds_its_timer(true, |world, deep| _ = world.modify(0, deep.unwrap(), 50, 6));
    }
}
