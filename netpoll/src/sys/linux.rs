//! Linux: a timerfd beside the sources, because epoll's own time-outs are whole milliseconds rounded up.
//!
//! The timerfd is never read. Setting it clears what has expired, and each expiry is a new edge, so an
//! edge-triggered registration reports every expiry. (`tests/poller.rs` would hang if that changed.)

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};

use super::due::Due;
use crate::raw::call;

/// An alarm that ends a wait at a given time, to the microsecond.
pub(crate) struct Alarm {
    /// `None` if the system refused a timerfd: then waits have epoll's milliseconds.
    timer: Option<OwnedFd>,
    due: Due,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token, _waker: &Waker) -> Alarm {
        let timer = create().ok().filter(|timer| {
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE).is_ok()
        });
        Alarm { timer, due: Due::unset() }
    }

    /// Makes the wait end by `until`, which is `timeout` from now. `timeout` is not zero, which would turn
    /// the alarm off. Returns the time-out that the wait itself needs.
    pub(crate) fn set(&mut self, until: u64, timeout: Duration) -> Option<Duration> {
        let Some(timer) = &self.timer else { return Some(timeout) };
        if self.due.serves(until, timeout) {
            return None;
        }
        match set(timer, timeout) {
            Ok(()) => {
                self.due.set(until);
                None
            }
            Err(_) => {
                self.due.clear();
                Some(timeout)
            }
        }
    }

    /// Records that the alarm has rung and is no longer set.
    pub(crate) fn rang(&mut self) {
        self.due.clear();
    }
}

#[inline(never)]
fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = checked(unsafe {
        call!(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
    })?;
    // SAFETY: `timerfd_create` has just returned this descriptor, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

#[inline(never)]
fn set(timer: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        // Below 10^9, which fits whatever type the system has here.
        tv_nsec: timeout.subsec_nanos() as _,
    };
    let once = libc::itimerspec { it_interval: never, it_value: value };
    // SAFETY: `once` outlives the call, which only reads it. A null pointer means that the old setting is not
    // wanted. `timer` keeps the descriptor open.
    checked(unsafe {
        let no_old = ptr::null_mut::<libc::itimerspec>();
        call!(libc::SYS_timerfd_settime, timer.as_raw_fd(), 0, &raw const once, no_old)
    })
    .map(drop)
}

fn checked(result: isize) -> io::Result<isize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result) }
}

/// Explains why the system refused a source, and what to do, where that is known.
pub(crate) fn explain(refusal: io::Error) -> io::Error {
    let text = match refusal.raw_os_error() {
        Some(libc::EPERM) => {
            "epoll takes sockets, pipes, terminals and the like; a regular file or a directory is never \
             waited for: read and write it with blocking calls"
        }
        Some(libc::EEXIST) => "this descriptor is registered already; duplicate it to register it twice",
        Some(libc::ENOSPC) => "the limit /proc/sys/fs/epoll/max_user_watches is reached; raise it",
        _ => return refusal,
    };
    let kind = match refusal.raw_os_error() {
        Some(libc::EPERM) => io::ErrorKind::Unsupported,
        _ => refusal.kind(),
    };
    io::Error::new(kind, format!("{text} ({refusal})"))
}
