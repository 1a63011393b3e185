//! The results of the tasks of `timers`: a time for each task, and a count of the tasks that are not done.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::report::Report;
use crate::samples::{Samples, ms};

/// A slot for each task, and the number of tasks that are not done.
pub struct Countdown {
    slots_ns: Vec<AtomicU64>,
    left: AtomicUsize,
}

impl Countdown {
    /// Makes a countdown of `n` tasks.
    pub fn new(n: usize) -> Countdown {
        Countdown { slots_ns: (0..n).map(|_| AtomicU64::new(0)).collect(), left: AtomicUsize::new(n) }
    }

    /// Records the time of task `i`, which is now done. Returns `true` for the last task, which must wake the
    /// body.
    pub fn done(&self, i: usize, time_ns: u64) -> bool {
        let before = self.slots_ns[i].swap(time_ns, Ordering::Relaxed);
        assert_eq!(before, 0, "task {i} was done twice");
        // AcqRel: a thread that sees 0 (here, or in `is_over` by its Acquire) sees all the slots.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// True if all tasks are done.
    pub fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Adds the figures of all times, and the wall time. Panics if a time is shorter than `least`.
    pub fn report(&self, report: &mut Report, least: Duration, wall: Duration) {
        let samples = self.samples(least.as_nanos() as u64);
        report.number("mean_ms", samples.mean_ns() / 1e6);
        report.number("p50_ms", ms(samples.percentile_ns(50)));
        report.number("p99_ms", ms(samples.percentile_ns(99)));
        report.number("max_ms", ms(samples.max_ns()));
        report.number("wall_ms", wall.as_secs_f64() * 1e3);
    }

    /// Returns all times. Panics if a time is shorter than `least_ns`.
    pub fn samples(&self, least_ns: u64) -> Samples {
        assert!(self.is_over(), "not all tasks are done");
        let samples = Samples::new(self.slots_ns.iter().map(|slot| slot.load(Ordering::Relaxed)).collect());
        assert!(samples.min_ns() >= least_ns, "a timer of {least_ns} ns fired after {} ns", samples.min_ns());
        samples
    }
}
