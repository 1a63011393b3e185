//! A set of indices of Ps, which any thread reads and changes.

use crate::sync::{AtomicUsize, Ordering};

/// How many words lie side by side. Two cache lines, because the processor fetches lines in pairs.
const WORDS: usize = if cfg!(loom) { 1 } else { 128 / size_of::<usize>() };
const BITS: usize = usize::BITS as usize;

/// A set of small numbers. A look at all members reads a line for each 1,024 numbers, and not one for each.
///
/// A thread that finds an index sees what was done before it was put into the set. The fences of the callers
/// say which indices it finds.
#[derive(Debug)]
pub struct IndexSet {
    lines: Box<[Line]>,
    /// No word from here on was ever used.
    used: AtomicUsize,
}

#[derive(Debug)]
#[repr(align(128))]
struct Line([AtomicUsize; WORDS]);

impl IndexSet {
    /// Makes an empty set for indices below `capacity`.
    pub fn new(capacity: usize) -> Self {
        let line = || Line([(); WORDS].map(|()| AtomicUsize::new(0)));
        let lines = (0..capacity.div_ceil(BITS * WORDS)).map(|_| line()).collect();
        Self { lines, used: AtomicUsize::new(0) }
    }

    fn word(&self, word: usize) -> &AtomicUsize {
        &self.lines[word / WORDS].0[word % WORDS]
    }

    /// Returns `true` if `index` is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.word(index / BITS).load(Ordering::Relaxed) & bit(index) != 0
    }

    /// Puts `index` into the set. Writes nothing if it is there.
    ///
    /// # Panics
    ///
    /// If `index` is beyond the capacity.
    pub fn insert(&self, index: usize) {
        let word = index / BITS;
        // Before the bit: a thread that is to see the bit sees this, too.
        if self.used.load(Ordering::Relaxed) <= word {
            self.used.fetch_max(word + 1, Ordering::Relaxed);
        }
        if !self.contains(index) {
            // Release: pairs with the Acquire in `words_from`.
            self.word(word).fetch_or(bit(index), Ordering::Release);
        }
    }

    /// Takes `index` out of the set. Writes nothing if it is not there.
    pub fn remove(&self, index: usize) {
        if self.contains(index) {
            self.word(index / BITS).fetch_and(!bit(index), Ordering::Relaxed);
        }
    }

    /// Returns the members, from the least on. Reads each word once, when it gets there.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words_from(0)
    }

    /// Returns the members from `first` on, and then those below `first`.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        let from = self.words_from(first / BITS).skip_while(move |&index| index < first);
        from.chain(self.words_from(0).take_while(move |&index| index < first))
    }

    fn words_from(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        (first..self.used.load(Ordering::Relaxed)).flat_map(|word| {
            // Acquire: pairs with the Release in `insert`.
            let mut left = self.word(word).load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let lowest = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * BITS + lowest)
            })
        })
    }
}

fn bit(index: usize) -> usize {
    1 << (index % BITS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::IndexSet;
    use std::collections::BTreeSet;

    #[test]
    fn it_has_what_a_tree_has() {
        const CAPACITY: usize = 3_000;
        let (set, mut tree, mut random) =
            (IndexSet::new(CAPACITY), BTreeSet::new(), fastrand::Rng::with_seed(7));
        for _ in 0..if cfg!(miri) { 50 } else { 2_000 } {
            let index = random.usize(..CAPACITY);
            match random.bool() {
                true => {
                    set.insert(index);
                    tree.insert(index);
                }
                false => {
                    let gone = tree.iter().nth(index % tree.len().max(1)).copied().unwrap_or(index);
                    set.remove(gone);
                    tree.remove(&gone);
                }
            }
            assert_eq!(set.contains(index), tree.contains(&index));
            assert!(set.iter().eq(tree.iter().copied()));
            let first = random.usize(..CAPACITY);
            let turned = tree.range(first..).chain(tree.range(..first)).copied();
            assert!(set.iter_from(first).eq(turned), "from {first}");
        }
    }
}
