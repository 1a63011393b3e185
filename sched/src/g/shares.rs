//! The shares of reader-writer locks that a thread has, for dumps: `wait/locks/holder.rs` records them, while
//! locks are tracked.

/// The locks by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The period of tracking in which these were recorded.
    period: u32,
    locks: Vec<usize>,
}

impl Shares {
    /// Returns the shares that were recorded in `period`; 0 is none. Those of another period may have been
    /// given back since.
    pub(crate) fn in_period(&self, period: u32) -> &[usize] {
        if period == 0 || self.period != period { &[] } else { &self.locks }
    }

    /// Returns the list of `period`, without what an earlier period has left.
    pub(crate) fn of_period(&mut self, period: u32) -> &mut Vec<usize> {
        if self.period != period {
            self.period = period;
            self.locks.clear();
        }
        &mut self.locks
    }
}
