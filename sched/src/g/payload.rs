//! The payload of a G: room for its closure or future, and then for its result. Larger values are boxed.
//! `Task` says how to run what lies there; `Stop` says why the G stopped. The tasks are in `run/task.rs`.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;

use super::{GRef, PAYLOAD_WORDS};

/// Why a G gave control back to its M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Stop {
    /// The G lets other Gs run first.
    Yield,
    /// The G waits: `Wait::commit` decides.
    Park,
    /// The task has ended.
    Done,
    /// The future waits: the G needs no stack until it is woken.
    Pending,
}

/// How to run what the payload holds.
pub(crate) struct Task {
    /// # Safety
    /// The caller is on the G's stack, and the payload holds what this task left there.
    pub(crate) run: unsafe fn(GRef) -> Stop,
    /// Returns the name of the future's type; `None` for a closure.
    pub(crate) future: fn() -> Option<&'static str>,
    /// True if the task runs with the thread-locals of its stack, where stacks have such (`tls.rs`).
    pub(crate) owns_locals: bool,
}

/// Asked in `const` blocks: so the code for the other answer is not compiled.
const fn fits<T>() -> bool {
    size_of::<T>() <= PAYLOAD_WORDS * 8 && align_of::<T>() <= 8
}

/// Puts a value into the payload.
///
/// # Safety
/// The payload belongs to the caller (see `Sync` of [`G`](super::G)) and is empty.
#[inline]
pub(crate) unsafe fn put<T>(g: GRef, value: T) {
    let place = g.payload();
    if const { fits::<T>() } {
        // SAFETY: the value fits and is aligned, and the payload belongs to the caller and is empty, by this
        // contract.
        unsafe { place.cast::<T>().write(value) };
    } else {
        // SAFETY: a pointer fits, and the payload belongs to the caller and is empty, by this contract.
        unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
    }
}

/// Takes the value out of the payload.
///
/// # Safety
/// The payload belongs to the caller and holds a `T` that `put` put there.
#[inline]
pub(crate) unsafe fn take<T>(g: GRef) -> T {
    let place = g.payload();
    if const { fits::<T>() } {
        // SAFETY: `put` wrote a `T` inline, by this contract.
        unsafe { place.cast::<T>().read() }
    } else {
        // SAFETY: `put` wrote a pointer from `Box::into_raw`, by this contract.
        *unsafe { Box::from_raw(place.cast::<*mut T>().read()) }
    }
}

/// Returns where the value lies. The place holds until the value is taken or dropped.
///
/// # Safety
/// The payload belongs to the caller and holds a `T` that `put` put there.
pub(crate) unsafe fn place<T>(g: GRef) -> *mut T {
    let place = g.payload();
    // SAFETY: a `T` that does not fit lies behind the pointer that `put` wrote, by this contract.
    if const { fits::<T>() } { place.cast() } else { unsafe { place.cast::<*mut T>().read() } }
}

/// Frees the box of a value that has been read out of the payload, without dropping the value again.
///
/// # Safety
/// The payload belongs to the caller and held a `T`, all of which has been read out or dropped in place.
pub(crate) unsafe fn free<T>(g: GRef) {
    if const { !fits::<T>() } {
        // SAFETY: `put` made the pointer from a box, by this contract. `ManuallyDrop<T>` has the layout of
        // `T`.
        drop(unsafe { Box::from_raw(place::<T>(g).cast::<ManuallyDrop<T>>()) });
    }
}
