//! `select` and `pselect`, as `poll.rs`. The kernel writes what it finds over what the caller asks for. So
//! each further look begins with the caller's sets again.

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use libc::{fd_set, sigset_t, timespec, timeval};
use timers::clock;

use super::poll::{duration, left, look_and_wait, timespec_of, wait_masked};
use super::raw::{call, repeat_interrupted};
use super::{error, finish};

/// The kernel reads and writes whole words of a set.
const BITS: usize = usize::BITS as usize;

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
    let until = limit.map_or(clock::NEVER, clock::after);
    // SAFETY: the caller's sets.
    let result = unsafe { select_until(count, [read, write, except], limit, until) };
    // SAFETY: the caller's pointer.
    if let Some(time) = unsafe { time.as_mut() } {
        let left = Duration::from_nanos(until.saturating_sub(clock::now()));
        time.tv_sec = left.as_secs() as _;
        time.tv_usec = left.subsec_micros() as _;
    }
    finish(result) as c_int
}

/// libc's `pselect`; parks a green thread, unless it is to wait with a signal mask.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's pointer.
    let limit = match unsafe { time.as_ref() }.map(duration) {
        None => None,
        Some(Some(limit)) => Some(limit),
        Some(None) => return finish(error(libc::EINVAL)) as c_int,
    };
    let sets = [read, write, except];
    // SAFETY: the caller's pointer.
    finish(match unsafe { mask.cast::<u64>().as_ref() } {
        // SAFETY: the caller's sets.
        None => unsafe { select_until(count, sets, limit, limit.map_or(clock::NEVER, clock::after)) },
        Some(&mask) => {
            // SAFETY: the caller's sets.
            let asked = unsafe { Asked::new(count, sets) };
            wait_masked(limit, mask, |time, mask| asked.look_anew(time, Some(mask)))
        }
    }) as c_int
}

/// Waits until `until`, which is `limit` from now.
///
/// # Safety
/// The sets are null or have `count` bits.
unsafe fn select_until(count: c_int, sets: [*mut fd_set; 3], limit: Option<Duration>, until: u64) -> isize {
    // SAFETY: the caller's sets.
    let system = |time| unsafe { system(count, sets, time, None) };
    if !sched::foreign::is_user_code() {
        return system(limit);
    }
    if limit == Some(Duration::ZERO) {
        // The kernel leaves the sets as they are when it returns an error.
        return repeat_interrupted(|| system(limit));
    }
    // SAFETY: the caller's sets.
    let asked = unsafe { Asked::new(count, sets) };
    let look = || repeat_interrupted(|| asked.look_anew(Some(Duration::ZERO), None));
    look_and_wait(until, look, || asked.interests(), || asked.look_anew(left(until), None))
}

/// Makes the system call, which may block.
///
/// # Safety
/// The sets are null or have `count` bits.
unsafe fn system(count: c_int, sets: [*mut fd_set; 3], time: Option<Duration>, mask: Option<&u64>) -> isize {
    let mut time = time.map(timespec_of);
    let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let mask = SizedMask(mask.map_or(ptr::null(), ptr::from_ref), size_of::<u64>());
    let [read, write, except] = sets;
    // SAFETY: the caller's sets; the time and the mask live until the call returns.
    unsafe { call!(libc::SYS_pselect6, count, read, write, except, time, &raw const mask) }
}

/// A mask of signals, or null, and its size: the system call has room for one pointer to both.
#[repr(C)]
struct SizedMask(*const u64, usize);

/// The sets of a call, and what the caller has put there.
struct Asked {
    count: c_int,
    sets: [*mut fd_set; 3],
    words: [Vec<usize>; 3],
}

impl Asked {
    /// # Safety
    /// The sets are null or have `count` bits, as long as this lives.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Self {
        let words = usize::try_from(count).unwrap_or(0).div_ceil(BITS);
        let words = sets.map(|set| {
            let set = set.cast::<usize>();
            if set.is_null() {
                return vec![0; words];
            }
            // SAFETY: this contract.
            (0..words).map(|at| unsafe { set.add(at).read_unaligned() }).collect()
        });
        Asked { count, sets, words }
    }

    /// Makes the system call with what the caller has asked for.
    fn look_anew(&self, time: Option<Duration>, mask: Option<&u64>) -> isize {
        for (set, words) in self.sets.iter().zip(&self.words).filter(|(set, _)| !set.is_null()) {
            let set = set.cast::<usize>();
            // SAFETY: by the contract of `new` the set has these words.
            words.iter().enumerate().for_each(|(at, word)| unsafe { set.add(at).write_unaligned(*word) });
        }
        // SAFETY: by the contract of `new`.
        unsafe { system(self.count, self.sets, time, mask) }
    }

    /// Returns the descriptors, and what the caller waits for on each.
    fn interests(&self) -> Vec<(c_int, u32)> {
        const EVENTS: [c_int; 3] = [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLPRI];
        let events_of = |fd: usize| {
            let is_in = |set: &Vec<usize>| set[fd / BITS] >> (fd % BITS) & 1 == 1;
            self.words
                .iter()
                .zip(EVENTS)
                .filter(|(set, _)| is_in(set))
                .fold(0, |all, (_, event)| all | event as u32)
        };
        (0..usize::try_from(self.count).unwrap_or(0))
            .map(|fd| (fd as c_int, events_of(fd)))
            .filter(|&(_, events)| events != 0)
            .collect()
    }
}

fn duration_of_timeval(time: &timeval) -> Option<Duration> {
    let micros = u64::try_from(time.tv_usec).ok()?;
    Duration::from_secs(u64::try_from(time.tv_sec).ok()?).checked_add(Duration::from_micros(micros))
}
