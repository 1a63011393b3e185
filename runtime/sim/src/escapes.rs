//! `escapes`: functions of libc by which a program would get out of a simulation, in the place of libc's as
//! those of `clock.rs` are. Each either answers from the simulation, or is refused: it names itself in the
//! failure of the run, and does nothing.
//!
//! - `forms.rs` defines functions by their names.
//! - `files.rs` has those with paths of files.
//! - `process.rs` has those of child processes, signals and the environment.
//! - `waits.rs` has those that wait, and that make sockets.

#![allow(unsafe_code)]

pub mod files;
mod forms;
pub mod process;
pub mod waits;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use sched::{Real, simulation};

use super::clock::{self, NS_PER_S};
pub(crate) use forms::no_permission;

static OPEN: Real = Real::new(c"open");
static OPEN64: Real = Real::new(c"open64");
static GETTIMEOFDAY: Real = Real::new(c"gettimeofday");
static TIME: Real = Real::new(c"time");
static GETENTROPY: Real = Real::new(c"getentropy");

type Open = unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int;
type GetTimeOfDay = unsafe extern "C" fn(*mut libc::timeval, *mut c_void) -> c_int;
type Time = unsafe extern "C" fn(*mut libc::time_t) -> libc::time_t;
type GetEntropy = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// The devices that have random bytes of the system.
const RANDOM: [&CStr; 2] = [c"/dev/urandom", c"/dev/random"];

/// Returns `true` if the code of a simulation must not open the file.
///
/// # Safety
/// `path` is a C string, or null.
pub(crate) unsafe fn refuses(function: &str, path: *const c_char) -> bool {
    if !simulation::is_user_code() {
        return false;
    }
    if path.is_null() {
        return false;
    }
    // SAFETY: by the contract of this function.
    let what = match unsafe { CStr::from_ptr(path) } {
        path if RANDOM.contains(&path) => Some("a device with random bytes of the system".into()),
        // SAFETY: as above.
        path => unsafe { files::file(function, path.as_ptr() as usize) },
    };
    what.is_some_and(|what| simulation::refuses(|| what))
}

// libc's functions take a variable number of arguments. With the conventions of both processors the third is
// where that of a function of three arguments is. The caller has not set it if the call does not have it.

/// See `open(2)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's path.
    if unsafe { refuses("open", path) } {
        return no_permission() as c_int;
    }
    // SAFETY: libc's function of this name takes these arguments, which are the caller's.
    unsafe { mem::transmute::<*mut c_void, Open>(OPEN.get())(path, flags, mode) }
}

/// See `open64(3)`.
///
/// # Safety
/// As of libc's function.
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's path.
    if unsafe { refuses("open64", path) } {
        return no_permission() as c_int;
    }
    // SAFETY: libc's function of this name takes these arguments, which are the caller's.
    unsafe { mem::transmute::<*mut c_void, Open>(OPEN64.get())(path, flags, mode) }
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
