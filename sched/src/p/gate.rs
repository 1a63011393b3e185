//! The clock gate of one P: a cheap test that no timer can be due yet, so that the holder need not read the
//! clock.
//!
//! Reading the clock in each round of `schedule` costs more than the rest of a yield. The processor's own
//! counter costs a third of that, so the gate turns the next deadline into a number of ticks. The gate only
//! saves looks at the clock; it never decides that a timer fires. At most one millisecond passes without a
//! look.
//!
//! The counter may go back or jump, although the processor calls it invariant. It does so after a suspend, a
//! restore of the process, or a migration of the virtual machine. Two rules keep timers on time then:
//!
//! - *The gate is shut for a span of ticks, not until a value.* A counter that leaves the span on either side
//!   opens the gate.
//! - *The gate uses a pace only while the latest span confirms it.* A span that contradicts the pace opens
//!   the gate, and the gate measures the counter anew.

use std::cell::Cell;
use std::sync::OnceLock;

use timers::clock;

use crate::sys;

/// The longest time without a look at the clock.
const LONGEST_NS: u64 = 1_000_000;
/// The pace of the counter counts as known after this long.
const CALIBRATION_NS: u64 = 10_000_000;
/// A shorter span is not judged: it is imprecise, and judging costs more than a look at the clock.
const JUDGED_NS: u64 = 500_000;
/// A time up to `LONGEST_NS` has fewer bits.
const FACTOR_BITS: u32 = 20;
/// A span contradicts the pace if the two differ by more than one part in this many.
const TOLERANCE: u128 = 32;

/// The counter and the clock, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    ticks: u64,
    pub(crate) ns: u64,
}

/// The pace of the counter: this many ticks in this many nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    ticks: u64,
    ns: u64,
}

impl Reading {
    /// Reads the counter before the clock: if the thread is interrupted in between, its gate opens too early,
    /// not too late.
    pub(crate) fn now() -> Reading {
        let ticks = sys::ticks();
        Reading { ticks, ns: clock::now() }
    }

    /// Returns the pace since `earlier`; `None` if the counter went back.
    fn pace_since(self, earlier: Reading) -> Option<Pace> {
        let ticks = self.ticks.checked_sub(earlier.ticks)?;
        Some(Pace { ticks, ns: self.ns.saturating_sub(earlier.ns) })
    }
}

impl Pace {
    /// Returns `true` if the two paces differ by no more than the tolerance.
    fn agrees_with(self, other: Pace) -> bool {
        let (mine, others) =
            (u128::from(self.ticks) * u128::from(other.ns), u128::from(other.ticks) * u128::from(self.ns));
        mine.abs_diff(others) <= mine.max(others) / TOLERANCE
    }

    /// Returns for how many ticks no look is needed when the next deadline is `ahead` ns away. The result is
    /// one part in 64 short, so that a drifting counter makes no timer late.
    fn quiet_ticks(self, ahead: u64) -> u64 {
        const { assert!(LONGEST_NS < 1 << FACTOR_BITS) };
        let ahead = ahead.min(LONGEST_NS);
        // The product has 64 bits: a division of 128 bits is a call of the compiler's library. Of a long
        // measurement the low bits do not count.
        let excess = FACTOR_BITS.saturating_sub(self.ticks.leading_zeros());
        (self.ticks >> excess) * (ahead - ahead / 64) / (self.ns >> excess).max(1)
    }
}

/// The gate of one P.
pub(crate) struct Gate {
    /// The deadline for which the span was computed.
    when: Cell<u64>,
    /// The gate is shut while the counter is within `span` ticks of this value.
    since: Cell<u64>,
    /// 0: the gate is open.
    span: Cell<u64>,
    /// Where the measurement of the pace began.
    first: Cell<Reading>,
    /// Until here the counter has kept one pace.
    last: Cell<Reading>,
    /// The pace between `first` and a later reading that still later readings have confirmed.
    pace: Cell<Option<Pace>>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let now = Reading::now();
        Gate {
            when: Cell::new(clock::NEVER),
            since: Cell::new(0),
            span: Cell::new(0),
            first: Cell::new(now),
            last: Cell::new(now),
            pace: Cell::new(None),
        }
    }

    /// Returns `true` if a timer that is due at `when` cannot be due yet.
    #[inline]
    pub(crate) fn is_shut(&self, when: u64) -> bool {
        self.is_shut_at(sys::ticks(), when)
    }

    #[inline]
    fn is_shut_at(&self, ticks: u64, when: u64) -> bool {
        when == self.when.get() && ticks.wrapping_sub(self.since.get()) < self.span.get()
    }

    /// Opens the gate: the holder looks at the timers in its next round.
    pub(crate) fn open(&self) {
        self.span.set(0);
    }

    /// Shuts the gate at the moment `now`; the next timer is due at `when`. The gate stays open while the
    /// pace of the counter is unknown.
    pub(crate) fn shut(&self, now: Reading, when: u64) {
        self.open();
        if !counter_is_steady() {
            return;
        }
        self.judge(now);
        if let Some(pace) = self.pace.get() {
            self.when.set(when);
            self.since.set(now.ticks);
            self.span.set(pace.quiet_ticks(when.saturating_sub(now.ns)));
        }
    }

    /// Compares the span since the last judged reading with the pace before that reading.
    fn judge(&self, now: Reading) {
        let (first, last) = (self.first.get(), self.last.get());
        let Some(latest) = now.pace_since(last) else { return self.measure_anew(now) };
        if latest.ns < JUDGED_NS {
            return;
        }
        // `last` is never before `first`, by the clock or by the counter: a reading becomes `last` only after
        // `pace_since`.
        debug_assert!(first.ns <= last.ns && first.ticks <= last.ticks);
        let known = Pace { ticks: last.ticks - first.ticks, ns: last.ns - first.ns };
        if known.ns >= CALIBRATION_NS {
            if !known.agrees_with(latest) {
                return self.measure_anew(now);
            }
            self.pace.set(Some(known));
        }
        self.last.set(now);
    }

    /// Forgets the pace and starts a new measurement, because the counter went back or jumped.
    #[cold]
    fn measure_anew(&self, now: Reading) {
        self.first.set(now);
        self.last.set(now);
        self.pace.set(None);
    }
}

/// Returns `true` if the processor's counter does not follow the processor's frequency.
fn counter_is_steady() -> bool {
    static STEADY: OnceLock<bool> = OnceLock::new();
    *STEADY.get_or_init(|| sys::steady_ticks().is_some())
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(portable)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const MS: u64 = 1_000_000;

    /// A counter of three ticks a nanosecond that can be made to jump.
    struct Counter {
        ns: u64,
        ticks: u64,
    }

    impl Counter {
        fn passes(&mut self, ns: u64) -> Reading {
            self.ns += ns;
            self.ticks = self.ticks.wrapping_add(3 * ns);
            Reading { ticks: self.ticks, ns: self.ns }
        }
    }

    /// A gate with a known pace, shut for a timer that is due in a second.
    fn shut_gate() -> (Gate, Counter, u64) {
        let gate = Gate::new();
        let mut counter = Counter { ns: 5 * MS, ticks: 1 << 40 };
        gate.measure_anew(counter.passes(0));
        let when = counter.ns + 1_000 * MS;
        (0..30).for_each(|_| gate.shut(counter.passes(MS / 2), when));
        assert!(gate.is_shut_at(counter.ticks, when));
        (gate, counter, when)
    }

    #[test]
    fn the_gate_opens_a_little_early_and_at_the_latest_after_a_millisecond() {
        let three = Pace { ticks: 300, ns: 100 };
        assert_eq!(three.quiet_ticks(64_000), 3 * 63_000);
        assert_eq!(three.quiet_ticks(u64::MAX), three.quiet_ticks(MS));
        assert_eq!(three.quiet_ticks(0), 0);
        // After 36 years, and with numbers that no counter has.
        assert_eq!(Pace { ticks: 3 << 60, ns: 1 << 60 }.quiet_ticks(64_000), 3 * 63_000);
        assert!(Pace { ticks: u64::MAX, ns: 1 }.quiet_ticks(u64::MAX) > 1 << 62);
        if counter_is_steady() {
            let (gate, mut counter, when) = shut_gate();
            assert!(gate.is_shut_at(counter.passes(MS / 2).ticks, when));
            assert!(!gate.is_shut_at(counter.ticks, when - 1), "shut for another deadline");
            assert!(!gate.is_shut_at(counter.passes(MS / 2).ticks, when));
        }
    }

    /// The counter of this processor itself serves: without it every look at the timers reads the clock.
    #[test]
    fn the_gate_shuts_once_the_pace_of_the_counter_is_known() {
        if !counter_is_steady() {
            return;
        }
        let (gate, when) = (Gate::new(), clock::now() + 3_600_000 * MS);
        let start = Instant::now();
        while !gate.is_shut(when) {
            assert!(start.elapsed() < Duration::from_secs(20), "the gate stays open: {:?}", Reading::now());
            std::thread::sleep(Duration::from_micros(700));
            gate.shut(Reading::now(), when);
        }
    }

    #[test]
    fn a_counter_that_goes_back_or_jumps_opens_the_gate_and_is_measured_anew() {
        if !counter_is_steady() {
            return;
        }
        let jumps =
            [1_u64.wrapping_neg(), (3 * MS).wrapping_neg(), (1_u64 << 39).wrapping_neg(), 30 * MS, 1 << 50];
        for jump in jumps {
            let (gate, mut counter, when) = shut_gate();
            counter.ticks = counter.ticks.wrapping_add(jump);
            assert!(!gate.is_shut_at(counter.ticks, when), "shut after a jump of {jump:#x}");
            // From the next reading on, and as soon as the gate is shut again, it is shut for a millisecond
            // at most.
            let mut shut = 0;
            for _ in 0..100 {
                let now = counter.passes(MS / 2);
                gate.shut(now, when);
                shut += u64::from(gate.is_shut_at(now.ticks, when));
                assert!(gate.span.get() <= 3 * MS + 3 * MS / 16, "{} ticks after {jump:#x}", gate.span.get());
            }
            assert!((50..=100).contains(&shut), "shut {shut} times after {jump:#x}");
        }
    }

    /// After a migration the counter may have another pace for good.
    #[test]
    fn a_counter_that_changes_its_pace_is_measured_anew() {
        if !counter_is_steady() {
            return;
        }
        let (gate, mut counter, when) = shut_gate();
        for i in 0..100 {
            counter.passes(MS / 2);
            counter.ticks -= MS;
            let now = Reading { ticks: counter.ticks, ns: counter.ns };
            gate.shut(now, when);
            let span = gate.span.get();
            assert!(
                span <= MS + MS / 32,
                "shut for {span} ticks, of which a millisecond has a million, look {i}"
            );
        }
        assert!(gate.span.get() > 0, "the gate stayed open");
    }
}
