//! One timer: its fields, and the two operations that need no heap, delete and modify.
//!
//! The state protects the fields. A thread writes them only while its claim keeps the timer in a brief state.
//! The state that follows publishes them (`state.rs`). While the timer is in a heap, `when` and `owner`
//! change only under that heap's lock. The fields are atomics because several threads share them. Their
//! accesses are `Relaxed` because the state orders them.

use crate::counts::Counts;
use crate::state::{State, Status};
use crate::sync::{AtomicU16, AtomicU64, Ordering, broken, yield_now};

/// A timer, a field of the object that it wakes. A timer has 40 bytes and may be armed any number of times.
///
/// A timer has no callback. Its heap entry holds a [`Handle`](crate::Handle), which leads to the timer. The
/// function that fires the timer gets that handle.
pub struct Timer {
    /// The time by which the heap sorts the timer's entry.
    when: AtomicU64,
    /// In ModifiedEarlier and ModifiedLater: the time at which the timer is to fire.
    nextwhen: AtomicU64,
    /// 0 for a one-shot.
    period: AtomicU64,
    /// A word of the timer's user, which `fire` gets.
    seq: AtomicU64,
    /// Where the timer's entry is in its heap, or was: see `heap.rs`. Belongs to the holder of that heap's
    /// lock. So this is std's atomic in models, too: its accesses make no interleavings.
    place: std::sync::atomic::AtomicU32,
    /// The index of the P that has the timer in its heap.
    owner: AtomicU16,
    status: Status,
}

/// What [`Heaps::modify`](crate::Heaps::modify) found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// True if the timer was armed and had not fired for that.
    pub was_pending: bool,
    /// The time for which to wake the netpoller, if the timer may be the first of its heap. Otherwise `None`:
    /// another thread was told, or is about to be told, of an earlier timer, and will look at this heap again
    /// by then.
    pub wake_for: Option<u64>,
}

/// The right to write a timer's fields: the claim's holder has put the timer into a brief state.
#[must_use = "a brief state must be left"]
pub(crate) struct Claim(State);

impl Timer {
    /// Makes a timer that is in no heap and not armed.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            when: AtomicU64::new(0),
            nextwhen: AtomicU64::new(0),
            period: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            place: std::sync::atomic::AtomicU32::new(0),
            owner: AtomicU16::new(0),
            status: Status::new(),
        }
    }

    /// Makes a timer that is in no heap and not armed. (Not `const`: loom makes atomics only at run time.)
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            when: AtomicU64::new(0),
            nextwhen: AtomicU64::new(0),
            period: AtomicU64::new(0),
            seq: AtomicU64::new(0),
            place: std::sync::atomic::AtomicU32::new(0),
            owner: AtomicU16::new(0),
            status: Status::new(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.status.get()
    }

    /// Returns when the timer is about to fire; `None` if it is not pending, or another thread changes it at
    /// this moment.
    pub fn due(&self) -> Option<u64> {
        match self.state() {
            State::Waiting => Some(self.when()),
            State::ModifiedEarlier | State::ModifiedLater => Some(self.nextwhen.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// True if the state is Waiting.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.status.is(State::Waiting)
    }

    pub(crate) fn when(&self) -> u64 {
        self.when.load(Ordering::Relaxed)
    }

    pub(crate) fn period(&self) -> u64 {
        self.period.load(Ordering::Relaxed)
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// Returns the index of the P that has the timer in its heap, or had it there last. The answer may be
    /// stale at once.
    #[inline]
    pub fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed) as usize
    }

    /// Changes the state from `from` to `brief`. Returns `None` if the timer is not in `from`.
    pub(crate) fn claim(&self, from: State, brief: State) -> Option<Claim> {
        debug_assert!(brief.is_brief());
        self.status.step(from, brief).then_some(Claim(brief))
    }

    /// Changes the state to `brief` without a check. Only the broken twin of a model calls this.
    pub(crate) fn seize(&self, brief: State) -> Claim {
        self.status.seize(brief);
        Claim(brief)
    }

    /// Changes the state from the claim's brief state to `to`.
    pub(crate) fn settle(&self, claim: Claim, to: State) {
        self.status.put(claim.0, to);
    }

    /// Sets all fields and changes the state from NoStatus to Waiting. Returns `false` if the timer is not in
    /// NoStatus. Runs on: the only thread that arms this timer; it holds the lock of heap `owner`. No other
    /// thread arms the timer at that time, so a store is enough.
    #[inline]
    pub(crate) fn begin(&self, owner: usize, when: u64, period: u64, seq: u64) -> bool {
        let is_new = self.status.is(State::NoStatus);
        if is_new {
            self.set(owner, when, period, seq);
            self.status.put(State::NoStatus, State::Waiting);
        }
        is_new
    }

    /// Sets all fields of a timer that is in no heap and will be inserted into heap `owner`.
    pub(crate) fn begin_again(&self, _: &Claim, owner: usize, when: u64, period: u64, seq: u64) {
        self.set(owner, when, period, seq);
    }

    /// Returns the time by which its heap must be checked for this timer; its entry has the time `when`. Runs
    /// on: the lock's holder, while no other thread uses the timer.
    pub(crate) fn earliest(&self, when: u64) -> u64 {
        match self.state() {
            State::ModifiedEarlier => self.nextwhen.load(Ordering::Relaxed),
            _ => when,
        }
    }

    pub(crate) fn set_when(&self, _: &Claim, when: u64) {
        self.when.store(when, Ordering::Relaxed);
    }

    /// Copies `nextwhen`, the time to which the timer was modified, to `when`. Returns that time.
    pub(crate) fn take_nextwhen(&self, claim: &Claim) -> u64 {
        let when = self.nextwhen.load(Ordering::Relaxed);
        self.set_when(claim, when);
        when
    }

    pub(crate) fn set_owner(&self, _: &Claim, owner: usize) {
        if !broken!("timers_moveall_no_owner") {
            self.put_owner(owner);
        }
    }

    /// Notes where the entry is. Runs on: the holder of the heap's lock.
    #[inline]
    pub(crate) fn keep_place(&self, place: u32) {
        // Relaxed, as below: the lock orders the accesses.
        self.place.store(place, Ordering::Relaxed);
    }

    /// Returns what `keep_place` noted last. Runs on: the holder of the heap's lock.
    pub(crate) fn kept_place(&self) -> usize {
        self.place.load(Ordering::Relaxed) as usize
    }

    fn set(&self, owner: usize, when: u64, period: u64, seq: u64) {
        self.put_owner(owner);
        self.when.store(when, Ordering::Relaxed);
        self.period.store(period, Ordering::Relaxed);
        self.seq.store(seq, Ordering::Relaxed);
    }

    fn put_owner(&self, owner: usize) {
        self.owner.store(u16::try_from(owner).expect("fewer Ps than 2^16"), Ordering::Relaxed);
    }

    /// Stops the timer. Its entry stays in the heap until a lock's holder examines that entry. Returns `true`
    /// if the timer was pending. Go: `deltimer`. Runs on: any thread; `counts` returns the counts of a P.
    pub(crate) fn delete<'c>(&self, counts: impl Fn(usize) -> &'c Counts) -> bool {
        use State::*;
        loop {
            match self.state() {
                from @ (Waiting | ModifiedEarlier | ModifiedLater) => {
                    if broken!("timers_delete_no_modifying") {
                        counts(self.owner()).count_deleted();
                        self.settle(Claim(Modifying), Deleted);
                        return true;
                    }
                    if let Some(claim) = self.claim(from, Modifying) {
                        self.delete_claimed(claim, from, counts(self.owner()));
                        return true;
                    }
                }
                Deleted | Removing | Removed | NoStatus => return false,
                Running | Moving | Modifying => yield_now(),
            }
        }
    }

    /// Counts the timer as deleted, then changes its state to Deleted. Once the state is Deleted, the lock's
    /// holder may remove and uncount the timer at any moment.
    fn delete_claimed(&self, claim: Claim, from: State, counts: &Counts) {
        if broken!("timers_delete_counts_late") {
            self.settle(claim, State::Deleted);
            counts.count_deleted();
            return;
        }
        if from == State::ModifiedEarlier {
            counts.uncount_earlier();
        }
        counts.count_deleted();
        self.settle(claim, State::Deleted);
    }

    /// Arms a timer that is in a heap for another time. Its entry stays where it is. Returns `None` if the
    /// timer is no longer in state `from`. Go: `modtimer`, its `wasRemoved == false` half. Runs on: any
    /// thread.
    pub(crate) fn modify_in_heap<'c>(
        &self,
        from: State,
        (when, period, seq): (u64, u64, u64),
        counts: impl Fn(usize) -> &'c Counts,
    ) -> Option<Modified> {
        let claim = if broken!("timers_modify_no_modifying") {
            self.seize(State::Modifying)
        } else {
            self.claim(from, State::Modifying)?
        };
        let counts = counts(self.owner());
        self.nextwhen.store(when, Ordering::Relaxed);
        self.period.store(period, Ordering::Relaxed);
        self.seq.store(seq, Ordering::Relaxed);
        let earlier = when < self.when();
        match (from == State::ModifiedEarlier, earlier) {
            (false, true) => counts.count_earlier(when),
            (true, true) => counts.lower_modified_earliest(when),
            (true, false) => counts.uncount_earlier(),
            (false, false) => {}
        }
        if from == State::Deleted {
            counts.uncount_deleted();
        }
        self.settle(claim, if earlier { State::ModifiedEarlier } else { State::ModifiedLater });
        Some(Modified { was_pending: from != State::Deleted, wake_for: earlier.then_some(when) })
    }

    /// Sets all fields of a timer that stays in its heap, and whose entry the caller moves to `when`;
    /// uncounts the state `from`. Runs on: the lock's holder.
    pub(crate) fn begin_earlier(
        &self,
        claim: &Claim,
        from: State,
        (when, period, seq): (u64, u64, u64),
        counts: &Counts,
    ) {
        self.set_when(claim, when);
        self.period.store(period, Ordering::Relaxed);
        self.seq.store(seq, Ordering::Relaxed);
        match from {
            State::ModifiedEarlier => counts.uncount_earlier(),
            State::Deleted => counts.uncount_deleted(),
            _ => {}
        }
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the first tick after `now`: the ticks are at `when` and after each period. Ticks that were missed
/// are left out. Precondition: `when` is not after `now`.
pub(crate) fn next_tick(when: u64, period: u64, now: u64) -> u64 {
    let late = now - when;
    when.saturating_add(period.saturating_mul(1 + late / period))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::NEVER;

    #[test]
    fn a_timer_is_forty_bytes() {
        assert_eq!(size_of::<Timer>(), 40);
    }

    #[test]
    fn ticks_keep_to_their_grid() {
        assert_eq!(next_tick(100, 10, 100), 110, "on time");
        assert_eq!(next_tick(100, 10, 109), 110, "late within the period");
        assert_eq!(next_tick(100, 10, 110), 120, "the tick due just now counts as fired");
        assert_eq!(next_tick(100, 10, 1234), 1240, "late by many periods");
        assert_eq!(next_tick(0, 1, NEVER - 1), NEVER, "the last tick");
        assert_eq!(next_tick(100, NEVER, 100), NEVER, "beyond the clock's end");
        assert_eq!(next_tick(5, NEVER / 2, NEVER - 2), NEVER);
    }
}

#[cfg(all(test, loom))]
mod models {
    use crate::models::{Modify, World, explore};
    use loom::thread::spawn;

    #[test]
    fn delete_against_run() {
        explore(5, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let deleter = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.delete(&timer)
            });
            world.check(0, 10, true);
            let deleted = deleter.join().unwrap();
            world.finish(10);
            assert_eq!(world.fired().is_empty(), deleted);
        });
    }

    #[test]
    fn delete_against_delete() {
        explore(5, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let deleter = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.delete(&timer)
            });
            let deleted = world.delete(&timer);
            assert!(deleted ^ deleter.join().unwrap(), "exactly one delete stops the timer");
            world.finish(10);
        });
    }

    /// The `add` of another timer removes the head while a `delete` of that head is under way.
    #[test]
    fn delete_against_clean_head() {
        explore(5, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let deleter = spawn({
                let world = world.clone();
                move || assert!(world.delete(&timer))
            });
            world.add(0, 20, 0, 2);
            deleter.join().unwrap();
            world.finish(20);
            assert_eq!(world.fired(), [2]);
        });
    }

    #[test]
    fn modify_against_run() {
        explore(5, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.modify(0, &timer, 20, 2)
            });
            world.check(0, 10, true);
            let modified = modifier.join().unwrap();
            world.finish(20);
            let expected: &[u64] = if modified.was_pending { &[2] } else { &[1, 2] };
            assert_eq!(world.fired(), expected);
        });
    }

    /// The modifier moves the entry up, or finds the timer taken, or finds the heap locked.
    #[test]
    fn modify_to_an_earlier_time_against_run() {
        explore(3, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.modify(0, &timer, 5, 2)
            });
            world.check(0, 10, true);
            let modified = modifier.join().unwrap();
            world.finish(10);
            let expected: &[u64] = if modified.was_pending { &[2] } else { &[1, 2] };
            assert_eq!(world.fired(), expected);
        });
    }

    #[test]
    fn modify_against_delete() {
        modifies_against_delete(World::modify);
    }

    #[test]
    fn modify_unlocked_against_delete() {
        modifies_against_delete(World::modify_unlocked);
    }

    fn modifies_against_delete(modify: Modify) {
        explore(5, move || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let deleter = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || assert!(world.delete(&timer))
            });
            let modified = modify(&world, 0, &timer, 5, 2);
            deleter.join().unwrap();
            world.finish(10);
            assert_eq!(world.fired().len(), usize::from(!modified.was_pending));
        });
    }

    #[test]
    fn modify_against_modify() {
        explore(5, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || assert!(world.modify(0, &timer, 5, 2).was_pending)
            });
            assert!(world.modify(0, &timer, 15, 3).was_pending);
            modifier.join().unwrap();
            world.finish(15);
            assert_eq!(world.fired().len(), 1);
        });
    }

    /// Two threads insert a timer that is in no heap, each into another heap: the timer gets into one of the
    /// heaps.
    #[test]
    fn two_inserting_modifies() {
        explore(2, || {
            let world = World::new(2);
            let timer = std::sync::Arc::new(super::Timer::new());
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.modify(0, &timer, 10, 1)
            });
            let mine = world.modify(1, &timer, 10, 2);
            let other = modifier.join().unwrap();
            assert!(mine.was_pending ^ other.was_pending, "the later modify finds the timer pending");
            world.finish(10);
            assert_eq!(world.fired().len(), 1);
        });
    }

    /// A deleted timer is armed again while a sweep removes its entry.
    #[test]
    fn modify_against_sweep() {
        explore(5, || {
            let world = World::new(2);
            let timer = world.add(0, 10, 0, 1);
            assert!(world.delete(&timer));
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || assert!(!world.modify(1, &timer, 20, 2).was_pending)
            });
            world.check(0, 5, true);
            modifier.join().unwrap();
            world.finish(20);
            assert_eq!(world.fired(), [2]);
        });
    }

    /// Three threads spin on each other. loom explores one involuntary switch at once, but two take more than
    /// half a minute.
    #[test]
    fn delete_and_modify_against_run() {
        explore(1, || {
            let world = World::new(1);
            let timer = world.add(0, 10, 0, 1);
            let deleter = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.delete(&timer)
            });
            let modifier = spawn({
                let (world, timer) = (world.clone(), timer.clone());
                move || world.modify(0, &timer, 5, 2)
            });
            world.check(0, 10, true);
            deleter.join().unwrap();
            modifier.join().unwrap();
            world.finish(10);
        });
    }
}
