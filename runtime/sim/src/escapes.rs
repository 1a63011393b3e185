//! `escapes`: functions of libc by which a program would get out of a simulation, in the place of libc's as
//! those of `clock.rs` are. Each either answers from the simulation, or names itself
//! in the failure of the run.
//!
//! A program with `runtime::interpose!(sim)` has other functions for sleeps and for futexes: green threads
//! park in these.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use sched::{Real, simulation};

use super::clock::{self, NS_PER_S};

static OPEN: Real = Real::new(c"open");
static OPEN64: Real = Real::new(c"open64");
static GETTIMEOFDAY: Real = Real::new(c"gettimeofday");
static TIME: Real = Real::new(c"time");
static GETENTROPY: Real = Real::new(c"getentropy");
static CLOCK_NANOSLEEP: Real = Real::new(c"clock_nanosleep");
static NANOSLEEP: Real = Real::new(c"nanosleep");

type Open = unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int;
type GetTimeOfDay = unsafe extern "C" fn(*mut libc::timeval, *mut c_void) -> c_int;
type Time = unsafe extern "C" fn(*mut libc::time_t) -> libc::time_t;
type GetEntropy = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// The devices that have random bytes of the system.
const RANDOM: [&CStr; 2] = [c"/dev/urandom", c"/dev/random"];

/// Names a random device that the code of a simulation opens.
///
/// # Safety
/// `path` is a C string.
unsafe fn check_path(path: *const c_char) {
    // SAFETY: by the contract of this function.
    if simulation::is_user_code() && RANDOM.contains(&unsafe { CStr::from_ptr(path) }) {
        simulation::with(|by| by.escape("a device with random bytes of the system"));
    }
}

// libc's functions take a variable number of arguments. With the conventions of both processors the third is
// where that of a function of three arguments is. The caller has not set it if the call does not have it.

/// See `open(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: libc's function of this name takes these arguments, which are the caller's.
    unsafe {
        check_path(path);
        mem::transmute::<*mut c_void, Open>(OPEN.get())(path, flags, mode)
    }
}

/// See `open64(3)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: libc's function of this name takes these arguments, which are the caller's.
    unsafe {
        check_path(path);
        mem::transmute::<*mut c_void, Open>(OPEN64.get())(path, flags, mode)
    }
}

/// See `gettimeofday(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let Some(ns) = clock::date_here() else {
        // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
        return unsafe { mem::transmute::<*mut c_void, GetTimeOfDay>(GETTIMEOFDAY.get())(time, zone) };
    };
    let simulated = libc::timeval {
        tv_sec: (ns / NS_PER_S) as libc::time_t,
        tv_usec: (ns % NS_PER_S / 1000) as libc::suseconds_t,
    };
    if !time.is_null() {
        // SAFETY: the caller's pointer is valid, by the contract of this function.
        unsafe { time.write(simulated) };
    }
    0
}

/// See `time(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn time(to: *mut libc::time_t) -> libc::time_t {
    let Some(ns) = clock::date_here() else {
        // SAFETY: libc's function of this name has this type; the caller's argument is passed on.
        return unsafe { mem::transmute::<*mut c_void, Time>(TIME.get())(to) };
    };
    let seconds = (ns / NS_PER_S) as libc::time_t;
    if !to.is_null() {
        // SAFETY: the caller's pointer is valid, by the contract of this function.
        unsafe { to.write(seconds) };
    }
    seconds
}

/// See `getentropy(3)`.
///
/// # Safety
/// `bytes` points to a place for `len` bytes.
pub unsafe extern "C" fn getentropy(bytes: *mut c_void, len: usize) -> c_int {
    if !simulation::is_here() {
        // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
        return unsafe { mem::transmute::<*mut c_void, GetEntropy>(GETENTROPY.get())(bytes, len) };
    }
    // SAFETY: by the contract of this function.
    unsafe { clock::getrandom(bytes, len, 0) };
    0
}

type Nanosleep = unsafe extern "C" fn(*const libc::timespec, *mut libc::timespec) -> c_int;
type ClockNanosleep =
    unsafe extern "C" fn(libc::clockid_t, c_int, *const libc::timespec, *mut libc::timespec) -> c_int;

/// Returns `true` if the code of a simulation sleeps, which then fails. Such a sleep ends at once.
fn escapes() -> bool {
    let escapes = simulation::is_user_code();
    if escapes {
        simulation::with(|by| by.escape("a sleep of the OS thread, such as that of std::thread::sleep"));
    }
    escapes
}

/// See `nanosleep(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    if escapes() {
        return 0;
    }
    // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
    unsafe { mem::transmute::<*mut c_void, Nanosleep>(NANOSLEEP.get())(time, left) }
}

/// See `clock_nanosleep(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    if escapes() {
        return 0;
    }
    // SAFETY: libc's function of this name has this type; the caller's arguments are passed on.
    unsafe { mem::transmute::<*mut c_void, ClockNanosleep>(CLOCK_NANOSLEEP.get())(clock, flags, time, left) }
}
