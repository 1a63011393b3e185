//! Wakers of futures that wait for the network. The netpoller keeps one word for each waiter; this table holds the
//! waker of each word.
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
//! A single lock decides, so each word is either woken once or given up once. A word that was taken or ended stays
//! invalid: its place is reused under another generation.
//!
//! Rejected: keeping wakers in the netpoller's own slots. A thread waits with one word and no lock, and a slot would
//! have to hold a word or a waker.

use std::task::Waker;

use crate::sync::Mutex;
use crate::sys::fork;

/// A bit that tells these words from tickets, which have an index far below it.
const FUTURE: u64 = 1 << 63;
const GENERATIONS: u32 = (FUTURE >> 32) as u32 - 1;

static PLACES: Mutex<Places> = Mutex::new(Places { all: Vec::new(), free: Vec::new() });

/// The places of all words. No waker is cloned, called or dropped under the lock: that is user code.
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
        let (generation, index) = ((word >> 32) as u32 & GENERATIONS, word as u32);
        self.all
            .get_mut(index as usize)
            .filter(|place| place.generation == generation && place.waker.is_some())
    }

    fn put(&mut self, waker: Waker) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Place::default());
            (self.all.len() - 1) as u32
        });
        let place = &mut self.all[index as usize];
        place.waker = Some(waker);
        FUTURE | u64::from(place.generation) << 32 | u64::from(index)
    }

    fn take(&mut self, word: u64) -> Option<Waker> {
        let place = self.place(word)?;
        place.generation = place.generation.wrapping_add(1) & GENERATIONS;
        let waker = place.waker.take();
        self.free.push(word as u32);
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
    let waker = waker.clone();
    PLACES.lock().put(waker)
}

/// Makes `waker` the waker of the word. Returns `false` if the future has been woken or is about to be.
pub fn follow(word: u64, waker: &Waker) -> bool {
    match PLACES.lock().place(word) {
        None => return false,
        Some(place) if place.waker.as_ref().is_some_and(|mine| mine.will_wake(waker)) => return true,
        Some(_) => {}
    }
    let waker = waker.clone();
    let mut places = PLACES.lock();
    let (before, there) = match places.place(word) {
        Some(place) => (place.waker.replace(waker), true),
        None => (Some(waker), false),
    };
    drop(places);
    drop(before);
    there
}

/// Gives the word up: its waker will not be called. Returns `false` if it has been taken, or if this is a forked
/// child.
pub fn end(word: u64) -> bool {
    // In a forked child the holder of the lock may not exist.
    !fork::is_forked() && take(word).is_some()
}

/// Takes the waker of the word, if the word is still valid. *Runs on: the poller, or `end`.*
pub(crate) fn take(word: u64) -> Option<Waker> {
    PLACES.lock().take(word)
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
