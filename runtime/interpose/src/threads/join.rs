//! `pthread_join`, `pthread_tryjoin_np`, `pthread_timedjoin_np`, `pthread_clockjoin_np`, `pthread_detach`.
//!
//! A green thread that waits is parked, and a plain OS thread waits in the kernel, for green threads and OS
//! threads alike. Neither a cancellation nor a time-out of this crate ends the wait, because C expects none.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, pthread_t, timespec};
use sched::foreign::{is_blocking, is_user_code};
use timers::clock;

use super::locks::until;
use super::real;
use super::record::{self, Record, Reference};
use crate::sync::broken;
use crate::{cancellation_point, process};

type Result = *mut *mut c_void;

real! {
    pthread_join: unsafe extern "C" fn(pthread_t, Result) -> c_int;
    pthread_tryjoin_np: unsafe extern "C" fn(pthread_t, Result) -> c_int;
    pthread_timedjoin_np: unsafe extern "C" fn(pthread_t, Result, *const timespec) -> c_int;
    pthread_clockjoin_np: unsafe extern "C" fn(pthread_t, Result, clockid_t, *const timespec) -> c_int;
    pthread_detach: unsafe extern "C" fn(pthread_t) -> c_int;
}

/// libc's `pthread_join`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn join(thread: pthread_t, result: Result) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        // SAFETY: as above.
        Some(record) => unsafe { join_green(record, result, clock::NEVER, libc::ETIMEDOUT) },
        // SAFETY: as above.
        None => without_p(|| unsafe { pthread_join()(thread, result) }),
    }
}

/// libc's `pthread_tryjoin_np`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn try_join(thread: pthread_t, result: Result) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        // SAFETY: as above.
        Some(record) => unsafe { join_green(record, result, 0, libc::EBUSY) },
        // SAFETY: as above.
        None => unsafe { pthread_tryjoin_np()(thread, result) },
    }
}

/// libc's `pthread_timedjoin_np`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_join(
    thread: pthread_t,
    result: Result,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        // SAFETY: as above.
        Some(record) => unsafe { join_until(record, result, libc::CLOCK_REALTIME, time) },
        // SAFETY: as above.
        None => without_p(|| unsafe { pthread_timedjoin_np()(thread, result, time) }),
    }
}

/// libc's `pthread_clockjoin_np`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn clock_join(
    thread: pthread_t,
    result: Result,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { Record::of(thread) } {
        // SAFETY: as above.
        Some(record) => unsafe { join_until(record, result, clock, time) },
        // SAFETY: as above.
        None => without_p(|| unsafe { pthread_clockjoin_np()(thread, result, clock, time) }),
    }
}

/// libc's `pthread_detach`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's argument.
    match unsafe { Record::of(thread) } {
        Some(record) if record.begin_detach() => {
            // SAFETY: the handle is claimed.
            drop(unsafe { Reference::of_handle(record) });
            0
        }
        Some(_) => libc::EINVAL,
        // SAFETY: as above.
        None => unsafe { pthread_detach()(thread) },
    }
}

/// # Safety
/// The pointers are those of `pthread_clockjoin_np`.
unsafe fn join_until(record: &Record, result: Result, clock: clockid_t, time: *const timespec) -> c_int {
    let until = if time.is_null() {
        clock::NEVER
    } else {
        // SAFETY: this contract.
        match unsafe { until(clock, time) } {
            Some(until) => until,
            None => return libc::EINVAL,
        }
    };
    // SAFETY: this contract.
    unsafe { join_green(record, result, until, libc::ETIMEDOUT) }
}

/// Waits for the end of a green thread until `until` on the runtime's clock, and takes its result. Returns
/// `late` if the time is up first.
///
/// # Safety
/// `result` is null or a place for the result.
unsafe fn join_green(record: &Record, result: Result, until: u64, late: c_int) -> c_int {
    if record::own().is_some_and(|own| std::ptr::eq(own, record)) {
        return libc::EDEADLK;
    }
    if !record.begin_join() {
        return libc::EINVAL;
    }
    if !record.is_over() && !record.wait(until) {
        if !broken!("join_keeps_its_claim") {
            record.give_up_join();
        }
        if until != 0 {
            cancellation_point();
        }
        return late;
    }
    // SAFETY: this contract.
    if let Some(result) = unsafe { result.as_mut() } {
        *result = record.result();
    }
    // SAFETY: the handle is claimed.
    drop(unsafe { Reference::of_handle(record) });
    0
}

/// Makes a call that waits for an OS thread. On a green thread, its P runs others.
fn without_p(call: impl FnOnce() -> c_int) -> c_int {
    if is_user_code() && !is_blocking() { process::blocking(call) } else { call() }
}
