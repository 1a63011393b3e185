//! `close`, `close_range`, `closefrom`, `dup2`, `dup3`: end the waits of green threads for a descriptor that
//! is closed or replaced, and forget what it was. Before that its registration with the poller ends: another
//! holder of its file would keep the events coming.

use std::ffi::{c_int, c_uint};

use super::raw::{self, call};
use super::{fd, finish, process};

/// libc's `close`; green threads that wait for the descriptor go on with `EBADF`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    is_about_to_end(descriptor);
    // SAFETY: the caller's descriptor.
    let result = unsafe { call!(libc::SYS_close, descriptor) };
    ends(descriptor);
    finish(result) as c_int
}

/// libc's `close_range`; green threads that wait for one of the descriptors go on with `EBADF`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // With flags the descriptors stay open, or the calling thread gets descriptors of its own first.
    if flags == 0 {
        each_known(first, last, is_about_to_end);
    }
    // SAFETY: the caller's descriptors.
    let result = unsafe { call!(libc::SYS_close_range, first, last, flags) };
    if result >= 0 && flags == 0 {
        each_known(first, last, ends);
    }
    finish(result) as c_int
}

/// libc's `closefrom`; green threads that wait for one of the descriptors go on with `EBADF`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn closefrom(first: c_int) {
    let first = c_uint::try_from(first).unwrap_or(0);
    each_known(first, c_uint::MAX, is_about_to_end);
    // SAFETY: the caller's descriptors.
    if unsafe { call!(libc::SYS_close_range, first, c_uint::MAX, 0) } < 0 {
        // A kernel before 5.9.
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the call fills `limit`.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        for descriptor in first..c_uint::try_from(limit.rlim_cur).unwrap_or(c_uint::MAX) {
            // SAFETY: the caller's descriptors.
            unsafe { call!(libc::SYS_close, descriptor) };
        }
    }
    each_known(first, c_uint::MAX, ends);
}

/// libc's `dup2`; green threads that wait for `new` go on with `EBADF`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    if old == new {
        // Changes nothing. `dup3`, the system call of all processors, refuses it.
        let flags = raw::descriptor_flags(old);
        return finish(if flags < 0 { flags } else { new as isize }) as c_int;
    }
    // SAFETY: the caller's descriptors.
    unsafe { dup3(old, new, 0) }
}

/// libc's `dup3`; green threads that wait for `new` go on with `EBADF`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    is_about_to_end(new);
    // SAFETY: the caller's descriptors.
    let result = unsafe { call!(libc::SYS_dup3, old, new, flags) };
    if result >= 0 {
        ends(new);
        fd::note_duplicate(old, result);
    }
    finish(result) as c_int
}

/// Calls `call` with each descriptor from `first` to `last` of which anything is known. The descriptors of a
/// child are not those of the waiters.
fn each_known(first: c_uint, last: c_uint, call: impl Fn(c_int)) {
    if process::is_own() {
        (first..last.saturating_add(1).min(fd::end())).for_each(|descriptor| call(descriptor as c_int));
    }
}

/// Removes a descriptor from the poller that is about to be closed, or to have another file. If that fails,
/// the next wait registers it again.
fn is_about_to_end(descriptor: c_int) {
    if fd::has_waited(descriptor) && process::is_own() {
        fd::forget_wait(descriptor);
        sched::foreign::leave(descriptor);
    }
}

/// Ends the waits for a descriptor that has another file now, or none. The descriptors of a child are not
/// those of the waiters.
fn ends(descriptor: c_int) {
    if fd::forget(descriptor) && process::is_own() {
        sched::foreign::closed(descriptor);
    }
}
