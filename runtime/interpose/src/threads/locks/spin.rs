//! `pthread_spin_lock`: a green thread that spins for long lets others run. The lock and its other functions
//! are glibc's.

use std::ffi::c_int;
use std::hint;

use libc::pthread_spinlock_t;
use sched::foreign;

use super::super::{real, yields};
use super::are_ours;
use crate::sync::broken;

#[cfg(all(test, loom))]
pub(super) mod models;

type Lock = unsafe extern "C" fn(*mut pthread_spinlock_t) -> c_int;

real! {
    pthread_spin_lock: Lock;
    pthread_spin_trylock: Lock;
}

/// So often the lock is tried before others run: about a microsecond.
const TRIES: usize = if cfg!(loom) { 1 } else { 100 };

/// libc's `pthread_spin_lock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    if !are_ours() || !foreign::is_thread_of_its_own() {
        // SAFETY: the caller's lock.
        return unsafe { pthread_spin_lock()(lock) };
    }
    loop {
        for _ in 0..TRIES {
            // SAFETY: the caller's lock.
            match unsafe { pthread_spin_trylock()(lock) } {
                libc::EBUSY if !broken!("spin_takes_a_busy_lock") => hint::spin_loop(),
                libc::EBUSY => return 0,
                result => return result,
            }
        }
        // The holder may be a green thread that has no P, or a thread that has no processor.
        if !broken!("spin_lets_no_other_run") {
            // SAFETY: the call has no requirements.
            unsafe { yields::sched_yield() };
        }
    }
}
