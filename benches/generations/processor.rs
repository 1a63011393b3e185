//! On which processor a thread is.

#![allow(unsafe_code)]

/// The number of the processor that the caller runs on, at this moment. `inline(never)`: it is asked again after each park.
#[cfg(target_os = "linux")]
#[inline(never)]
pub(crate) fn current() -> usize {
    // SAFETY: it takes nothing and touches nothing of ours.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Elsewhere, the number of the OS thread.
#[cfg(not(target_os = "linux"))]
#[inline(never)]
pub(crate) fn current() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed) }
    THREAD.with(|thread| *thread)
}
