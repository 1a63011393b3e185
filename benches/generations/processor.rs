//! The number of the processor on which a thread runs.

#![allow(unsafe_code)]

/// Returns the number of the processor on which the caller runs at this moment. `inline(never)`: the compiler
/// must not reuse the number after a park.
#[cfg(target_os = "linux")]
#[inline(never)]
pub(crate) fn current() -> usize {
    // SAFETY: `sched_getcpu` takes no argument and writes no memory of this process that Rust code can
    // access.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Returns the number of the OS thread, on systems other than Linux.
#[cfg(not(target_os = "linux"))]
#[inline(never)]
pub(crate) fn current() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed) }
    THREAD.with(|thread| *thread)
}
