//! `Fixed`: a value that only the OS thread uses that has made it. Other threads may own it.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::thread::{self, ThreadId};

/// A value that is used and dropped on the OS thread that has made it. A drop on another one leaks the value.
///
/// The drop of the value must not park: a closure could go on at another OS thread in the middle of it. The
/// slots of a set hold tasks, and a task holds the set. So the slots are empty when the set is dropped.
///
/// The OS thread is known by std's id. A green thread with thread-locals of its own has an id of its own. So
/// there the value belongs to the green thread, as do the thread-locals on which the value may rely.
pub(super) struct Fixed<T> {
    thread: ThreadId,
    value: ManuallyDrop<T>,
}

// SAFETY: `with` and `drop` alone reach the value, and each of them first compares the calling thread with
// the maker of the value. No two threads have the same id.
unsafe impl<T> Send for Fixed<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Fixed<T> {}

impl<T> Fixed<T> {
    pub(super) fn new(value: T) -> Self {
        Fixed { thread: this_thread(), value: ManuallyDrop::new(value) }
    }

    /// Returns `true` on the OS thread of the value.
    pub(super) fn is_here(&self) -> bool {
        self.thread == this_thread()
    }

    /// Calls `f` with the value. `f` does not park: a closure could go on at another OS thread.
    ///
    /// # Panics
    ///
    /// Panics on another OS thread.
    #[track_caller]
    pub(super) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        assert!(self.is_here(), "a `LocalSet` is used on another OS thread than the one that has made it");
        f(&self.value)
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the value is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Returns the id of the calling OS thread. Never inlined: the caller may have changed its OS thread, and the
/// compiler could use the address of a thread-local of before.
#[inline(never)]
fn this_thread() -> ThreadId {
    thread::current().id()
}
