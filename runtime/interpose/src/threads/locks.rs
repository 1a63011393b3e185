//! Mutexes, condition variables, read-write locks, semaphores, barriers and others of C, in a program with
//! the line `runtime::interpose!(threads)`. Waits of green threads park. The types, their sizes and their
//! initialisers are glibc's.
//!
//! A process uses these functions from its first call on or never: a condition variable or a barrier has
//! other contents than glibc's while threads wait. `RUNTIME_THREADS=os` decides that, which a constructor's
//! call may read before `main` does.

pub mod barrier;
mod bell;
pub mod condition;
pub mod mutex;
pub mod once;
pub mod rwlock;
pub mod semaphore;
pub mod spin;

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

use libc::{clockid_t, timespec};
use timers::clock;

use crate::poll::duration;
use crate::sleep;

/// The values of `OURS`.
const UNDECIDED: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

static OURS: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Returns `true` if this process uses the functions of these files, and not libc's whole ones.
#[inline]
fn are_ours() -> bool {
    // Relaxed: all threads decide the same.
    match OURS.load(Ordering::Relaxed) {
        UNDECIDED => decide(),
        decided => decided == YES,
    }
}

#[cold]
fn decide() -> bool {
    // SAFETY: the name is a C string. The value is read before a thread can change it: the first lock of the
    // process comes before its first thread, or in `main`.
    let asked = unsafe {
        let value = libc::getenv(c"RUNTIME_THREADS".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes().trim_ascii() == b"os")
    };
    let ours = cfg!(target_arch = "x86_64") && (asked != Some(true) || sched::privileges::are_raised());
    OURS.store(if ours { YES } else { NO }, Ordering::Relaxed);
    ours
}

/// Returns `true` if glibc waits by this clock.
fn is_supported(clock: clockid_t) -> bool {
    [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].contains(&clock)
}

/// Returns the time of a clock on the runtime's clock; `None` if it is none, or glibc does not wait by that
/// clock.
///
/// # Safety
/// `time` leads to a time.
pub(super) unsafe fn until(clock: clockid_t, time: *const timespec) -> Option<u64> {
    // SAFETY: this contract.
    let time = duration(unsafe { &*time }).filter(|_| is_supported(clock));
    time.map(|time| clock::after(time.saturating_sub(sleep::now(clock as c_int))))
}

/// Returns the stand-in of glibc's function `name` in models.
#[cfg(all(test, loom))]
pub(crate) fn modelled(name: &str) -> Option<*const ()> {
    mutex::models::glibc(name)
        .or_else(|| rwlock::models::glibc(name))
        .or_else(|| semaphore::models::glibc(name))
        .or_else(|| spin::models::glibc(name))
}
