//! Linux: a timerfd beside the sources, because epoll's own time-outs are whole milliseconds rounded up.
//!
//! The timerfd is never read. Setting it clears what has expired, and each expiry is a new edge, so an
//! edge-triggered registration reports every expiry. (`tests/poller.rs` would hang if that changed.)

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

const UNSET: u64 = u64::MAX;

/// An earlier alarm at least this far ahead is left as it is. Such an alarm ends at most one wait too early.
/// Until it rings, each wait saves a system call. (A server moves an I/O time-out with each request.)
const LEAVE: Duration = Duration::from_millis(1);

/// An alarm that ends a wait at a given time, to the microsecond.
pub(crate) struct Alarm {
    /// `None` if the system refused a timerfd: then waits have epoll's milliseconds.
    timer: Option<OwnedFd>,
    /// When the alarm will ring, by the caller's clock.
    until: u64,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> Alarm {
        let timer = create().ok().filter(|timer| {
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE).is_ok()
        });
        Alarm { timer, until: UNSET }
    }

    /// Makes the wait end by `until`, which is `timeout` from now. `timeout` is not zero, which would turn
    /// the alarm off. Returns the time-out that the wait itself needs.
    pub(crate) fn set(&mut self, until: u64, timeout: Duration) -> Option<Duration> {
        let Some(timer) = &self.timer else { return Some(timeout) };
        if serves(self.until, until, timeout) {
            return None;
        }
        match set(timer, timeout) {
            Ok(()) => {
                self.until = until;
                None
            }
            Err(_) => {
                self.until = UNSET;
                Some(timeout)
            }
        }
    }

    /// Records that the alarm has rung and is no longer set.
    pub(crate) fn rang(&mut self) {
        self.until = UNSET;
    }
}

/// Returns `true` if an alarm that rings at `set` serves a wait that must end at `until`, `timeout` from now.
fn serves(set: u64, until: u64, timeout: Duration) -> bool {
    if set >= until {
        return set == until;
    }
    let early = Duration::from_nanos(until - set);
    timeout.checked_sub(early).is_some_and(|ahead| ahead >= LEAVE)
}

#[inline(never)]
fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `timerfd_create` has just returned this descriptor, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
    let result = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &once, ptr::null_mut()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn in_ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn an_alarm_serves_its_own_time_and_not_an_earlier_one() {
        assert!(serves(100, 100, Duration::from_nanos(7)));
        assert!(!serves(101, 100, in_ms(5)));
        assert!(!serves(UNSET, 100, in_ms(5)));
    }

    #[test]
    fn an_earlier_alarm_is_left_only_while_it_is_far_ahead() {
        // Now is 0; the wait is to end in 9 ms.
        assert!(serves(MS, 9 * MS, in_ms(9)));
        assert!(!serves(MS - 1, 9 * MS, in_ms(9)));
        // Now is 2 ms: the alarm of 1 ms has passed. It rang unnoticed or was never set.
        assert!(!serves(MS, 9 * MS, in_ms(7)));
    }
}
