//! The only thread-local of the scheduler: which M this thread is.
//!
//! A green thread may resume on another OS thread, and the compiler may keep the address of a thread-local across
//! the switch. So it is read only here, by a function that is never inlined and gives the *value*: one that gives
//! the address would be taken for pure, and called once.

use std::cell::Cell;
use std::ptr;

use super::M;

thread_local! {
    static CURRENT: Cell<*const M> = const { Cell::new(ptr::null()) };
}

/// The M of this thread; null on a thread that is none. Good until the next switch.
#[inline(never)]
pub(crate) fn current() -> *const M {
    CURRENT.get()
}

/// This thread is that M from now on, or none.
pub(crate) fn set(m: *const M) {
    CURRENT.set(m);
}
