//! The shares of reader-writer locks that a thread has, for dumps: locks record them while they are tracked
//! (`api/shares.rs`).

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of the present period of tracking; 0 while there is none.
static PERIOD: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the present period of tracking; 0 if there is none.
#[inline(always)]
pub fn period() -> u32 {
    // Relaxed: a hint. A reader that needs a true record holds the recorded thread in its parked wait, and so
    // sees all that this thread has done.
    PERIOD.load(Ordering::Relaxed)
}

/// Begins the period of this number, or ends it with 0. A number is used once.
pub fn set_period(period: u32) {
    // Relaxed: a lock that is taken at this moment may have no record.
    PERIOD.store(period, Ordering::Relaxed);
}

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
