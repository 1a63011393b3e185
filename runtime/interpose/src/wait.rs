//! The loop of attempts and waits under every hook: attempt, park until the descriptor is ready, attempt
//! again.

use std::ffi::c_int;
use std::time::Duration;

use sched::foreign::{self, End};
use timers::clock;

use super::fd::Waits;
use super::process::{self, blocking};
use super::{error, raw};

pub(super) const AGAIN: isize = error(libc::EAGAIN);

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    fn events(self) -> u32 {
        match self {
            Direction::Read => libc::EPOLLIN as u32,
            Direction::Write => libc::EPOLLOUT as u32,
        }
    }

    /// The option of a socket that limits the time of such calls.
    fn timeout_option(self) -> c_int {
        match self {
            Direction::Read => libc::SO_RCVTIMEO,
            Direction::Write => libc::SO_SNDTIMEO,
        }
    }
}

/// A call that has met `EAGAIN`: it waits and attempts again, as often as need be, within the time that its
/// socket allows.
pub(super) struct Call {
    fd: c_int,
    direction: Direction,
    until: u64,
}

/// How the wait of a call ended.
pub(super) enum Waited {
    /// Attempt again.
    Ready,
    /// The result of the call, unless it has achieved something before.
    Over(isize),
    /// The system cannot wait for this descriptor: the call blocks its OS thread.
    Blocks,
}

impl Call {
    /// Begins to wait for `fd`. Returns the result of the call if the descriptor is non-blocking or has been
    /// closed.
    #[cold]
    pub(super) fn begin(fd: c_int, direction: Direction) -> Result<Call, isize> {
        let flags = raw::flags(fd);
        if flags < 0 {
            return Err(flags);
        }
        if flags & libc::O_NONBLOCK as isize != 0 {
            return Err(AGAIN);
        }
        Ok(Call { fd, direction, until: time_limit(fd, direction) })
    }

    /// Begins as `begin` does, for a descriptor whose mode the caller knows to be blocking.
    pub(super) fn begin_blocking(fd: c_int, direction: Direction) -> Call {
        Call { fd, direction, until: time_limit(fd, direction) }
    }

    fn is_ready(&self) -> bool {
        raw::ready_now(self.fd, self.direction.events() as i16) != 0
    }

    /// Parks until the descriptor may be ready.
    pub(super) fn wait(&self) -> Waited {
        match wait(&[(self.fd, self.direction.events())], self.until) {
            End::Again => Waited::Ready,
            // The M looks at its station when it is free. So the time may be up although the descriptor
            // became ready in time.
            End::TimedOut if self.is_ready() => Waited::Ready,
            End::TimedOut => Waited::Over(AGAIN),
            End::Refused(_) => Waited::Blocks,
            end => Waited::Over(of_interruption(end)),
        }
    }
}

/// Parks until one of `fds` is ready or until `until`. A descriptor that is closed meanwhile ends the wait. A
/// child of `vfork` is refused.
pub(super) fn wait(fds: &[(c_int, u32)], until: u64) -> End {
    if !process::is_own() {
        return End::Refused(libc::EPERM);
    }
    let _waits = Waits::begin(fds);
    foreign::wait(fds, until)
}

/// Returns the error for a wait that the green thread's fate has ended, or that of its descriptor.
pub(super) fn of_interruption(end: End) -> isize {
    match end {
        End::Cancelled => error(libc::ECANCELED),
        End::DeadlinePassed => error(libc::ETIMEDOUT),
        End::Closed => error(libc::EBADF),
        End::Again | End::TimedOut | End::Refused(_) => AGAIN,
    }
}

/// Repeats `attempt` on `fd` while it returns `EAGAIN`, and parks in between. `block` is the call that may
/// block its OS thread.
#[inline]
pub(super) fn repeat(
    fd: c_int,
    direction: Direction,
    mut attempt: impl FnMut() -> isize,
    block: impl FnOnce() -> isize,
) -> isize {
    match attempt() {
        AGAIN => repeat_slow(fd, direction, attempt, block),
        done => done,
    }
}

#[cold]
fn repeat_slow(
    fd: c_int,
    direction: Direction,
    mut attempt: impl FnMut() -> isize,
    block: impl FnOnce() -> isize,
) -> isize {
    let call = match Call::begin(fd, direction) {
        Ok(call) => call,
        Err(result) => return result,
    };
    loop {
        match call.wait() {
            Waited::Ready => match attempt() {
                AGAIN => {}
                done => return done,
            },
            Waited::Over(result) => return result,
            Waited::Blocks => return blocking(block),
        }
    }
}

/// Returns until when a call on the socket `fd` that begins now may wait, on the runtime's clock.
fn time_limit(fd: c_int, direction: Direction) -> u64 {
    #[derive(Default)]
    #[repr(C)]
    struct Time {
        seconds: libc::time_t,
        microseconds: libc::suseconds_t,
    }
    match raw::option::<Time>(fd, libc::SOL_SOCKET, direction.timeout_option()) {
        Ok(Time { seconds: 0, microseconds: 0 }) | Err(_) => clock::NEVER,
        Ok(Time { seconds, microseconds }) => clock::after(
            Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX))
                .saturating_add(Duration::from_micros(microseconds.try_into().unwrap_or(0))),
        ),
    }
}
