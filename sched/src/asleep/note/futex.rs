//! The sleep of a note by a futex. With the feature `interpose` an M on which foreign code waits for
//! descriptors sleeps at its station instead.

use std::time::Duration;
#[cfg(feature = "interpose")]
use {
    netpoll::Station,
    std::{io, sync::OnceLock},
};

use super::word::{Sleep, Word};
use crate::sys::preempt;

/// A sleep without a limit looks once in this time.
const LONG: Duration = Duration::from_secs(3600);

/// How the thread sleeps, and its station, if it ever needed one.
#[derive(Debug)]
pub(super) struct Sleeper {
    word: Word,
    #[cfg(feature = "interpose")]
    station: OnceLock<Station>,
}

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper {
            word: Word::new(),
            #[cfg(feature = "interpose")]
            station: OnceLock::new(),
        }
    }

    /// Sleeps until `wake`, or returns without a cause.
    pub(super) fn sleep(&self) {
        self.sleep_for(LONG);
    }

    /// Sleeps as `sleep` does, for `time` at most.
    pub(super) fn sleep_for(&self, time: Duration) {
        self.word.sleep(Sleep::Futex, |word, value| preempt::sleep_while(word, value, time));
    }

    /// Sleeps by `block`, which blocks at the station until an event of it.
    #[cfg(feature = "interpose")]
    pub(super) fn sleep_at_station(&self, block: impl FnOnce()) {
        self.word.sleep(Sleep::Station, |_, _| block());
    }

    /// Returns the station; makes it the first time. *Runs on: the thread.*
    ///
    /// # Errors
    /// When no descriptors are left.
    #[cfg(feature = "interpose")]
    pub(super) fn station(&self) -> io::Result<&Station> {
        if let Some(station) = self.station.get() {
            return Ok(station);
        }
        let made = Station::new()?;
        Ok(self.station.get_or_init(|| made))
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        self.word.wake(preempt::wake, || {
            #[cfg(feature = "interpose")]
            self.station.get().expect("a thread sleeps at its station").wake();
        });
    }
}
