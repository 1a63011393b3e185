//! What C calls instead of `read`, `recv`, `poll` and others if it was compiled with `_FORTIFY_SOURCE`. The
//! size of the caller's buffer is one argument more. A call that may exceed it ends the process.

use std::ffi::{c_int, c_void};

use libc::{nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use super::poll::{poll, ppoll};
use super::read::{read, recv, recvfrom};

unsafe extern "C" {
    /// libc's: reports the overflow and ends the process.
    safe fn __chk_fail() -> !;
}

fn check(fits: bool) {
    if !fits {
        __chk_fail();
    }
}

/// libc's `__read_chk`; see [`read`].
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    size: size_t,
) -> ssize_t {
    check(count <= size);
    // SAFETY: the caller's arguments.
    unsafe { read(fd, buf, count) }
}

/// libc's `__recv_chk`; see [`recv`].
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    size: size_t,
    flags: c_int,
) -> ssize_t {
    check(len <= size);
    // SAFETY: the caller's arguments.
    unsafe { recv(fd, buf, len, flags) }
}

/// libc's `__recvfrom_chk`; see [`recvfrom`].
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    size: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check(len <= size);
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(fd, buf, len, flags, from, from_len) }
}

/// libc's `__poll_chk`; see [`poll`].
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    milliseconds: c_int,
    size: size_t,
) -> c_int {
    check(count <= (size / size_of::<pollfd>()) as nfds_t);
    // SAFETY: the caller's arguments.
    unsafe { poll(fds, count, milliseconds) }
}

/// libc's `__ppoll_chk`; see [`ppoll`].
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
    size: size_t,
) -> c_int {
    check(count <= (size / size_of::<pollfd>()) as nfds_t);
    // SAFETY: the caller's arguments.
    unsafe { ppoll(fds, count, time, mask) }
}
