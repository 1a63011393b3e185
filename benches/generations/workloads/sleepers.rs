//! The classic table: many green threads sleep for the same time. Measures how long each green thread has
//! slept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peer_common::countdown::Countdown;
use peer_common::samples::ms;
use runtime::thread;

use crate::designs::Timers;
use crate::measure::{Figures, Span};

pub(super) fn run<T: Timers>(timers: &Arc<T>, n: usize, time: Duration) -> Figures {
    let all = Arc::new(Countdown::new(n));
    let body = thread::current();
    let span = Span::begin();
    for i in 0..n {
        let (timers, all, body) = (Arc::clone(timers), Arc::clone(&all), body.clone());
        runtime::spawn(move || {
            let start = Instant::now();
            timers.sleep(time);
            if all.done(i, start.elapsed().as_nanos() as u64) {
                body.unpark();
            }
        });
    }
    while !all.is_over() {
        thread::park();
    }
    let spent = span.end();

    let samples = all.samples(time.as_nanos() as u64);
    Figures(vec![
        ("mean, ms", samples.mean_ns() / 1e6),
        ("p50, ms", ms(samples.percentile_ns(50))),
        ("p99, ms", ms(samples.percentile_ns(99))),
        ("max, ms", ms(samples.max_ns())),
        ("wall, ms", spent.wall.as_secs_f64() * 1e3),
    ])
    .and(spent.per(n as u64))
}
