//! For how many allocations a sample stands.

/// The bytes for each sample, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate(usize);

/// The weight of a sample, in parts of 2^-16 of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight(pub(super) u64);

const ONE: f64 = 65_536.0;

impl Rate {
    pub(super) fn new(bytes: usize) -> Option<Rate> {
        (bytes > 0).then_some(Rate(bytes))
    }

    /// Returns the weight of a sample of `size` bytes: one over the probability that such an allocation is a
    /// sample. So the sums are right on average.
    pub(super) fn weight(self, size: usize) -> Weight {
        let probability = match self.0 {
            1 => 1.0,
            // `1 - exp(-x)`, also exact for small x.
            rate => -(-(size as f64) / rate as f64).exp_m1(),
        };
        Weight((ONE / probability).round() as u64)
    }
}

impl Weight {
    /// Returns the bytes of all allocations for which a sample of `size` bytes stands.
    pub(super) fn bytes(self, size: usize) -> u64 {
        (self.0 as f64 / ONE * size as f64).round() as u64
    }

    /// Returns how many allocations it is, rounded.
    pub(super) fn objects(self) -> u64 {
        (self.0 as f64 / ONE).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_makes_up_for_the_samples_that_were_not_taken() {
        let of = |rate, size| Rate::new(rate).unwrap().weight(size);
        // Small ones: a sample for each `rate` bytes. Large ones: each is a sample.
        assert_eq!(of(512 << 10, 8).bytes(8), (512 << 10) + 4);
        assert_eq!(of(512 << 10, 64 << 20), Weight(65_536));
        assert_eq!([1, 2, 1000].map(|size| of(1, size).objects()), [1, 1, 1]);
        assert_eq!(of(1000, 1000).bytes(1000), 1582);
        assert_eq!(Rate::new(0), None);
    }
}
