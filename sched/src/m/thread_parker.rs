//! What a plain OS thread sleeps on while it is parked: a flag and a condition that its waker sets.
//!
//! ```text
//!   the thread                          the waker
//!   commit                              decide its wait: it had committed
//!   sleep until it is woken             link it into a list with others; release a lock; ..
//!     time is up? decide the wait;      wake it
//!     lost? sleep until it is woken
//!   go on, and perhaps wait again
//! ```
//!
//! A decided thread belongs to its waker until the wake, as a green G does. A waiter has one intrusive link,
//! and this handshake keeps a second list from taking it. A thread that went on as soon as it saw its wait
//! decided could wait again. Another waker could then decide the new wait while the thread is still in the
//! first waker's list.

use std::time::Duration;

use crate::g::wait::{Decision, Outcome, Wait};
use crate::sync::{Condvar, Mutex, broken, wait_on};

/// What one thread sleeps on. The file's head explains the handshake.
pub(crate) struct ThreadParker {
    woken: Mutex<bool>,
    wake: Condvar,
}

impl Default for ThreadParker {
    fn default() -> Self {
        ThreadParker { woken: Mutex::new(false), wake: Condvar::new() }
    }
}

impl ThreadParker {
    /// Sleeps until `wake` is called. *Runs on: the thread, with its wait committed.*
    pub(crate) fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            woken = wait_on(&self.wake, woken, None);
        }
    }

    /// Sleeps until `wake` is called or `left` returns `None`. Returns `true` if it was woken. *Runs on: the
    /// thread, with its wait committed.*
    pub(crate) fn sleep_while(&self, mut left: impl FnMut() -> Option<Duration>) -> bool {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            let Some(left) = left() else { return false };
            woken = wait_on(&self.wake, woken, Some(left));
        }
        true
    }

    /// Decides the wait `number` as timed out. If a waker has decided it already, sleeps until that waker's
    /// `wake`. *Runs on: the thread.*
    pub(crate) fn time_out(&self, wait: &Wait, number: u32) {
        if wait.decide(number, Outcome::TimedOut) == Decision::Lost && !broken!("bed_decided_is_awake") {
            self.sleep();
        }
    }

    /// Wakes the thread. The caller does not touch the thread after this. *Runs on: the thread that has
    /// decided the committed wait.*
    pub(crate) fn wake(&self) {
        // Under the lock: the sleeper either has not read the flag yet, or sleeps and is notified.
        *self.woken.lock() = true;
        self.wake.notify_one();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::Cancel;
    use crate::sync::cell::UnsafeCell;
    use crate::sync::models::{Reached, explore};
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        wait: Wait,
        parker: ThreadParker,
        /// The number of the wait, for the next waker.
        waits: Mutex<Option<u32>>,
        link: UnsafeCell<u32>,
    }

    /// A thread waits twice, and may be woken or time out each time. At most one waker uses its link at a
    /// time.
    #[test]
    fn a_thread_is_in_one_list_at_a_time() {
        static TWICE: Reached = Reached::new();
        explore(3, || {
            let world = Arc::new(World {
                wait: Wait::new(),
                parker: ThreadParker::default(),
                waits: Mutex::new(None),
                link: UnsafeCell::new(0),
            });
            let wakers = [(); 2].map(|()| {
                let world = world.clone();
                thread::spawn(move || {
                    let Some(number) = world.waits.lock().take() else { return };
                    if world.wait.decide(number, Outcome::Woken) == Decision::Parked {
                        // SAFETY: this waker decided the wait; loom checks that no other thread uses the
                        // link.
                        world.link.with_mut(|link| unsafe { *link += 1 });
                        world.parker.wake();
                    }
                })
            });
            for _ in 0..2 {
                let number = world.wait.arm(Cancel::Ends);
                *world.waits.lock() = Some(number);
                if world.wait.commit() {
                    world.parker.time_out(&world.wait, number);
                }
            }
            for waker in wakers {
                waker.join().unwrap();
            }
            // SAFETY: all threads have ended.
            TWICE.note(world.link.with(|link| unsafe { *link }) == 2);
        });
        TWICE.assert();
    }
}
