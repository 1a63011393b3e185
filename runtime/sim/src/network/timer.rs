//! Timers: what `timerfd_create` makes. A timer expires in simulated time, once or again and again.
//!
//! A timer has one event at a time, for its next expiration. The later ones of an interval are counted when a
//! thread looks. So a timer for which no thread waits does not move the clock again and again.

/// When a timer expires. Times are those of the network.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// The next expiration that no thread has read; `None` if there is none.
    pub(super) next: Option<u64>,
    /// The time from one to the next; 0 if there is one only.
    interval: u64,
    /// The key of its event in the network, which may be over.
    pub(super) event: Option<(u64, u64)>,
}

impl Timer {
    pub(super) fn is_readable(&self, now: u64) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Returns for how long it will not expire, and its interval; 0 if it does not expire.
    pub(super) fn left(&self, now: u64) -> (u64, u64) {
        let left = match self.next {
            None => 0,
            Some(next) if next > now => next - now,
            Some(_) if self.interval == 0 => 0,
            Some(next) => self.interval - (now - next) % self.interval,
        };
        (left, self.interval)
    }

    /// Sets when it expires first, and then after which interval.
    pub(super) fn set(&mut self, next: Option<u64>, interval: u64) {
        (self.next, self.interval) = (next, interval);
    }

    /// Returns how often it has expired since that was last asked; `None` if it has not.
    pub(super) fn take(&mut self, now: u64) -> Option<u64> {
        let next = self.next.filter(|&next| next <= now)?;
        let later = (now - next).checked_div(self.interval);
        self.next = later.map(|later| (next + later * self.interval).saturating_add(self.interval));
        Some(later.unwrap_or(0) + 1)
    }
}
