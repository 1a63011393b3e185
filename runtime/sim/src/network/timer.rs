//! Timers: what `timerfd_create` makes. A timer expires by the clock of its node, once or again and again.
//!
//! A timer has one event at a time, for its next expiration. The later ones of an interval are counted when a
//! thread looks. So a timer for which no thread waits does not move the clock again and again.

/// When a timer expires. Times are those of the clock of its node; a date may be before its
/// beginning.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// The next expiration that no thread has read; `None` if there is none.
    next: Option<i128>,
    /// The time from one to the next; 0 if there is one only.
    interval: u64,
    /// True if it expires at dates: it then moves when the clock of its node is set.
    by_date: bool,
    /// The key of its event in the network, which may be over.
    pub(super) event: Option<(u64, u64)>,
}

impl Timer {
    /// Makes a timer that expires at `next`, and then after each `interval`. If `next` is past, the expirations
    /// since then count.
    pub(super) fn new(next: Option<i128>, interval: u64, by_date: bool) -> Timer {
        Timer { next, interval, by_date, event: None }
    }

    /// Returns the time of the next expiration that no thread has read.
    pub(super) fn next(&self) -> Option<u64> {
        self.next.map(limited)
    }

    pub(super) fn is_readable(&self, now: u64) -> bool {
        self.next.is_some_and(|next| next <= now.into())
    }

    /// Returns for how long it will not expire, and its interval; 0 if it does not expire.
    pub(super) fn left(&self, now: u64) -> (u64, u64) {
        let (now, interval) = (i128::from(now), i128::from(self.interval));
        let left = match self.next {
            None => 0,
            Some(next) if next > now => next - now,
            Some(_) if interval == 0 => 0,
            Some(next) => interval - (now - next) % interval,
        };
        (limited(left), self.interval)
    }

    /// Becomes `new`, and keeps its event.
    pub(super) fn set(&mut self, new: Timer) {
        *self = Timer { event: self.event, ..new };
    }

    /// Follows the clock of its node, which was set ahead by `by` ns. What has expired stays so. Returns
    /// `false` if it does not expire at dates.
    pub(super) fn follow_clock(&mut self, now: u64, by: i64) -> bool {
        let follows = |next: &i128| self.by_date && (by > 0 || *next > now.into());
        let Some(next) = self.next.filter(follows) else { return false };
        self.next = Some(next - i128::from(by));
        true
    }

    /// Returns how often it has expired since that was last asked; `None` if it has not.
    pub(super) fn take(&mut self, now: u64) -> Option<u64> {
        let (now, interval) = (i128::from(now), i128::from(self.interval));
        let next = self.next.filter(|&next| next <= now)?;
        let later = (now - next).checked_div(interval);
        self.next = later.map(|later| next + (later + 1) * interval);
        Some(limited(later.unwrap_or(0) + 1))
    }
}

/// Returns the nearest number that is no less than 0.
fn limited(time: i128) -> u64 {
    u64::try_from(time.max(0)).unwrap_or(u64::MAX)
}
