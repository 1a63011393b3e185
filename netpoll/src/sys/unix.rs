//! Whether a descriptor is ready now: one look, without waiting.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::waiter::Direction;

/// Whether an attempt in that direction would not have to wait: there is something to read or room to write, or it would
/// fail.
///
/// # Errors
/// What the system says.
#[inline(never)]
pub fn is_ready(descriptor: BorrowedFd<'_>, direction: Direction) -> io::Result<bool> {
    let events = match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    };
    let mut look = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
    loop {
        // SAFETY: `look` is the one entry that it may read and write; the borrow keeps the descriptor open.
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
