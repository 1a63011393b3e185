//! `escapes`: functions of libc by which a program would get out of a simulation, in the place of libc's as
//! those of `clock.rs` are. The code of a simulation is refused there: the function does nothing, and its
//! name is in the failure of the run. Here are `open` and `open64`.
//!
//! - `forms.rs` defines functions by their names.
//! - `files.rs` has those with paths of files.
//! - `process.rs` has those of child processes, signals and the environment.
//! - `waits.rs` has waits in real time, and sockets.
//! - `real.rs` lets code make such calls all the same.

#![allow(unsafe_code)]

pub mod files;
mod forms;
pub mod process;
pub(super) mod real;
pub mod waits;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use sched::{Real, simulation};

pub(crate) use forms::no_permission;

static OPEN: Real = Real::new(c"open");
static OPEN64: Real = Real::new(c"open64");

type Open = unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int;

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
