//! Which wake-ups of a P are measured: one in a power of two. So the P measures a few hundred in a second at
//! most.
//!
//! A measured wake-up costs two readings of the clock. A P that wakes few Gs measures each. The weight of a
//! sample is the number of wake-ups that it stands for. So the weights of all samples add up to about the
//! number of wake-ups.
//!
//! The count is also the one look of the waker. While the flight recorder is on, or stacks of spawners are
//! kept, the count ends at each wake-up.

use std::cell::Cell;

/// Two samples come at least so long after each other, or the next ones become rarer.
const TOO_SOON_NS: u64 = 4_000_000;
/// Two samples come at most so long after each other, or the next ones become more frequent.
const TOO_LATE_NS: u64 = 16_000_000;
/// The most wake-ups that one sample stands for, as a power of two. It has four bits beside the binding of a
/// G.
const MOST: u8 = 10;

/// The count that chooses the measured wake-ups, and its interval.
pub(crate) struct Sampler {
    /// How many wake-ups are left until the next look.
    left: Cell<u32>,
    /// How many wake-ups are left from that look until the next sample.
    beyond: Cell<u32>,
    /// True if the waker looks at each wake-up.
    each: Cell<bool>,
    /// True if it always does.
    always: bool,
    /// How many wake-ups the next sample stands for, as a power of two.
    weight: Cell<u8>,
    /// When the last sample was taken.
    last: Cell<u64>,
    /// The largest allowed `weight`.
    most: u8,
}

impl Sampler {
    /// With `all` each wake-up is a sample. With `always` the waker looks at each.
    pub(crate) fn new(all: bool, always: bool) -> Self {
        let most = if all { 0 } else { MOST };
        Sampler {
            left: Cell::new(1),
            beyond: Cell::new(0),
            each: Cell::new(always),
            always,
            weight: Cell::new(0),
            last: Cell::new(0),
            most,
        }
    }

    /// Counts a wake-up. Returns `true` if the waker is to look at it; the waker then calls `ends_at_sample`.
    #[inline(always)]
    pub(crate) fn counts_to_look(&self) -> bool {
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left == 0
    }

    /// Returns `true` if the wake-up at which the waker looks is to be a sample; the waker then calls `take`.
    /// Else begins the way to the next look.
    #[inline]
    pub(crate) fn ends_at_sample(&self) -> bool {
        debug_assert_eq!(self.left.get(), 0);
        match self.beyond.get() {
            0 => true,
            left => {
                self.set_left(left);
                false
            }
        }
    }

    /// Sets whether the waker looks at each wake-up from now on. *Runs on: the holder of the P, not between
    /// `counts_to_look` and the end of that look.*
    pub(crate) fn look_at_each(&self, each: bool) {
        self.each.set(each || self.always);
        self.set_left(self.left.get() + self.beyond.get());
    }

    /// Sets the number of wake-ups until the next sample, that one included.
    fn set_left(&self, left: u32) {
        debug_assert_ne!(left, 0);
        let look = if self.each.get() { 1 } else { left };
        self.left.set(look);
        self.beyond.set(left - look);
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
        self.set_left(1 << next);
        weight
    }

    /// Makes the next wake-up a sample, because this one cannot be. `weight` is what `take` returned.
    pub(crate) fn retry(&self, weight: u8) {
        self.weight.set(weight);
        self.set_left(1);
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
            if sampler.counts_to_look() && sampler.ends_at_sample() {
                samples += 1;
                weights += 1 << sampler.take(*now);
            }
        }
        (samples, weights)
    }

    #[test]
    fn the_weights_add_up_to_the_wake_ups() {
        let (sampler, mut now) = (Sampler::new(false, false), 0);
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
    fn looks_that_are_always_wanted_come_also_after_a_recording() {
        let sampler = Sampler::new(false, true);
        let mut now = 0;
        for records in [false, true, false] {
            sampler.look_at_each(records);
            for _ in 0..1000 {
                now += 50;
                assert!(sampler.counts_to_look());
                if sampler.ends_at_sample() {
                    sampler.take(now);
                }
            }
        }
    }

    /// The recorder is on at times: the samples are as often as without it.
    #[test]
    fn looks_at_each_wake_up_change_no_sample() {
        let (with, without) = (Sampler::new(false, false), Sampler::new(false, false));
        let (mut now, mut now_without) = (0, 0);
        let mut looks = 0;
        for round in 0..2000_u32 {
            with.look_at_each(round % 3 != 0);
            for _ in 0..round % 97 {
                now += 100;
                let is_look = with.counts_to_look();
                looks += u32::from(is_look);
                assert!(is_look || round % 3 == 0);
                let sample = is_look && with.ends_at_sample();
                sample.then(|| with.take(now));
                assert_eq!((u64::from(sample), 1), (wake(&without, &mut now_without, 1, 100).0, 1));
            }
        }
        assert!(looks > 10_000);
    }

    #[test]
    fn rare_wake_ups_are_all_samples() {
        let (sampler, mut now) = (Sampler::new(false, false), 0);
        wake(&sampler, &mut now, 100_000, 50);
        wake(&sampler, &mut now, 3000, 20_000_000);
        assert_eq!(wake(&sampler, &mut now, 1000, 20_000_000), (1000, 1000));
        let all = Sampler::new(true, false);
        assert_eq!(wake(&all, &mut now, 1000, 10), (1000, 1000));
    }
}
