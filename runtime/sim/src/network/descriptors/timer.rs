//! `timerfd_create`, `timerfd_settime`, `timerfd_gettime`.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::SystemTime;

use libc::{clockid_t, itimerspec, timespec};
use sched::simulation::node;

use super::super::timer::Timer;
use super::description::{Description, Done, What};
use super::event::make;
use super::number::{network_of_user, number, on_any, raw};
use super::open::escape;

const NS_PER_S: u64 = 1_000_000_000;

/// `timerfd_create`. Returns `None` outside of a simulation.
#[must_use]
pub fn timerfd_create(clock: clockid_t, flags: c_int) -> Option<isize> {
    let network = network_of_user()?;
    let is_known = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME);
    if !is_known || flags & !(libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) != 0 {
        return Some(raw(Err(libc::EINVAL)));
    }
    let made = make(&network, What::Timer(clock), |state, node| state.add_timer(node));
    // The flags are those of sockets.
    Some(raw(made.and_then(|made| number(made, flags))))
}

/// `timerfd_settime`.
///
/// # Safety
/// As libc's.
pub unsafe fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> Option<isize> {
    on_any(fd, |of| {
        // SAFETY: the caller's time.
        let new = unsafe { new.as_ref() }.ok_or(libc::EFAULT)?;
        let (first, interval) = (ns(&new.it_value)?, ns(&new.it_interval)?);
        let What::Timer(clock) = of.what else { return Err(libc::EINVAL) };
        if flags & !(libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET) != 0 {
            return Err(libc::EINVAL);
        }
        let is_absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
        let by_date = is_absolute && clock == libc::CLOCK_REALTIME;
        // Of other timers the flag has no effect.
        if by_date && flags & libc::TFD_TIMER_CANCEL_ON_SET != 0 {
            return Err(escape("a timerfd with TFD_TIMER_CANCEL_ON_SET", libc::EINVAL));
        }
        let now = of.network.now_on(node());
        let from = match (is_absolute, by_date) {
            (_, true) => date(),
            (true, false) => now,
            (false, false) => 0,
        };
        let next = (first > 0).then(|| i128::from(now) + i128::from(first) - i128::from(from));
        let new = Timer::new(next, interval, by_date);
        let before = of.open_or(libc::EBADF)?.with(|state, id| state.set_timer(id, new))?;
        // SAFETY: the caller's place.
        unsafe { old.as_mut() }.into_iter().for_each(|old| *old = spec(before));
        Ok(0)
    })
}

/// `timerfd_gettime`.
///
/// # Safety
/// As libc's.
pub unsafe fn timerfd_gettime(fd: c_int, to: *mut itimerspec) -> Option<isize> {
    on_any(fd, |of: &Arc<Description>| -> Done {
        if !matches!(of.what, What::Timer(_)) {
            return Err(libc::EINVAL);
        }
        let left = of.open_or(libc::EBADF)?.with(|state, id| {
            let now = state.now_at(id);
            Ok(state.timer(id)?.left(now))
        })?;
        // SAFETY: the caller's place.
        *unsafe { to.as_mut() }.ok_or(libc::EFAULT)? = spec(left);
        Ok(0)
    })
}

/// Returns the date on the node of the caller, in ns after 1970.
fn date() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn ns(time: &timespec) -> Done<u64> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| libc::EINVAL)?;
    let rest = u64::try_from(time.tv_nsec).ok().filter(|&rest| rest < NS_PER_S).ok_or(libc::EINVAL)?;
    Ok(seconds.saturating_mul(NS_PER_S).saturating_add(rest))
}

fn spec((value, interval): (u64, u64)) -> itimerspec {
    let time = |ns: u64| timespec { tv_sec: (ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ };
    itimerspec { it_value: time(value), it_interval: time(interval) }
}
