//! A ticker: a green thread that sleeps a millisecond in a loop. Measures how late each tick is, and its
//! cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peer_common::load::spin;
use peer_common::samples::{Samples, us};

use crate::designs::Timers;
use crate::measure::{Figures, Span};

const TICK: Duration = Duration::from_millis(1);
/// The time that a busy green thread computes between two yields.
const SPIN: Duration = Duration::from_micros(50);
/// The time of ticking before the measurement.
const SETTLE: Duration = Duration::from_millis(20);

pub(super) fn run<T: Timers>(timers: &Arc<T>, busy: usize, time: Duration) -> Figures {
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..busy)
        .map(|_| {
            let over = Arc::clone(&over);
            runtime::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    spin(SPIN);
                    runtime::yield_now();
                }
            })
        })
        .collect();
    tick(&**timers, SETTLE);
    let span = Span::begin();
    let late_ns = tick(&**timers, time);
    let spent = span.end();
    over.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().expect("a busy green thread does not panic"));

    let ticks = late_ns.len() as u64;
    let late = Samples::new(late_ns);
    let mut costs = spent.per(ticks);
    if busy > 0 {
        // This figure is the processor time of the busy green threads.
        costs.0.retain(|(name, _)| *name != "CPU, µs a timer");
    }
    Figures(vec![
        ("late p50, µs", us(late.percentile_ns(50))),
        ("late p99, µs", us(late.percentile_ns(99))),
        ("late max, µs", us(late.max_ns())),
    ])
    .and(costs)
}

/// Ticks for `time`, but at least once. Returns how late each sleep ended.
fn tick<T: Timers>(timers: &T, time: Duration) -> Vec<u64> {
    let begin = Instant::now();
    let mut late_ns = Vec::with_capacity((time.as_micros() / TICK.as_micros()) as usize + 1);
    loop {
        let start = Instant::now();
        timers.sleep(TICK);
        let late = start.elapsed().checked_sub(TICK).expect("no sleep is too short");
        late_ns.push(late.as_nanos() as u64);
        if begin.elapsed() >= time {
            return late_ns;
        }
    }
}
