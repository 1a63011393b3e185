//! `close`, `dup2`, `dup3`: end the waits of green threads for a descriptor that is closed or replaced, and forget what it was.

use std::ffi::c_int;

use super::raw::{self, call};
use super::{fd, finish, process};

/// libc's `close`; green threads that wait for the descriptor go on with `EBADF`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    // SAFETY: the caller's descriptor.
    let result = unsafe { call!(libc::SYS_close, descriptor) };
    ends(descriptor);
    finish(result) as c_int
}

/// libc's `dup2`; green threads that wait for `new` go on with `EBADF`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
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
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's descriptors.
    let result = unsafe { call!(libc::SYS_dup3, old, new, flags) };
    if result >= 0 {
        ends(new);
    }
    finish(result) as c_int
}

/// Ends the waits for a descriptor that has another file now, or none. The descriptors of a child are not those of the waiters.
fn ends(descriptor: c_int) {
    if fd::forget(descriptor) && process::is_own() {
        sched::foreign::closed(descriptor);
    }
}
