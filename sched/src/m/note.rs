//! A note: one thread sleeps until another wakes it, and a wake-up that comes first is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

/// See the file's head. The sleeper is the same thread until it ends and another adopts the note.
#[derive(Debug, Default)]
pub(crate) struct Note {
    woken: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Note {
    pub(crate) const fn new() -> Self {
        Note { woken: AtomicBool::new(false), sleeper: Mutex::new(None) }
    }

    /// The current thread will be the one that sleeps.
    pub(crate) fn adopt(&self) {
        *self.sleeper.lock() = Some(thread::current());
    }

    /// Sleeps until somebody wakes it.
    pub(crate) fn sleep(&self) {
        // Acquire: what the waker handed over. A plain loop: user code on this thread may have left a stray
        // `unpark` behind, or taken ours.
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Sleeps until somebody wakes it, or for that long; true if it was woken.
    pub(crate) fn sleep_for(&self, time: Duration) -> bool {
        if !self.woken.load(Ordering::Relaxed) {
            thread::park_timeout(time);
        }
        self.woken.swap(false, Ordering::Acquire)
    }

    /// *Runs on: any thread.*
    pub(crate) fn wake(&self) {
        // Release: what is handed over; the swap saves the system call when a wake-up is pending.
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Some(sleeper) = &*self.sleeper.lock()
        {
            // Perhaps another by now, as the one that slept has seen the word and has ended: a stray `unpark`.
            sleeper.unpark();
        }
    }
}
