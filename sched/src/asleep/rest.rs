//! How Gs that are bound to an M keep that M from ending, and how their wakers wake that M from its sleep.
//!
//! A G is bound to its M while it is stopped inside a poll or in the middle of an unwind. In strict mode a G
//! is bound from its first line on. An M to which Gs are bound must not end: `Idle::take_unneeded` reads
//! [`Homes`] under the lock of the list in which the M is parked. The count changes only on the M's own
//! thread, and never while the M is in that list.
//!
//! ```text
//!   the waker of a bound G                  its M
//!   put the G into the M's queue            begin     say how it is going to sleep
//!   full fence                                        full fence
//!   look: the M sleeps? wake it that way              look at the queue: not empty? stay awake
//!                                           over      say that it is awake; then look at the queue
//! ```
//!
//! A wake-up may come when the M is already awake for another reason. The M then looks at its queue once more
//! than needed.
//!
//! **The search for deadlocks** reads the same word (`end/deadlock.rs`). An M that sleeps outside of the list
//! of parked Ms is at rest if it says so and its queue is empty:
//!
//! ```text
//!   the M                                          the search
//!   begin   before it sleeps, without a P          read: does the M sleep?
//!   over    before it takes a P                    look at the M's queue: is it empty?
//!   take a G, with a P                             look at the Ps: are all idle? are the ticks as before?
//! ```
//!
//! The M says that it is awake before it can have a G in hand. So a wait that was decided before its commit,
//! which the M makes runnable without a P, is never overlooked.

use crate::sync::{
    atomic::{AtomicU8, AtomicUsize, Ordering},
    broken, full_fence,
};

/// How an M sleeps; this decides how a waker wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum SleepKind {
    /// On its note.
    Parked = 1,
    /// In the netpoller.
    Polls = 2,
    /// On its note, as `Parked`; it is in no list of parked Ms, because it is reserved (`run/reserved.rs`).
    Reserved = 3,
}

/// How many Gs are bound to an M, parked Gs included.
#[derive(Debug)]
pub(crate) struct Homes(AtomicUsize);

impl Homes {
    pub(crate) fn new() -> Self {
        Homes(AtomicUsize::new(0))
    }

    /// Counts a G that is bound to the M from now on. *Runs on: the M.*
    pub(crate) fn add(&self) {
        // Relaxed, here and below: the lock of the idle list orders each change before another thread's look.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a G that is no longer bound to the M. *Runs on: the M.*
    pub(crate) fn remove(&self) {
        let before = self.0.load(Ordering::Relaxed);
        debug_assert!(before > 0, "more Gs leave an M than were bound to it");
        self.0.store(before - 1, Ordering::Relaxed);
    }

    /// Returns `true` if a G is bound to the M. *Runs on: the M; or a thread that found the M in the idle
    /// list, under its lock.*
    pub(crate) fn is_any(&self) -> bool {
        self.count() > 0
    }

    /// Returns how many Gs are bound to the M. *Runs on: as `is_any`.*
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

const AWAKE: u8 = 0;

/// Whether the M sleeps while Gs are bound to it, and for whom.
#[derive(Debug)]
pub(crate) struct Rest(AtomicU8);

impl Rest {
    pub(crate) fn new() -> Self {
        Rest(AtomicU8::new(AWAKE))
    }

    /// Announces that the M goes to sleep. Returns `false` if `has_work` finds a G for the M; the M then
    /// stays awake. *Runs on: the M.*
    pub(crate) fn begin(&self, how: SleepKind, has_work: impl FnOnce() -> bool) -> bool {
        // Release: a search for deadlocks that reads this sees what the M has done before. Pairs with
        // `sleeps_unlisted`.
        self.0.store(how as u8, Ordering::Release);
        if !broken!("rest_no_fence") {
            // Pairs with the fence in `look`.
            full_fence();
        }
        if has_work() && !broken!("rest_no_look") {
            self.over();
            return false;
        }
        true
    }

    /// Announces that the M is awake. *Runs on: the M.*
    pub(crate) fn over(&self) {
        if !broken!("rest_awake_in_silence") {
            // Relaxed: `begin` fences before it looks at the queue. The lock of the queue, from which the M
            // takes a G later, orders this for a search for deadlocks.
            self.0.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the M sleeps, or is about to, in the netpoller or because it is reserved. *Runs on:
    /// a thread that searches for deadlocks, before it looks at the M's queue.*
    pub(crate) fn sleeps_unlisted(&self) -> bool {
        // Acquire: pairs with `begin`.
        self.0.load(Ordering::Acquire) >= SleepKind::Polls as u8
    }

    /// Returns `true` if the M sleeps, or is about to, because it is reserved. *Runs on: any thread, after a
    /// full fence.*
    pub(crate) fn sleeps_reserved(&self) -> bool {
        // Relaxed: the fences of both sides order this, as in `look`.
        self.0.load(Ordering::Relaxed) == SleepKind::Reserved as u8
    }

    /// Returns how the M must be woken; `None` if the M is awake. *Runs on: a thread that has put a G into
    /// the M's queue.*
    #[inline]
    pub(crate) fn look(&self) -> Option<SleepKind> {
        // Pairs with the fence in `begin`.
        full_fence();
        match self.0.load(Ordering::Relaxed) {
            AWAKE => None,
            polls if polls == SleepKind::Polls as u8 => Some(SleepKind::Polls),
            _ => Some(SleepKind::Parked),
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use crate::m::activity::at_one_moment;
    use crate::m::thread_parker::ThreadParker;
    use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use crate::sync::models::{Reached, explore};
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        rest: Rest,
        queue: AtomicUsize,
        woken: AtomicBool,
    }

    /// Two wakers put Gs into the queue of an M that goes to sleep. In the end the M is awake, or a waker has
    /// woken it.
    #[test]
    fn no_bound_g_waits_while_its_m_sleeps() {
        loom::model(|| {
            let world = Arc::new(World {
                rest: Rest::new(),
                queue: AtomicUsize::new(0),
                woken: AtomicBool::new(false),
            });
            let makers = [(); 2].map(|()| {
                let world = world.clone();
                thread::spawn(move || {
                    world.queue.fetch_add(1, Ordering::Relaxed);
                    if world.rest.look().is_some() {
                        world.woken.store(true, Ordering::Release);
                    }
                })
            });
            let asleep = world.rest.begin(SleepKind::Parked, || world.queue.load(Ordering::Relaxed) > 0);
            for maker in makers {
                maker.join().unwrap();
            }
            let woken = world.woken.load(Ordering::Acquire);
            assert!(!asleep || woken, "a bound G waits while its M sleeps");
        });
    }

    /// A runtime with one P and one M, which is reserved; its G; and a plain thread.
    struct Searched {
        rest: Rest,
        note: ThreadParker,
        queue: AtomicUsize,
        wait: Wait,
        idle: AtomicBool,
        tick: AtomicUsize,
        /// True once the plain thread is parked.
        parked: AtomicUsize,
    }

    impl Searched {
        /// The G was made runnable, and its M is about to wake up from its sleep.
        fn new() -> Arc<Searched> {
            let world = Searched {
                rest: Rest::new(),
                note: ThreadParker::default(),
                queue: AtomicUsize::new(0),
                wait: Wait::new(),
                idle: AtomicBool::new(true),
                tick: AtomicUsize::new(0),
                parked: AtomicUsize::new(0),
            };
            assert!(world.rest.begin(SleepKind::Reserved, || false));
            world.queue.store(1, SeqCst);
            Arc::new(world)
        }

        /// What the M does with its G: takes a P, runs the G, and passes the P on.
        fn runs_g(&self) {
            self.rest.over();
            self.idle.swap(false, SeqCst);
            self.queue.fetch_sub(1, SeqCst);
            self.tick.fetch_add(1, SeqCst);
            self.idle.swap(true, SeqCst);
        }

        /// Runs the G, which then waits, and runs it once more.
        fn runs_g_twice(&self) {
            self.runs_g();
            if !self.wait.commit() {
                self.queue.fetch_add(1, SeqCst);
            }
            if self.rest.begin(SleepKind::Reserved, || self.queue.fetch_add(0, SeqCst) > 0) {
                self.note.sleep();
            }
            self.runs_g();
            assert!(self.rest.begin(SleepKind::Reserved, || false));
        }

        /// What the plain thread does: wakes the G, and parks.
        fn wakes_and_parks(&self, number: u32) {
            if self.wait.decide(number, Outcome::Woken) == Decision::Parked {
                self.queue.fetch_add(1, SeqCst);
                if self.rest.look().is_some() {
                    self.note.wake();
                }
            }
            self.parked.fetch_add(1, SeqCst);
        }

        fn is_deadlocked(&self) -> bool {
            let traces = || (self.tick.fetch_add(0, SeqCst), self.parked.fetch_add(0, SeqCst));
            at_one_moment(traces, |&(_, parked)| {
                let rests = self.rest.sleeps_unlisted() && self.queue.fetch_add(0, SeqCst) == 0;
                rests && self.idle.fetch_or(false, SeqCst) && parked == 1
            })
        }
    }

    /// The search finds a deadlock only after the G has run for the last time.
    #[test]
    fn a_reserved_m_with_a_g_in_hand_is_not_at_rest() {
        static ENDED: Reached = Reached::new();
        explore(3, || {
            let world = Searched::new();
            let number = world.wait.arm(Cancel::Waits);
            let (m, plain) = (world.clone(), world.clone());
            let m = thread::spawn(move || m.runs_g_twice());
            let plain = thread::spawn(move || plain.wakes_and_parks(number));
            if world.is_deadlocked() {
                assert_eq!(world.tick.load(SeqCst), 2, "a false alarm");
            }
            m.join().unwrap();
            plain.join().unwrap();
            ENDED.note(world.is_deadlocked());
        });
        ENDED.assert();
    }
}
