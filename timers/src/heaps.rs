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
/// Whenever an `add`, `modify` or `move_all` returns a time, whoever sleeps until later than that must be woken, or the
/// timer fires late. The protocol that makes sure of it is the caller's, and is two mirrored lists:
///
/// ```text
/// adder                                sleeper
///   1. add / modify / move_all           1. publish when it will wake
///   2. fence(SeqCst)                     2. fence(SeqCst)
///   3. read when the sleeper wakes       3. read `earliest` / `time_sleep_until`
///   4. later than this timer? wake it    4. sleep until then
/// ```
///
/// For that, all times are published when `add`, `modify` and `move_all` return.
pub struct Heaps<H: Handle> {
    heaps: Box<[OnceLock<Box<Timers<H>>>]>,
}

impl<H: Handle> Heaps<H> {
    /// Room for `capacity` Ps, with indices below it; each gets its heap by [`Heaps::open`].
    pub fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "fewer Ps than 2^32");
        Self { heaps: (0..capacity).map(|_| OnceLock::new()).collect() }
    }

    /// Gives P `p` its heap, unless it has one. All below it have theirs.
    pub fn open(&self, p: usize) {
        assert!(p == 0 || self.heaps[p - 1].get().is_some(), "timers: heaps are opened in order");
        self.heaps[p].get_or_init(|| Box::new(Timers::new(p)));
    }

    /// Arms a fresh timer: `fire` gets it and `seq` at `when`, and with a `period` other than 0 at each multiple of that
    /// after it. Returns the time to wake the netpoller for; none if that is [`NEVER`].
    /// Go: `addtimer`. Runs on: any thread; `p` is its P, or some P if it has none.
    ///
    /// # Panics
    ///
    /// If the timer is not fresh (NoStatus), or `p` is not open. No one else may arm the timer at the same time.
    pub fn add(&self, p: usize, h: H, when: u64, period: u64, seq: u64) -> Option<u64> {
        let mut locked = self.opened(p).lock();
        locked.prepare();
        assert!(h.timer().begin(p, when, period, seq), "timers: added a timer that is already in use");
        locked.insert(when, h);
        wake_for(when)
    }

    /// Stops a timer. True if it was armed and now will not fire; false if it has fired, is being fired, or was not
    /// armed. A ticker's tick that has been taken to be fired may still come after true: it brings the `seq` it was
    /// taken with. Never touches the heap; a holder of the heap's lock removes the entry later.
    /// Go: `deltimer`. Runs on: any thread.
    pub fn delete(&self, timer: &Timer) -> bool {
        timer.delete(|p| self.counts(p))
    }

    /// Arms a timer in whatever state, or sets an armed one for another time.
    /// Go: `modtimer`. Runs on: any thread; `p` is its P, or some P if it has none.
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

    /// The lock before the claim: nobody waits for a lock in a brief state. None if the timer is no longer in `from`.
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

    /// Fires what is due at `now` in the heap of `p`: calls `fire` with each timer, the `seq` it was armed with, and
    /// `now`, holding no lock. Returns at once, without locking, if nothing is due. `own` says that the caller has this P:
    /// it then also removes deleted timers, if they are more than a quarter of the heap. A call removes a bounded portion
    /// of deleted timers, also of those that are due; [`Checked::more`] asks for another call.
    /// Go: `checkTimers`. Runs on: any thread.
    ///
    /// `fire` may add, delete and modify timers. It should not panic; if it does, what was taken together with that
    /// timer is fired before the panic goes on, and nothing is lost.
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

    /// When somebody must look at the heap of `p`: at the latest when its next timer is due, perhaps earlier; [`NEVER`]
    /// if it is empty. Two loads. Runs on: any thread.
    #[inline]
    pub fn earliest(&self, p: usize) -> u64 {
        self.heap(p).map_or(NEVER, |timers| timers.counts.earliest())
    }

    /// [`Heaps::earliest`] over all Ps. Go: `timeSleepUntil`. Runs on: any thread.
    pub fn time_sleep_until(&self) -> u64 {
        // In order, so that few of them need a look where many could be.
        let opened = self.heaps.iter().map_while(OnceLock::get);
        opened.map(|timers| timers.counts.earliest()).min().unwrap_or(NEVER)
    }

    /// How many timers of `p` are armed, nearly: others may be arming and stopping them. Runs on: any thread.
    pub fn len(&self, p: usize) -> usize {
        self.heap(p).map_or(0, |timers| timers.counts.live())
    }

    /// Moves all armed timers of P `from` to P `to`, for good, before `from` goes away. Returns the time to wake the
    /// netpoller for: the earliest that moved. Go: `moveTimers`. Runs on: any thread.
    ///
    /// # Panics
    ///
    /// If the two are one, or `to` is not open.
    pub fn move_all(&self, from: usize, to: usize) -> Option<u64> {
        let to = self.opened(to);
        self.heap(from).and_then(|from| wake_for(from.move_all(to)))
    }

    /// Walks the heap of `p`; panics if it is out of order or holds what it should not. Others may be at work.
    pub fn verify(&self, p: usize) {
        if let Some(timers) = self.heap(p) {
            timers.lock().verify();
        }
    }

    /// [`Heaps::verify`], and the counts as well: nobody else may be at work on the timers of `p`.
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

    /// Deleted and armed again while the heap moves, with a thief in it.
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

    /// The two lists at the top of [`Heaps`](super::Heaps): the sleeper sees the timer, or the adder the sleeper.
    fn nobody_oversleeps(arm: fn(&World)) {
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
    fn nobody_oversleeps_a_new_timer() {
        nobody_oversleeps(|world| drop(world.add(0, 40, 0, 2)));
    }

    #[test]
    fn nobody_oversleeps_a_timer_made_earlier() {
        nobody_oversleeps(|_| ());
    }
}
