//! Scheduling latency: how long a G that can run waits for a P. Measured are the wake-ups that the sampler of
//! the P chooses.
//!
//! ```text
//!   the waker                                   the M that runs the G
//!   sampler of its P: look at this wake-up?     is the binding of the G special? (it is asked anyway)
//!   if so: is it a sample?
//!   stamp    time -> table, sample -> binding   run_sampled    latency = now - time
//!   put the G into a run queue                                 run the G; how long does it run?
//! ```
//!
//! A sampled G is also timed from its resume to its next stop. So the samples show how long polls of futures
//! and slices of closures take, and which spawn places they belong to.
//!
//! The time lies in a table of the runtime and not in the G, which has no room for it. A G finds its place by
//! its index. If another G has that place, the next wake-up is the sample instead.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use timers::clock;

use crate::g::GRef;
use crate::notes::places::Places;
use crate::p::measured::Measured;

/// How many samples can be on their way at a time.
const STAMPS: usize = 1024;
/// The same if all wake-ups are measured. Indices of Gs are dense, so up to so many Gs do not share a place.
const STAMPS_FOR_ALL: usize = 1 << 16;
/// Of the wake-ups by threads without a P, one in so many is a sample, as a power of two.
const OUTSIDE: u8 = 3;

/// When the G with this index became ready.
#[derive(Default)]
struct Stamp {
    /// 0 for none.
    index: AtomicU32,
    ns: AtomicU64,
}

/// The latencies of one runtime, by place, and what its reader needs.
pub(crate) struct Latency {
    stamps: Box<[Stamp]>,
    all: bool,
    /// Counts the wake-ups by threads without a P.
    outside: AtomicU32,
    /// What Gs did that had no P any more when it was over.
    pub(crate) without_p: Measured,
    pub(crate) places: Places,
}

impl Latency {
    pub(crate) fn new(all: bool) -> Self {
        let stamps = if all { STAMPS_FOR_ALL } else { STAMPS };
        Latency {
            stamps: (0..stamps).map(|_| Stamp::default()).collect(),
            all,
            outside: AtomicU32::new(0),
            without_p: Measured::default(),
            places: Places::default(),
        }
    }

    fn stamp_of(&self, g: GRef) -> &Stamp {
        &self.stamps[g.index() as usize % self.stamps.len()]
    }

    /// Notes that `g` is ready since `now`. Returns `false` if another G has its place in the table. *Runs
    /// on: the thread that makes `g` runnable.*
    pub(crate) fn put(&self, g: GRef, now: u64) -> bool {
        let stamp = self.stamp_of(g);
        // Acquire: pairs with the Release in `take`, so that the G before has read its time.
        if stamp.index.compare_exchange(0, g.index(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Relaxed: the run queue publishes it to the M that runs `g`.
        stamp.ns.store(now, Ordering::Relaxed);
        true
    }

    /// Returns since when `g` was ready. *Runs on: the M that runs `g`, after a wake-up that is a sample.*
    pub(crate) fn take(&self, g: GRef) -> u64 {
        let stamp = self.stamp_of(g);
        debug_assert_eq!(stamp.index.load(Ordering::Relaxed), g.index());
        let ns = stamp.ns.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `put`.
        stamp.index.store(0, Ordering::Release);
        ns
    }

    /// Stamps `g`, which becomes ready now, if the wake-up by this thread without a P is a sample. *Runs on:
    /// the thread that makes `g` runnable.*
    pub(crate) fn stamp_outside(&self, g: GRef) {
        // Relaxed: a count.
        let n = self.outside.fetch_add(1, Ordering::Relaxed);
        let weight = if self.all { 0 } else { OUTSIDE };
        if n.is_multiple_of(1 << weight) && self.put(g, clock::now()) {
            g.binding.set_sample(weight);
        }
    }
}
