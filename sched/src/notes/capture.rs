//! One capture at a time. A reader asks an M for what only a signal handler on the M's own thread can take,
//! such as the registers there.
//!
//! ```text
//!   the reader                               the M's thread, in the handler
//!   data = what is asked for
//!   ask:        word = ASKED by this M       fill:  ASKED by this M -> FILLING; if the word was not that, go on
//!   send the signal, and wait                       take it into data
//!   read:       FULL? read the data                 word = FULL, or FREE if it could not be taken
//!   take_back:  ASKED by this M -> FREE
//! ```
//!
//! The handler never waits. The reader waits for a handler that has begun, and takes the request back from
//! one that does not begin. Such a thread may have ended, or keep the signal blocked.

#![allow(unsafe_code)]

use crate::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
    cell::UnsafeCell,
};

const FREE: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;
/// ASKED by the M with number `n` is `ASKED + n`.
const ASKED: u32 = 3;

/// A request to a signal handler, and the place for its answer.
pub(crate) struct Capture<D> {
    word: AtomicU32,
    data: UnsafeCell<D>,
}

// SAFETY: `data` belongs to the reader while the word is FREE or FULL, and to the handler while it is
// FILLING. The word is changed by compare-and-swap where both may change it.
unsafe impl<D: Send> Sync for Capture<D> {}

impl<D> Capture<D> {
    pub(crate) fn new(data: D) -> Self {
        Capture { word: AtomicU32::new(FREE), data: UnsafeCell::new(data) }
    }

    /// Asks M `n` for a capture, after `prepare` has set the data up. *Runs on: the reader, of which there is
    /// one; the last capture has ended.*
    pub(crate) fn ask(&self, n: usize, prepare: impl FnOnce(&mut D)) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed), FREE);
        // SAFETY: the word is FREE, and only this reader changes that.
        self.data.with_mut(|data| prepare(unsafe { &mut *data }));
        // Release: pairs with the Acquire in `fill`. A swap, because loom needs one on both sides.
        let order = if broken!("capture_ask_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.word.swap(ASKED + n as u32, order);
    }

    /// Captures by `take` if M `n` was asked for it; `take` returns `false` if there is nothing to take.
    /// Returns `true` if the reader is to be woken. *Runs on: the thread of M `n`, in the handler of the
    /// signal.*
    pub(crate) fn fill(&self, n: usize, take: impl FnOnce(&mut D) -> bool) -> bool {
        let asked = ASKED + n as u32;
        // Acquire: pairs with the Release in `ask`.
        let begun = self.word.compare_exchange(asked, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !begun && !broken!("capture_fill_unasked") {
            return false;
        }
        // SAFETY: the word is FILLING, so the reader leaves the data alone.
        let taken = self.data.with_mut(|data| take(unsafe { &mut *data }));
        // Release: pairs with the Acquire in `read`.
        let order = if broken!("capture_full_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.word.store(if taken { FULL } else { FREE }, order);
        true
    }

    /// Reads the capture that M `n` was asked for. Returns `None` if there is none: it was not taken, or not
    /// within the time that `wait` gives. `wait` is called with the word and its value, sleeps while the word
    /// has that value, and returns `false` when the time is over. *Runs on: the reader.*
    pub(crate) fn read<R>(
        &self,
        n: usize,
        mut wait: impl FnMut(&AtomicU32, u32) -> bool,
        read: impl FnOnce(&D) -> R,
    ) -> Option<R> {
        let asked = ASKED + n as u32;
        loop {
            // Acquire: pairs with the Release in `fill`.
            match self.word.load(Ordering::Acquire) {
                FREE => return None,
                FULL => break,
                word if wait(&self.word, word) => {}
                FILLING => {}
                _ if broken!("capture_take_back_store") => {
                    self.word.store(FREE, Ordering::Relaxed);
                    return None;
                }
                // Acquire on failure: as above, for the next round. Acquire on success: the data is unchanged
                // since `ask`.
                _ => {
                    if self.word.compare_exchange(asked, FREE, Ordering::Acquire, Ordering::Acquire).is_ok() {
                        return None;
                    }
                }
            }
        }
        // SAFETY: the word is FULL, and only this reader changes that.
        let result = self.data.with(|data| read(unsafe { &*data }));
        // Relaxed: the reader itself asks next, and its `ask` releases.
        self.word.store(FREE, Ordering::Relaxed);
        Some(result)
    }
}

impl<D> Capture<D> {
    /// Wakes the reader by `wake`. *Runs on: the handler that has filled.*
    #[cfg(not(loom))]
    pub(crate) fn wake_reader(&self, wake: impl FnOnce(&AtomicU32)) {
        wake(&self.word);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::models::{Reached, explore};
    use loom::{sync::Arc, thread};

    /// Asks, and gives up after one wait. The handler runs at any time, also after the end of the request. A
    /// second request follows.
    #[test]
    fn a_capture_is_read_whole_or_not_at_all() {
        static IS_READ: Reached = Reached::new();
        static IS_TAKEN_BACK: Reached = Reached::new();
        explore(3, || {
            let capture = Arc::new(Capture::new((0, 0)));
            let handler = {
                let capture = capture.clone();
                thread::spawn(move || {
                    capture.fill(7, |data| {
                        data.1 = data.0 + 100;
                        true
                    })
                })
            };
            for round in 1..3 {
                capture.ask(7, |data| *data = (round, 0));
                let mut waits = 0;
                let wait = |_: &AtomicU32, _| {
                    waits += 1;
                    thread::yield_now();
                    waits < 2
                };
                let read = capture.read(7, wait, |data| *data);
                IS_READ.note(read.is_some());
                IS_TAKEN_BACK.note(read.is_none());
                assert!(read.is_none_or(|data| data == (round, round + 100)), "{read:?} in round {round}");
            }
            handler.join().unwrap();
        });
        IS_READ.assert();
        IS_TAKEN_BACK.assert();
    }

    /// The signal reaches an M that was not asked.
    #[test]
    fn an_m_that_was_not_asked_takes_nothing() {
        explore(3, || {
            let capture = Arc::new(Capture::new(0));
            capture.ask(7, |data| *data = 1);
            let handler = {
                let capture = capture.clone();
                thread::spawn(move || {
                    capture.fill(8, |data| {
                        *data = 2;
                        true
                    })
                })
            };
            assert_eq!(capture.read(7, |_, _| false, |data| *data), None);
            assert!(!handler.join().unwrap());
        });
    }
}
