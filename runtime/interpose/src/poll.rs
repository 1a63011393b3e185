//! `poll`, `ppoll`, `epoll_wait`: a look that does not wait comes first; then the caller parks until one of
//! the descriptors is ready, and looks again.

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use libc::{c_void, epoll_event, nfds_t, pollfd, sigset_t, timespec};
use sched::foreign::End;
use timers::clock;

use super::process::{self, blocking};
use super::raw::{call, repeat_interrupted};
use super::wait::{of_interruption, wait};
use super::{cancellation_point, error, finish};

/// libc's `poll`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: the caller's arguments.
    finish(unsafe { poll_for(fds, count, time) }) as c_int
}

/// libc's `ppoll`; parks a green thread, unless it is to wait with a signal mask.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's pointer.
    let time = match unsafe { time.as_ref() }.map(duration) {
        None => None,
        Some(Some(time)) => Some(time),
        Some(None) => return finish(error(libc::EINVAL)) as c_int,
    };
    // SAFETY: the caller's arguments.
    finish(unsafe {
        match mask.cast::<u64>().as_ref() {
            None => poll_for(fds, count, time),
            Some(&mask) => poll_masked(fds, count, time, mask),
        }
    }) as c_int
}

/// Makes the system call, which may block.
///
/// # Safety
/// `fds` and `count` are those of `poll`.
unsafe fn system(fds: *mut pollfd, count: nfds_t, time: Option<Duration>, mask: Option<&u64>) -> isize {
    let mut time = time.map(timespec_of);
    let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let mask = mask.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the caller's array; the time and the mask live until the call returns.
    unsafe { call!(libc::SYS_ppoll, fds, count, time, mask, size_of::<u64>()) }
}

/// # Safety
/// `fds` and `count` are those of `poll`.
#[cold]
unsafe fn poll_masked(fds: *mut pollfd, count: nfds_t, time: Option<Duration>, mask: u64) -> isize {
    // SAFETY: the caller's arguments.
    wait_masked(time, mask, |time, mask| unsafe { system(fds, count, time, Some(mask)) })
}

/// Waits with a signal mask by `system`, which has a time and a mask. Only the kernel sets a mask and waits
/// in one step, and the mask is that of the OS thread, where no other green thread may run meanwhile. So the
/// call is the system's, and a green thread keeps its OS thread for it, as in `blocking`.
pub(super) fn wait_masked(
    time: Option<Duration>,
    mut mask: u64,
    system: impl Fn(Option<Duration>, &u64) -> isize,
) -> isize {
    if !sched::foreign::is_user_code() {
        return system(time, &mask);
    }
    if let Some(signal) = sched::foreign::signal_of_runtime() {
        mask |= 1 << (signal - 1);
    }
    let until = time.map_or(clock::NEVER, clock::after);
    match system(Some(Duration::ZERO), &mask) {
        0 if time != Some(Duration::ZERO) => blocking(|| system(left(until), &mask)),
        found => found,
    }
}

/// Returns the time until `until`; `None` if that is never.
pub(super) fn left(until: u64) -> Option<Duration> {
    (until != clock::NEVER).then(|| Duration::from_nanos(until.saturating_sub(clock::now())))
}

/// # Safety
/// `fds` and `count` are those of `poll`.
unsafe fn poll_for(fds: *mut pollfd, count: nfds_t, time: Option<Duration>) -> isize {
    // SAFETY: the caller's arguments.
    let system = |time| unsafe { system(fds, count, time, None) };
    if !sched::foreign::is_user_code() {
        return system(time);
    }
    let look = || repeat_interrupted(|| system(Some(Duration::ZERO)));
    if time == Some(Duration::ZERO) {
        return look();
    }
    let until = time.map_or(clock::NEVER, clock::after);
    let interests = || {
        let fds = match (fds.is_null(), count as usize) {
            (true, _) => &[],
            // SAFETY: the first look has checked the array.
            (false, count) => unsafe { std::slice::from_raw_parts(fds, count) },
        };
        fds.iter().filter(|look| look.fd >= 0).map(|look| (look.fd, epoll_events(look.events))).collect()
    };
    look_and_wait(until, look, interests, || system(left(until)))
}

/// Looks by `look` until it finds something, and parks in between until one of `interests` is ready, or until
/// `until`. Blocks the OS thread by `block` if the system cannot wait for one of the descriptors.
pub(super) fn look_and_wait(
    until: u64,
    look: impl Fn() -> isize,
    interests: impl FnOnce() -> Vec<(c_int, u32)>,
    block: impl FnOnce() -> isize,
) -> isize {
    cancellation_point();
    let found = look();
    if found != 0 {
        return found;
    }
    let interests = interests();
    loop {
        match wait(&interests, until) {
            End::Again | End::Closed => match look() {
                0 => {}
                found => return found,
            },
            End::TimedOut => return look(),
            End::Refused(_) => return blocking(block),
            end => return of_interruption(end),
        }
    }
}

/// libc's `epoll_wait`; a green thread keeps its OS thread, as in `blocking`: reactors such as tokio's have a
/// context in thread-locals, which other green threads must not meet.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    let none = ptr::null::<c_void>();
    // SAFETY: the caller's arguments.
    let look = |time: c_int| unsafe { call!(libc::SYS_epoll_pwait, epoll, events, most, time, none, 0usize) };
    if milliseconds == 0 || !sched::foreign::is_user_code() {
        return finish(look(milliseconds)) as c_int;
    }
    // Without a P there is nothing to give up for a call that waits.
    let found = if sched::park::has_p() { look(0) } else { 0 };
    finish(match found {
        0 if process::is_own() => sched::park::blocking_for_long(|| look(milliseconds)),
        0 => look(milliseconds),
        found => found,
    }) as c_int
}

/// The bits of `poll` and `epoll` have the same values.
fn epoll_events(events: i16) -> u32 {
    u32::from(events as u16)
}

/// Returns the duration; `None` if it is none.
pub(super) fn duration(time: &timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

/// The opposite of [`duration`].
pub(super) fn timespec_of(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX) as _, tv_nsec: time.subsec_nanos() as _ }
}
