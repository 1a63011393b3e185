//! Waiters: the opaque words that callers register with the netpoller and get back.

use std::num::NonZeroU64;

/// An opaque word that names a wait. Only the caller that made it knows what it means.
///
/// A word names a *wait*, not a thread: it should have a number that changes with each wait. Then a wake-up
/// that crosses a time-out finds its wait over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter(NonZeroU64);

impl Waiter {
    /// Makes a waiter of a word.
    ///
    /// # Panics
    ///
    /// If the word is zero, which means "no waiter".
    #[inline]
    pub fn new(word: u64) -> Waiter {
        Waiter(NonZeroU64::new(word).expect("a waiter's word is never zero"))
    }

    /// The word of this waiter.
    #[inline]
    pub fn word(self) -> u64 {
        self.0.get()
    }

    /// The waiter in a slot's word; `None` for zero.
    #[inline]
    pub(crate) fn from_slot(word: u64) -> Option<Waiter> {
        NonZeroU64::new(word).map(Waiter)
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// There is something to read or to accept, or the other side will send no more.
    Read,
    /// There is room to write, or a connection attempt has ended.
    Write,
}
