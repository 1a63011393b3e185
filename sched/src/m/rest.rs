//! The Gs that are bound to an M: how many they are, and whether the M sleeps while one of them is made runnable.
//!
//! A G is bound to its M while it is stopped inside a poll or in the middle of an unwind; in strict mode from its first
//! line on. An M to which Gs are bound must not end: `Idle::take_unneeded` looks at [`Homes`] under the lock of the
//! list in which the M is parked. The count changes on the M's own thread only, and never while it is in that list.
//!
//! ```text
//!   whoever makes such a G runnable         its M
//!   put it into the M's queue               begin     say how it is going to sleep
//!   full fence                                        full fence
//!   look: it sleeps? wake it that way                 look at the queue: not empty? stay awake
//!                                           over      awake again; it then looks at its queue
//! ```
//!
//! A wake-up that comes too late, when the M is awake for another reason, is one look too many and nothing else.

use crate::sync::{
    atomic::{AtomicU8, AtomicUsize, Ordering},
    broken, full_fence,
};

/// How an M sleeps, and so how it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum How {
    /// On its note.
    Parked = 1,
    /// In the netpoller.
    Polls = 2,
}

/// How many Gs are bound to an M.
#[derive(Debug)]
pub(crate) struct Homes(AtomicUsize);

impl Homes {
    pub(crate) fn new() -> Self {
        Homes(AtomicUsize::new(0))
    }

    /// *Runs on: the M.*
    pub(crate) fn add(&self) {
        // Relaxed, here and below: the lock of the idle list stands between a change and another thread's look.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// *Runs on: the M.*
    pub(crate) fn remove(&self) {
        let before = self.0.load(Ordering::Relaxed);
        debug_assert!(before > 0, "more Gs leave an M than were bound to it");
        self.0.store(before - 1, Ordering::Relaxed);
    }

    /// True if a G is bound to the M. *Runs on: the M, or a thread that has found the M in the idle list, under its lock.*
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
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

    /// True if the M may sleep: nothing waits for it, as `has_work` says. *Runs on: the M.*
    pub(crate) fn begin(&self, how: How, has_work: impl FnOnce() -> bool) -> bool {
        self.0.store(how as u8, Ordering::Relaxed);
        if !broken!("rest_no_fence") {
            // Its partner is the fence in `look`.
            full_fence();
        }
        if has_work() && !broken!("rest_no_look") {
            self.over();
            return false;
        }
        true
    }

    /// It is awake. *Runs on: the M.*
    pub(crate) fn over(&self) {
        // Relaxed: the next sleep fences before it looks.
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// How the M is to be woken, if it is. *Runs on: any thread, that has put something into its queue.*
    #[inline]
    pub(crate) fn look(&self) -> Option<How> {
        // Its partner is the fence in `begin`.
        full_fence();
        match self.0.load(Ordering::Relaxed) {
            AWAKE => None,
            polls if polls == How::Polls as u8 => Some(How::Polls),
            _ => Some(How::Parked),
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

    /// Two Gs come for an M that goes to sleep: it is awake, or about to be, when all is said.
    #[test]
    fn nobody_waits_for_an_m_that_sleeps() {
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
            let asleep = world.rest.begin(How::Parked, || world.queue.load(Ordering::Relaxed) > 0);
            for maker in makers {
                maker.join().unwrap();
            }
            let woken = world.woken.load(Ordering::Acquire);
            assert!(!asleep || woken, "a G waits for an M that sleeps");
        });
    }
}
