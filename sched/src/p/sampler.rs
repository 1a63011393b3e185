//! Which wake-ups of a P are measured: one in a power of two, so that the P measures a few hundred in a second at most.
//!
//! A measured wake-up costs two readings of the clock. A P that wakes few Gs measures each. Each sample has as its weight the number
//! of wake-ups that it stands for, so the weights of all samples add up to about the number of wake-ups.

use std::cell::Cell;

/// Two samples come at least so long after each other, or the next ones become rarer.
const TOO_SOON_NS: u64 = 4_000_000;
/// Two samples come at most so long after each other, or the next ones become more frequent.
const TOO_LATE_NS: u64 = 16_000_000;
/// The most wake-ups that one sample stands for, as a power of two. It has four bits beside the binding of a G.
const MOST: u8 = 10;

/// See the file's head. Only the holder of the P uses it.
pub(crate) struct Sampler {
    /// How many wake-ups are left until the next sample.
    left: Cell<u32>,
    /// How many wake-ups the next sample stands for, as a power of two.
    weight: Cell<u8>,
    /// When the last sample was taken.
    last: Cell<u64>,
    /// The largest allowed `weight`.
    most: u8,
}

impl Sampler {
    /// With `all` each wake-up is a sample.
    pub(crate) fn new(all: bool) -> Self {
        let most = if all { 0 } else { MOST };
        Sampler { left: Cell::new(1), weight: Cell::new(0), last: Cell::new(0), most }
    }

    /// Counts a wake-up. Returns `true` if it is to be a sample; the caller then calls `take`.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left == 0
    }

    /// Begins the way to the next sample. Returns the weight of this one, as a power of two.
    pub(crate) fn take(&self, now: u64) -> u8 {
        let (weight, since) = (self.weight.get(), now.saturating_sub(self.last.replace(now)));
        let next = match since {
            ..TOO_SOON_NS => (weight + 1).min(self.most),
            TOO_SOON_NS..TOO_LATE_NS => weight,
            // As many powers of two fewer as the last sample came too late.
            _ => weight.saturating_sub((since / TOO_LATE_NS).ilog2() as u8 + 1),
        };
        self.weight.set(next);
        self.left.set(1 << next);
        weight
    }

    /// Makes the next wake-up a sample, because this one cannot be. `weight` is what `take` returned.
    pub(crate) fn retry(&self, weight: u8) {
        self.weight.set(weight);
        self.left.set(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakes `n` times, `gap` ns apart. Returns the number of samples and the sum of their weights.
    fn wake(sampler: &Sampler, now: &mut u64, n: u64, gap: u64) -> (u64, u64) {
        let (mut samples, mut weights) = (0, 0);
        for _ in 0..n {
            *now += gap;
            if sampler.is_due() {
                samples += 1;
                weights += 1 << sampler.take(*now);
            }
        }
        (samples, weights)
    }

    #[test]
    fn the_weights_add_up_to_the_wake_ups() {
        let (sampler, mut now) = (Sampler::new(false), 0);
        for gap in [50, 1_000, 10_000_000, 20, 100_000] {
            let n = 300_000;
            let (samples, weights) = wake(&sampler, &mut now, n, gap);
            assert!(weights.abs_diff(n) <= 1 << MOST, "{weights} for {n} wake-ups, {gap} ns apart");
            // A bit over one in 4 ms, but one in 2^10 at the least.
            let most = (n * gap / TOO_SOON_NS + 20).max(n >> (MOST - 1));
            assert!(samples <= most, "{samples} samples of wake-ups {gap} ns apart");
        }
    }

    #[test]
    fn rare_wake_ups_are_all_samples() {
        let (sampler, mut now) = (Sampler::new(false), 0);
        wake(&sampler, &mut now, 100_000, 50);
        wake(&sampler, &mut now, 3000, 20_000_000);
        assert_eq!(wake(&sampler, &mut now, 1000, 20_000_000), (1000, 1000));
        let all = Sampler::new(true);
        assert_eq!(wake(&all, &mut now, 1000, 10), (1000, 1000));
    }
}
