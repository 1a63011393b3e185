//! A set of caches: a bit for each.

/// The most caches: OS threads that access memory while the model counts.
pub(crate) const MOST: usize = 512;

/// A set of caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Set([u64; MOST / 64]);

impl Set {
    pub(crate) const EMPTY: Set = Set([0; MOST / 64]);

    /// The set of `cache` alone.
    pub(crate) fn only(cache: usize) -> Set {
        let mut set = Set::EMPTY;
        set.add(cache);
        set
    }

    pub(crate) fn add(&mut self, cache: usize) {
        self.0[cache / 64] |= 1 << (cache % 64);
    }

    pub(crate) fn has(&self, cache: usize) -> bool {
        self.0[cache / 64] >> (cache % 64) & 1 == 1
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}
