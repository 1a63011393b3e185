//! The sleep of a note by a condition variable or at a station. This is for the feature `interpose` in the
//! test build `--cfg portable`, where the hooks of libc run above the code of other systems.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use netpoll::Station;

use super::condition;

/// The thread that sleeps, and its station, if it ever needed one.
#[derive(Debug)]
pub(super) struct Sleeper {
    condition: condition::Sleeper,
    station: OnceLock<Station>,
}

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper { condition: condition::Sleeper::new(), station: OnceLock::new() }
    }

    /// Sleeps until `wake`.
    pub(super) fn sleep(&self) {
        self.condition.sleep();
    }

    /// Sleeps as `sleep` does, for `time` at most. May return without a cause.
    pub(super) fn sleep_for(&self, time: Duration) {
        self.condition.sleep_for(time);
    }

    /// Sleeps by `block`, which blocks at the station until an event of it, unless a wake-up is kept. The
    /// station keeps the wake-up of a waker that comes between the look and the sleep.
    pub(super) fn sleep_at_station(&self, block: impl FnOnce()) {
        if !self.condition.take_wake_up() {
            block();
            self.condition.take_wake_up();
        }
    }

    /// Returns the station; makes it the first time. *Runs on: the thread.*
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(super) fn station(&self) -> io::Result<&Station> {
        if let Some(station) = self.station.get() {
            return Ok(station);
        }
        let made = Station::new()?;
        Ok(self.station.get_or_init(|| made))
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        self.condition.wake();
        // A thread that sleeps there has made its station before it looked for a wake-up. It looked under the
        // lock that `wake` has just left.
        if let Some(station) = self.station.get() {
            station.wake();
        }
    }
}
