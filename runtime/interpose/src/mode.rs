//! Whether calls on a descriptor wait, and for how long: its mode and the time limits of a socket. They are
//! asked for with its first wait, and remembered. The hooks here change them, or make descriptors.
//!
//! A file may have several descriptors, which share its mode and its limits. So a change makes all that is
//! remembered worthless (`fd/remembered.rs`). A socket that was made here, was not duplicated since, and
//! was not waited for, changes alone: nothing of it is remembered. That is how servers set the time limits of
//! a connection.
//!
//! Changes that are not hooked (a system call without libc, a child process) are seen after a while: a wait
//! that relies on what is remembered asks again (`wait.rs`).

use std::ffi::{c_int, c_ulong, c_void};
use std::time::Duration;

use libc::socklen_t;
use timers::clock;

use super::fd::remembered::{self, remembered};
use super::raw::{self, call};
use super::{AGAIN, fd, finish};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) fn events(self) -> u32 {
        match self {
            Direction::Read => libc::EPOLLIN as u32,
            Direction::Write => libc::EPOLLOUT as u32,
        }
    }
}

/// The limit that is remembered of a socket without one, and of what is no socket. Others are in
/// microseconds.
const NO_LIMIT: u32 = u32::MAX;

/// Returns until when a call on `fd` that begins now may wait, on the runtime's clock; or the result of the
/// call if the descriptor is non-blocking or has been closed. `is_known`: what is remembered is that of this
/// file.
pub(super) fn limit(fd: c_int, direction: Direction, is_known: bool) -> Result<u64, isize> {
    let place = fd::limits(fd).map(|limits| &limits[direction as usize]);
    let Some(place) = place else { return asked(fd, direction).0 };
    match remembered(place).filter(|_| is_known) {
        Some(limit) => Ok(until(limit)),
        None => remembered::ask(place, || fd::note_wait(fd), || asked(fd, direction)),
    }
}

/// Asks the system. Returns the result of `limit`, and what is to be remembered.
fn asked(fd: c_int, direction: Direction) -> (Result<u64, isize>, Option<u32>) {
    let flags = raw::flags(fd);
    if flags < 0 {
        return (Err(flags), None);
    }
    if flags & libc::O_NONBLOCK as isize != 0 {
        return (Err(AGAIN), None);
    }
    let limit = asked_limit(fd, direction);
    let remembered = limit.map_or(Some(NO_LIMIT), |limit| u32::try_from(limit.as_micros()).ok());
    (Ok(limit.map_or(clock::NEVER, clock::after)), remembered)
}

fn until(microseconds: u32) -> u64 {
    match microseconds {
        NO_LIMIT => clock::NEVER,
        limit => clock::after(Duration::from_micros(limit.into())),
    }
}

/// Asks the system for the limit of a socket's calls.
pub(super) fn asked_limit(fd: c_int, direction: Direction) -> Option<Duration> {
    #[derive(Default)]
    #[repr(C)]
    struct Time {
        seconds: libc::time_t,
        microseconds: libc::suseconds_t,
    }
    let option = match direction {
        Direction::Read => libc::SO_RCVTIMEO,
        Direction::Write => libc::SO_SNDTIMEO,
    };
    match raw::option::<Time>(fd, libc::SOL_SOCKET, option) {
        Ok(Time { seconds: 0, microseconds: 0 }) | Err(_) => None,
        Ok(Time { seconds, microseconds }) => Some(
            Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX))
                .saturating_add(Duration::from_micros(microseconds.try_into().unwrap_or(0))),
        ),
    }
}

/// Forgets modes and limits, after a system call that may have changed those of `fd`.
fn changed(fd: c_int) {
    remembered::changed(|| fd::is_alone_and_new(fd));
}

/// libc's `fcntl`. It takes a variable number of arguments. With the conventions of both processors the third
/// is where that of a function of three arguments is.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe {
        match command {
            // The number of a group is less than zero, which would be an error.
            libc::F_GETOWN => owner(fd),
            _ => call!(libc::SYS_fcntl, fd, command, argument),
        }
    };
    match command {
        libc::F_SETFL => changed(fd),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => fd::note_duplicate(fd, result),
        _ => {}
    }
    if command == libc::F_GETOWN { result as c_int } else { finish(result) as c_int }
}

/// Returns the process or the group that has the signals of a descriptor, or what libc returns on an error.
fn owner(fd: c_int) -> isize {
    #[repr(C)]
    struct Owner {
        kind: c_int,
        id: libc::pid_t,
    }
    const F_GETOWN_EX: c_int = 16;
    const GROUP: c_int = 2;
    let mut owner = Owner { kind: 0, id: 0 };
    // SAFETY: the call fills `owner`.
    match unsafe { call!(libc::SYS_fcntl, fd, F_GETOWN_EX, &raw mut owner) } {
        error @ ..0 => finish(error),
        _ if owner.kind == GROUP => -owner.id as isize,
        _ => owner.id as isize,
    }
}

/// libc's `fcntl64`, which is its `fcntl` where files may be large.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { fcntl(fd, command, argument) }
}

/// libc's `ioctl`, with its third argument as in `fcntl`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { call!(libc::SYS_ioctl, fd, request as usize, argument) };
    if request == libc::FIONBIO as c_ulong {
        changed(fd);
    }
    finish(result) as c_int
}

/// libc's `setsockopt`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // The names with times of 64 bits on all processors.
    const RECEIVE: c_int = 66;
    const SEND: c_int = 67;
    // SAFETY: the caller's arguments.
    let result = unsafe { call!(libc::SYS_setsockopt, fd, level, name, value, len) };
    if level == libc::SOL_SOCKET && matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | RECEIVE | SEND) {
        changed(fd);
    }
    finish(result) as c_int
}

/// libc's `socket`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    let result = unsafe { call!(libc::SYS_socket, family, kind, protocol) };
    fd::note_new(result);
    finish(result) as c_int
}

/// libc's `socketpair`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn socketpair(
    family: c_int,
    kind: c_int,
    protocol: c_int,
    pair: *mut c_int,
) -> c_int {
    // SAFETY: the caller's place.
    let result = unsafe { call!(libc::SYS_socketpair, family, kind, protocol, pair) };
    if result >= 0 {
        // SAFETY: the kernel has filled the place.
        unsafe { [*pair, *pair.add(1)] }.into_iter().for_each(|fd| fd::note_new(fd as isize));
    }
    finish(result) as c_int
}

/// libc's `dup`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    let result = unsafe { call!(libc::SYS_dup, fd) };
    fd::note_duplicate(fd, result);
    finish(result) as c_int
}
