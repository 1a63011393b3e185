//! A note: one thread sleeps until another wakes it, and a wake-up that comes first is kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// See the file's head. The sleeper is always the same thread.
#[derive(Debug, Default)]
pub(crate) struct Note {
    woken: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Note {
    pub(crate) const fn new() -> Self {
        Note { woken: AtomicBool::new(false), sleeper: OnceLock::new() }
    }

    /// The current thread will be the one that sleeps.
    pub(crate) fn adopt(&self) {
        self.sleeper.get_or_init(thread::current);
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
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }
}
