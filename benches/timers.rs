//! Sleeping: the time of many simultaneous sleepers, from the first spawn to the last wake; and how late a
//! lone sleeper wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use runtime::thread;

mod support;

const SLEEP: Duration = Duration::from_millis(10);
const SLEEPERS: [(&str, usize); 2] = [("1,000", 1_000), ("100,000", 100_000)];
const LONE_SLEEPS: [(&str, Duration); 3] = [
    ("20 us", Duration::from_micros(20)),
    ("100 us", Duration::from_micros(100)),
    ("1 ms", Duration::from_millis(1)),
];

/// Measures the wall time of a whole round. The ideal is 10 ms.
fn many(c: &mut Criterion) {
    let mut group = c.benchmark_group("timers/sleep 10 ms at once");
    group.sampling_mode(SamplingMode::Flat).sample_size(15);
    for (name, n) in SLEEPERS {
        group.throughput(Throughput::Elements(n as u64));
        support::bench(&mut group, name, 2, |b| b.iter(|| sleep_all(n)));
    }
}

struct Round {
    left: AtomicUsize,
    early: AtomicBool,
    body: thread::Thread,
}

fn sleep_all(n: usize) {
    let round =
        Arc::new(Round { left: AtomicUsize::new(n), early: AtomicBool::new(false), body: thread::current() });
    for _ in 0..n {
        let round = Arc::clone(&round);
        runtime::spawn(move || {
            let start = Instant::now();
            runtime::sleep(SLEEP);
            if start.elapsed() < SLEEP {
                round.early.store(true, Ordering::Relaxed);
            }
            // Release: pairs with the Acquire load below. The body, when it sees 0, sees every store to
            // `early`.
            if round.left.fetch_sub(1, Ordering::Release) == 1 {
                round.body.unpark();
            }
        });
    }
    while round.left.load(Ordering::Acquire) > 0 {
        thread::park();
    }
    assert!(!round.early.load(Ordering::Relaxed), "a sleep ended early");
}

/// Measures the overshoot of a sleep: its duration minus the requested time.
fn overshoot(c: &mut Criterion) {
    let mut group = c.benchmark_group("timers/overshoot of a lone sleep");
    for (name, time) in LONE_SLEEPS {
        support::bench(&mut group, name, 2, |b| {
            b.iter_custom(|iters| (0..iters).map(|_| overshoot_of(time)).sum());
        });
    }
}

fn overshoot_of(time: Duration) -> Duration {
    let start = Instant::now();
    runtime::sleep(time);
    start.elapsed().checked_sub(time).expect("no sleep is too short")
}

criterion_group!(name = timers; config = support::settings(); targets = many, overshoot);
criterion_main!(timers);
