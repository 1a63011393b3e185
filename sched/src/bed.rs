//! Where a plain thread sleeps until its wait is decided, and it is woken.
//!
//! ```text
//!   the thread                          whoever decides its wait
//!   commit                              decide: it had committed
//!   sleep until it is woken             put it into a list by its link, with others; release a lock; ..
//!     ran out of time? decide itself;   wake
//!     lost: sleep until it is woken
//!   go on, and perhaps wait again
//! ```
//!
//! A thread that went on when it only saw its wait decided could wait anew, and be decided anew, while it is still in the
//! first one's list: two lists would have it by its one link. So between the decision and the wake-up it is the waker's, as a
//! green G is.

use std::time::Duration;

use crate::g::wait::{Decision, Outcome, Wait};
use crate::sync::{Condvar, Mutex, broken, wait_on};

/// See the file's head.
pub(crate) struct Bed {
    woken: Mutex<bool>,
    wake: Condvar,
}

impl Default for Bed {
    fn default() -> Self {
        Bed { woken: Mutex::new(false), wake: Condvar::new() }
    }
}

impl Bed {
    /// Sleeps until somebody wakes it. *Runs on: the thread, its wait committed.*
    pub(crate) fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            woken = wait_on(&self.wake, woken, None);
        }
    }

    /// Likewise, but no longer than until there is no time `left`; whether it was woken.
    pub(crate) fn sleep_while(&self, mut left: impl FnMut() -> Option<Duration>) -> bool {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            let Some(left) = left() else { return false };
            woken = wait_on(&self.wake, woken, Some(left));
        }
        true
    }

    /// Ends the wait of that number, unless somebody has: then that one is about to wake it. *Runs on: the thread.*
    pub(crate) fn time_out(&self, wait: &Wait, number: u32) {
        if wait.decide(number, Outcome::TimedOut) == Decision::Lost && !broken!("bed_decided_is_awake") {
            self.sleep();
        }
    }

    /// *Runs on: whoever has decided the thread's committed wait; the thread is not touched after this.*
    pub(crate) fn wake(&self) {
        // The lock: either the thread has not looked yet, or it sleeps and hears this.
        *self.woken.lock() = true;
        self.wake.notify_one();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::Cancel;
    use crate::models::{Reached, explore};
    use crate::sync::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        wait: Wait,
        bed: Bed,
        /// The number of the wait, for one who wakes it.
        waits: Mutex<Option<u32>>,
        link: UnsafeCell<u32>,
    }

    /// A thread waits twice, and may be woken each time, or run out of time: nobody has it by its link when another has.
    #[test]
    fn it_is_in_one_list_at_a_time() {
        static TWICE: Reached = Reached::new();
        explore(3, || {
            let world = Arc::new(World {
                wait: Wait::new(),
                bed: Bed::default(),
                waits: Mutex::new(None),
                link: UnsafeCell::new(0),
            });
            let wakers = [(); 2].map(|()| {
                let world = world.clone();
                thread::spawn(move || {
                    let Some(number) = world.waits.lock().take() else { return };
                    if world.wait.decide(number, Outcome::Woken) == Decision::Parked {
                        // SAFETY: loom checks that nobody else does.
                        world.link.with_mut(|link| unsafe { *link += 1 });
                        world.bed.wake();
                    }
                })
            });
            for _ in 0..2 {
                let number = world.wait.arm(Cancel::Ends);
                *world.waits.lock() = Some(number);
                if world.wait.commit() {
                    world.bed.time_out(&world.wait, number);
                }
            }
            for waker in wakers {
                waker.join().unwrap();
            }
            // SAFETY: all have stopped.
            TWICE.note(world.link.with(|link| unsafe { *link }) == 2);
        });
        TWICE.assert();
    }
}
