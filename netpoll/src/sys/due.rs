//! The time for which an alarm is set, and when that setting serves a later wait.

use std::time::Duration;

const UNSET: u64 = u64::MAX;

/// An earlier alarm at least this far ahead is left as it is. Such an alarm ends at most one wait too early.
/// Until it rings, each wait saves a system call. (A server moves an I/O time-out with each request.)
const LEAVE: Duration = Duration::from_millis(1);

/// When an alarm will ring, by the caller's clock.
pub(super) struct Due(u64);

impl Due {
    /// Returns the value of an alarm that is not set.
    pub(super) fn unset() -> Due {
        Due(UNSET)
    }

    /// Returns `true` if the alarm serves a wait that must end at `until`, `timeout` from now.
    pub(super) fn serves(&self, until: u64, timeout: Duration) -> bool {
        if self.0 >= until {
            return self.0 == until;
        }
        let early = Duration::from_nanos(until - self.0);
        timeout.checked_sub(early).is_some_and(|ahead| ahead >= LEAVE)
    }

    /// Records that the alarm was set for `until`.
    pub(super) fn set(&mut self, until: u64) {
        self.0 = until;
    }

    /// Records that the alarm is not set.
    pub(super) fn clear(&mut self) {
        self.0 = UNSET;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn in_ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn an_alarm_serves_its_own_time_and_not_an_earlier_one() {
        assert!(Due(100).serves(100, Duration::from_nanos(7)));
        assert!(!Due(101).serves(100, in_ms(5)));
        assert!(!Due::unset().serves(100, in_ms(5)));
    }

    #[test]
    fn an_earlier_alarm_is_left_only_while_it_is_far_ahead() {
        // Now is 0; the wait is to end in 9 ms.
        assert!(Due(MS).serves(9 * MS, in_ms(9)));
        assert!(!Due(MS - 1).serves(9 * MS, in_ms(9)));
        // Now is 2 ms: the alarm of 1 ms has passed. It rang unnoticed or was never set.
        assert!(!Due(MS).serves(9 * MS, in_ms(7)));
    }
}
