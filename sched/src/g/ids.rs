//! Ids of green and OS threads, never used twice. Each M takes them in batches, so that spawns do not contend
//! for a counter.
//!
//! The green threads of a simulation have ids of a range of their own (`OfSimulation`), in the order in which
//! they are spawned. What a user sees of such an id is its number in the range (`shown`), which is the same
//! in each run. (Feature `sim`.)

use std::sync::atomic::{AtomicU64, Ordering};

const BATCH: u64 = 256;
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A batch of ids that belongs to one M.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    next: u64,
    end: u64,
}

impl Batch {
    pub(crate) const EMPTY: Batch = Batch { next: 0, end: 0 };

    /// Returns the next id. `more` takes so many further ids, and returns the first of them.
    #[inline]
    pub(crate) fn next(&mut self, more: impl FnOnce(u64) -> u64) -> u64 {
        if self.next == self.end {
            self.next = more(BATCH);
            self.end = self.next + BATCH;
        }
        self.next += 1;
        self.next - 1
    }
}

/// Takes `n` ids. Returns the first of them.
pub(crate) fn take(n: u64) -> u64 {
    // Relaxed: only uniqueness matters.
    NEXT.fetch_add(n, Ordering::Relaxed)
}

pub(crate) use simulated::OfSimulation;
pub use simulated::shown;

mod simulated {
    use super::*;

    /// Set in each id of a simulation. Below it are the number of the simulation, and the number of the green
    /// thread there.
    const SIMULATED: u64 = 1 << 63;
    const BITS: u32 = 32;
    const NUMBER: u64 = (1 << BITS) - 1;

    static SIMULATIONS: AtomicU64 = AtomicU64::new(0);

    /// The range of ids of one simulation.
    pub(crate) struct OfSimulation {
        next: AtomicU64,
    }

    impl OfSimulation {
        pub(crate) fn new() -> Self {
            // Relaxed, here and below: only uniqueness matters.
            let simulation = SIMULATIONS.fetch_add(1, Ordering::Relaxed);
            assert!(simulation < SIMULATED >> BITS, "a process has no ids for further simulations");
            OfSimulation { next: AtomicU64::new(SIMULATED | simulation << BITS | 1) }
        }

        /// Takes `n` ids. Returns the first of them.
        pub(crate) fn take(&self, n: u64) -> u64 {
            let first = self.next.fetch_add(n, Ordering::Relaxed);
            // A batch before the last one is refused: further calls stay in the range, too.
            assert!(shown(first) < NUMBER - 2 * n, "a simulation has no ids for further green threads");
            first
        }
    }

    /// Returns what a user sees of an id: the number in its simulation, or the id of a thread that belongs to
    /// none.
    #[must_use]
    pub fn shown(id: u64) -> u64 {
        if id & SIMULATED == 0 { id } else { id & NUMBER }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn each_simulation_counts_from_one_and_shares_no_id() {
            let (one, other) = (OfSimulation::new(), OfSimulation::new());
            let ids = [one.take(1), one.take(BATCH), other.take(2), other.take(1)];
            assert_eq!(ids.map(shown), [1, 2, 1, 3]);
            assert_ne!(ids[0], ids[2]);
            let outside = take(1);
            assert_eq!(shown(outside), outside);
        }

        #[test]
        #[should_panic(expected = "no ids for further green threads")]
        fn a_range_is_not_left() {
            let one = OfSimulation::new();
            one.next.fetch_add(NUMBER - 2, Ordering::Relaxed);
            one.take(1);
        }
    }
}
