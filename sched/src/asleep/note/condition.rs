//! The sleep of a note by a condition variable, where there are no futexes. With the feature `interpose` on
//! Linux, which is the test build `--cfg portable`, the thread may sleep at its station, too.

#[cfg(all(feature = "interpose", target_os = "linux"))]
use std::io;
#[cfg(all(feature = "interpose", target_os = "linux"))]
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(all(feature = "interpose", target_os = "linux"))]
use netpoll::Station;

use crate::sync::{Condvar, Mutex};

/// The thread that sleeps.
#[derive(Debug)]
pub(super) struct Sleeper {
    /// True if a wake-up is kept.
    woken: Mutex<bool>,
    wakes: Condvar,
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    station: OnceLock<Station>,
}

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper {
            woken: Mutex::new(false),
            wakes: Condvar::new(),
            #[cfg(all(feature = "interpose", target_os = "linux"))]
            station: OnceLock::new(),
        }
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

    /// Sleeps by `block`, which blocks at the station until an event of it. The station keeps the wake-up of
    /// a waker that comes between the look at `woken` and the sleep.
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    pub(super) fn sleep_at_station(&self, block: impl FnOnce()) {
        if !std::mem::take(&mut *self.woken.lock()) {
            block();
            *self.woken.lock() = false;
        }
    }

    /// Returns the station; makes it the first time. *Runs on: the thread.*
    ///
    /// # Errors
    /// When no descriptors are left.
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    pub(super) fn station(&self) -> io::Result<&Station> {
        if let Some(station) = self.station.get() {
            return Ok(station);
        }
        let made = Station::new()?;
        Ok(self.station.get_or_init(|| made))
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        *self.woken.lock() = true;
        self.wakes.notify_one();
        // The thread that sleeps there has made its station before it looked at `woken` under the lock.
        #[cfg(all(feature = "interpose", target_os = "linux"))]
        if let Some(station) = self.station.get() {
            station.wake();
        }
    }
}
