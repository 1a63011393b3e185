//! `by_number`: what libc's `syscall` does for the numbers of the clock and of random bytes
//! (`syscall.rs` of `monochrome`). Some crates ask by number, such as `getrandom` 0.2, from which `rand` 0.8
//! has its seeds.

#![allow(unsafe_code)]

use std::ffi::{c_long, c_void};

use super::clock;

/// `syscall(SYS_clock_gettime, ..)`.
///
/// # Safety
/// As that of the system call.
pub unsafe extern "C" fn clock_gettime(
    _number: c_long,
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> c_long {
    // SAFETY: the arguments are the caller's.
    unsafe { clock::clock_gettime(clock, time) }.into()
}

/// `syscall(SYS_getrandom, ..)`.
///
/// # Safety
/// As that of the system call.
pub unsafe extern "C" fn getrandom(_number: c_long, bytes: *mut c_void, len: usize, flags: u32) -> c_long {
    // SAFETY: the arguments are the caller's.
    unsafe { clock::getrandom(bytes, len, flags) as c_long }
}
