//! How late a sleeping M wakes, and so by how much earlier it should be called.
//!
//! A processor that has been idle needs time to come back: tens of microseconds after a short wait, more than a hundred
//! after a long one, most of it the same each time. An M that waits for a timer therefore asks to be called earlier, by a
//! part of what waits of that length were late last. If it is there too soon after all it spins for the rest, which is
//! seldom and short. No timer fires early: whether it is due is the heap's to say, by the clock.

use std::sync::atomic::{AtomicU32, Ordering};

/// Waits are told apart by the power of two of their microseconds.
const LENGTHS: usize = 24;
/// No wait is believed to be later than this: what is beyond was not the waking, but somebody else on the processor.
const LATEST_NS: u64 = 200_000;
/// A sample counts for one part in so many.
const WEIGHT: i64 = 8;

/// How late the waits of each length are, on average.
pub(crate) struct Lead {
    late_ns: [AtomicU32; LENGTHS],
}

impl Lead {
    pub(crate) fn new() -> Self {
        Lead { late_ns: [const { AtomicU32::new(0) }; LENGTHS] }
    }

    /// By how much earlier to ask for the end of a wait of `ahead_ns`: less than that. Three quarters of what it is late:
    /// who is late by a quarter more often than not does not spin.
    pub(crate) fn of(&self, ahead_ns: u64) -> u64 {
        // Relaxed, here and below: a guess, written by whoever polls.
        let late = u64::from(self.late_ns[length(ahead_ns)].load(Ordering::Relaxed));
        (late - late / 4).min(ahead_ns.saturating_sub(1))
    }

    /// A wait of `ahead_ns` ended `late_ns` after the time that was asked for.
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
    fn it_follows_what_waits_of_that_length_were_late() {
        let lead = Lead::new();
        assert_eq!(lead.of(MS), 0);
        (0..100).for_each(|_| lead.learn(MS, 80_000));
        assert!((55_000..=60_000).contains(&lead.of(MS)), "{}", lead.of(MS));
        assert_eq!(lead.of(20_000), 0, "shorter ones are another matter");
        (0..100).for_each(|_| lead.learn(MS, 8_000));
        assert!(lead.of(MS) <= 7_000, "{}", lead.of(MS));
    }

    #[test]
    fn it_is_less_than_the_wait_and_than_the_longest_waking() {
        let lead = Lead::new();
        (0..1000).for_each(|_| lead.learn(100 * MS, 50 * MS));
        assert!(lead.of(100 * MS) <= LATEST_NS);
        (0..1000).for_each(|_| lead.learn(500, 50_000));
        assert_eq!(lead.of(500), 499);
        assert_eq!(lead.of(0), 0);
        lead.learn(u64::MAX, 7);
    }
}
