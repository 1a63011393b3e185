//! The sleep of a note by a condition variable, where there are no futexes.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// The thread that sleeps.
#[derive(Debug)]
pub(super) struct Sleeper {
    /// True if a wake-up is kept.
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper { woken: Mutex::new(false), wakes: Condvar::new() }
    }

    /// Sleeps until `wake`.
    pub(super) fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            self.wakes.wait(&mut woken);
        }
    }

    /// Sleeps as `sleep` does, for `time` at most. May return without a cause.
    pub(super) fn sleep_for(&self, time: Duration) {
        let mut woken = self.woken.lock();
        if !*woken {
            self.wakes.wait_for(&mut woken, time);
        }
        *woken = false;
    }

    /// Uses a wake-up up. Returns `false` if none is kept.
    #[allow(dead_code, reason = "only `at_station.rs` calls it")]
    pub(super) fn take_wake_up(&self) -> bool {
        std::mem::take(&mut *self.woken.lock())
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        *self.woken.lock() = true;
        self.wakes.notify_one();
    }
}
