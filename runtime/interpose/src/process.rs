//! Children of `vfork`: another process in the memory of its parent, on the stack and with the thread-locals
//! of the caller, which sleeps meanwhile. Such a child looks like the green thread that has made it, but has
//! descriptors of its own.
//!
//! ```text
//!   the green thread                its child, in the same memory
//!   vfork, and sleep ─────────────> close, dup2: no wait ends, because the parent's descriptor stays open
//!                                   a call that would wait: the system call. A park would run the parent's green threads
//!   go on <──────────────────────── exec, _exit
//! ```
//!
//! The id of the process tells a child. It is asked for only where a call would wait, and where a descriptor
//! that is closed has waiters: that is a system call. `pthread_atfork` tells nothing here: its functions run
//! for `fork` alone.
//!
//! Rejected: *to catch `vfork`*. It returns twice from one frame, and glibc's own calls, `clone` and
//! `syscall` make such children, too.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use super::raw::call;

/// The process that runs green threads.
static OWN: AtomicI32 = AtomicI32::new(0);

/// Returns the number of this process.
pub(super) fn id() -> c_int {
    // SAFETY: the call has no argument.
    unsafe { call!(libc::SYS_getpid) as c_int }
}

/// Records that this process runs green threads. *Runs on: the maker of a runtime.*
pub(super) fn note() {
    // Relaxed, here and below: the number leads to no other data, and is there before the first green thread.
    OWN.store(id(), Ordering::Relaxed);
}

/// Returns `true` in the process that runs green threads; `false` in a child that has its memory, or a copy
/// of it.
#[cold]
pub(super) fn is_own() -> bool {
    id() == OWN.load(Ordering::Relaxed)
}

/// Makes the call `block`, which may block its OS thread, as `sched::park::blocking` does. A child only makes
/// the call: it has no P to give up.
pub(super) fn blocking<T>(block: impl FnOnce() -> T) -> T {
    if is_own() { sched::park::blocking(block) } else { block() }
}
