//! Linux of 64 bits: the time by one call of libc. `Instant` makes the same call, and its subtraction costs
//! seven times as many instructions as this one.
//!
//! It is libc's function, as in std, because a simulation answers it in the place of libc.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use super::NANOS_PER_SECOND;

/// The beginning of the timers' clock.
pub(super) struct Beginning {
    instant: Instant,
    /// By the system's clock, in ns. `None` if the clock that [`system`] reads is not the clock of `Instant`.
    system: Option<u64>,
}

impl Beginning {
    pub(super) fn new() -> Beginning {
        let before = system();
        let instant = Instant::now();
        let between = before..=system();
        Beginning { instant, system: since_boot(instant).filter(|time| between.contains(time)) }
    }

    pub(super) fn instant(&self) -> Instant {
        self.instant
    }

    /// Returns how long ago this was, in ns.
    #[inline]
    pub(super) fn elapsed(&self) -> u64 {
        match self.system {
            Some(begun) => system().saturating_sub(begun),
            None => super::in_nanos(self.instant.elapsed()),
        }
    }
}

/// Returns the system's monotonic time in ns: since the machine has started.
#[inline]
fn system() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills `time`, which is its caller's own. It cannot fail: each Linux has this clock.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

/// Returns the system's time of an instant, in ns. Std has no such function. But its first instant is 2^63
/// seconds before the machine's start, and the longest time that can be subtracted shows how far that is.
fn since_boot(instant: Instant) -> Option<u64> {
    let fits = |time: &Duration| instant.checked_sub(*time).is_some();
    let seconds = (0..u64::BITS).rev().map(|bit| Duration::from_secs(1 << bit));
    let nanos = (0..30).rev().map(|bit| Duration::from_nanos(1 << bit));
    let first = seconds
        .chain(nanos)
        .fold(Duration::ZERO, |sum, part| sum.checked_add(part).filter(fits).unwrap_or(sum));
    let since = first.checked_sub(Duration::from_secs(1 << 63))?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_instants_is_the_system_clock() {
        assert!(Beginning::new().system.is_some(), "each reading costs 80 instructions more");
    }

    #[test]
    fn both_ways_return_the_same_time() {
        let quick = Beginning::new();
        let slow = Beginning { instant: quick.instant, system: None };
        for _ in 0..100 {
            let (low, middle, high) = (quick.elapsed(), slow.elapsed(), quick.elapsed());
            assert!((low..=high).contains(&middle), "{low} {middle} {high}");
        }
    }

    #[test]
    fn an_instant_has_its_time_to_the_nanosecond() {
        let one = Instant::now();
        let other = one + Duration::new(3, 999_999_999);
        assert_eq!(since_boot(other).unwrap() - since_boot(one).unwrap(), 3_999_999_999);
    }
}
