//! The loop of attempts and waits under every hook: attempt, park until the descriptor is ready, attempt
//! again.

use std::ffi::c_int;

use sched::foreign::{self, End, Seen};
use timers::clock;

pub(super) use super::AGAIN;
use super::fd::{self, Waits};
pub(super) use super::mode::Direction;
use super::process::{self, blocking};
use super::{error, mode, raw};

/// A wait that relies on a registration looks after this time whether the number has a new file: it may have
/// been closed and used again by calls that are not hooked.
const LOOK_NS: u64 = 100_000_000;

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
        Call::begin_since(None, fd, direction)
    }

    /// As `begin`. With `seen`, which relies on the registration of the descriptor, its mode and its limit
    /// may be remembered.
    fn begin_since(seen: Option<Seen>, fd: c_int, direction: Direction) -> Result<Call, isize> {
        Ok(Call { fd, direction, until: mode::limit(fd, direction, seen.is_some())? })
    }

    /// Begins as `begin` does, for a descriptor whose mode the caller knows to be blocking.
    pub(super) fn begin_blocking(fd: c_int, direction: Direction) -> Call {
        let limit = mode::asked_limit(fd, direction);
        Call { fd, direction, until: limit.map_or(clock::NEVER, clock::after) }
    }

    fn is_ready(&self) -> bool {
        raw::ready_now(self.fd, self.direction.events() as i16) != 0
    }

    /// Parks until the descriptor may be ready. `seen` is from before the last attempt: with it no system
    /// call is needed.
    fn wait_since(&mut self, seen: Option<Seen>) -> Waited {
        if let Some(seen) = seen {
            let look = clock::now() + LOOK_NS;
            let end = wait_since(seen, self.fd, self.direction.events(), self.until.min(look));
            if end != End::TimedOut || self.until <= look {
                return self.waited(end);
            }
            fd::forget_wait(self.fd);
            match mode::limit(self.fd, self.direction, false) {
                Ok(until) => self.until = self.until.min(until),
                Err(result) => return Waited::Over(result),
            }
        }
        self.wait()
    }

    /// Parks until the descriptor may be ready.
    pub(super) fn wait(&self) -> Waited {
        self.waited(wait(&[(self.fd, self.direction.events())], self.until))
    }

    fn waited(&self, end: End) -> Waited {
        match end {
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

/// As `wait`, for one descriptor that stands registered.
fn wait_since(seen: Seen, fd: c_int, events: u32, until: u64) -> End {
    if !process::is_own() {
        return End::Refused(libc::EPERM);
    }
    let fds = [(fd, events)];
    let _waits = Waits::begin(&fds);
    foreign::wait_since(seen, fd, events, until)
}

/// Returns what a wait needs that relies on the registration of `fd`. An attempt follows.
#[inline]
fn seen(fd: c_int) -> Option<Seen> {
    if fd::has_waited(fd) { foreign::seen(fd) } else { None }
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
    let seen = seen(fd);
    match attempt() {
        AGAIN => repeat_slow(fd, direction, seen, attempt, block),
        done => done,
    }
}

#[cold]
fn repeat_slow(
    fd: c_int,
    direction: Direction,
    mut seen: Option<Seen>,
    mut attempt: impl FnMut() -> isize,
    block: impl FnOnce() -> isize,
) -> isize {
    let mut call = match Call::begin_since(seen, fd, direction) {
        Ok(call) => call,
        Err(result) => return result,
    };
    loop {
        match call.wait_since(seen) {
            Waited::Ready => {}
            Waited::Over(result) => return result,
            Waited::Blocks => return blocking(block),
        }
        seen = self::seen(fd);
        match attempt() {
            AGAIN => {}
            done => return done,
        }
    }
}
