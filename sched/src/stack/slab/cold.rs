//! The cold stacks of a slab: they are idle, and have given their pages back to the system.
//!
//! Two bits for each stack say what it is, so making stacks cold allocates nothing, and neighbours are found
//! without sorting. The lowest stack is used first. So the used ones stay close to each other, and the idle
//! ones above them can give whole page tables back.

use std::io;
use std::ops::Range;

/// The numbers of stacks in a slab, the lowest first.
pub(super) type Numbers = Range<usize>;

/// Which stacks of a slab are cold.
pub(super) struct Cold {
    words: Vec<Word>,
    /// No word below this one has a cold stack.
    first: usize,
}

/// Two bits for each of 64 stacks.
#[derive(Clone, Copy, Default)]
struct Word {
    cold: u64,
    /// The stacks of which the guard may be gone, with its page table.
    bare: u64,
}

impl Cold {
    /// None of `stacks` stacks.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub(super) fn of(stacks: usize) -> io::Result<Cold> {
        let (mut words, len) = (Vec::new(), stacks.div_ceil(64));
        words.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        words.resize(len, Word::default());
        Ok(Cold { words, first: len })
    }

    /// Makes a stack cold that is not.
    pub(super) fn keep(&mut self, number: usize) {
        let (at, bit) = place(number);
        debug_assert!(self.words[at].cold & bit == 0, "stack {number} was cold already");
        self.words[at].cold |= bit;
        self.first = self.first.min(at);
    }

    /// Takes the lowest cold stack. Also returns `true` if it may have no guard.
    pub(super) fn pop(&mut self) -> Option<(usize, bool)> {
        let has_cold = |word: &Word| word.cold != 0;
        self.first +=
            self.words[self.first..].iter().position(has_cold).unwrap_or(self.words.len() - self.first);
        let word = self.words.get_mut(self.first)?;
        let (number, bit) = (word.cold.trailing_zeros(), word.cold & word.cold.wrapping_neg());
        let is_bare = word.bare & bit != 0;
        word.cold &= !bit;
        word.bare &= !bit;
        Some((self.first * 64 + number as usize, is_bare))
    }

    /// Takes `all`, if they are cold and one of `guarded`, which are some of them, has its guard. These may
    /// have none then. Else returns `false`, and takes none.
    pub(super) fn take_all(&mut self, all: Numbers, guarded: Numbers) -> bool {
        let has = |number: usize, bits: fn(&Word) -> u64| {
            let (at, bit) = place(number);
            bits(&self.words[at]) & bit != 0
        };
        let all_cold = all.clone().all(|number| has(number, |word| word.cold));
        if !all_cold || guarded.clone().all(|number| has(number, |word| word.bare)) {
            return false;
        }
        for (at, bit) in all.map(place) {
            self.words[at].cold &= !bit;
        }
        for (at, bit) in guarded.map(place) {
            self.words[at].bare |= bit;
        }
        true
    }
}

/// Returns in which word and where in it a stack has its bits.
fn place(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_lowest_is_taken_first() {
        let mut cold = Cold::of(200).unwrap();
        assert_eq!(cold.pop(), None);
        [150, 3, 199, 0, 64].into_iter().for_each(|number| cold.keep(number));
        assert_eq!([cold.pop(), cold.pop()], [Some((0, false)), Some((3, false))]);
        cold.keep(1);
        let rest: Vec<_> = std::iter::from_fn(|| cold.pop()).collect();
        assert_eq!(rest, [(1, false), (64, false), (150, false), (199, false)]);
    }

    #[test]
    fn stacks_are_taken_together_if_all_are_cold_and_some_have_guards() {
        let mut cold = Cold::of(100).unwrap();
        (60..70).for_each(|number| cold.keep(number));
        assert!(!cold.take_all(60..71, 60..71) && !cold.take_all(59..65, 60..65));
        assert!(cold.take_all(61..70, 62..70));
        assert!(!cold.take_all(61..70, 62..70));
        (61..70).for_each(|number| cold.keep(number));
        assert!(!cold.take_all(61..70, 62..70), "they are bare");
        assert_eq!([cold.pop(), cold.pop()], [Some((60, false)), Some((61, false))]);
        assert_eq!(cold.pop(), Some((62, true)));
        // It has its guard now.
        cold.keep(62);
        assert!(cold.take_all(62..70, 62..70));
    }

    /// As a map of the cold stacks, with `true` for a bare one.
    #[test]
    fn it_is_a_set_with_two_kinds() {
        const STACKS: usize = 150;
        let (mut random, mut cold) = (fastrand::Rng::with_seed(7), Cold::of(STACKS).unwrap());
        let (mut expected, mut bare) = (BTreeMap::new(), [false; STACKS]);
        for _ in 0..if cfg!(miri) { 1_000 } else { 50_000 } {
            let number = random.usize(..STACKS);
            match random.u8(..4) {
                0 => {
                    let lowest = expected.pop_first();
                    assert_eq!(cold.pop(), lowest);
                    lowest.into_iter().for_each(|(number, _)| bare[number] = false);
                }
                1 => {
                    let all = number..(number + random.usize(1..5)).min(STACKS);
                    let has_guard = |number: usize| expected.get(&number) == Some(&false);
                    let may = all.clone().all(|number| expected.contains_key(&number));
                    let may = may && all.clone().any(has_guard);
                    assert_eq!(cold.take_all(all.clone(), all.clone()), may);
                    for number in all.filter(|_| may) {
                        expected.remove(&number);
                        bare[number] = true;
                    }
                }
                _ if expected.contains_key(&number) => {}
                _ => {
                    cold.keep(number);
                    expected.insert(number, bare[number]);
                }
            }
        }
        assert!(!expected.is_empty());
    }
}
