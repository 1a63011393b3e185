//! `poll`, `ppoll`, `select`, `epoll_wait`: a look that does not wait comes first; then the caller parks
//! until one of the descriptors is ready, and looks again.

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use libc::{c_void, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use sched::foreign::End;
use timers::clock;

use super::process::{self, blocking};
use super::raw::{call, repeat_interrupted};
use super::wait::{of_interruption, wait};
use super::{cancellation_point, error, finish};

const NO_TIME: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

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

/// `ppoll` with a signal mask. Only the kernel sets a mask and waits in one step, and the mask is that of the
/// OS thread, where no other green thread may run meanwhile. So the call is the system's, and a green thread
/// keeps its OS thread for it, as in `blocking`.
///
/// # Safety
/// `fds` and `count` are those of `poll`.
#[cold]
unsafe fn poll_masked(fds: *mut pollfd, count: nfds_t, time: Option<Duration>, mut mask: u64) -> isize {
    // SAFETY: the caller's arguments.
    let system = |time, mask| unsafe { system(fds, count, time, Some(mask)) };
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
fn left(until: u64) -> Option<Duration> {
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
fn look_and_wait(
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

/// libc's `select`; parks a green thread. Leaves in `time` what is left of it.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    // SAFETY: the caller's pointer.
    let limit = match unsafe { time.as_ref() }.map(duration_of_timeval) {
        None => None,
        Some(Some(limit)) => Some(limit),
        Some(None) => return finish(error(libc::EINVAL)) as c_int,
    };
    let sets = [read, write, except];
    // SAFETY: the caller's sets, and a time that lives until the call returns.
    let look = |limit: *mut timespec| unsafe {
        let [read, write, except] = sets;
        call!(libc::SYS_pselect6, count, read, write, except, limit, ptr::null::<c_void>())
    };
    let until = limit.map_or(clock::NEVER, clock::after);
    let block = || look(left(until).map(timespec_of).as_mut().map_or(ptr::null_mut(), ptr::from_mut));
    let result = if !sched::foreign::is_user_code() {
        block()
    } else if limit == Some(Duration::ZERO) {
        // The kernel leaves the sets as they are when it returns an error.
        repeat_interrupted(|| look(&mut { NO_TIME }))
    } else {
        // SAFETY: the caller's sets.
        unsafe { select_parking(count, sets, until, look, block) }
    };
    // SAFETY: the caller's pointer.
    if let Some(time) = unsafe { time.as_mut() } {
        let left = Duration::from_nanos(until.saturating_sub(clock::now()));
        time.tv_sec = left.as_secs() as _;
        time.tv_usec = left.subsec_micros() as _;
    }
    finish(result) as c_int
}

/// # Safety
/// The arguments are those of `select`.
unsafe fn select_parking(
    count: c_int,
    sets: [*mut fd_set; 3],
    until: u64,
    look: impl Fn(*mut timespec) -> isize,
    block: impl FnOnce() -> isize,
) -> isize {
    // The kernel reads and writes whole words up to the highest descriptor.
    let words = usize::try_from(count).unwrap_or(0).div_ceil(usize::BITS as usize);
    let wanted = sets.map(|set| {
        let set = set.cast::<usize>();
        // SAFETY: the caller's sets have `count` bits.
        (0..words).map(|at| if set.is_null() { 0 } else { unsafe { set.add(at).read_unaligned() } }).collect()
    });
    let restore = || {
        for (set, wanted) in sets.iter().zip(&wanted) {
            let set = set.cast::<usize>();
            let wanted: &Vec<usize> = wanted;
            // SAFETY: as above.
            (0..words)
                .filter(|_| !set.is_null())
                .for_each(|at| unsafe { set.add(at).write_unaligned(wanted[at]) });
        }
    };
    let look_anew = || {
        restore();
        repeat_interrupted(|| look(&mut { NO_TIME }))
    };
    let block = || {
        restore();
        block()
    };
    look_and_wait(until, look_anew, || interests_of(count, &wanted), block)
}

/// Returns the descriptors of the three sets of `select`, and what it waits for.
fn interests_of(count: c_int, sets: &[Vec<usize>; 3]) -> Vec<(c_int, u32)> {
    const EVENTS: [c_int; 3] = [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLPRI];
    let bits = usize::BITS as usize;
    let events_of = |fd: usize| {
        let in_set = |set: &Vec<usize>| set[fd / bits] >> (fd % bits) & 1 == 1;
        sets.iter().zip(EVENTS).filter(|(set, _)| in_set(set)).fold(0, |all, (_, event)| all | event as u32)
    };
    (0..usize::try_from(count).unwrap_or(0))
        .map(|fd| (fd as c_int, events_of(fd)))
        .filter(|&(_, events)| events != 0)
        .collect()
}

/// Returns the duration; `None` if it is none.
pub(super) fn duration(time: &timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

fn duration_of_timeval(time: &timeval) -> Option<Duration> {
    let micros = u64::try_from(time.tv_usec).ok()?;
    Duration::from_secs(u64::try_from(time.tv_sec).ok()?).checked_add(Duration::from_micros(micros))
}

/// The opposite of [`duration`].
pub(super) fn timespec_of(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX) as _, tv_nsec: time.subsec_nanos() as _ }
}
