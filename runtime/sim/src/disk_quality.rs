//! `Quality`: what a disk does wrong, and how long its calls take.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What a simulated disk does wrong, how long its calls take, and how much it holds.
///
/// A fault that the seed decides for is part of the [`Schedule`](super::Schedule): a replay makes it again,
/// and the schedule of a failure is made shorter by leaving faults out, too.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::fs::Quality;
/// let small = Quality::new().capacity(1_000_000);
/// let bad = Quality::new().short(0.1).error(0.001).lost_sync(0.01);
/// # _ = (small, bad);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a quality has an effect where it is set: see `set_quality`"]
pub struct Quality {
    pub(super) short: f64,
    pub(super) error: f64,
    pub(super) lost_sync: f64,
    pub(super) capacity: Option<u64>,
    pub(super) latency: RangeInclusive<Duration>,
}

impl Default for Quality {
    fn default() -> Self {
        let latency = Duration::from_micros(1)..=Duration::from_micros(50);
        Quality { short: 0.0, error: 0.0, lost_sync: 0.0, capacity: None, latency }
    }
}

impl Quality {
    /// Returns the quality of a good disk: any capacity, calls that take 1 to 50 µs, and no faults.
    ///
    /// ```
    /// # runtime::sim!();
    /// let good = runtime::sim::fs::Quality::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the probability that a read or a write does a part only: at least a byte, but less than was asked
    /// for.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().short(0.1);
    /// ```
    pub fn short(mut self, probability: f64) -> Self {
        self.short = probability;
        self
    }

    /// Sets the probability that a call fails with `EIO`, and does nothing. After a sync that fails so, the
    /// next sync does not write what that sync should have written, as on Linux: only a new write of the same
    /// bytes makes them sure.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().error(0.01);
    /// ```
    pub fn error(mut self, probability: f64) -> Self {
        self.error = probability;
        self
    }

    /// Sets the probability that a sync returns `Ok` and makes nothing sure.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().lost_sync(0.01);
    /// ```
    pub fn lost_sync(mut self, probability: f64) -> Self {
        self.lost_sync = probability;
        self
    }

    /// Sets how long a call takes: at least and at most. The seed decides for each call, also whether the
    /// call takes effect at the begin of that time or at its end. Other green threads run meanwhile.
    ///
    /// # Panics
    ///
    /// Panics if the range is empty.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::Duration;
    /// let slow = runtime::sim::fs::Quality::new().latency(Duration::from_millis(5)..=Duration::from_millis(10));
    /// ```
    pub fn latency(mut self, range: RangeInclusive<Duration>) -> Self {
        assert!(!range.is_empty(), "the longest latency is at least the shortest one");
        self.latency = range;
        self
    }

    /// Sets how many bytes the files of the disk may have in all. A write beyond does what fits, and then
    /// fails with `ENOSPC`.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().capacity(1 << 20);
    /// ```
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = Some(bytes);
        self
    }
}
