//! The clock of the timers: nanoseconds of monotonic time since this process first used the clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(portable))))]
#[path = "clock/elsewhere.rs"]
mod sys;
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(portable)))]
#[path = "clock/linux.rs"]
mod sys;

use sys::Beginning;

/// The time that never comes. A timer armed for this time stays in its heap and never fires; no thread is
/// woken for it.
pub const NEVER: u64 = u64::MAX;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Returns the present time in nanoseconds. The time never goes back; it reaches its end after 585 years.
// Inlined, it made the bench that creates and cancels timers with channels slower by a sixth.
#[inline(never)]
pub fn now() -> u64 {
    beginning().elapsed()
}

/// Returns the time `delay` from now; [`NEVER`] if 64 bits cannot hold that time.
#[inline]
pub fn after(delay: Duration) -> u64 {
    now().saturating_add(nanos(delay))
}

/// Returns the time of `instant`. Returns 0, which is due at once, if `instant` is before the clock's
/// beginning, and [`NEVER`] if 64 bits cannot hold that time.
pub fn at(instant: Instant) -> u64 {
    instant.checked_duration_since(base()).map_or(0, nanos)
}

/// Returns the instant of a time. If the system cannot hold that instant, returns one thirty years after the
/// clock's beginning.
pub fn instant(time: u64) -> Instant {
    let far = Duration::from_secs(30 * 365 * 24 * 3600);
    base().checked_add(Duration::from_nanos(time)).unwrap_or_else(|| base() + far)
}

#[inline]
fn beginning() -> &'static Beginning {
    static BEGINNING: OnceLock<Beginning> = OnceLock::new();
    BEGINNING.get_or_init(Beginning::new)
}

fn base() -> Instant {
    beginning().instant()
}

/// Returns the nanoseconds of a duration between two readings, which 64 bits can hold.
fn in_nanos(elapsed: Duration) -> u64 {
    elapsed.as_secs() * NANOS_PER_SECOND + u64::from(elapsed.subsec_nanos())
}

/// As `in_nanos`, for any duration: [`NEVER`] if 64 bits cannot hold it.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_overflows_is_never() {
        assert_eq!(after(Duration::MAX), NEVER);
        assert_eq!(nanos(Duration::from_secs(u64::MAX / NANOS_PER_SECOND + 1)), NEVER);
        assert_eq!(
            nanos(Duration::from_nanos(NEVER - 1)),
            NEVER - 1,
            "the last nanosecond before NEVER is a real time"
        );
    }

    #[test]
    fn an_instant_and_a_delay_name_the_same_time() {
        let (low, instant, high) = (now(), Instant::now(), now());
        assert!((low..=high).contains(&at(instant)));
        let later = at(instant + Duration::from_secs(3600));
        assert_eq!(later - at(instant), 3600 * NANOS_PER_SECOND);
    }

    #[test]
    fn a_time_is_that_of_its_instant() {
        // After the clock's beginning.
        let instant = base() + Duration::from_nanos(12_345);
        assert_eq!(super::instant(at(instant)), instant);
        assert!(super::instant(NEVER) > instant + Duration::from_secs(3600), "it comes late, and has a name");
    }

    #[test]
    fn an_instant_before_the_beginning_is_due_at_once() {
        let base = base();
        if let Some(past) = base.checked_sub(Duration::from_nanos(1)) {
            assert_eq!(at(past), 0);
        }
        assert_eq!(at(base), 0);
    }

    #[test]
    fn now_does_not_go_back() {
        let mut last = now();
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            let next = now();
            assert!(next >= last);
            last = next;
        }
    }
}
