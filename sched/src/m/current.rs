//! Which M this OS thread is: the only thread-local of the scheduler.
//!
//! A green thread may resume on another OS thread, and the compiler may keep the address of a thread-local
//! across the switch. So only this file reads the thread-local, in functions that are never inlined and
//! return the *value*. The compiler would treat a function that returns the address as pure, and would call
//! it once.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;

use super::{M, OwnM};
use crate::g::own::OwnG;
use crate::sys::fork;

thread_local! {
    static CURRENT: Cell<*const M> = const { Cell::new(ptr::null()) };
}

/// Returns the M of this OS thread; null if the thread is no M. The result is valid until the next switch of
/// stacks.
#[inline(never)]
pub(crate) fn current() -> *const M {
    CURRENT.get()
}

/// Returns where this thread's variable is.
#[inline(never)]
pub(crate) fn place() -> usize {
    CURRENT.with(|current| ptr::from_ref(current).expose_provenance())
}

/// Makes `m` the M of this OS thread; null for none.
pub(crate) fn set(m: *const M) {
    CURRENT.set(m);
}

/// Marks this process as a forked child. Its thread is no M. *Runs on: the only thread of the child, directly
/// after the fork.*
pub(crate) extern "C" fn leave_in_child() {
    fork::begin_child();
    set(ptr::null());
}

/// Returns the G that runs on this thread, in user code; `None` on an M's own stack and on a thread that is
/// no M.
#[inline]
pub(crate) fn current_g() -> Option<OwnG> {
    // SAFETY: `current` names the M of this OS thread, which outlives that thread.
    unsafe { OwnM::new(current().as_ref()?) }.running()
}

/// Calls `look` with the M of this OS thread, without entering the runtime; returns `None` on a thread that
/// is no M. Sysmon may have taken the M's P already. *Runs on: any thread; `look` must not switch stacks.*
#[inline]
pub(crate) fn on_m<R>(look: impl FnOnce(OwnM<'_>) -> R) -> Option<R> {
    // SAFETY: `current` names the M of this OS thread, which outlives that thread.
    unsafe { current().as_ref().map(|m| look(OwnM::new(m))) }
}

/// Returns the number of the P with which this OS thread runs user code; `None` on a plain OS thread, and in
/// `blocking`. The caller may have lost that P already, so the number is only a hint. *Runs on: any thread.*
pub fn current_p() -> Option<usize> {
    on_m(|m| Some(m.lent_p()?.index)).flatten()
}
