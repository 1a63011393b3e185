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
    pub(super) rot: f64,
    pub(super) bad_sector: f64,
    pub(super) lost_write: f64,
    pub(super) misdirected_write: f64,
    pub(super) slow: (f64, Duration),
    pub(super) capacity: Option<u64>,
    pub(super) latency: RangeInclusive<Duration>,
}

impl Default for Quality {
    fn default() -> Self {
        let latency = Duration::from_micros(1)..=Duration::from_micros(50);
        Quality {
            short: 0.0,
            error: 0.0,
            lost_sync: 0.0,
            rot: 0.0,
            bad_sector: 0.0,
            lost_write: 0.0,
            misdirected_write: 0.0,
            slow: (0.0, Duration::ZERO),
            capacity: None,
            latency,
        }
    }
}

impl Quality {
    /// Returns the probabilities of all faults.
    pub(super) fn probabilities(&mut self) -> [&mut f64; 8] {
        [
            &mut self.short,
            &mut self.error,
            &mut self.lost_sync,
            &mut self.rot,
            &mut self.bad_sector,
            &mut self.lost_write,
            &mut self.misdirected_write,
            &mut self.slow.0,
        ]
    }

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

    /// Sets the probability that a read finds a bit changed on the disk, in one of the bytes that it reads. The
    /// byte stays so until it is written again, also after a kill and a power cut.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::fs::{Quality, set_quality};
    /// runtime::sim::run(1, || {
    ///     runtime::fs::write("/a", [0; 100]).unwrap();
    ///     set_quality("main", Quality::new().rot(1.0));
    ///     let bytes = runtime::fs::read("/a").unwrap();
    ///     assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    /// });
    /// ```
    pub fn rot(mut self, probability: f64) -> Self {
        self.rot = probability;
        self
    }

    /// Sets the probability that a read finds a latent error: one of the sectors of 512 bytes that it reads
    /// has become bad. A read that needs a bad sector fails with `EIO`, until that sector is written again.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().bad_sector(0.001);
    /// ```
    pub fn bad_sector(mut self, probability: f64) -> Self {
        self.bad_sector = probability;
        self
    }

    /// Sets the probability that a write returns `Ok` and is lost: the bytes stay as they were, and a file
    /// that becomes longer has zeros there.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::fs::{Quality, set_quality};
    /// runtime::sim::run(1, || {
    ///     set_quality("main", Quality::new().lost_write(1.0));
    ///     runtime::fs::write("/a", "text").unwrap();
    ///     assert_eq!(runtime::fs::read("/a").unwrap(), [0; 4]);
    /// });
    /// ```
    pub fn lost_write(mut self, probability: f64) -> Self {
        self.lost_write = probability;
        self
    }

    /// Sets the probability that a write returns `Ok` and goes astray: the bytes land some sectors before or
    /// after their place, in the same file. At their place all stays as it was, as with a lost write. A file
    /// of one sector has no other place, so the write is only lost.
    ///
    /// ```
    /// # runtime::sim!();
    /// let quality = runtime::sim::fs::Quality::new().misdirected_write(0.001);
    /// ```
    pub fn misdirected_write(mut self, probability: f64) -> Self {
        self.misdirected_write = probability;
        self
    }

    /// Sets the probability that a call is slow, and how much longer than the [latency](Quality::latency) it
    /// then takes at most. A slow call is no fault of the schedule.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::Duration;
    /// let quality = runtime::sim::fs::Quality::new().slow(0.01, Duration::from_secs(2));
    /// ```
    pub fn slow(mut self, probability: f64, most: Duration) -> Self {
        self.slow = (probability, most);
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
