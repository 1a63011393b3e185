//! The measured times of one P, as histograms. The holder of the P adds; any thread reads.

use super::histogram::Times;

/// The histograms of one P.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// From ready to running: samples.
    pub(crate) latency: Times,
    /// From a resume of a closure to its next stop: samples.
    pub(crate) slice: Times,
    /// From the begin of a poll to its end: samples.
    pub(crate) poll: Times,
    /// From the time of a timer to its firing: all timers, so their number is that of the fired timers.
    pub(crate) lateness: Times,
}

impl Measured {
    /// Returns the times of polls or of slices.
    pub(crate) fn runs(&self, polls: bool) -> &Times {
        if polls { &self.poll } else { &self.slice }
    }
}
