//! Histograms of times with fixed buckets: four for each power of two, from 64 ns to 68 s. Adding is a few
//! instructions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The exponents of the first and of the last power of two.
const FIRST: u32 = 6;
const LAST: u32 = 35;
/// Each power of two has `1 << SUB` buckets.
const SUB: u32 = 2;
const BUCKETS: usize = ((LAST - FIRST + 1) << SUB) as usize;

/// The bucket of `ns`: the exponent of its leading bit, and the two bits after that.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST);
    let exponent = ns.ilog2();
    // The leading bit counts as four, so the second term is 4 to 7.
    let bucket = ((exponent - FIRST) << SUB) as u64 + (ns >> (exponent - SUB)) - (1 << SUB);
    (bucket as usize).min(BUCKETS - 1)
}

/// The least time above bucket `i`, in ns. All times beyond the last bucket are in the last bucket.
fn end(i: usize) -> u64 {
    let (exponent, sub) = (FIRST + (i as u32 >> SUB), i as u64 & ((1 << SUB) - 1));
    ((1 << SUB) + sub + 1) << (exponent - SUB)
}

/// The buckets that are counted in. The holder of a P adds, or any thread; any thread reads.
#[derive(Debug)]
pub(crate) struct Times {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Times { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Times {
    /// Adds `weight` times of `ns`. *Runs on: the only thread that adds, such as the holder of the P.*
    #[inline]
    pub(crate) fn add(&self, ns: u64, weight: u64) {
        // Relaxed, here and below: the counts order nothing.
        let add = |word: &AtomicU64, n: u64| {
            word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        };
        add(&self.counts[bucket(ns)], weight);
        add(&self.sum_ns, ns.wrapping_mul(weight));
    }

    /// Adds `weight` times of `ns`. *Runs on: any thread, if no thread calls `add`.*
    pub(crate) fn add_shared(&self, ns: u64, weight: u64) {
        self.counts[bucket(ns)].fetch_add(weight, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns.wrapping_mul(weight), Ordering::Relaxed);
    }

    /// Adds these times to `histogram`.
    pub(crate) fn add_to(&self, histogram: &mut Histogram) {
        for (sum, count) in histogram.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        histogram.sum_ns = histogram.sum_ns.wrapping_add(self.sum_ns.load(Ordering::Relaxed));
    }
}

/// How many times of each length there were. The buckets are fixed: four for each power of two, from 64 ns to
/// 68 s.
///
/// A sampled event counts as often as the events that it stands for, so the counts estimate those of all
/// events.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), sum_ns: 0 }
    }
}

impl Histogram {
    /// Returns how many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all times. It wraps around after 584 years.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the mean of all times; `None` if there are none.
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// Returns each bucket from the shortest times to the longest: the bound below which its times are, and
    /// their number. The last bucket also has all longer times.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts.iter().enumerate().map(|(i, &count)| (Duration::from_nanos(end(i)), count))
    }

    /// Returns a time that is no shorter than the fraction `q` of all times. The result is the bound of a
    /// bucket, so it is at most a quarter too long. Returns `None` if there are no times.
    ///
    /// # Panics
    ///
    /// Panics if `q` is not between 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&q), "a quantile is between 0 and 1, not {q}");
        let count = self.count();
        let rank = ((count as f64 * q).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.buckets().find(|(_, n)| {
            below += n;
            below >= rank
        });
        found.filter(|_| count > 0).map(|(bound, _)| bound)
    }

    /// Returns how many times were `bound` or longer. Times in the bucket of `bound` count if the whole
    /// bucket does.
    pub fn count_from(&self, bound: Duration) -> u64 {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let start = |i: usize| i.checked_sub(1).map_or(0, end);
        self.counts.iter().enumerate().filter(|&(i, _)| start(i) >= bound).map(|(_, count)| count).sum()
    }

    /// Returns the times that were added since `earlier`, a histogram of the same events.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut new = self.clone();
        for (count, earlier) in new.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*earlier);
        }
        new.sum_ns = new.sum_ns.wrapping_sub(earlier.sum_ns);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_whose_bounds_contain_it() {
        let mut times = vec![0, 1, 63, 64, 79, 80, 1_000, 999_999, 1_000_000, u64::MAX];
        times.extend((0..64).flat_map(|e| [1 << e, (1_u64 << e) - 1, (1_u64 << e) + 1]));
        for ns in times {
            let i = bucket(ns);
            assert!(i == BUCKETS - 1 || ns < end(i), "{ns} in bucket {i}");
            assert!(i == 0 || ns >= end(i - 1), "{ns} in bucket {i}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        for i in 1..BUCKETS {
            assert!(end(i) > end(i - 1) && end(i) - end(i - 1) <= end(i - 1) / 4, "bucket {i}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let times = Times::default();
        assert_eq!(Histogram::default().quantile(0.5), None);
        // 1 us to 1000 us.
        (1..=1000).for_each(|us| times.add(us * 1000, 1));
        let mut histogram = Histogram::default();
        times.add_to(&mut histogram);
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.mean(), Some(Duration::from_nanos(500_500)));
        for (q, us) in [(0.0, 1), (0.01, 10), (0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)] {
            let (found, exact) = (histogram.quantile(q).unwrap(), Duration::from_micros(us));
            assert!(found > exact && found <= exact * 5 / 4, "{q}: {found:?} for {exact:?}");
        }
        let long = histogram.count_from(Duration::from_micros(500));
        assert!((400..=501).contains(&long), "{long} of 501 times");
    }

    #[test]
    fn a_sample_counts_as_often_as_its_weight() {
        let (times, mut before, mut after) = (Times::default(), Histogram::default(), Histogram::default());
        times.add(100, 3);
        times.add_to(&mut before);
        times.add_shared(1_000_000, 4);
        times.add_to(&mut after);
        let new = after.since(&before);
        assert_eq!((before.count(), after.count(), new.count()), (3, 7, 4));
        assert_eq!((new.sum(), new.count_from(Duration::from_micros(500))), (Duration::from_millis(4), 4));
        assert_eq!(new.buckets().map(|(_, n)| n).sum::<u64>(), 4);
    }
}
