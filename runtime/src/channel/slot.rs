//! `Slot`: storage for one value of a type that the select does not know. A case uses two slots: `Begun`
//! holds what an operation has begun with, and `Seat` holds the case's node while the select waits.
//!
//! A case's node lies in its `Seat` while the node is linked into a queue. Other threads write the node's
//! cells under the lock of that queue. So a select reaches its nodes by `&Seat`, and the words of a slot are
//! an `UnsafeCell`. A `&mut Seat` would claim that the select alone uses the node.

#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The slot of what an operation has begun with: a message, or what a send needs to be completed.
pub(super) type Begun = Slot<8>;

/// The slot of a case's node while the select waits.
pub(super) type Seat = Slot<16>;

/// Room for one value: in the slot itself, or boxed if the value is too large.
pub struct Slot<const WORDS: usize> {
    words: UnsafeCell<[MaybeUninit<u64>; WORDS]>,
    /// The address of the value if it is boxed.
    boxed: Cell<Option<NonNull<u8>>>,
}

const fn fits<V>(words: usize) -> bool {
    size_of::<V>() <= words * 8 && align_of::<V>() <= 8
}

impl<const WORDS: usize> Slot<WORDS> {
    /// Returns an empty slot.
    pub(super) const fn new() -> Self {
        Slot { words: UnsafeCell::new([MaybeUninit::uninit(); WORDS]), boxed: Cell::new(None) }
    }

    /// Fills the slot with `value`. The value stays at its address as long as the slot is not moved.
    ///
    /// # Safety
    /// The slot is empty, and no other code uses it during the call.
    #[inline]
    pub(super) unsafe fn put<V>(&self, value: V) {
        debug_assert!(self.boxed.get().is_none(), "a slot is filled twice");
        if fits::<V>(WORDS) {
            // SAFETY: the value fits and is aligned. No other code uses the words, by the contract of `put`.
            unsafe { self.words.get().cast::<V>().write(value) };
        } else {
            self.boxed.set(Some(NonNull::from(Box::leak(Box::new(value))).cast()));
        }
    }

    /// Returns a reference to the value.
    ///
    /// # Safety
    /// The slot has a value of type `V`.
    #[inline]
    pub(super) unsafe fn get<V>(&self) -> &V {
        debug_assert_eq!(
            self.boxed.get().is_none(),
            fits::<V>(WORDS),
            "a value of another type is in the slot"
        );
        match self.boxed.get() {
            // SAFETY: the words have a `V`, by the contract of `get`. The pointer comes from the
            // `UnsafeCell`, so cells in the value may be written by other threads.
            None => unsafe { &*self.words.get().cast::<V>() },
            // SAFETY: `put` made the pointer from a box of a `V`, by the contract of `get`.
            Some(boxed) => unsafe { boxed.cast::<V>().as_ref() },
        }
    }

    /// Takes the value out. The slot is empty then.
    ///
    /// # Safety
    /// The slot has a value of type `V`. No reference and no queue leads to the value, and it is taken once.
    #[inline]
    pub(super) unsafe fn take<V>(&self) -> V {
        debug_assert_eq!(
            self.boxed.get().is_none(),
            fits::<V>(WORDS),
            "a value of another type is in the slot"
        );
        match self.boxed.take() {
            // SAFETY: the words have a `V` that is taken once, by the contract of `take`.
            None => unsafe { self.words.get().cast::<V>().read() },
            // SAFETY: `put` made the pointer from a box of a `V`, which is taken once, by the contract of
            // `take`.
            Some(boxed) => *unsafe { Box::from_raw(boxed.cast::<V>().as_ptr()) },
        }
    }
}

impl<const WORDS: usize> std::fmt::Debug for Slot<WORDS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Slot { .. }")
    }
}
