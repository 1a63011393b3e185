//! Room for one value of a type that is known only at both ends: what a select keeps for each of its cases.
//!
//! A case's node is linked into a queue while it lies in its place, and other threads write the node's cells under the
//! lock of that queue. So a select reaches its nodes by `&Seat`, and the words of a place are an `UnsafeCell`. A `&mut Seat`
//! would claim that the select alone uses the node.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What an operation has begun with: a message, or the right to send one. It goes from hand to hand.
pub(super) type Begun = Place<8>;

/// Where a case's node lies while it waits.
pub(super) type Seat = Place<16>;

/// Room for one value: in place, or boxed if it is too large.
pub struct Place<const WORDS: usize> {
    words: UnsafeCell<[MaybeUninit<u64>; WORDS]>,
    /// Where the value lies, if it is boxed.
    boxed: Cell<Option<NonNull<u8>>>,
}

const fn fits<V>(words: usize) -> bool {
    size_of::<V>() <= words * 8 && align_of::<V>() <= 8
}

impl<const WORDS: usize> Place<WORDS> {
    /// An empty place.
    pub(super) const fn new() -> Self {
        Place { words: UnsafeCell::new([MaybeUninit::uninit(); WORDS]), boxed: Cell::new(None) }
    }

    /// Puts a value in, which stays where it is as long as the place is not moved.
    ///
    /// # Safety
    /// The place is empty, or is borrowed by the caller alone.
    #[inline]
    pub(super) unsafe fn put<V>(&self, value: V) {
        debug_assert!(self.boxed.get().is_none(), "a place is filled twice");
        if fits::<V>(WORDS) {
            // SAFETY: the value fits and is aligned. By the contract above no other code uses the words.
            unsafe { self.words.get().cast::<V>().write(value) };
        } else {
            self.boxed.set(Some(NonNull::from(Box::leak(Box::new(value))).cast()));
        }
    }

    /// The value.
    ///
    /// # Safety
    /// A `V` is in it.
    #[inline]
    pub(super) unsafe fn get<V>(&self) -> &V {
        debug_assert_eq!(
            self.boxed.get().is_none(),
            fits::<V>(WORDS),
            "a value of another type is in the place"
        );
        match self.boxed.get() {
            // SAFETY: by the contract above. The pointer is the cell's, so it may lead to cells that others write.
            None => unsafe { &*self.words.get().cast::<V>() },
            // SAFETY: by the contract above; `put` made the pointer from a box.
            Some(boxed) => unsafe { boxed.cast::<V>().as_ref() },
        }
    }

    /// Takes the value out. The place is empty then.
    ///
    /// # Safety
    /// A `V` is in it, to which no reference and no queue leads, and which is not taken twice.
    #[inline]
    pub(super) unsafe fn take<V>(&self) -> V {
        debug_assert_eq!(
            self.boxed.get().is_none(),
            fits::<V>(WORDS),
            "a value of another type is in the place"
        );
        match self.boxed.take() {
            // SAFETY: by the contract above.
            None => unsafe { self.words.get().cast::<V>().read() },
            // SAFETY: by the contract above; `put` made the pointer from a box.
            Some(boxed) => *unsafe { Box::from_raw(boxed.cast::<V>().as_ptr()) },
        }
    }
}

impl<const WORDS: usize> std::fmt::Debug for Place<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Place { .. }")
    }
}
