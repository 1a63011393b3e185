//! The sleep of a note by a futex of its own. With the feature `interpose` the word of std's `thread::park` belongs to the green threads
//! that run on the thread: a sleep of the M would take their tokens (`api/foreign/word.rs`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sys::preempt;

const EMPTY: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// A sleep without a limit looks once in this time.
const LONG: Duration = Duration::from_secs(3600);

/// The word on which the thread sleeps.
#[derive(Debug)]
pub(super) struct Sleeper(AtomicU32);

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper(AtomicU32::new(EMPTY))
    }

    /// Any thread may sleep here, one at a time.
    pub(super) fn adopt(&self) {}

    /// Sleeps until `wake`, or returns without a cause.
    pub(super) fn sleep(&self) {
        self.sleep_for(LONG);
    }

    /// Sleeps as `sleep` does, for `time` at most.
    pub(super) fn sleep_for(&self, time: Duration) {
        // Acquire, here and below: pairs with the Release in `wake`. The note's own word orders what the waker hands over, too.
        if self.0.compare_exchange(EMPTY, ASLEEP, Ordering::Acquire, Ordering::Acquire).is_ok() {
            preempt::sleep_while(&self.0, ASLEEP, time);
        }
        self.0.swap(EMPTY, Ordering::Acquire);
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        if self.0.swap(WOKEN, Ordering::Release) == ASLEEP {
            preempt::wake(&self.0);
        }
    }
}
