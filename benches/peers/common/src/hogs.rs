//! The figures of `hog`, `hog-block` and `hog-crowd`, computed from the ticks.

use std::time::Duration;

use crate::report::Report;
use crate::samples::{Samples, ms};

/// The time that the ticker sleeps.
pub const TICK: Duration = Duration::from_millis(1);

/// A stretch of time, in nanoseconds of one clock.
#[derive(Clone, Copy)]
pub struct Span {
    /// The begin of the stretch.
    pub start_ns: u64,
    /// The end of the stretch.
    pub end_ns: u64,
}

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.start_ns < other.end_ns && other.start_ns < self.end_ns
    }
}

/// Adds the lateness of the ticks that overlap a burst, and the mean time of a hog.
pub fn report(report: &mut Report, ticks: &[Span], bursts: &[Span], hogs_ns: Vec<u64>) {
    report_ticks(report, ticks, bursts);
    report.number("hog_ms", Samples::new(hogs_ns).mean_ns() / 1e6);
}

/// Adds the lateness of the ticks that overlap a burst.
pub fn report_ticks(report: &mut Report, ticks: &[Span], bursts: &[Span]) {
    let hit: Vec<Span> =
        ticks.iter().copied().filter(|tick| bursts.iter().any(|burst| tick.overlaps(*burst))).collect();
    let late = Samples::new(hit.iter().flat_map(|tick| lateness_ns(*tick)).collect());
    report.number("p50_ms", ms(late.percentile_ns(50)));
    report.number("p99_ms", ms(late.percentile_ns(99)));
    report.number("max_ms", ms(late.max_ns()));
    report.count("ticks", hit.len() as u64);
}

/// Returns the lateness of a tick. Also returns the lateness of the ticks that the late tick replaced, each
/// one period shorter.
fn lateness_ns(tick: Span) -> impl Iterator<Item = u64> {
    let period = TICK.as_nanos() as u64;
    let took = tick.end_ns - tick.start_ns;
    let late = took.checked_sub(period).unwrap_or_else(|| panic!("a tick came after {took} ns"));
    let swallowed = std::iter::successors(late.checked_sub(period), move |late| late.checked_sub(period));
    std::iter::once(late).chain(swallowed.filter(|late| *late > 0))
}

#[cfg(test)]
mod tests {
    use super::{Span, lateness_ns};

    #[test]
    fn a_late_tick_stands_for_those_it_swallowed() {
        let late = |ns: u64| lateness_ns(Span { start_ns: 50, end_ns: 50 + ns }).collect::<Vec<_>>();
        assert_eq!(late(1_000_000), [0]);
        assert_eq!(late(1_300_000), [300_000]);
        assert_eq!(late(4_200_000), [3_200_000, 2_200_000, 1_200_000, 200_000]);
        assert_eq!(late(3_000_000), [2_000_000, 1_000_000]);
    }

    #[test]
    fn only_what_has_a_moment_in_common_overlaps() {
        let span = |start_ns, end_ns| Span { start_ns, end_ns };
        assert!(span(0, 10).overlaps(span(9, 20)));
        assert!(span(5, 6).overlaps(span(0, 20)));
        assert!(!span(0, 10).overlaps(span(10, 20)));
    }
}
