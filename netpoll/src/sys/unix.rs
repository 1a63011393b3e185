//! A test of the readiness of a descriptor, without waiting.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable))))]
use std::ptr;

use crate::waiter::Direction;

/// What a look at a descriptor has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The peer writes no more, or this end reads no more.
    pub read_closed: bool,
    /// What is written reaches no reader.
    pub write_closed: bool,
    /// The descriptor has a pending error.
    pub error: bool,
}

/// Returns `true` if an attempt in that direction would succeed or fail at once, without waiting.
///
/// # Errors
/// The error of `poll`.
pub fn is_ready(descriptor: BorrowedFd<'_>, direction: Direction) -> io::Result<bool> {
    poll(descriptor, asked(direction)).map(|found| found != 0)
}

/// Looks at a descriptor in the given directions, without waiting.
///
/// # Errors
/// The error of `poll`.
pub fn look(descriptor: BorrowedFd<'_>, read: bool, write: bool) -> io::Result<Look> {
    let mut events = 0;
    if read {
        events |= asked(Direction::Read) | PEER_ENDED;
    }
    if write {
        events |= asked(Direction::Write);
    }
    let found = poll(descriptor, events)?;
    let has = |event| found & event != 0;
    let (hung_up, error) = (has(libc::POLLHUP), has(libc::POLLERR | libc::POLLNVAL));
    Ok(Look {
        readable: has(libc::POLLIN),
        writable: has(libc::POLLOUT),
        read_closed: read && (hung_up || has(PEER_ENDED)),
        write_closed: write && (hung_up || error),
        error,
    })
}

fn asked(direction: Direction) -> libc::c_short {
    match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    }
}

/// The event that the peer writes no more, where the system has one.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PEER_ENDED: libc::c_short = libc::POLLRDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PEER_ENDED: libc::c_short = 0;

/// Returns which of the events are there, and the errors that are always reported.
fn poll(descriptor: BorrowedFd<'_>, events: libc::c_short) -> io::Result<libc::c_short> {
    let mut look = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
    loop {
        match poll_now(&mut look) {
            Ok(()) => return Ok(look.revents),
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
