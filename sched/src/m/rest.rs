//! How Gs that are bound to an M keep that M from ending, and how their wakers wake that M from its sleep.
//!
//! A G is bound to its M while it is stopped inside a poll or in the middle of an unwind. In strict mode a G is bound from its
//! first line on. An M to which Gs are bound must not end: `Idle::take_unneeded` reads [`Homes`] under the lock of the list in
//! which the M is parked. The count changes only on the M's own thread, and never while the M is in that list.
//!
//! ```text
//!   the waker of a bound G                  its M
//!   put the G into the M's queue            begin     say how it is going to sleep
//!   full fence                                        full fence
//!   look: the M sleeps? wake it that way              look at the queue: not empty? stay awake
//!                                           over      say that it is awake; then look at the queue
//! ```
//!
//! A wake-up may come when the M is already awake for another reason. The M then looks at its queue once more than needed.

use crate::sync::{
    atomic::{AtomicU8, AtomicUsize, Ordering},
    broken, full_fence,
};

/// How an M sleeps; this decides how a waker wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SleepKind {
    /// On its note.
    Parked = 1,
    /// In the netpoller.
    Polls = 2,
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

    /// Returns `true` if a G is bound to the M. *Runs on: the M; or a thread that found the M in the idle list, under its lock.*
    pub(crate) fn is_any(&self) -> bool {
        self.count() > 0
    }

    /// Returns how many Gs are bound to the M. *Runs on: as `is_any`.*
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

const AWAKE: u8 = 0;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Rest(AtomicU8);

impl Rest {
    pub(crate) fn new() -> Self {
        Rest(AtomicU8::new(AWAKE))
    }

    /// Announces that the M goes to sleep. Returns `false` if `has_work` finds a G for the M; the M then stays awake. *Runs on:
    /// the M.*
    pub(crate) fn begin(&self, how: SleepKind, has_work: impl FnOnce() -> bool) -> bool {
        self.0.store(how as u8, Ordering::Relaxed);
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
        // Relaxed: `begin` fences before it looks at the queue.
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Returns how the M must be woken; `None` if the M is awake. *Runs on: a thread that has put a G into the M's queue.*
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
    use crate::sync::atomic::AtomicBool;
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        rest: Rest,
        queue: AtomicUsize,
        woken: AtomicBool,
    }

    /// Two wakers put Gs into the queue of an M that goes to sleep. In the end the M is awake, or a waker has woken it.
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
}
