//! The wake-up latency of sleeping Ms: how late they wake, and so how much earlier they should ask to be
//! woken.
//!
//! A processor that was idle needs time to wake: tens of microseconds after a short wait, more than a hundred
//! after a long one. Most of that time is the same each time. An M that waits for a timer therefore asks to
//! be woken earlier, by a part of how late recent waits of that length were. If it wakes too early it spins
//! for the rest, which is rare and short. No timer fires early: the heap decides by the clock whether a timer
//! is due.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many classes of waits there are: one for each power of two of the wait in microseconds.
const LENGTHS: usize = 24;
/// The largest delay that counts. A larger delay was not caused by waking but by another thread on the
/// processor.
const LATEST_NS: u64 = 200_000;
/// A sample counts for one part in this many.
const WEIGHT: i64 = 8;

/// The average delay of the waits of each length.
pub(crate) struct WakeLatency {
    late_ns: [AtomicU32; LENGTHS],
}

impl WakeLatency {
    pub(crate) fn new() -> Self {
        WakeLatency { late_ns: [const { AtomicU32::new(0) }; LENGTHS] }
    }

    /// Returns by how much earlier to ask for the end of a wait of `ahead_ns`; the result is less than
    /// `ahead_ns`. It is three quarters of the average delay, so that the M spins only when a wait is late by
    /// less than that.
    pub(crate) fn of(&self, ahead_ns: u64) -> u64 {
        // Relaxed, here and below: the value is an estimate that orders nothing; the Ms that wait write it.
        let late = u64::from(self.late_ns[length(ahead_ns)].load(Ordering::Relaxed));
        (late - late / 4).min(ahead_ns.saturating_sub(1))
    }

    /// Records that a wait of `ahead_ns` ended `late_ns` after the requested time.
    pub(crate) fn learn(&self, ahead_ns: u64, late_ns: u64) {
        let average = &self.late_ns[length(ahead_ns)];
        let old = i64::from(average.load(Ordering::Relaxed));
        let new = old + (late_ns.min(LATEST_NS) as i64 - old) / WEIGHT;
        average.store(new as u32, Ordering::Relaxed);
    }
}

fn length(ahead_ns: u64) -> usize {
    (u64::BITS - (ahead_ns / 1_000).leading_zeros()).min(LENGTHS as u32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_lead_follows_the_delay_of_waits_of_that_length() {
        let lead = WakeLatency::new();
        assert_eq!(lead.of(MS), 0);
        (0..100).for_each(|_| lead.learn(MS, 80_000));
        assert!((55_000..=60_000).contains(&lead.of(MS)), "{}", lead.of(MS));
        assert_eq!(lead.of(20_000), 0, "waits of another length have their own average");
        (0..100).for_each(|_| lead.learn(MS, 8_000));
        assert!(lead.of(MS) <= 7_000, "{}", lead.of(MS));
    }

    #[test]
    fn the_lead_is_less_than_the_wait_and_than_the_longest_delay() {
        let lead = WakeLatency::new();
        (0..1000).for_each(|_| lead.learn(100 * MS, 50 * MS));
        assert!(lead.of(100 * MS) <= LATEST_NS);
        (0..1000).for_each(|_| lead.learn(500, 50_000));
        assert_eq!(lead.of(500), 499);
        assert_eq!(lead.of(0), 0);
        lead.learn(u64::MAX, 7);
    }
}
