//! Statistics of measured times.

use crate::report::Report;

/// Times in nanoseconds, sorted.
pub struct Samples(Vec<u64>);

impl Samples {
    /// Sorts the times. Panics if there are none.
    pub fn new(mut times_ns: Vec<u64>) -> Samples {
        assert!(!times_ns.is_empty(), "nothing was measured");
        times_ns.sort_unstable();
        Samples(times_ns)
    }

    /// Returns the percentile by nearest rank: the smallest sample that `percent` percent of all samples do
    /// not exceed.
    pub fn percentile_ns(&self, percent: usize) -> u64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)]
    }

    /// Returns the smallest sample.
    pub fn min_ns(&self) -> u64 {
        self.0[0]
    }

    /// Returns the greatest sample.
    pub fn max_ns(&self) -> u64 {
        self.0[self.0.len() - 1]
    }

    /// Adds the percentiles of the samples, which are the overshoots of sleeps of `time_us`.
    pub fn report_overshoot(&self, report: &mut Report, time_us: u64) {
        report.number(&format!("d{time_us}us_p50_us"), us(self.percentile_ns(50)));
        report.number(&format!("d{time_us}us_p99_us"), us(self.percentile_ns(99)));
    }

    /// Returns the mean of the samples.
    pub fn mean_ns(&self) -> f64 {
        let sum: u128 = self.0.iter().map(|&ns| u128::from(ns)).sum();
        sum as f64 / self.0.len() as f64
    }
}

/// Converts nanoseconds to milliseconds.
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Converts nanoseconds to microseconds.
pub fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn nearest_ranks() {
        let samples = Samples::new((1..=200).rev().collect());
        assert_eq!(samples.percentile_ns(50), 100);
        assert_eq!(samples.percentile_ns(99), 198);
        assert_eq!((samples.min_ns(), samples.max_ns()), (1, 200));
        assert_eq!(samples.mean_ns(), 100.5);
        let one = Samples::new(vec![7]);
        assert_eq!((one.percentile_ns(50), one.percentile_ns(99)), (7, 7));
        assert_eq!(Samples::new(vec![1, 2, 3]).percentile_ns(50), 2);
    }
}
