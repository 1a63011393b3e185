//! A test of the readiness of a descriptor, without waiting.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable))))]
use std::ptr;

use crate::waiter::Direction;

/// Returns `true` if an attempt in that direction would succeed or fail at once, without waiting.
///
/// # Errors
/// The error of `poll`.
pub fn is_ready(descriptor: BorrowedFd<'_>, direction: Direction) -> io::Result<bool> {
    let events = match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    };
    let mut look = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
    loop {
        match poll_now(&mut look) {
            Ok(()) => return Ok(look.revents != 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `poll` without waiting.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable))))]
#[inline(never)]
fn poll_now(look: &mut libc::pollfd) -> io::Result<()> {
    let look: *mut libc::pollfd = look;
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the count of 1 lets the call access `look` alone; it reads `none`, and sets no signal mask. The
    // caller's borrow keeps the descriptor open.
    let result = unsafe {
        crate::raw::call!(libc::SYS_ppoll, look, 1usize, &raw const none, ptr::null::<u64>(), 0usize)
    };
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

/// `poll` without waiting.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable)))))]
#[inline(never)]
fn poll_now(look: &mut libc::pollfd) -> io::Result<()> {
    // SAFETY: the count of 1 lets `poll` access `look` alone. The caller's borrow keeps the descriptor open.
    if unsafe { libc::poll(look, 1, 0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
