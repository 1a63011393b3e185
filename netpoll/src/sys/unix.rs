//! A test of the readiness of a descriptor, without waiting.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::waiter::Direction;

/// Returns `true` if an attempt in that direction would succeed or fail at once, without waiting.
///
/// # Errors
/// The error of `poll`.
#[inline(never)]
pub fn is_ready(descriptor: BorrowedFd<'_>, direction: Direction) -> io::Result<bool> {
    let events = match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    };
    let mut look = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
    loop {
        // SAFETY: the count of 1 lets `poll` access `look` alone. The borrow keeps the descriptor open.
        match unsafe { libc::poll(&mut look, 1, 0) } {
            0.. => return Ok(look.revents != 0),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
