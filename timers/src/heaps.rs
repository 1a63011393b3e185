//! The timers of all Ps: add, delete, modify, check, move all.

use std::sync::OnceLock;

use crate::Handle;
use crate::clock::NEVER;
use crate::counts::Counts;
use crate::state::State::{self, *};
use crate::sync::yield_now;
use crate::timer::{Modified, Timer, wake_for};
use crate::timers::{Checked, Timers};

/// The timers of one runtime, a heap for each P.
///
/// When `add`, `modify` or `move_all` returns a time, the caller must wake each thread that sleeps until a later time.
/// Otherwise the timer fires late. The callers follow this protocol:
///
/// ```text
/// adder                                  sleeper
///   1. add / modify / move_all             1. publish the time at which the sleeper will wake
///   2. fence(SeqCst)                       2. fence(SeqCst)
///   3. read the sleeper's time             3. read `earliest` / `time_sleep_until`
///   4. later than this timer: wake it      4. sleep until then
/// ```
///
/// `add`, `modify` and `move_all` publish all times before they return.
pub struct Heaps<H: Handle> {
    heaps: Box<[OnceLock<Box<Timers<H>>>]>,
}

impl<H: Handle> Heaps<H> {
    /// Makes room for `capacity` Ps, with indices below `capacity`. [`Heaps::open`] makes the heap of a P.
    pub fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "fewer Ps than 2^32");
        Self { heaps: (0..capacity).map(|_| OnceLock::new()).collect() }
    }

    /// Makes the heap of P `p`, unless the P has one. Precondition: each P with a lower index has its heap.
    pub fn open(&self, p: usize) {
        assert!(p == 0 || self.heaps[p - 1].get().is_some(), "timers: heaps are opened in order");
        self.heaps[p].get_or_init(|| Box::new(Timers::new(p)));
    }

    /// Arms a fresh timer: `fire` gets the timer and `seq` at `when`. With a `period` other than 0, `fire` gets them again
    /// after each period. Returns the time for which to wake the netpoller; `None` if the time is [`NEVER`].
    /// Precondition: no other thread arms this timer meanwhile.
    /// Go: `addtimer`. Runs on: any thread; `p` is the thread's P, or any P if the thread has none.
    ///
    /// # Panics
    ///
    /// If the timer is not fresh (NoStatus), or `p` is not open.
    pub fn add(&self, p: usize, h: H, when: u64, period: u64, seq: u64) -> Option<u64> {
        let mut locked = self.opened(p).lock();
        locked.prepare();
        assert!(h.timer().begin(p, when, period, seq), "timers: added a timer that is already in use");
        locked.insert(when, h);
        wake_for(when)
    }

    /// Stops a timer. Returns `true` if the timer was armed and will not fire; `false` if the timer has fired, is being
    /// fired, or was not armed. After `true` for a ticker, a tick that was taken before may still fire, with the `seq` that the
    /// ticker had then. Never touches the heap; a holder of the heap's lock removes the entry later.
    /// Go: `deltimer`. Runs on: any thread.
    pub fn delete(&self, timer: &Timer) -> bool {
        timer.delete(|p| self.counts(p))
    }

    /// Arms a timer for `when`, in whichever state the timer is. An armed timer gets this time instead of its own.
    /// Go: `modtimer`. Runs on: any thread; `p` is the thread's P, or any P if the thread has none.
    ///
    /// # Panics
    ///
    /// If `p` is not open.
    pub fn modify(&self, p: usize, h: &H, when: u64, period: u64, seq: u64) -> Modified {
        let timer = h.timer();
        loop {
            let modified = match timer.state() {
                from @ (Waiting | ModifiedEarlier | ModifiedLater | Deleted) => {
                    timer.modify_in_heap(from, (when, period, seq), |owner| self.counts(owner))
                }
                from @ (NoStatus | Removed) => self.insert_again(p, h, from, (when, period, seq)),
                Running | Removing | Moving | Modifying => None,
            };
            match modified {
                Some(modified) => return modified,
                None => yield_now(),
            }
        }
    }

    /// Inserts a timer that is in no heap. Returns `None` if the timer is no longer in `from`. The lock comes before the
    /// claim: a thread never waits for a lock while its timer is in a brief state.
    fn insert_again(&self, p: usize, h: &H, from: State, to: (u64, u64, u64)) -> Option<Modified> {
        let (timer, (when, period, seq)) = (h.timer(), to);
        let entry = h.clone();
        let mut locked = self.opened(p).lock();
        locked.prepare();
        let claim = timer.claim(from, Modifying)?;
        timer.begin_again(&claim, p, when, period, seq);
        locked.insert(when, entry);
        timer.settle(claim, Waiting);
        Some(Modified::inserted(when))
    }

    /// Fires the timers in the heap of `p` that are due at `now`: calls `fire` with each timer, its `seq` and the time at which it was due, without
    /// a lock. If no timer is due, returns at once and takes no lock. `own` is true if the caller has this P: the call then
    /// also removes deleted timers if they are more than a quarter of the heap. A call removes a bounded portion of the
    /// deleted timers, due or not; [`Checked::more`] asks for another call.
    /// Go: `checkTimers`. Runs on: any thread.
    ///
    /// `fire` may add, delete and modify timers. `fire` should not panic. If `fire` panics, the timers that were taken
    /// together with this one fire before the panic goes on, and no timer is lost.
    pub fn check(&self, p: usize, now: u64, own: bool, fire: &mut impl FnMut(H, u64, u64)) -> Checked {
        match self.heap(p) {
            Some(timers) => timers.check(now, own, fire),
            None => Checked { next: NEVER, ran: false, more: false },
        }
    }

    /// Removes a bounded portion of the deleted timers of `p` if they are many, and more than a quarter. Returns `true` if
    /// they were many: call again soon. Costs two loads if they are few. Runs on: the owner of P `p`.
    pub fn tidy(&self, p: usize) -> bool {
        self.heap(p).is_some_and(Timers::tidy)
    }

    /// Returns the time by which the heap of `p` must be checked; [`NEVER`] if the heap is empty. That time is never later
    /// than the next timer, but may be earlier. Costs two loads. Runs on: any thread.
    #[inline]
    pub fn earliest(&self, p: usize) -> u64 {
        self.heap(p).map_or(NEVER, |timers| timers.counts.earliest())
    }

    /// Returns the least [`Heaps::earliest`] of all Ps. Go: `timeSleepUntil`. Runs on: any thread.
    pub fn time_sleep_until(&self) -> u64 {
        // Heaps are opened in order, so the first place without a heap ends the search.
        let opened = self.heaps.iter().map_while(OnceLock::get);
        opened.map(|timers| timers.counts.earliest()).min().unwrap_or(NEVER)
    }

    /// Returns about how many timers of `p` are armed. Other threads may arm and stop timers meanwhile. Runs on: any thread.
    pub fn len(&self, p: usize) -> usize {
        self.heap(p).map_or(0, |timers| timers.counts.live())
    }

    /// Moves all armed timers of P `from` to P `to`; the caller is about to retire `from`. Returns the time for which to wake
    /// the netpoller: the earliest of the moved timers; `None` if none of them will fire. Go: `moveTimers`. Runs on: any
    /// thread.
    ///
    /// # Panics
    ///
    /// If `from` and `to` are the same P, or `to` is not open.
    pub fn move_all(&self, from: usize, to: usize) -> Option<u64> {
        let to = self.opened(to);
        self.heap(from).and_then(|from| wake_for(from.move_all(to)))
    }

    /// Examines the heap of `p`. Panics if the heap is out of order, or holds a timer that it must not hold. Other threads
    /// may use the heap meanwhile.
    pub fn verify(&self, p: usize) {
        if let Some(timers) = self.heap(p) {
            timers.lock().verify();
        }
    }

    /// [`Heaps::verify`], and panics if a count or a published time is wrong. Precondition: no other thread uses the timers
    /// of `p`.
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
    use crate::models::{World, explore};
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::thread::spawn;
    use std::sync::Arc;

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

    #[test]
    fn modify_against_move_all() {
        explore(5, || {
            let world = World::new(2);
            let timer = world.add(0, 10, 0, 1);
            let modifier = spawn({
                let world = world.clone();
                move || assert!(world.modify(0, &timer, 5, 2).was_pending)
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

    /// The protocol of [`Heaps`](super::Heaps): the sleeper sees the timer, or the adder sees that the sleeper must be woken.
    fn never_oversleeps(arm: fn(&World)) {
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
            arm(&world);
            world.modify(0, &timer, 50, 3);
            fence(Ordering::SeqCst);
            let must_wake = wakes_at.load(Ordering::Relaxed) == NEVER;
            let sleeps_until = sleeper.join().unwrap();
            assert!(must_wake || sleeps_until <= 50);
            world.finish(100);
        });
    }

    #[test]
    fn a_sleeper_does_not_miss_a_new_timer() {
        never_oversleeps(|world| drop(world.add(0, 40, 0, 2)));
    }

    #[test]
    fn a_sleeper_does_not_miss_a_timer_made_earlier() {
        never_oversleeps(|_| ());
    }
}
