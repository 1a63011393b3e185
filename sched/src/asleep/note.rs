//! A note: lets one OS thread sleep until another wakes it. A wake-up that comes before the sleep is kept.
//!
//! Nothing here uses std's `thread::park`: its token belongs to the code that runs on the thread. Such code
//! may leave an `unpark` behind, or take the one that is meant for the M.

#[cfg(all(feature = "interpose", portable))]
mod at_station;
#[cfg(not(all(target_os = "linux", not(portable))))]
mod condition;
#[cfg(all(target_os = "linux", not(portable)))]
mod futex;
#[cfg(all(target_os = "linux", not(portable)))]
mod word;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(all(feature = "interpose", portable))]
use at_station::Sleeper;
#[cfg(not(any(all(target_os = "linux", not(portable)), all(feature = "interpose", portable))))]
use condition::Sleeper;
#[cfg(all(target_os = "linux", not(portable)))]
use futex::Sleeper;

/// A note of one OS thread.
#[derive(Debug)]
pub(crate) struct Note {
    woken: AtomicBool,
    sleeper: Sleeper,
}

impl Note {
    pub(crate) const fn new() -> Self {
        Note { woken: AtomicBool::new(false), sleeper: Sleeper::new() }
    }

    /// Sleeps until a wake-up; returns at once if one is kept.
    pub(crate) fn sleep(&self) {
        // Acquire: pairs with the swap in `wake`; this thread sees what the waker handed over. The loop is
        // needed because the sleeper may wake up without a cause.
        while !self.woken.swap(false, Ordering::Acquire) {
            self.sleeper.sleep();
        }
    }

    /// Sleeps until a wake-up, or for `time`. Returns `true` if it was woken.
    pub(crate) fn sleep_for(&self, time: Duration) -> bool {
        if !self.woken.load(Ordering::Relaxed) {
            self.sleeper.sleep_for(time);
        }
        self.woken.swap(false, Ordering::Acquire)
    }

    /// Wakes the sleeper, or keeps the wake-up for its next sleep. *Runs on: any thread.*
    pub(crate) fn wake(&self) {
        // Release: pairs with the Acquire in `sleep`. If a wake-up is pending already, the swap saves the
        // system call.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.sleeper.wake();
        }
    }
}

#[cfg(all(feature = "interpose", target_os = "linux"))]
impl Note {
    /// Sleeps by `block`, which blocks at the station, until a wake-up or an event there. *Runs on: the
    /// sleeper.*
    pub(crate) fn sleep_at_station(&self, block: impl FnOnce()) {
        // Acquire: as in `sleep`.
        if !self.woken.swap(false, Ordering::Acquire) {
            self.sleeper.sleep_at_station(block);
            self.woken.swap(false, Ordering::Acquire);
        }
    }

    /// Returns the station of the sleeper; makes it the first time. *Runs on: the sleeper.*
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn station(&self) -> std::io::Result<&netpoll::Station> {
        self.sleeper.station()
    }
}
