//! One P's timers: what is done with the heap's lock held (clean the head, adjust, run the head, clear the deleted, move
//! all), and `check`, which does it.
//!
//! Only the lock's holder, the owner of the P or a thief, moves entries; so where an entry stands, a timer's `when`, its
//! owner, and Running, Removing, Removed, Moving, NoStatus of a timer in the heap are the lock holder's knowledge.

use crate::Handle;
use crate::clock::NEVER;
use crate::counts::Counts;
use crate::heap::Heap;
use crate::state::State::{self, *};
use crate::sync::{Mutex, MutexGuard, broken, yield_now};
use crate::timer::{Claim, Timer, next_tick};

/// How many due timers are taken under one lock: so many that the lock costs nothing, so few that others get it soon.
const BATCH: usize = 32;

/// Above this many entries, what adjust took out for its walk is not kept for the next one.
const KEEP_MOVED: usize = 1024;

/// What [`Heaps::check`](crate::Heaps::check) found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// When somebody must look at this heap again; [`NEVER`] if nothing in it will fire.
    pub next: u64,
    /// Whether any timer fired.
    pub ran: bool,
}

/// One P's heap and its counts.
// Two cache lines, as they are fetched in pairs: no P's timers slow another's down.
#[repr(align(128))]
pub(crate) struct Timers<H: Handle> {
    pub(crate) counts: Counts,
    index: usize,
    sorted: Mutex<Sorted<H>>,
}

impl<H: Handle> Drop for Timers<H> {
    fn drop(&mut self) {
        self.release_all();
    }
}

struct Sorted<H> {
    heap: Heap<H>,
    /// What adjust takes out during its walk; empty otherwise.
    moved: Vec<(u64, H)>,
}

/// One P's timers, locked. On its way out it publishes what the heap looks like, unlocks, and only then drops the
/// handles of the timers it removed, as each may be the last one of something large.
pub(crate) struct Locked<'a, H: Handle> {
    timers: &'a Timers<H>,
    // Fields are dropped in the order they stand in: first this unlocks,
    sorted: MutexGuard<'a, Sorted<H>>,
    // then these are dropped.
    removed: Handles<H>,
}

/// Handles to be dropped. Mostly there is one; that one costs no allocation.
struct Handles<H> {
    first: Option<H>,
    others: Vec<H>,
}

/// A timer met in the heap, claimed if it must be put right.
enum Met {
    Waiting,
    /// In Modifying: it may be anything soon.
    Busy,
    /// Was Deleted, is Removing.
    Deleted(Claim),
    /// Was ModifiedEarlier or ModifiedLater, is Moving; its time, already its `when`.
    Modified(Claim, u64),
}

impl<H: Handle> Timers<H> {
    pub(crate) fn new(index: usize) -> Self {
        let sorted = Sorted { heap: Heap::new(), moved: Vec::new() };
        Self { counts: Counts::new(), index, sorted: Mutex::new(sorted) }
    }

    pub(crate) fn lock(&self) -> Locked<'_, H> {
        let removed = Handles { first: None, others: Vec::new() };
        Locked { timers: self, sorted: self.sorted.lock(), removed }
    }

    /// Fires what is due. Go: `checkTimers`. Runs on: any thread; `own` says that it has the P.
    pub(crate) fn check(&self, now: u64, own: bool, fire: &mut impl FnMut(H, u64, u64)) -> Checked {
        // What is set for NEVER is not due, whatever the clock says.
        let now = now.min(NEVER - 1);
        // Once: some that are counted as deleted may be in a brief state, and stay.
        let mut to_clear = own && self.counts.mostly_deleted();
        let mut ran = false;
        loop {
            let next = self.counts.earliest();
            if next > now && !to_clear {
                return Checked { next, ran };
            }
            to_clear = false;
            let mut due = self.take_due(now, own);
            ran |= due.taken > 0;
            due.fire(now, fire);
        }
    }

    /// Takes a batch of what is due out of the heap, and tidies the rest. Callbacks run after this, without the lock:
    /// they may add timers (Go's issue 35532).
    fn take_due(&self, now: u64, own: bool) -> Batch<H> {
        let mut due = Batch::new();
        let mut locked = self.lock();
        locked.adjust(now);
        while due.taken < BATCH && locked.run_head(now, &mut due) {}
        if own && locked.mostly_deleted() {
            locked.clear_deleted();
        }
        due
    }

    /// Moves every live timer to `to`, drops the deleted ones, and returns the earliest time that moved.
    /// Go: `moveTimers`. Runs on: any thread.
    pub(crate) fn move_all(&self, to: &Self) -> u64 {
        assert_ne!(self.index, to.index, "timers: a heap cannot move to itself");
        // The lower index first: the one order in which two heaps are locked.
        let (mut from, mut to) = if self.index < to.index {
            let from = self.lock();
            (from, to.lock())
        } else {
            let to = to.lock();
            (self.lock(), to)
        };
        from.move_to(&mut to)
    }

    /// Takes every timer out, as if each had been stopped and tidied away: a timer outlives its heap, and may be armed
    /// again in another. Runs on: whoever ends the heap; nobody else knows it any more.
    fn release_all(&self) {
        let mut locked = self.lock();
        let Locked { sorted, removed, .. } = &mut locked;
        sorted.heap.drain(|_, h| {
            h.timer().delete(|_| &self.counts);
            match self.meet(h.timer()) {
                Met::Deleted(claim) => h.timer().settle(claim, Removed),
                Met::Waiting | Met::Busy | Met::Modified(..) => unreachable!("nobody else is at work"),
            }
            removed.push(h);
        });
    }

    /// What is to be done with a timer of this heap. Runs on: the lock's holder.
    fn meet(&self, timer: &Timer) -> Met {
        loop {
            let met = match timer.state() {
                Waiting => return Met::Waiting,
                Modifying => return Met::Busy,
                Deleted => timer.claim(Deleted, Removing).map(|claim| {
                    self.counts.uncount_deleted();
                    Met::Deleted(claim)
                }),
                from @ (ModifiedEarlier | ModifiedLater) => timer.claim(from, Moving).map(|claim| {
                    if from == ModifiedEarlier {
                        self.counts.uncount_earlier();
                    }
                    let when = timer.take_nextwhen(&claim);
                    Met::Modified(claim, when)
                }),
                state @ (NoStatus | Running | Removing | Removed | Moving) => self.corrupt(state),
            };
            if let Some(met) = met {
                return met;
            }
        }
    }

    /// Like [`Timers::meet`], for a timer that must leave the heap whatever it is: Ok with its time if it lives.
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

impl<H: Handle> Locked<'_, H> {
    /// Puts in a timer that is in no heap.
    pub(crate) fn insert(&mut self, when: u64, h: H) {
        self.sorted.heap.push(when, h);
    }

    /// Before an insertion: the head put right, and room for one more, so that no memory is asked for while the timer
    /// is in a brief state. A heap that would have to grow is cleared first: it stays in proportion to what is live
    /// even while its P is too busy to check it.
    pub(crate) fn prepare(&mut self) {
        self.clean_head();
        if self.sorted.heap.is_full() && self.mostly_deleted() {
            self.clear_deleted();
        }
        self.sorted.heap.reserve(1);
    }

    /// Gets deleted and modified timers out of the head's place. Go: `cleantimers`.
    fn clean_head(&mut self) {
        while let Some((_, h)) = self.sorted.heap.head() {
            match self.timers.meet(h.timer()) {
                Met::Waiting | Met::Busy => return,
                Met::Deleted(claim) => self.remove(0, claim),
                Met::Modified(claim, when) => self.move_head(claim, when),
            }
        }
    }

    /// Takes the head to be fired, or puts it right if that is what it needs. False once nothing is due any more.
    /// Go: `runtimer`.
    fn run_head(&mut self, now: u64, due: &mut Batch<H>) -> bool {
        let Some((when, h)) = self.sorted.heap.head() else { return false };
        let timer = h.timer();
        match self.timers.meet(timer) {
            // One that is being modified to a time before its entry's publishes that time itself.
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
            Met::Modified(claim, when) => self.move_head(claim, when),
        }
        true
    }

    /// The head is in Running: a one-shot leaves the heap, a ticker stays for its next time. Go: `runOneTimer`, as far
    /// as it holds the lock.
    fn take_head(&mut self, claim: Claim, when: u64, now: u64) -> (H, u64) {
        let heap = &mut self.sorted.heap;
        let (_, h) = heap.get(0);
        let (period, seq) = (h.timer().period(), h.timer().seq());
        if period == 0 {
            let (_, h) = heap.remove(0);
            h.taken();
            h.timer().settle(claim, NoStatus);
            (h, seq)
        } else {
            let next = next_tick(when, period, now);
            h.timer().set_when(&claim, next);
            let at = heap.reschedule_head(next);
            let (_, h) = heap.get(at);
            h.timer().settle(claim, Waiting);
            (h.clone(), seq)
        }
    }

    /// Entry `i` is in Removing.
    fn remove(&mut self, i: usize, claim: Claim) {
        let (_, h) = self.sorted.heap.remove(i);
        h.timer().settle(claim, Removed);
        self.removed.push(h);
    }

    /// The head is in Moving.
    fn move_head(&mut self, claim: Claim, when: u64) {
        // Down, or nowhere: a head that is now earlier still is the head.
        let at = self.sorted.heap.reschedule_head(when);
        let (_, h) = self.sorted.heap.get(at);
        h.timer().settle(claim, Waiting);
    }

    /// Puts every timer that was modified to an earlier time into its place, if one of them may be due.
    /// Go: `adjusttimers`.
    fn adjust(&mut self, now: u64) {
        if broken!("timers_adjust_clears_late") {
            self.walk();
            self.timers.counts.forget_earliest();
        } else if self.timers.counts.take_over_earliest(now) {
            self.walk();
            if cfg!(debug_assertions) {
                self.verify();
            }
        }
    }

    /// From the last entry to the first, until no earlier one is left. A removal brings to the places still to come
    /// only what was there before or was seen before (`Heap::remove`); an insertion would not be so kind, and waits
    /// until the walk is over.
    fn walk(&mut self) {
        let mut i = self.sorted.heap.len();
        while i > 0 && self.timers.counts.earlier() > 0 {
            i = i.min(self.sorted.heap.len());
            if i > 0 && !self.adjust_entry(i - 1) {
                i -= 1;
            }
        }
        let Sorted { heap, moved } = &mut *self.sorted;
        heap.reserve(moved.len());
        moved.drain(..).for_each(|(when, h)| heap.push(when, h));
        moved.shrink_to(KEEP_MOVED);
    }

    /// True if another entry may stand at `i` now, or this one be in another state soon: look again.
    fn adjust_entry(&mut self, i: usize) -> bool {
        let (_, h) = self.sorted.heap.get(i);
        match self.timers.meet(h.timer()) {
            Met::Waiting => return false,
            Met::Busy => yield_now(),
            Met::Deleted(claim) => self.remove(i, claim),
            Met::Modified(claim, when) => {
                let (_, h) = self.sorted.heap.remove(i);
                // Not in Moving until the walk is over: others would spin all that time. No one but the lock's holder
                // can tell that it is not back yet.
                h.timer().settle(claim, Waiting);
                self.sorted.moved.push((when, h));
            }
        }
        true
    }

    fn mostly_deleted(&self) -> bool {
        self.timers.counts.deleted() > self.sorted.heap.len() / 4
    }

    /// Rebuilds the heap without the deleted timers, the modified ones in their places. Go: `clearDeletedTimers`.
    fn clear_deleted(&mut self) {
        let Self { sorted, timers, removed } = self;
        let keep = |when: &mut u64, h: &H| match timers.meet(h.timer()) {
            // Which it will be does not matter here.
            Met::Waiting | Met::Busy => true,
            Met::Deleted(claim) => {
                h.timer().settle(claim, Removed);
                false
            }
            Met::Modified(claim, at) => {
                *when = at;
                h.timer().settle(claim, Waiting);
                true
            }
        };
        sorted.heap.rebuild(keep, |h| removed.push(h));
    }

    /// Empties this heap into `to`. Returns the earliest time that moved.
    fn move_to(&mut self, to: &mut Self) -> u64 {
        let Self { sorted, timers, removed } = self;
        to.sorted.heap.reserve(sorted.heap.len());
        let mut earliest = NEVER;
        sorted.heap.drain(|_, h| match timers.meet_to_move(h.timer()) {
            Ok((claim, when)) => {
                earliest = earliest.min(when);
                h.timer().set_owner(&claim, to.timers.index);
                h.timer().settle(claim, Waiting);
                to.insert(when, h);
            }
            Err(claim) => {
                h.timer().settle(claim, Removed);
                removed.push(h);
            }
        });
        // Where they are now first: who goes through the heaps should rather meet them twice than not at all.
        to.publish();
        self.publish();
        earliest
    }

    /// Tells those without the lock what the heap looks like.
    fn publish(&self) {
        let heap = &self.sorted.heap;
        self.timers.counts.publish(heap.head().map(|(when, _)| when), heap.len());
    }

    /// Panics if the heap is not in order or holds what it should not. Exact while others delete and modify, because
    /// it looks only at what is the lock holder's knowledge.
    pub(crate) fn verify(&self) {
        let (heap, index) = (&self.sorted.heap, self.timers.index);
        if let Some(i) = heap.misplaced() {
            panic!("timers: heap {index} is corrupt: entry {i} of {} is earlier than its parent", heap.len());
        }
        for (when, h) in heap.iter() {
            let timer = h.timer();
            assert_eq!(
                timer.when(),
                when,
                "timers: heap {index} is corrupt: an entry has not its timer's time"
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

    /// [`Locked::verify`], and all counts besides. Exact only while no one deletes or modifies.
    pub(crate) fn verify_idle(&self) {
        self.verify();
        let (heap, index, counts) = (&self.sorted.heap, self.timers.index, &self.timers.counts);
        let in_state = |state| heap.iter().filter(|(_, h)| h.timer().state() == state).count();
        assert_eq!(counts.timers(), heap.len(), "timers: heap {index} publishes another size than it has");
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
    fn drop(&mut self) {
        self.sorted.heap.give_back();
        self.publish();
    }
}

impl<H> Handles<H> {
    fn push(&mut self, h: H) {
        match &self.first {
            None => self.first = Some(h),
            Some(_) => self.others.push(h),
        }
    }
}

/// Timers taken out of the heap, or left in it for their next tick, and now to be fired; in the order of their times.
struct Batch<H> {
    due: [Option<(H, u64)>; BATCH],
    taken: usize,
}

impl<H> Batch<H> {
    fn new() -> Self {
        Self { due: [const { None }; BATCH], taken: 0 }
    }

    fn push(&mut self, due: (H, u64)) {
        self.due[self.taken] = Some(due);
        self.taken += 1;
    }

    fn fire(&mut self, now: u64, fire: &mut impl FnMut(H, u64, u64)) {
        Firing { due: self.due[..self.taken].iter_mut(), now, fire }.fire();
    }
}

/// A batch on its way. If a callback panics, the rest is fired before the panic goes on.
struct Firing<'a, H, F: FnMut(H, u64, u64)> {
    due: std::slice::IterMut<'a, Option<(H, u64)>>,
    now: u64,
    fire: &'a mut F,
}

impl<H, F: FnMut(H, u64, u64)> Firing<'_, H, F> {
    fn fire(&mut self) {
        for due in self.due.by_ref() {
            let (h, seq) = due.take().expect("one that was taken");
            (self.fire)(h, seq, self.now);
        }
    }
}

impl<H, F: FnMut(H, u64, u64)> Drop for Firing<'_, H, F> {
    fn drop(&mut self) {
        self.fire();
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
            // Its next tick is beyond the end of the clock: so the sum comes out even.
            world.add(0, 10, super::NEVER, 1);
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

    /// Made earlier while somebody adjusts for another timer: whoever checks next finds it.
    #[test]
    fn modify_against_adjust() {
        explore(5, || {
            let world = World::new(1);
            let (timer, other) = (world.add(0, 100, 0, 1), world.add(0, 90, 0, 2));
            world.modify(0, &other, 5, 3);
            let modifier = spawn({
                let world = world.clone();
                move || world.modify(0, &timer, 6, 4)
            });
            world.check(0, 10, true);
            assert_eq!(modifier.join().unwrap().wake_for, Some(6));
            world.check(0, 10, false);
            assert_eq!(world.fired(), [3, 4]);
            world.finish(100);
        });
    }

    /// Adjust hands a time from one word to the other: no reader sees it in neither.
    #[test]
    fn earliest_is_never_too_late() {
        explore(5, || {
            let world = World::new(1);
            let (soon, later) = (world.add(0, 100, 0, 1), world.add(0, 100, 0, 2));
            world.modify(0, &soon, 5, 3);
            world.modify(0, &later, 50, 4);
            let checker = spawn({
                let world = world.clone();
                move || world.check(0, 10, false)
            });
            assert!(world.earliest(0) <= 50);
            assert_eq!(checker.join().unwrap().next, 50);
            world.finish(100);
        });
    }

    /// The same for a time that comes while adjust is handing over another.
    #[test]
    fn earliest_is_never_too_late_for_a_modifier() {
        explore(5, || {
            let world = World::new(1);
            let (soon, later) = (world.add(0, 100, 0, 1), world.add(0, 100, 0, 2));
            world.modify(0, &soon, 20, 3);
            let checker = spawn({
                let world = world.clone();
                move || world.check(0, 20, false)
            });
            world.modify(0, &later, 50, 4);
            assert!(world.earliest(0) <= 50);
            checker.join().unwrap();
            assert_eq!(world.earliest(0), 50);
            world.finish(100);
        });
    }
}
