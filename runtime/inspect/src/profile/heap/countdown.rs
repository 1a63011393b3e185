//! Which allocations are samples: each thread counts bytes down to its next one.
//!
//! The bytes between two samples are exponentially distributed. So each byte has the same chance, whatever
//! was allocated before it, and an allocation of `n` bytes is a sample with probability `1 - exp(-n / rate)`.
//! A thread begins with a gap of that kind, too: with many short threads the profile stays right.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::weight::Rate;

/// One sample for each 512 KiB, as in Go.
const DEFAULT_RATE: usize = 512 << 10;

/// Bytes for each sample; 0 takes none. Relaxed, throughout: each thread begins anew when it sees another.
static RATE: AtomicUsize = AtomicUsize::new(DEFAULT_RATE);
/// Set once a thread has counted. Relaxed, throughout: the value alone counts.
static USED: AtomicBool = AtomicBool::new(false);
/// How many threads have begun. Relaxed, throughout: it makes the gaps of threads differ.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// What one thread counts. Without a destructor, so it is there until the thread has ended.
struct Countdown {
    /// The rate of the current gap.
    rate: Cell<usize>,
    /// Bytes that are not samples. The allocation that goes beyond them is one.
    left: Cell<usize>,
    /// Of the random numbers; 0 before the first.
    seed: Cell<u64>,
    /// The thread records a sample or makes a profile: what it allocates for that is none.
    records: Cell<bool>,
}

thread_local! {
    static COUNTDOWN: Countdown = const {
        Countdown { rate: Cell::new(usize::MAX), left: Cell::new(0), seed: Cell::new(0), records: Cell::new(false) }
    };
}

pub(super) fn set_rate(bytes: usize) {
    // The greatest number stands for a thread that has not begun.
    RATE.store(bytes.min(usize::MAX - 1), Ordering::Relaxed);
}

pub(super) fn rate() -> usize {
    RATE.load(Ordering::Relaxed)
}

/// Returns `true` if some allocator of this process counts.
pub(super) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Counts an allocation. Returns the rate if it is a sample. Never inlined: after a call that parks, the
/// caller may be on another OS thread, and must not keep the address of the variable.
#[inline(never)]
pub(super) fn count(size: usize) -> Option<Rate> {
    COUNTDOWN.with(|this| this.count(size, rate(), &USED))
}

/// Calls `f` and returns its result. No allocation of `f` is a sample, and none counts. *Runs on: any thread;
/// `f` must not park.*
#[inline(never)]
pub(super) fn unsampled<R>(f: impl FnOnce() -> R) -> R {
    let left = COUNTDOWN.with(|this| {
        this.records.set(true);
        this.left.replace(usize::MAX)
    });
    let result = f();
    COUNTDOWN.with(|this| {
        this.records.set(false);
        this.left.set(left);
    });
    result
}

impl Countdown {
    #[inline]
    fn count(&self, size: usize, rate: usize, used: &AtomicBool) -> Option<Rate> {
        if self.rate.get() == rate
            && let Some(left) = self.left.get().checked_sub(size)
        {
            self.left.set(left);
            return None;
        }
        self.end_gap(size, rate, used)
    }

    /// Begins the next gap. Returns the rate if `size` ends the current one, and that is of this rate.
    #[cold]
    fn end_gap(&self, size: usize, rate: usize, used: &AtomicBool) -> Option<Rate> {
        if self.records.get() {
            return None;
        }
        used.store(true, Ordering::Relaxed);
        if self.rate.replace(rate) != rate {
            self.left.set(self.gap(rate));
            return self.count(size, rate, used);
        }
        self.left.set(self.gap(rate));
        Rate::new(rate)
    }

    /// Returns how many bytes are no samples before the next one.
    fn gap(&self, rate: usize) -> usize {
        match rate {
            0 => usize::MAX,
            // Each byte is a sample.
            1 => 0,
            // From 0 without to 1 with its end, so the logarithm is finite.
            _ => (-(1.0 - self.random()).ln() * rate as f64) as usize,
        }
    }

    /// Returns a number from 0 to 1, without 1.
    fn random(&self) -> f64 {
        let mut random = fastrand::Rng::with_seed(match self.seed.get() {
            0 => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(THREADS.fetch_add(1, Ordering::Relaxed));
                hasher.finish()
            }
            seed => seed,
        });
        let number = random.f64();
        self.seed.set(random.get_seed());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn countdown(seed: u64) -> Countdown {
        Countdown { rate: Cell::new(0), left: Cell::new(0), seed: Cell::new(seed), records: Cell::new(false) }
    }

    #[test]
    fn gaps_are_exponential() {
        let (this, rate, n) = (countdown(7), 1 << 16, 20_000);
        let gaps: Vec<_> = (0..n).map(|_| this.gap(rate)).collect();
        let mean = gaps.iter().sum::<usize>() as f64 / n as f64 / rate as f64;
        let long = gaps.iter().filter(|&&gap| gap >= 2 * rate).count() as f64 / n as f64;
        // Five standard deviations: 1 / sqrt(n) of the mean, and sqrt(p / n) of the part.
        assert!((mean - 1.0).abs() < 0.036, "{mean}");
        assert!((long - (-2.0_f64).exp()).abs() < 0.013, "{long}");
    }

    #[test]
    fn threads_begin_with_other_gaps() {
        let first: std::collections::HashSet<_> = (0..100).map(|_| countdown(0).gap(1 << 40)).collect();
        assert_eq!(first.len(), 100);
    }

    #[test]
    fn nothing_of_a_record_is_a_sample() {
        let (this, used) = (countdown(7), AtomicBool::new(false));
        let count = |size, rate| this.count(size, rate, &used);
        this.records.set(true);
        assert_eq!([count(100, 1), count(100, 1)], [None, None]);
        this.records.set(false);
        assert_eq!([count(100, 1), count(0, 1)], [Rate::new(1), None], "of no bytes none is a sample");
        assert_eq!([count(1 << 40, 0), count(1, 1)], [None, Rate::new(1)]);
        assert!(used.into_inner());
    }

    #[test]
    fn rate_1_takes_each_byte_and_rate_0_none() {
        let this = countdown(7);
        assert_eq!((this.gap(1), this.gap(0)), (0, usize::MAX));
    }
}
