//! When to read the clock: a cheap counter tells the holder of a P that no timer can be due yet.
//!
//! Reading the clock each round of `schedule` costs more than everything else in a yield. The processor's own
//! counter costs a third of it, so the gate turns the next deadline into a counter value. It never decides that a
//! timer fires, only that it is not worth looking: at most a thousandth of a second passes without a look.

use std::cell::Cell;
use std::sync::OnceLock;

use timers::clock;

use crate::sys;

/// The longest time without a look at the clock.
const LONGEST_NS: u64 = 1_000_000;
/// The rate of the counter is known well enough after this long.
const CALIBRATION_NS: u64 = 10_000_000;

static START: OnceLock<Option<Start>> = OnceLock::new();

struct Start {
    ticks: u64,
    ns: u64,
}

fn start() -> Option<&'static Start> {
    START.get_or_init(|| sys::steady_ticks().map(|ticks| Start { ticks, ns: clock::now() })).as_ref()
}

/// The gate of one P.
pub(crate) struct Gate {
    /// The deadline that `until` stands for.
    when: Cell<u64>,
    /// No need to look before the counter reads this.
    until: Cell<u64>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        start();
        Gate { when: Cell::new(clock::NEVER), until: Cell::new(0) }
    }

    /// True if a timer that is due at `when` cannot be due yet.
    #[inline]
    pub(crate) fn is_shut(&self, when: u64) -> bool {
        when == self.when.get() && sys::ticks() < self.until.get()
    }

    /// It is `now`, and the next timer is due at `when`.
    pub(crate) fn shut(&self, now: u64, when: u64) {
        let Some(start) = start() else { return };
        let (ticks, elapsed) = (sys::ticks(), now.saturating_sub(start.ns));
        if elapsed < CALIBRATION_NS {
            return;
        }
        self.when.set(when);
        self.until
            .set(ticks + quiet_ticks(ticks.wrapping_sub(start.ticks), elapsed, when.saturating_sub(now)));
    }
}

/// For how many ticks there is no need to look, when the counter has made `ticks` in `elapsed` ns and the next
/// deadline is `ahead` ns off. One part in 64 early, so that a drifting counter makes nothing late.
fn quiet_ticks(ticks: u64, elapsed: u64, ahead: u64) -> u64 {
    let ahead = ahead.min(LONGEST_NS);
    let exact = u128::from(ticks) * u128::from(ahead - ahead / 64) / u128::from(elapsed);
    exact as u64
}

#[cfg(test)]
mod tests {
    use super::quiet_ticks;

    #[test]
    fn the_gate_opens_a_little_early_and_at_the_latest_after_a_millisecond() {
        // 3 ticks a nanosecond.
        assert_eq!(quiet_ticks(300, 100, 64_000), 3 * 63_000);
        assert_eq!(quiet_ticks(300, 100, u64::MAX), quiet_ticks(300, 100, 1_000_000));
        assert_eq!(quiet_ticks(300, 100, 0), 0);
    }
}
