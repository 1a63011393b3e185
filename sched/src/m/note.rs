//! A note: lets one OS thread sleep until another wakes it. A wake-up that comes before the sleep is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

/// See the file's head. The sleeper is one thread until that thread ends and another thread adopts the note.
#[derive(Debug, Default)]
pub(crate) struct Note {
    woken: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Note {
    pub(crate) const fn new() -> Self {
        Note { woken: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// Makes the current thread the sleeper.
    pub(crate) fn adopt(&self) {
        *self.sleeper.lock() = Some(thread::current());
    }

    /// Sleeps until a wake-up; returns at once if one is kept.
    pub(crate) fn sleep(&self) {
        // Acquire: pairs with the swap in `wake`; this thread sees what the waker handed over. The loop is needed because user
        // code on this thread may have left a stray `unpark` behind, or consumed the one of `wake`.
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Sleeps until a wake-up, or for `time`. Returns `true` if it was woken.
    pub(crate) fn sleep_for(&self, time: Duration) -> bool {
        if !self.woken.load(Ordering::Relaxed) {
            thread::park_timeout(time);
        }
        self.woken.swap(false, Ordering::Acquire)
    }

    /// Wakes the sleeper, or keeps the wake-up for its next sleep. *Runs on: any thread.*
    pub(crate) fn wake(&self) {
        // Release: pairs with the Acquire in `sleep`. If a wake-up is pending already, the swap saves the system call.
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Some(sleeper) = &*self.sleeper.lock()
        {
            // The sleeper that was meant may have seen the word and ended; then another thread gets a stray `unpark`.
            sleeper.unpark();
        }
    }
}
