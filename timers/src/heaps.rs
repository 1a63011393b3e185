//! The timers of all Ps: add, delete, modify, check, move all.

use std::sync::{Arc, OnceLock};

use crate::Handle;
use crate::clock::NEVER;
use crate::counts::Counts;
use crate::index_set::IndexSet;
use crate::state::State::{self, *};
use crate::sync::{broken, yield_now};
use crate::timer::{Modified, Timer};
use crate::timers::{Checked, Locked, Timers};

/// The timers of one runtime, a heap for each P.
///
/// When `add`, `modify` or `move_all` returns a time, the caller must wake each thread that sleeps until a
/// later time. Otherwise the timer fires late. The callers follow this protocol:
///
/// ```text
/// adder                                  sleeper
///   1. add / modify / move_all             1. publish the time at which the sleeper will wake
///      returned no time: done              2. fence(SeqCst)
///   2. fence(SeqCst)                       3. read `earliest` / `time_sleep_until`
///   3. read the sleeper's time             4. sleep until then
///   4. later than this timer: wake it      5. check the heaps that are due, and begin again
/// ```
///
/// `add`, `modify` and `move_all` publish all times before they return. `add` and `modify` return a time only
/// if that may be the first time of its heap. Otherwise the heap has published an earlier time. The adder of
/// that time has told the sleeper, or is about to, and the sleeper looks at the heap again by then. The adder
/// compares under the heap's lock, because a heap publishes a later first time only under this lock. So the
/// holder that removes the earlier timer finds the new one.
pub struct Heaps<H: Handle> {
    heaps: Box<[OnceLock<Box<Timers<H>>>]>,
    /// The Ps with timers, or with a heap that no thread has seen to be empty since. A heap enters itself with
    /// its first timer, and a thread that finds it empty takes it out.
    occupied: Arc<IndexSet>,
}

impl<H: Handle> Heaps<H> {
    /// Makes room for `capacity` Ps, with indices below `capacity`. [`Heaps::open`] makes the heap of a P.
    pub fn new(capacity: usize) -> Self {
        assert!(u16::try_from(capacity).is_ok(), "fewer Ps than 2^16");
        let heaps = (0..capacity).map(|_| OnceLock::new()).collect();
        Self { heaps, occupied: Arc::new(IndexSet::new(capacity)) }
    }

    /// Drops all heaps and keeps the room for them: no P has one any more. Runs on: the only thread that uses
    /// these heaps.
    #[must_use]
    pub fn emptied(mut self) -> Self {
        self.heaps.iter_mut().map_while(OnceLock::take).for_each(drop);
        self.occupied.iter().for_each(|p| self.occupied.remove(p));
        self
    }

    /// Makes the heap of P `p`, unless the P has one. Precondition: each P with a lower index has its heap.
    pub fn open(&self, p: usize) {
        assert!(p == 0 || self.heaps[p - 1].get().is_some(), "timers: heaps are opened in order");
        self.heaps[p].get_or_init(|| Box::new(Timers::new(p, self.occupied.clone())));
    }

    /// Makes the heaps up to `p`, unless `p` has its heap.
    pub fn open_up_to(&self, p: usize) {
        if self.heap(p).is_none() {
            (0..=p).for_each(|p| self.open(p));
        }
    }

    /// Returns how many heaps are open. Their indices are those below.
    pub fn opened_heaps(&self) -> usize {
        self.heaps.iter().map_while(OnceLock::get).count()
    }

    /// Arms a fresh timer: `fire` gets the timer and `seq` at `when`. With a `period` other than 0, `fire`
    /// gets them again after each period. Returns the time for which to wake the netpoller; `None` if this is
    /// not the first timer of the heap. Precondition: no other thread arms this timer meanwhile. Go:
    /// `addtimer`. Runs on: any thread; `p` is the thread's P, or any P if the thread has none.
    ///
    /// # Panics
    ///
    /// If the timer is not fresh (NoStatus), or `p` is not open.
    pub fn add(&self, p: usize, h: H, when: u64, period: u64, seq: u64) -> Option<u64> {
        let mut locked = self.opened(p).lock();
        locked.prepare();
        assert!(h.timer().begin(p, when, period, seq), "timers: added a timer that is already in use");
        locked.insert(when, h)
    }

    /// Stops a timer. Returns `true` if the timer was armed and will not fire; `false` if the timer has
    /// fired, is being fired, or was not armed. After `true` for a ticker, a tick that was taken before may
    /// still fire, with the `seq` that the ticker had then. Never touches the heap; a holder of the heap's
    /// lock removes the entry later. Go: `deltimer`. Runs on: any thread.
    pub fn delete(&self, timer: &Timer) -> bool {
        timer.delete(|p| self.counts(p))
    }

    /// Stops a timer, as [`Heaps::delete`] does, and takes it out of its heap, so that [`Heaps::modify`]
    /// puts it into another one. Precondition: no other thread arms this timer during the call. Runs on: any
    /// thread.
    pub fn remove(&self, timer: &Timer) -> bool {
        let was_pending = self.delete(timer);
        while timer.state() == Deleted {
            self.opened(timer.owner()).lock().remove_deleted(timer);
        }
        was_pending
    }

    /// Arms a timer for `when`, in whichever state the timer is. An armed timer gets this time instead of its
    /// own. Takes time in proportion to the logarithm of the heap's size. Go: `modtimer`. Runs on: any
    /// thread; `p` is the thread's P, or any P if the thread has none.
    ///
    /// # Panics
    ///
    /// If `p` is not open.
    pub fn modify(&self, p: usize, h: &H, when: u64, period: u64, seq: u64) -> Modified {
        self.modify_by(p, h, (when, period, seq), Timers::try_lock)
    }

    /// [`Heaps::modify`]; `lock` returns `None` if another thread has the lock of the heap in which the timer
    /// is.
    fn modify_by<'a>(
        &'a self,
        p: usize,
        h: &H,
        to @ (when, ..): (u64, u64, u64),
        lock: impl Fn(&'a Timers<H>) -> Option<Locked<'a, H>>,
    ) -> Modified {
        let timer = h.timer();
        loop {
            let modified = match timer.state() {
                from @ (Waiting | ModifiedEarlier | ModifiedLater | Deleted) => {
                    // Both the time and the owner may change before the lock is taken.
                    let locked = if when < timer.when() { lock(self.opened(timer.owner())) } else { None };
                    match locked.and_then(|locked| Some((locked.place_if_later(timer, when)?, locked))) {
                        Some((i, mut locked)) => locked.move_up(i, timer, from, to),
                        None => timer.modify_in_heap(from, to, |owner| self.counts(owner)),
                    }
                }
                from @ (NoStatus | Removed) => self.insert_again(p, h, from, to),
                Running | Removing | Moving | Modifying => None,
            };
            match modified {
                Some(modified) => return modified,
                None => yield_now(),
            }
        }
    }

    /// Inserts a timer that is in no heap. Returns `None` if the timer is no longer in `from`. The lock comes
    /// before the claim: a thread never waits for a lock while its timer is in a brief state.
    fn insert_again(&self, p: usize, h: &H, from: State, to: (u64, u64, u64)) -> Option<Modified> {
        let (timer, (when, period, seq)) = (h.timer(), to);
        let entry = h.clone();
        let too_early = broken!("timers_compares_before_the_lock").then(|| self.earliest(p));
        let mut locked = self.opened(p).lock();
        locked.prepare();
        let claim = timer.claim(from, Modifying)?;
        timer.begin_again(&claim, p, when, period, seq);
        let mut wake_for = locked.insert(when, entry);
        timer.settle(claim, Waiting);
        if let Some(first) = too_early {
            wake_for = (when < first).then_some(when);
        }
        Some(Modified { was_pending: false, wake_for })
    }

    /// [`Heaps::modify`] while another thread has the lock of the timer's heap.
    #[cfg(all(test, loom))]
    pub(crate) fn modify_unlocked(&self, p: usize, h: &H, when: u64, seq: u64) -> Modified {
        self.modify_by(p, h, (when, 0, seq), |_| None)
    }

    /// Fires the timers in the heap of `p` that are due at `now`. Calls `fire` with each timer, its `seq` and
    /// the time at which it was due, without a lock. If no timer is due, returns at once and takes no lock.
    /// `own` is true if the caller has this P. The call then also removes deleted timers if they are more
    /// than a quarter of the heap. A call removes a bounded portion of the deleted timers, due or not;
    /// [`Checked::more`] asks for another call. Go: `checkTimers`. Runs on: any thread.
    ///
    /// `fire` may add, delete and modify timers. `fire` should not panic. If `fire` panics, the timers that
    /// were taken together with this one fire before the panic goes on, and no timer is lost.
    pub fn check(&self, p: usize, now: u64, own: bool, fire: &mut impl FnMut(H, u64, u64)) -> Checked {
        match self.heap(p) {
            Some(timers) => timers.check(now, own, fire),
            None => Checked { next: NEVER, ran: false, more: false },
        }
    }

    /// Removes a bounded portion of the deleted timers of `p` if they are many, and more than a quarter.
    /// Returns `true` if they were many: call again soon. Costs two loads if they are few. Runs on: the owner
    /// of P `p`.
    pub fn tidy(&self, p: usize) -> bool {
        self.heap(p).is_some_and(Timers::tidy)
    }

    /// Returns the time by which the heap of `p` must be checked; [`NEVER`] if the heap is empty. That time
    /// is never later than the next timer, but may be earlier. Costs two loads. Runs on: any thread.
    #[inline]
    pub fn earliest(&self, p: usize) -> u64 {
        self.heap(p).map_or(NEVER, |timers| timers.counts.earliest())
    }

    /// Returns the least [`Heaps::earliest`] of all Ps. Go: `timeSleepUntil`. Runs on: any thread.
    pub fn time_sleep_until(&self) -> u64 {
        self.occupied().map(Timers::look).min().unwrap_or(NEVER)
    }

    /// Returns the Ps with timers that must be checked by `now`. Runs on: any thread.
    pub fn due(&self, now: u64) -> impl Iterator<Item = usize> + '_ {
        self.occupied().filter(move |timers| timers.look() <= now).map(Timers::index)
    }

    /// After a full fence this misses no heap that got a timer before.
    fn occupied(&self) -> impl Iterator<Item = &Timers<H>> {
        self.occupied.iter().filter_map(|p| self.heap(p))
    }

    /// Returns `true` if a timer is armed. Other threads may arm and stop timers during the call. Runs on: any
    /// thread.
    pub fn any(&self) -> bool {
        self.occupied().any(|timers| timers.look() != NEVER && timers.counts.live() > 0)
    }

    /// Returns about how many timers of `p` are armed. Other threads may arm and stop timers meanwhile. Runs
    /// on: any thread.
    pub fn len(&self, p: usize) -> usize {
        self.heap(p).map_or(0, |timers| timers.counts.live())
    }

    /// Moves all armed timers of P `from` to P `to`; the caller is about to retire `from`. Returns the time
    /// for which to wake the netpoller: the earliest of the moved timers; `None` if none of them will fire.
    /// Go: `moveTimers`. Runs on: any thread.
    ///
    /// # Panics
    ///
    /// If `from` and `to` are the same P, or `to` is not open.
    pub fn move_all(&self, from: usize, to: usize) -> Option<u64> {
        let to = self.opened(to);
        self.heap(from).map(|from| from.move_all(to)).filter(|&when| when != NEVER)
    }

    /// Examines the heap of `p`. Panics if the heap is out of order, or holds a timer that it must not hold.
    /// Other threads may use the heap meanwhile.
    pub fn verify(&self, p: usize) {
        if let Some(timers) = self.heap(p) {
            timers.lock().verify();
        }
    }

    /// [`Heaps::verify`], and panics if a count or a published time is wrong. Precondition: no other thread
    /// uses the timers of `p`.
    pub fn verify_idle(&self, p: usize) {
        if let Some(timers) = self.heap(p) {
            timers.lock().verify_idle();
        }
    }

    #[inline]
    fn heap(&self, p: usize) -> Option<&Timers<H>> {
        self.heaps[p].get().map(|timers| &**timers)
    }

    fn opened(&self, p: usize) -> &Timers<H> {
        self.heap(p).expect("timers: a P's heap is used before it was opened")
    }

    fn counts(&self, p: usize) -> &Counts {
        &self.opened(p).counts
    }
}

#[cfg(all(test, loom))]
mod models {
    use crate::clock::NEVER;
    use crate::models::{Modify, World, explore};
    use crate::{Modified, Timer};
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::thread::spawn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn add_against_thief() {
        explore(5, || {
            let world = World::new(1);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false)
            });
            world.add(0, 10, 0, 1);
            world.add(0, 5, 0, 2);
            thief.join().unwrap();
            world.check(0, 10, true);
            assert_eq!(world.fired(), [1, 2]);
            world.finish(10);
        });
    }

    #[test]
    fn delete_against_move_all() {
        explore(5, || {
            let world = World::new(2);
            let (timer, stays) = (world.add(0, 10, 0, 1), world.add(0, 20, 0, 2));
            let deleter = spawn({
                let world = world.clone();
                move || assert!(world.delete(&timer))
            });
            world.move_all(0, 1);
            deleter.join().unwrap();
            assert_eq!((world.heaps.len(0), world.heaps.len(1)), (0, 1));
            assert_eq!(world.earliest(0), NEVER);
            world.finish(20);
            assert_eq!(world.fired(), [2]);
            drop(stays);
        });
    }

    /// A timer changes its heap while a thief fires the timers of the first.
    #[test]
    fn remove_and_modify_against_thief() {
        explore(5, || {
            let world = World::new(2);
            let timer = world.add(0, 10, 0, 1);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false)
            });
            world.remove(&timer);
            world.modify(1, &timer, 20, 2);
            assert_eq!(timer.owner(), 1);
            thief.join().unwrap();
            assert!(world.check(1, 20, true).ran);
            world.finish(20);
        });
    }

    /// A timer leaves its heap during a walk, which finds another timer all the same.
    #[test]
    fn remove_against_walk() {
        explore(3, || {
            let world = World::new(2);
            let (timer, soon, _last) =
                (world.add(0, 100, 0, 1), world.add(0, 100, 0, 2), world.add(0, 100, 0, 3));
            world.modify_unlocked(0, &soon, 5, 4);
            let walker = spawn({
                let world = world.clone();
                move || world.check(0, 5, false)
            });
            world.remove(&timer);
            world.modify(1, &timer, 50, 5);
            walker.join().unwrap();
            assert_eq!(world.fired(), [4]);
            world.finish(100);
        });
    }

    #[test]
    fn modify_against_move_all() {
        modifies_against_move_all(World::modify);
    }

    #[test]
    fn modify_unlocked_against_move_all() {
        modifies_against_move_all(World::modify_unlocked);
    }

    fn modifies_against_move_all(modify: Modify) {
        explore(5, move || {
            let world = World::new(2);
            let timer = world.add(0, 10, 0, 1);
            let modifier = spawn({
                let world = world.clone();
                move || assert!(modify(&world, 0, &timer, 5, 2).was_pending)
            });
            world.move_all(0, 1);
            modifier.join().unwrap();
            assert_eq!(world.earliest(0), NEVER);
            world.check(1, 5, false);
            assert_eq!(world.fired(), [2]);
            world.finish(10);
        });
    }

    /// A timer is deleted and armed again while `move_all` moves its heap and a thief checks that heap.
    #[test]
    fn delete_modify_and_thief_against_move_all() {
        explore(2, || {
            let world = World::new(2);
            let timer = world.add(0, 10, 0, 1);
            let thief = spawn({
                let world = world.clone();
                move || world.check(0, 10, false)
            });
            let holder = spawn({
                let world = world.clone();
                move || {
                    world.delete(&timer);
                    assert!(!world.modify(1, &timer, 5, 2).was_pending);
                }
            });
            world.move_all(0, 1);
            thief.join().unwrap();
            holder.join().unwrap();
            world.finish(10);
        });
    }

    #[test]
    fn two_heaps_change_places() {
        explore(5, || {
            let world = World::new(2);
            world.add(0, 10, 0, 1);
            world.add(1, 20, 0, 2);
            let mover = spawn({
                let world = world.clone();
                move || world.move_all(1, 0)
            });
            world.move_all(0, 1);
            mover.join().unwrap();
            assert_eq!(world.heaps.len(0) + world.heaps.len(1), 2);
            world.finish(20);
            assert_eq!(world.fired(), [1, 2]);
        });
    }

    /// The protocol of [`Heaps`](super::Heaps): the sleeper sees the timer, or the adder sees that the
    /// sleeper must be woken.
    fn never_oversleeps(arm: fn(&World, &Arc<Timer>)) {
        explore(5, move || {
            let world = World::new(1);
            let timer = world.add(0, 100, 0, 1);
            let wakes_at = Arc::new(AtomicU64::new(0));
            let sleeper = spawn({
                let (world, wakes_at) = (world.clone(), wakes_at.clone());
                move || {
                    world.turn();
                    wakes_at.store(NEVER, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    world.heaps.time_sleep_until()
                }
            });
            arm(&world, &timer);
            fence(Ordering::SeqCst);
            let must_wake = wakes_at.load(Ordering::Relaxed) == NEVER;
            let sleeps_until = sleeper.join().unwrap();
            assert!(must_wake || sleeps_until <= 50);
            world.finish(100);
        });
    }

    #[test]
    fn a_sleeper_does_not_miss_a_new_timer() {
        never_oversleeps(|world, _| drop(world.add(0, 50, 0, 2)));
    }

    #[test]
    fn a_sleeper_does_not_miss_a_timer_made_earlier() {
        never_oversleeps(|world, timer| _ = world.modify(0, timer, 50, 3));
    }

    #[test]
    fn a_sleeper_does_not_miss_a_timer_made_earlier_without_the_lock() {
        never_oversleeps(|world, timer| _ = world.modify_unlocked(0, timer, 50, 3));
    }

    /// A sleeper, as `never_oversleeps` has it, that adders tell only of timers for which they are to wake
    /// it.
    struct Sleeper {
        world: Arc<World>,
        wakes_at: AtomicU64,
    }

    impl Sleeper {
        fn new(world: &Arc<World>) -> Arc<Self> {
            Arc::new(Self { world: world.clone(), wakes_at: AtomicU64::new(0) })
        }

        /// Fires what is due at 30. Returns the time until which the sleeper then sleeps.
        fn checks_and_sleeps(&self) -> u64 {
            self.world.check(0, 30, true);
            self.sleeps()
        }

        fn sleeps(&self) -> u64 {
            self.wakes_at.store(NEVER, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.world.heaps.time_sleep_until()
        }

        /// Arms a timer for `when` by `arm`. Returns `true` if that wakes the sleeper.
        fn is_woken_by(&self, when: u64, arm: impl FnOnce() -> Modified) -> bool {
            let Some(wake_for) = arm().wake_for else { return false };
            assert_eq!(wake_for, when);
            fence(Ordering::SeqCst);
            self.wakes_at.load(Ordering::Relaxed) == NEVER
        }
    }

    /// A sleeper leaves the heap out, because it is empty, while another thread adds its first timer.
    #[test]
    fn a_sleeper_does_not_miss_the_first_timer_of_a_heap_that_is_left_out() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        static LEFT_OUT: AtomicBool = AtomicBool::new(false);
        explore(5, || {
            let world = World::new(1);
            world.add(0, 30, 0, 1);
            let sleeper = Sleeper::new(&world);
            let sleeps = spawn({
                let sleeper = sleeper.clone();
                move || {
                    sleeper.world.check(0, 30, true);
                    sleeper.world.heaps.time_sleep_until();
                    let left_out = sleeper.world.heaps.occupied().next().is_none();
                    LEFT_OUT.fetch_or(left_out, Ordering::Relaxed);
                    sleeper.sleeps()
                }
            });
            let timer = Arc::new(Timer::new());
            let woken = sleeper.is_woken_by(50, || world.modify(0, &timer, 50, 2));
            let sleeps_until = sleeps.join().unwrap();
            SEEN.fetch_or(sleeps_until <= 50, Ordering::Relaxed);
            assert!(woken || sleeps_until <= 50, "until {sleeps_until}");
            assert_eq!(world.heaps.time_sleep_until(), 50);
            world.finish(100);
        });
        assert!(SEEN.load(Ordering::Relaxed) && LEFT_OUT.load(Ordering::Relaxed));
    }

    /// An adder leaves the sleeper to an earlier timer, which the sleeper fires meanwhile.
    #[test]
    fn a_sleeper_finds_a_timer_behind_an_earlier_one() {
        explore(5, || {
            let world = World::new(1);
            world.add(0, 30, 0, 1);
            let sleeper = Sleeper::new(&world);
            let sleeps = spawn({
                let sleeper = sleeper.clone();
                move || sleeper.checks_and_sleeps()
            });
            let timer = Arc::new(Timer::new());
            let woken = sleeper.is_woken_by(50, || world.modify(0, &timer, 50, 2));
            let sleeps_until = sleeps.join().unwrap();
            assert!(woken || sleeps_until <= 50, "until {sleeps_until}");
            world.finish(100);
        });
    }

    /// The same, if the timer lies in the heap already, for a later time.
    #[test]
    fn a_sleeper_finds_a_timer_moved_up_behind_an_earlier_one() {
        explore(5, || {
            let world = World::new(1);
            world.add(0, 30, 0, 1);
            let timer = world.add(0, 100, 0, 2);
            let sleeper = Sleeper::new(&world);
            let sleeps = spawn({
                let sleeper = sleeper.clone();
                move || sleeper.checks_and_sleeps()
            });
            let woken = sleeper.is_woken_by(50, || world.modify(0, &timer, 50, 3));
            let sleeps_until = sleeps.join().unwrap();
            assert!(woken || sleeps_until <= 50, "until {sleeps_until}");
            world.finish(100);
        });
    }

    /// Two adders: the later timer may be left to the adder of the earlier one, which may not have told the
    /// sleeper yet.
    #[test]
    fn a_sleeper_does_not_miss_the_earlier_of_two_new_timers() {
        explore(2, || {
            let world = World::new(1);
            let sleeper = Sleeper::new(&world);
            let adder = |when| {
                let (world, sleeper) = (world.clone(), sleeper.clone());
                let timer = Arc::new(Timer::new());
                move || sleeper.is_woken_by(when, || world.modify(0, &timer, when, when))
            };
            let (earlier, later) = (spawn(adder(40)), spawn(adder(50)));
            let sleeps_until = sleeper.checks_and_sleeps();
            let woken = [earlier.join().unwrap(), later.join().unwrap()];
            assert!(woken[0] || sleeps_until <= 40, "until {sleeps_until}, {woken:?}");
            world.finish(100);
        });
    }
}
