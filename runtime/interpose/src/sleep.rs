//! `nanosleep`, `clock_nanosleep`, `usleep`, `sleep`, `thrd_sleep`.
//!
//! A cancellation or a time-out ends a sleep early. `nanosleep` then returns 0, as if the time were over: its
//! error `EINTR` would make most callers sleep again, and callers expect no other. (std's `thread::sleep`
//! panics.)

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{clockid_t, timespec, useconds_t};
use sched::foreign;
use timers::clock;

use super::poll::duration;
use super::raw::call;
use super::{cancellation_point, error, finish, process};

/// libc's `nanosleep`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_nanosleep, time, left) };
    // SAFETY: the caller's pointer.
    finish(match unsafe { time.as_ref() }.and_then(duration).filter(|_| foreign::is_user_code()) {
        Some(time) => sleep_for(time),
        // A time that is none is an error, which the system tells.
        None => block(),
    }) as c_int
}

/// libc's `clock_nanosleep`; parks a green thread if the clock is the monotonic or the real-time clock. A
/// step of the real-time clock does not change a sleep that has begun.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let known = clock == libc::CLOCK_MONOTONIC || clock == libc::CLOCK_REALTIME;
    // SAFETY: the caller's pointer.
    let asked = unsafe { time.as_ref() }.and_then(duration).filter(|_| known && foreign::is_user_code());
    let result = match asked {
        Some(time) if flags & libc::TIMER_ABSTIME != 0 => sleep_for(time.saturating_sub(now(clock))),
        Some(time) => sleep_for(time),
        // SAFETY: the caller's arguments.
        None => unsafe { call!(libc::SYS_clock_nanosleep, clock, flags, time, left) },
    };
    // This function returns its error, and leaves `errno` alone.
    -result as c_int
}

/// libc's `usleep`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    let time = Duration::from_micros(micros.into());
    finish(if foreign::is_user_code() { sleep_for(time) } else { block(time).0 }) as c_int
}

/// libc's `sleep`; parks a green thread. Returns the seconds that are left if a signal ended it, on a plain
/// OS thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    let time = Duration::from_secs(seconds.into());
    if foreign::is_user_code() {
        sleep_for(time);
        return 0;
    }
    match block(time) {
        // Round to the nearest, as libc does not lose a second either.
        (result, left) if result < 0 => (left.as_secs() + u64::from(left.subsec_millis() >= 500)) as c_uint,
        _ => 0,
    }
}

/// libc's `thrd_sleep`; parks a green thread. Returns -1 if a signal ended it, and another number below zero
/// for an error.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int {
    const INTERRUPTED: c_int = libc::EINTR;
    // SAFETY: the caller's arguments.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) } {
        0 => 0,
        INTERRUPTED => -1,
        _ => -2,
    }
}

fn sleep_for(time: Duration) -> isize {
    cancellation_point();
    if time.is_zero() {
        return 0;
    }
    if !process::is_own() {
        return block(time).0;
    }
    foreign::sleep_until(clock::after(time));
    cancellation_point();
    0
}

/// Sleeps on the OS thread. Returns the result, and the time that is left.
fn block(time: Duration) -> (isize, Duration) {
    let mut time = timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
    // SAFETY: the system reads the time before it writes what is left.
    let result = unsafe { call!(libc::SYS_nanosleep, &raw const time, &raw mut time) };
    (result, if result == error(libc::EINTR) { duration(&time).unwrap_or_default() } else { Duration::ZERO })
}

/// Returns the time of a clock of the system.
pub(super) fn now(clock: clockid_t) -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    duration(&now).unwrap_or_default()
}
