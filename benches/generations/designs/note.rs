//! A note: one OS thread sleeps on it until another thread wakes it, or until a deadline (Go: `note`).

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Clock;

#[derive(Default)]
pub(super) struct Note {
    woken: Mutex<bool>,
    condvar: Condvar,
}

impl Note {
    /// Discards a wake-up that came after the last sleep had ended (Go: `noteclear`).
    pub(super) fn clear(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Blocks the calling OS thread until a wake-up, or until `when` (Go: `notetsleep`).
    pub(super) fn sleep_until(&self, clock: Clock, when: u64) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*woken {
            let left = when.saturating_sub(clock.now());
            if left == 0 {
                return;
            }
            let slept = self.condvar.wait_timeout(woken, Duration::from_nanos(left));
            woken = slept.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes the sleeping thread. If no thread sleeps, the next sleep returns at once (Go: `notewakeup`).
    pub(super) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condvar.notify_one();
    }
}
