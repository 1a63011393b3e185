//! The sleep of a note by std's `thread::park`.

use std::thread::{self, Thread};
use std::time::Duration;

use crate::sync::Mutex;

/// The thread that sleeps.
#[derive(Debug)]
pub(super) struct Sleeper(Mutex<Option<Thread>>);

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper(Mutex::new(None))
    }

    /// Makes the current thread the one that sleeps.
    pub(super) fn adopt(&self) {
        *self.0.lock() = Some(thread::current());
    }

    /// Sleeps until `wake`. User code on this thread may have left a stray `unpark` behind, or taken the one of `wake`.
    pub(super) fn sleep(&self) {
        thread::park();
    }

    /// Sleeps as `sleep` does, for `time` at most.
    pub(super) fn sleep_for(&self, time: Duration) {
        thread::park_timeout(time);
    }

    /// Wakes the thread. The one that was meant may have ended; then another thread gets a stray `unpark`.
    pub(super) fn wake(&self) {
        if let Some(sleeper) = &*self.0.lock() {
            sleeper.unpark();
        }
    }
}
