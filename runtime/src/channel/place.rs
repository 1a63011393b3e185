//! Room for one value of a type that is known only at both ends: what a select keeps for each of its cases.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What an operation has begun with: a message, or the right to send one. It goes from hand to hand.
pub(super) type Begun = Place<8>;

/// Where a case's node lies while it waits.
pub(super) type Seat = Place<16>;

/// Room for one value: in place, or boxed if it is too large.
pub struct Place<const WORDS: usize> {
    words: [MaybeUninit<u64>; WORDS],
    /// Where the value lies, if it is boxed.
    boxed: Option<NonNull<u8>>,
}

const fn fits<V>(words: usize) -> bool {
    size_of::<V>() <= words * 8 && align_of::<V>() <= 8
}

impl<const WORDS: usize> Place<WORDS> {
    pub(super) const EMPTY: Self = Place { words: [MaybeUninit::uninit(); WORDS], boxed: None };

    /// Puts a value in, which stays where it is as long as the place is not moved.
    #[inline]
    pub(super) fn put<V>(&mut self, value: V) {
        if fits::<V>(WORDS) {
            // SAFETY: it fits and is aligned.
            unsafe { self.words.as_mut_ptr().cast::<V>().write(value) };
        } else {
            self.boxed = Some(NonNull::from(Box::leak(Box::new(value))).cast());
        }
    }

    /// The value.
    ///
    /// # Safety
    /// A `V` is in it.
    #[inline]
    pub(super) unsafe fn get<V>(&self) -> &V {
        match self.boxed {
            // SAFETY: by the contract above.
            None => unsafe { &*self.words.as_ptr().cast::<V>() },
            // SAFETY: likewise; `put` made it from a box.
            Some(boxed) => unsafe { boxed.cast::<V>().as_ref() },
        }
    }

    /// Takes the value out.
    ///
    /// # Safety
    /// A `V` is in it, which nobody refers to, and which is not taken twice.
    #[inline]
    pub(super) unsafe fn take<V>(&mut self) -> V {
        match self.boxed.take() {
            // SAFETY: by the contract above.
            None => unsafe { self.words.as_ptr().cast::<V>().read() },
            // SAFETY: likewise; `put` made it from a box.
            Some(boxed) => *unsafe { Box::from_raw(boxed.cast::<V>().as_ptr()) },
        }
    }
}

impl<const WORDS: usize> std::fmt::Debug for Place<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Place { .. }")
    }
}
