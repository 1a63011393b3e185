//! One P's timers: what is done with the heap's lock held (clean the head, adjust, run the head, sweep, move all), and
//! `check` and `tidy`, which do it.
//!
//! Only the lock's holder, the owner of the P or a thief, moves entries; so where an entry stands, a timer's `when`, its
//! owner, and Running, Removing, Removed, Moving, NoStatus of a timer in the heap are the lock holder's knowledge.

use std::mem;

use crate::Handle;
use crate::clock::NEVER;
use crate::counts::Counts;
use crate::heap::{Heap, Spare};
use crate::state::State::{self, *};
use crate::sync::{Mutex, MutexGuard, broken, yield_now};
use crate::timer::{Claim, Timer, next_tick};

/// How many due timers are taken under one lock: so many that the lock costs nothing, so few that others get it soon.
const BATCH: usize = 32;

/// How many heads are put right under one lock while due timers are taken.
const HEADS: usize = 64;

/// How many entries a portion of the P's owner looks at for deleted timers. It takes some tens of microseconds.
const PORTION: usize = 512;

/// The portions of an insertion: heads, and entries anywhere. An insertion leaves one deleted timer at most, so a heap of
/// which a quarter is deleted shrinks.
const HEADS_AT_INSERTION: usize = 4;
const PORTION_AT_INSERTION: usize = 16;

/// Above this many entries, what adjust took out for its walk is not kept for the next one.
const KEEP_MOVED: usize = 1024;

/// What [`Heaps::check`](crate::Heaps::check) found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// When somebody must look at this heap again; [`NEVER`] if nothing in it will fire.
    pub next: u64,
    /// Whether any timer fired.
    pub ran: bool,
    /// The call has done its portion of tidying, and there is more to tidy, or more is due: check again soon.
    pub more: bool,
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
    /// The sweep has looked at the entries from here on; 0, or beyond the last entry: it begins anew.
    cursor: usize,
}

/// One P's timers, locked. On its way out it publishes what the heap looks like, unlocks, and only then drops the
/// handles of the timers it removed, as each may be the last one of something large.
pub(crate) struct Locked<'a, H: Handle> {
    timers: &'a Timers<H>,
    // Fields are dropped in the order they stand in: first this unlocks,
    sorted: MutexGuard<'a, Sorted<H>>,
    // then these are dropped.
    removed: Handles<H>,
    spare: Option<Spare<H>>,
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
        let sorted = Sorted { heap: Heap::new(), moved: Vec::new(), cursor: 0 };
        Self { counts: Counts::new(), index, sorted: Mutex::new(sorted) }
    }

    pub(crate) fn lock(&self) -> Locked<'_, H> {
        let removed = Handles { first: None, others: Vec::new() };
        Locked { timers: self, sorted: self.sorted.lock(), removed, spare: None }
    }

    /// Fires what is due. Go: `checkTimers`. Runs on: any thread; `own` says that it has the P.
    pub(crate) fn check(&self, now: u64, own: bool, fire: &mut impl FnMut(H, u64, u64)) -> Checked {
        // What is set for NEVER is not due, whatever the clock says.
        let now = now.min(NEVER - 1);
        let mut sweep = own && self.counts.mostly_deleted();
        let (mut ran, mut removed) = (false, 0);
        loop {
            let next = self.counts.earliest();
            if next > now && !sweep {
                return Checked { next, ran, more: own && self.counts.many_deleted(PORTION) };
            }
            if removed >= PORTION {
                return Checked { next, ran, more: true };
            }
            let due = self.take_due(now, sweep);
            // Once a call: deleted timers may be in a brief state, and stay.
            sweep = false;
            removed += due.removed;
            ran |= due.taken > 0;
            due.fire(now, fire);
        }
    }

    /// Takes a batch of what is due out of the heap, and tidies a portion of the rest if it is to `sweep`. Callbacks run
    /// after this, without the lock: they may add timers (Go's issue 35532).
    fn take_due(&self, now: u64, sweep: bool) -> Batch<H> {
        let mut due = Batch::new();
        let mut locked = self.lock();
        locked.adjust(now);
        let mut heads = 0;
        while due.taken < BATCH && heads < HEADS && locked.run_head(now, &mut due) {
            heads += 1;
        }
        if sweep {
            locked.sweep(PORTION);
        }
        due.removed = locked.removed.len();
        due
    }

    /// Removes a portion of the deleted timers if they are many. Returns `true` if they were many: call again soon.
    /// Runs on: the owner of the P.
    pub(crate) fn tidy(&self) -> bool {
        let many = self.counts.many_deleted(PORTION);
        if many {
            self.lock().sweep(PORTION);
        }
        many
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
                Deleted => self.claim_deleted(timer).map(Met::Deleted),
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

    /// Claims a timer to be removed, if it is deleted. Runs on: the lock's holder.
    fn claim_deleted(&self, timer: &Timer) -> Option<Claim> {
        let claim = timer.claim(Deleted, Removing)?;
        self.counts.uncount_deleted();
        Some(claim)
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

    /// Before an insertion: puts heads right, and makes room for one more entry, so that no memory is asked for while the
    /// timer is in a brief state. Removes some deleted timers if they are more than a quarter: the heap stays in
    /// proportion to what is live even while its P is too busy to check it.
    pub(crate) fn prepare(&mut self) {
        self.clean_head();
        if self.mostly_deleted() {
            self.sweep(PORTION_AT_INSERTION);
        }
        self.sorted.heap.reserve(1);
    }

    /// Gets some deleted and modified timers out of the head's place. Go: `cleantimers`.
    fn clean_head(&mut self) {
        for _ in 0..HEADS_AT_INSERTION {
            let Some((_, h)) = self.sorted.heap.head() else { return };
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
        let Sorted { heap, moved, .. } = &mut *self.sorted;
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

    /// Looks at `n` entries, from the last to the first, and removes those that are deleted. The heap is in order all the
    /// time, so the next portion may come at any time: it goes on where this one ends. Go, in one go: `clearDeletedTimers`.
    fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.sorted.heap.len()) {
            let Sorted { heap, cursor, .. } = &mut *self.sorted;
            if *cursor == 0 || *cursor > heap.len() {
                *cursor = heap.len();
            }
            let Some(i) = cursor.checked_sub(1) else { return };
            let timer = heap.get(i).1.timer();
            let deleted = if timer.state() == Deleted { self.timers.claim_deleted(timer) } else { None };
            match deleted {
                // Another entry stands at `i` now, and comes next.
                Some(claim) => self.remove(i, claim),
                None => *cursor = i,
            }
        }
    }

    /// Empties this heap into `to`. Returns the earliest time that moved.
    fn move_to(&mut self, to: &mut Self) -> u64 {
        let Self { sorted, timers, removed, .. } = self;
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
        self.spare = self.sorted.heap.give_back();
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

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

/// Timers taken out of the heap, or left in it for their next tick, and now to be fired; in the order of their times.
struct Batch<H> {
    due: [Option<(H, u64)>; BATCH],
    taken: usize,
    /// How many timers were removed unfired meanwhile.
    removed: usize,
}

impl<H> Batch<H> {
    fn new() -> Self {
        Self { due: [const { None }; BATCH], taken: 0, removed: 0 }
    }

    fn push(&mut self, due: (H, u64)) {
        self.due[self.taken] = Some(due);
        self.taken += 1;
    }

    /// Fires all of the batch.
    fn fire(mut self, now: u64, fire: &mut impl FnMut(H, u64, u64)) {
        Firing { due: self.due[..self.taken].iter_mut(), now, fire }.fire();
        debug_assert!(self.due.iter().all(Option::is_none));
        // An empty batch has nothing to drop. Without the `forget`, each of its places is asked.
        mem::forget(self);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[derive(Clone, Debug)]
    enum Op {
        Add(u64),
        Delete(usize),
        Modify(usize, u64),
        Sweep(usize),
        Check(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (0..100_u64).prop_map(Op::Add),
            6 => any::<usize>().prop_map(Op::Delete),
            2 => (any::<usize>(), 0..100_u64).prop_map(|(timer, when)| Op::Modify(timer, when)),
            4 => (0..20_usize).prop_map(Op::Sweep),
            1 => (0..50_u64).prop_map(Op::Check),
        ]
    }

    proptest! {
        /// Between any two portions the heap is in order, and what fires is what was not deleted.
        #[test]
        fn a_sweep_in_portions_removes_the_deleted_alone(ops in vec(op(), 0..300)) {
            let timers = Timers::<Arc<Timer>>::new(0);
            let mut all: Vec<(Arc<Timer>, Option<u64>)> = Vec::new();
            for op in ops {
                match op {
                    Op::Add(when) => {
                        let timer = Arc::new(Timer::new());
                        let mut locked = timers.lock();
                        prop_assert!(timer.begin(0, when, 0, all.len() as u64));
                        // Without `prepare`, which sweeps too.
                        locked.insert(when, timer.clone());
                        drop(locked);
                        all.push((timer, Some(when)));
                    }
                    Op::Delete(i) if !all.is_empty() => {
                        let at = i % all.len();
                        let (timer, armed) = &mut all[at];
                        prop_assert_eq!(timer.delete(|_| &timers.counts), armed.take().is_some());
                    }
                    Op::Modify(i, when) if !all.is_empty() => {
                        let at = i % all.len();
                        let (timer, armed) = &mut all[at];
                        let from = timer.state();
                        if matches!(from, Waiting | ModifiedEarlier | ModifiedLater | Deleted) {
                            let to = (when, 0, at as u64);
                            prop_assert!(timer.modify_in_heap(from, to, |_| &timers.counts).is_some());
                            *armed = Some(when);
                        }
                    }
                    Op::Sweep(n) => timers.lock().sweep(n),
                    Op::Check(now) => {
                        timers.check(now, false, &mut |_, seq, _| {
                            let armed = all[seq as usize].1.take();
                            assert!(armed.is_some_and(|when| when <= now), "{armed:?} fired at {now}");
                        });
                        prop_assert!(all.iter().all(|(_, armed)| armed.is_none_or(|when| when > now)));
                    }
                    Op::Delete(_) | Op::Modify(..) => {}
                }
                timers.lock().verify_idle();
            }
            // An entry that a removal moves is looked at again, so two rounds of looks see every entry.
            let mut locked = timers.lock();
            let looks = 2 * locked.sorted.heap.len();
            (0..looks).for_each(|_| locked.sweep(1));
            locked.verify();
            prop_assert_eq!(timers.counts.deleted(), 0);
            prop_assert_eq!(locked.sorted.heap.len(), all.iter().filter(|(_, armed)| armed.is_some()).count());
        }
    }

    /// A hundred thousand deleted timers: no call does more than its portion, and the calls that ask for more end.
    #[test]
    #[cfg_attr(miri, ignore = "a hundred thousand timers take minutes")]
    fn many_deleted_timers_go_in_portions() {
        const MANY: u64 = 100_000;
        for (now, own) in [(0, true), (2 * MANY, true), (2 * MANY, false)] {
            let timers = Timers::<Arc<Timer>>::new(0);
            let add = |when| {
                let timer = Arc::new(Timer::new());
                let mut locked = timers.lock();
                locked.prepare();
                assert!(timer.begin(0, when, 0, when));
                locked.insert(when, timer.clone());
                timer
            };
            let all: Vec<_> = (0..MANY).map(|i| add(1 + i * 7919 % MANY)).collect();
            all.iter().for_each(|timer| assert!(timer.delete(|_| &timers.counts)));
            // One more is due at once, and an insertion does not wait either.
            let before = timers.lock().sorted.heap.len();
            let live = add(0);
            let after = timers.lock().sorted.heap.len();
            assert!(before - after < HEADS_AT_INSERTION + PORTION_AT_INSERTION, "{before} -> {after}");
            let (mut fired, mut calls) = (0, 0);
            loop {
                let before = timers.lock().sorted.heap.len();
                let checked = timers.check(now, own, &mut |_, _, _| fired += 1);
                let after = timers.lock().sorted.heap.len();
                assert_eq!(fired, 1, "in the first call");
                assert!(before - after <= 2 * PORTION + HEADS, "{before} -> {after}");
                calls += 1;
                if !checked.more {
                    break;
                }
            }
            assert!(calls > MANY as usize / (2 * PORTION), "{calls} calls");
            while timers.tidy() {}
            let len = timers.lock().sorted.heap.len();
            assert!(len <= PORTION + 1, "{len} are left");
            drop(live);
        }
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
