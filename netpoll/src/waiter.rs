//! Who waits, and for what: the words that callers of the netpoller bring and get back.

use std::num::NonZeroU64;

/// One opaque word that says who waits; whoever makes it opens it.
///
/// A word stands for *one wait*, not for one thread: it should carry a number that changes with each wait, so
/// that a wake-up which crosses with a time-out finds that its wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter(NonZeroU64);

impl Waiter {
    /// Makes a waiter of a word.
    ///
    /// # Panics
    ///
    /// If the word is zero, which means "nobody".
    #[inline]
    pub fn new(word: u64) -> Waiter {
        Waiter(NonZeroU64::new(word).expect("a waiter's word is never zero"))
    }

    /// The word it was made of.
    #[inline]
    pub fn word(self) -> u64 {
        self.0.get()
    }

    /// What a slot holds, where zero is nobody.
    #[inline]
    pub(crate) fn from_slot(word: u64) -> Option<Waiter> {
        NonZeroU64::new(word).map(Waiter)
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// There is something to read or to accept, or the other side will send no more.
    Read,
    /// There is room to write, or a connection attempt has ended.
    Write,
}
