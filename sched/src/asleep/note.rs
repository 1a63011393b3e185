//! A note: lets one OS thread sleep until another wakes it. A wake-up that comes before the sleep is kept.
//!
//! Nothing here uses std's `thread::park`: its token belongs to the code that runs on the thread. Such code
//! may leave an `unpark` behind, or take the one that is meant for the M.

#[cfg(all(feature = "interpose", portable))]
mod at_station;
#[cfg(not(any(all(target_os = "linux", not(portable)), windows)))]
mod condition;
#[cfg(all(target_os = "linux", not(portable)))]
mod futex;
#[cfg(windows)]
mod waitable;
#[cfg(all(target_os = "linux", not(portable)))]
mod word;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(all(feature = "interpose", portable))]
use at_station::Sleeper;
#[cfg(not(any(
    all(target_os = "linux", not(portable)),
    all(feature = "interpose", portable),
    windows
)))]
use condition::Sleeper;
#[cfg(all(target_os = "linux", not(portable)))]
use futex::Sleeper;
#[cfg(windows)]
use waitable::Sleeper;

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

    /// Returns `true` if a wake-up is kept.
    pub(crate) fn is_woken(&self) -> bool {
        // Relaxed: the next sleep takes the wake-up.
        self.woken.load(Ordering::Relaxed)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    /// A condition variable of Windows ends no sleep within a millisecond.
    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run the system calls of `netpoll::raw`")]
    fn a_short_sleep_ends_within_a_millisecond() {
        let note = Note::new();
        let least = (0..200)
            .map(|_| {
                let start = Instant::now();
                note.sleep_for(Duration::from_micros(100));
                start.elapsed()
            })
            .min()
            .unwrap();
        assert!(least < Duration::from_micros(900), "the shortest of 200 sleeps of 100 us took {least:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run the system calls of `netpoll::raw`")]
    fn a_wake_up_before_the_sleep_is_kept_and_used_once() {
        let note = Note::new();
        note.wake();
        note.wake();
        assert!(note.sleep_for(Duration::from_secs(3600)));
        assert!(!note.sleep_for(Duration::from_millis(1)));
        note.wake();
        note.sleep();
        assert!(!note.sleep_for(Duration::from_millis(1)));
    }

    /// Sleeps with and without a limit, by turns. A lost wake-up hangs.
    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run the system calls of `netpoll::raw`")]
    fn two_threads_wake_each_other_by_turns() {
        const ROUNDS: u32 = 2_000;
        let notes = [Note::new(), Note::new()];
        let sleep = |note: &Note, round: u32| match round % 2 {
            0 => note.sleep(),
            _ => while !note.sleep_for(Duration::from_micros(u64::from(round % 200))) {},
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    sleep(&notes[0], round);
                    notes[1].wake();
                }
            });
            for round in 0..ROUNDS {
                notes[0].wake();
                sleep(&notes[1], round + 1);
            }
        });
        assert!(!notes.iter().any(|note| note.sleep_for(Duration::ZERO)));
    }
}
