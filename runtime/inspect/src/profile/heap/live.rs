//! The samples that are not freed yet, by their addresses: a table of fixed size, without locks.
//!
//! Each address has two lines of eight words, and a free word of the emptier one takes it. So the table is
//! nearly full before an address has no room. A filter counts the samples with the same hash. So a free of
//! other memory reads one word, as a rule.
//!
//! ```text
//!   allocates a sample                   frees it, maybe on another thread
//!   count the filter up                  read the filter: 0 means no sample
//!   take a free word for the address     find the word of the address, mark it as held
//!   write the sample                     read the sample
//!   return the memory                    free the memory
//!                                        free the word, count the filter down
//! ```
//!
//! No thread looks for an address before its allocation has returned, and the program hands the address over
//! with synchronization of its own. So the loads of a thread that frees need no order. The word is held until
//! the memory is free, because a reallocation may fail; then the word gets its address back.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::weight::Weight;

/// Words of a line: those of a cache line.
const WORDS: usize = 8;
/// How many counters the filter has.
const FILTER: usize = 4096;
/// What is in a free word.
const FREE: usize = 0;
/// What is in a word while its memory is freed. No allocation has this address.
const HELD: usize = 1;

/// A table of `LINES * 8` samples. All zeroes is an empty one.
pub(super) struct Live<const LINES: usize> {
    filter: [AtomicU32; FILTER],
    lines: [Line; LINES],
    samples: [[Slot; WORDS]; LINES],
}

#[repr(align(64))]
struct Line([AtomicUsize; WORDS]);

struct Slot {
    size: AtomicUsize,
    weight: AtomicU64,
    sum: AtomicU32,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) size: usize,
    pub(super) weight: Weight,
    /// In which sum it is counted.
    pub(super) sum: u32,
}

/// A sample with its memory about to be freed. Ends with `free` or `put_back`.
#[must_use]
#[derive(Debug)]
pub(super) struct Held {
    pub(super) sample: Sample,
    address: usize,
    line: usize,
    word: usize,
}

impl<const LINES: usize> Live<LINES> {
    pub(super) const fn new() -> Self {
        Live {
            filter: [const { AtomicU32::new(0) }; FILTER],
            lines: [const { Line([const { AtomicUsize::new(FREE) }; WORDS]) }; LINES],
            samples: [const {
                [const { Slot { size: AtomicUsize::new(0), weight: AtomicU64::new(0), sum: AtomicU32::new(0) } };
                    WORDS]
            }; LINES],
        }
    }

    /// Keeps the sample at `address`. Returns `false` if its two lines are full.
    pub(super) fn add(&self, address: usize, sample: Sample) -> bool {
        let hash = Hash::of(address);
        // Relaxed: the thread that frees this address has synchronized with its allocation; see the head.
        self.filter[hash.filter()].fetch_add(1, Ordering::Relaxed);
        let mut lines = hash.lines::<LINES>();
        lines.sort_unstable_by_key(|&line| self.used(line));
        for line in lines {
            for (word, slot) in self.lines[line].0.iter().zip(&self.samples[line]) {
                // Acquire: pairs with the Release in `free`, so the last reader of the slot is done.
                if word.load(Ordering::Relaxed) == FREE
                    && word.compare_exchange(FREE, address, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    // Relaxed: as above.
                    slot.size.store(sample.size, Ordering::Relaxed);
                    slot.weight.store(sample.weight.0, Ordering::Relaxed);
                    slot.sum.store(sample.sum, Ordering::Relaxed);
                    return true;
                }
            }
        }
        self.filter[hash.filter()].fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Returns how many words of a line are not free.
    fn used(&self, line: usize) -> usize {
        // Relaxed: a hint, which says where to begin.
        self.lines[line].0.iter().filter(|word| word.load(Ordering::Relaxed) != FREE).count()
    }

    /// Returns the sample at `address`, if there is one. The caller is about to free that memory.
    #[inline]
    pub(super) fn hold(&self, address: usize) -> Option<Held> {
        let hash = Hash::of(address);
        // Relaxed: see the head.
        if self.filter[hash.filter()].load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.find(address, hash)
    }

    #[cold]
    fn find(&self, address: usize, hash: Hash) -> Option<Held> {
        // Relaxed, throughout: see the head. The caller alone may free this address.
        for line in hash.lines::<LINES>() {
            let words = &self.lines[line].0;
            if let Some(word) = words.iter().position(|word| word.load(Ordering::Relaxed) == address) {
                words[word].store(HELD, Ordering::Relaxed);
                let slot = &self.samples[line][word];
                let sample = Sample {
                    size: slot.size.load(Ordering::Relaxed),
                    weight: Weight(slot.weight.load(Ordering::Relaxed)),
                    sum: slot.sum.load(Ordering::Relaxed),
                };
                return Some(Held { sample, address, line, word });
            }
        }
        None
    }

    /// Forgets a sample.
    pub(super) fn free(&self, held: Held) {
        // Release: pairs with the Acquire in `add`.
        self.lines[held.line].0[held.word].store(FREE, Ordering::Release);
        self.filter[Hash::of(held.address).filter()].fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a sample of which the memory is not freed after all.
    pub(super) fn put_back(&self, held: Held) {
        // Relaxed: as in `add`.
        self.lines[held.line].0[held.word].store(held.address, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    #[inline]
    fn of(address: usize) -> Hash {
        // The golden ratio: its product mixes the lower bits into the upper ones.
        Hash((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[inline]
    fn filter(self) -> usize {
        (self.0 >> 52) as usize % FILTER
    }

    fn lines<const LINES: usize>(self) -> [usize; 2] {
        array::from_fn(|i| (self.0 >> (39 - 13 * i)) as usize % LINES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(size: usize) -> Sample {
        Sample { size, weight: Weight(3 << 16), sum: 5 }
    }

    #[test]
    fn a_sample_is_found_until_it_is_freed() {
        let live = Live::<64>::new();
        let addresses: Vec<_> = (1..=100).map(|i| i * 48).collect();
        addresses.iter().for_each(|&address| assert!(live.add(address, sample(address))));
        for &address in &addresses {
            assert!(live.hold(address + 16).is_none());
            let held = live.hold(address).unwrap();
            assert_eq!(held.sample, sample(address));
            live.free(held);
            assert!(live.hold(address).is_none(), "it is freed once");
        }
        assert!(live.filter.iter().all(|counter| counter.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_full_table_refuses_and_has_room_after_a_free() {
        let live = Live::<1>::new();
        let addresses: Vec<_> = (1..=WORDS).map(|i| i * 16).collect();
        addresses.iter().for_each(|&address| assert!(live.add(address, sample(1))));
        assert!(!live.add(4096, sample(1)));
        assert!(live.hold(4096).is_none());
        let held = live.hold(addresses[3]).unwrap();
        assert!(!live.add(4096, sample(1)), "a held word is not free");
        live.put_back(held);
        live.free(live.hold(addresses[3]).unwrap());
        assert!(live.add(4096, sample(9)));
        assert_eq!(live.hold(4096).unwrap().sample.size, 9);
    }
}
