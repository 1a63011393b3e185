//! Wakers of futures that wait for the network. The netpoller keeps one word for each waiter; this table
//! holds the waker of each word.
//!
//! ```text
//!   the waiter                                   the poller
//!   1  begin: a new word for the waker           1  get the word from the netpoller: no other thread gets it
//!   2  leave the word with the netpoller         2  take: the waker, if the word is still valid
//!   3  polled again: follow                      3  wake it
//!      word valid   -> replace the waker, wait on
//!      word invalid -> the event has come: try again
//!   4  given up: withdraw the word, end
//! ```
//!
//! The lock of the word's shard decides, so each word is either woken once or given up once. A word that was
//! taken or ended stays invalid: its place is reused under another generation. The waker chooses the shard.
//! So the waits of one future use one lock, and those of two futures that run at the same time mostly use
//! two.
//!
//! Rejected: keeping wakers in the netpoller's own slots. A thread waits with one word and no lock, and a
//! slot would have to hold a word or a waker.

use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::sync::{Mutex, MutexGuard};
use crate::sys::fork;

/// A bit that only these words have. The index of a ticket lies far below it.
const FUTURE: u64 = 1 << 63;
const GENERATIONS: u32 = (FUTURE >> 32) as u32 - 1;

/// How many bits of a word's index name its shard.
const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

static PLACES: [CachePadded<Mutex<Places>>; SHARDS] =
    [const { CachePadded::new(Mutex::new(Places { all: Vec::new(), free: Vec::new() })) }; SHARDS];

/// Locks the shard of a word.
fn shard_of(word: u64) -> MutexGuard<'static, Places> {
    PLACES[word as usize % SHARDS].lock()
}

/// Returns the shard for the words of the waker with its data at `address`.
fn shard_at(address: usize) -> usize {
    // The golden ratio spreads addresses that differ in a few middle bits over all highest bits.
    let spread = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread >> (u64::BITS - SHARD_BITS)) as usize
}

/// The places of the words of one shard. No waker is cloned, called or dropped under the lock: that is user
/// code.
struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    generation: u32,
    waker: Option<Waker>,
}

impl Places {
    fn place(&mut self, word: u64) -> Option<&mut Place> {
        let (generation, index) = ((word >> 32) as u32 & GENERATIONS, word as u32 >> SHARD_BITS);
        self.all
            .get_mut(index as usize)
            .filter(|place| place.generation == generation && place.waker.is_some())
    }

    fn put(&mut self, waker: Waker, shard: usize) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Place::default());
            (self.all.len() - 1) as u32
        });
        let place = &mut self.all[index as usize];
        place.waker = Some(waker);
        FUTURE | u64::from(place.generation) << 32 | u64::from(index) << SHARD_BITS | shard as u64
    }

    fn take(&mut self, word: u64) -> Option<Waker> {
        let place = self.place(word)?;
        place.generation = place.generation.wrapping_add(1) & GENERATIONS;
        let waker = place.waker.take();
        self.free.push(word as u32 >> SHARD_BITS);
        waker
    }
}

/// Returns `true` if the word is a future's.
#[inline]
pub(crate) fn is_future(word: u64) -> bool {
    word & FUTURE != 0
}

/// Makes a word for a future that is about to wait.
pub fn begin(waker: &Waker) -> u64 {
    let (waker, shard) = (waker.clone(), shard_at(waker.data().addr()));
    PLACES[shard].lock().put(waker, shard)
}

/// Makes `waker` the waker of the word. Returns `false` if the future has been woken or is about to be.
pub fn follow(word: u64, waker: &Waker) -> bool {
    match shard_of(word).place(word) {
        None => return false,
        Some(place) if place.waker.as_ref().is_some_and(|mine| mine.will_wake(waker)) => return true,
        Some(_) => {}
    }
    let waker = waker.clone();
    let mut places = shard_of(word);
    let (before, there) = match places.place(word) {
        Some(place) => (place.waker.replace(waker), true),
        None => (Some(waker), false),
    };
    drop(places);
    drop(before);
    there
}

/// Gives the word up: its waker will not be called. Returns `false` if it has been taken, or if this is a
/// forked child.
pub fn end(word: u64) -> bool {
    // In a forked child the holder of the lock may not exist.
    !fork::is_forked() && take(word).is_some()
}

/// Takes the waker of the word, if the word is still valid. *Runs on: the poller, or `end`.*
pub(crate) fn take(word: u64) -> Option<Waker> {
    shard_of(word).take(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// The data of a waker is a green thread, or lies in an `Arc`: many of one kind lie at equal distances.
    #[test]
    fn wakers_spread_over_the_shards() {
        for distance in [16, 48, 64, 256, 4096] {
            let mut wakers = [0; SHARDS];
            (0..16 * SHARDS).for_each(|i| wakers[shard_at(0x7f00_0000 + i * distance)] += 1);
            assert!(wakers.iter().all(|&n| n <= 32), "{distance}: {wakers:?}");
        }
    }

    #[test]
    fn the_words_of_one_waker_are_in_one_shard() {
        let wakers = [0; 100].map(|_| Waker::from(Arc::new(Count::default())));
        for waker in &wakers {
            let words = [(); 3].map(|()| begin(waker));
            for word in words {
                assert_eq!(word as usize % SHARDS, shard_at(waker.data().addr()));
                assert!(follow(word, waker) && end(word) && !follow(word, waker));
            }
        }
    }

    #[test]
    fn a_wait_needs_no_lock_of_another_shard() {
        let wakers = [0; 100].map(|_| Waker::from(Arc::new(Count::default())));
        let shard = |waker: &Waker| shard_at(waker.data().addr());
        let first = shard(&wakers[0]);
        let elsewhere = wakers.iter().find(|waker| shard(waker) != first).expect("wakers of one shard only");
        let _locked = PLACES[first].lock();
        assert!(end(begin(elsewhere)));
    }

    #[test]
    fn a_word_is_good_once_and_its_place_is_used_again() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let words: Vec<_> = (0..3).map(|_| begin(&waker)).collect();
        assert!(words.iter().all(|&word| is_future(word) && follow(word, &waker)));
        take(words[0]).unwrap().wake();
        assert!(end(words[1]) && !end(words[1]));
        assert_eq!(count.0.load(SeqCst), 1);
        for stale in [words[0], words[1]] {
            assert!(!follow(stale, Waker::noop()) && take(stale).is_none());
        }
        let again: Vec<_> = (0..2).map(|_| begin(&waker)).collect();
        assert!(again.iter().all(|word| !words.contains(word)));
        for word in [words[2], again[0], again[1]] {
            assert!(follow(word, Waker::noop()), "followed by another waker");
            take(word).unwrap().wake();
        }
        assert_eq!(count.0.load(SeqCst), 1);
        assert_eq!(Arc::strong_count(&count), 2, "no clone of the waker is left");
    }
}
