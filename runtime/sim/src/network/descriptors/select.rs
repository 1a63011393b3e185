//! `select` on simulated sockets: `poll` in another form.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{fd_set, pollfd, timeval};

use super::number::raw;
use super::poll::poll_sockets;
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
    let mut fds: Vec<pollfd> = unsafe { asked(count, sets) };
    if !fds.iter().any(|asked| table::is_taken(asked.fd)) {
        return None;
    }
    // SAFETY: the caller's time.
    let limit = match unsafe { time.as_ref() }.map(duration) {
        None => None,
        Some(Some(limit)) => Some(limit),
        Some(None) => return Some(raw(Err(libc::EINVAL))),
    };
    let start = Instant::now();
    let found = poll_sockets(&mut fds, limit, bits);
    // SAFETY: the caller's time.
    if let (Some(time), Some(limit)) = (unsafe { time.as_mut() }, limit) {
        let left = limit.saturating_sub(start.elapsed());
        time.tv_sec = left.as_secs() as _;
        time.tv_usec = left.subsec_micros() as _;
    }
    let is_closed = |asked: &pollfd| asked.revents & libc::POLLNVAL != 0;
    Some(raw(found.and_then(|found| {
        if fds.iter().any(is_closed) {
            return Err(libc::EBADF);
        }
        // SAFETY: the caller's sets, which have the bits of these descriptors.
        unsafe { fds.iter().for_each(|asked| answer(asked, sets)) };
        Ok(found as isize)
    })))
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

fn duration(time: &timeval) -> Option<Duration> {
    let micros = u32::try_from(time.tv_usec).ok()?;
    Duration::from_secs(u64::try_from(time.tv_sec).ok()?).checked_add(Duration::from_micros(micros.into()))
}
