//! `accept` and `accept4`: a listener in blocking mode cannot be asked without waiting. So the hook looks for
//! a connection and then accepts, under a lock of the listener.

use std::ffi::c_int;

use libc::{sockaddr, socklen_t};
use sched::sync::Mutex;

use super::fd;
use super::raw::{self, call};
use super::wait::{AGAIN, Direction, repeat};
use super::{begin_call, finish};

/// Locks for the listeners, chosen by their number. A holder makes two system calls that do not wait.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// libc's `accept`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { accept4(fd, address, len, 0) }
}

/// libc's `accept4`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_accept4, fd, address, len, flags) };
    let accepted = match begin_call(fd) {
        true => repeat(fd, Direction::Read, || attempt(fd, block), block),
        false => block(),
    };
    fd::note_new(accepted);
    finish(accepted) as c_int
}

/// Accepts a connection if there is one. Another process, or a call that is not hooked, may take it from
/// under the lock: then the call blocks its OS thread.
fn attempt(fd: c_int, block: impl FnOnce() -> isize) -> isize {
    let _one_at_a_time = LOCKS[fd as usize % LOCKS.len()].lock();
    let nothing = raw::ready_now(fd, libc::POLLIN) == 0;
    // What does not listen never becomes ready: the real call tells the error.
    if nothing && raw::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) { AGAIN } else { block() }
}
