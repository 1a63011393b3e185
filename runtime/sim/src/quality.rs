//! `Quality`: what a link between two nodes does to packets.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What a link of the simulated network does to packets.
///
/// A fault that the seed decides for is part of the [`Schedule`](super::Schedule): a replay makes it again,
/// and the schedule of a failure is made shorter by leaving faults out, too.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::net::Quality;
/// use std::time::Duration;
/// let slow = Quality::new().latency(Duration::from_millis(50)..=Duration::from_millis(80)).bandwidth(1_000_000);
/// let bad = Quality::new().loss(0.1).duplicate(0.05).reorder(0.1);
/// # _ = (slow, bad);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a quality has an effect where it is set: see `set_quality`"]
pub struct Quality {
    latency: RangeInclusive<Duration>,
    bandwidth: Option<u64>,
    loss: f64,
    duplicate: f64,
    reorder: f64,
}

impl Default for Quality {
    fn default() -> Self {
        Quality {
            latency: Duration::from_millis(1)..=Duration::from_millis(10),
            bandwidth: None,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
        }
    }
}

impl Quality {
    /// Returns the probabilities of all faults.
    pub(super) fn probabilities(&mut self) -> [&mut f64; 3] {
        [&mut self.loss, &mut self.duplicate, &mut self.reorder]
    }

    /// Returns the quality of a good link: 1 to 10 ms, any bandwidth, and no faults.
    ///
    /// ```
    /// # runtime::sim!();
    /// let good = runtime::sim::net::Quality::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a packet takes: at least and at most. The seed decides for each packet. TCP keeps its
    /// order all the same.
    ///
    /// # Panics
    ///
    /// Panics if the range is empty.
    ///
    /// ```
    /// # runtime::sim!();
    /// use std::time::Duration;
    /// let far = runtime::sim::net::Quality::new().latency(Duration::from_millis(100)..=Duration::from_millis(120));
    /// ```
    pub fn latency(mut self, range: RangeInclusive<Duration>) -> Self {
        assert!(!range.is_empty(), "the longest latency is at least the shortest one");
        self.latency = range;
        self
    }

    /// Sets the bandwidth in bytes a second. A packet has 40 bytes besides its data.
    ///
    /// # Panics
    ///
    /// Panics if it is 0.
    ///
    /// ```
    /// # runtime::sim!();
    /// let modem = runtime::sim::net::Quality::new().bandwidth(7000);
    /// ```
    pub fn bandwidth(mut self, bytes: u64) -> Self {
        assert_ne!(bytes, 0, "a link has a bandwidth: `partition` breaks it");
        self.bandwidth = Some(bytes);
        self
    }

    /// Sets the probability that a packet is lost. TCP sends it again after 200 ms.
    ///
    /// ```
    /// # runtime::sim!();
    /// let bad = runtime::sim::net::Quality::new().loss(0.01);
    /// ```
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Sets the probability that a datagram arrives twice.
    ///
    /// ```
    /// # runtime::sim!();
    /// let bad = runtime::sim::net::Quality::new().duplicate(0.01);
    /// ```
    pub fn duplicate(mut self, probability: f64) -> Self {
        self.duplicate = probability;
        self
    }

    /// Sets the probability that a packet takes longer, up to ten times the longest latency, so that others
    /// overtake it.
    ///
    /// ```
    /// # runtime::sim!();
    /// let bad = runtime::sim::net::Quality::new().reorder(0.1);
    /// ```
    pub fn reorder(mut self, probability: f64) -> Self {
        self.reorder = probability;
        self
    }

    /// Returns the shortest and the longest latency in ns, and the bandwidth.
    pub(super) fn times(&self) -> (u64, u64, Option<u64>) {
        // At most an hour, so that sums do not overflow.
        let ns = |time: &Duration| time.as_nanos().min(3600 * 1_000_000_000) as u64;
        (ns(self.latency.start()), ns(self.latency.end()), self.bandwidth)
    }

    /// Returns the probabilities of the faults, in the order of their numbers in a schedule.
    pub(super) fn chances(&self) -> [f64; 3] {
        [self.loss, self.duplicate, self.reorder]
    }
}
