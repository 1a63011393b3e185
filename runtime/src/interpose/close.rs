//! `close`: ends the waits of green threads for the descriptor, and forgets what it was.

use std::ffi::c_int;

use super::raw::call;
use super::{fd, finish};

/// libc's `close`; green threads that wait for the descriptor go on with `EBADF`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    // SAFETY: the caller's descriptor.
    let result = unsafe { call!(libc::SYS_close, descriptor) };
    if fd::forget(descriptor) {
        sched::foreign::closed(descriptor);
    }
    finish(result) as c_int
}
