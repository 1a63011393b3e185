//! `select` and `pselect` on simulated sockets: `poll` in another form.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{fd_set, pollfd, timespec, timeval};

use super::number::raw;
use super::poll::{duration, poll_sockets};
use super::table;

/// The events of `poll` that make a descriptor ready, for each of the three sets, as in Linux.
const READY: [i16; 3] =
    [libc::POLLIN | libc::POLLHUP | libc::POLLERR, libc::POLLOUT | libc::POLLERR, libc::POLLPRI];

/// What `poll` is asked for, for each of the three sets.
const ASKED: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

/// `select`. Leaves in `time` what is left of it. Returns `None` if it is for no simulated socket.
///
/// # Safety
/// Each set is null, or has `count` bits; `time` is null or a time.
pub unsafe fn select(count: c_int, sets: [*mut fd_set; 3], time: *mut timeval) -> Option<isize> {
    // SAFETY: the caller's sets.
    let fds: Vec<pollfd> = unsafe { asked_of_sockets(count, sets) }?;
    // SAFETY: the caller's time.
    let limit = match unsafe { time.as_ref() }.map(duration_of_timeval) {
        None => None,
        Some(Some(limit)) => Some(limit),
        Some(None) => return Some(raw(Err(libc::EINVAL))),
    };
    let start = Instant::now();
    // SAFETY: the caller's sets.
    let found = unsafe { wait(fds, sets, limit) };
    // SAFETY: the caller's time.
    if let (Some(time), Some(limit)) = (unsafe { time.as_mut() }, limit) {
        let left = limit.saturating_sub(start.elapsed());
        time.tv_sec = left.as_secs() as _;
        time.tv_usec = left.subsec_micros() as _;
    }
    Some(found)
}

/// `pselect`, without its mask: no signal ends a simulated wait. Returns `None` if it is for no simulated
/// socket.
///
/// # Safety
/// As for `select`.
pub unsafe fn pselect(count: c_int, sets: [*mut fd_set; 3], time: *const timespec) -> Option<isize> {
    // SAFETY: the caller's sets.
    let fds: Vec<pollfd> = unsafe { asked_of_sockets(count, sets) }?;
    // SAFETY: the caller's time.
    match unsafe { time.as_ref() }.map(duration) {
        Some(None) => Some(raw(Err(libc::EINVAL))),
        // SAFETY: the caller's sets.
        limit => Some(unsafe { wait(fds, sets, limit.flatten()) }),
    }
}

/// Waits for `limit` or for ever, and leaves in the sets what is ready.
///
/// # Safety
/// `fds` is what the sets ask for, as for `select`.
unsafe fn wait(mut fds: Vec<pollfd>, sets: [*mut fd_set; 3], limit: Option<Duration>) -> isize {
    let found = poll_sockets(&mut fds, limit, bits);
    let is_closed = |asked: &pollfd| asked.revents & libc::POLLNVAL != 0;
    raw(found.and_then(|found| {
        if fds.iter().any(is_closed) {
            return Err(libc::EBADF);
        }
        // SAFETY: the caller's sets, which have the bits of these descriptors.
        unsafe { fds.iter().for_each(|asked| answer(asked, sets)) };
        Ok(found as isize)
    }))
}

/// Returns what the three sets ask for; `None` if there is no simulated socket.
///
/// # Safety
/// As for `select`.
unsafe fn asked_of_sockets(count: c_int, sets: [*mut fd_set; 3]) -> Option<Vec<pollfd>> {
    // SAFETY: this contract.
    let fds = unsafe { asked(count, sets) };
    fds.iter().any(|asked| table::is_taken(asked.fd)).then_some(fds)
}

/// Returns what the three sets ask for.
///
/// # Safety
/// As for `select`.
unsafe fn asked(count: c_int, sets: [*mut fd_set; 3]) -> Vec<pollfd> {
    let events_of = |fd: c_int| {
        // SAFETY: the caller's sets.
        let is_in = |set: *mut fd_set| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) };
        sets.iter().zip(ASKED).filter(|&(&set, _)| is_in(set)).fold(0, |all, (_, event)| all | event)
    };
    (0..count.min(libc::FD_SETSIZE as c_int))
        .map(|fd| pollfd { fd, events: events_of(fd), revents: 0 })
        .filter(|asked| asked.events != 0)
        .collect()
}

/// Returns in how many of the three sets a descriptor is to be, and one for a descriptor that is closed.
fn bits(asked: &pollfd) -> usize {
    let closed = usize::from(asked.revents & libc::POLLNVAL != 0);
    closed + (0..3).filter(|&set| is_ready(asked, set)).count()
}

fn is_ready(asked: &pollfd, set: usize) -> bool {
    asked.events & ASKED[set] != 0 && asked.revents & READY[set] != 0
}

/// Takes a descriptor out of the sets for which it is not ready.
///
/// # Safety
/// The sets that have asked for the descriptor have a bit for it.
unsafe fn answer(asked: &pollfd, sets: [*mut fd_set; 3]) {
    for (at, set) in sets.into_iter().enumerate() {
        if asked.events & ASKED[at] != 0 && !is_ready(asked, at) {
            // SAFETY: this contract.
            unsafe { libc::FD_CLR(asked.fd, set) };
        }
    }
}

fn duration_of_timeval(time: &timeval) -> Option<Duration> {
    let micros = u32::try_from(time.tv_usec).ok()?;
    Duration::from_secs(u64::try_from(time.tv_sec).ok()?).checked_add(Duration::from_micros(micros.into()))
}
