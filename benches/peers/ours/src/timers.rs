//! `timers` and `sleepers-memory`: very many tasks that sleep at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::countdown::Countdown;
use peer_common::process::{bytes_each, rss_bytes};
use peer_common::report::Report;
use runtime::thread;

pub(crate) fn timers(mut args: Args) -> Report {
    let n = args.count("n", 1_000);
    let time = Duration::from_millis(args.number("ms", 10));
    let kind = args.word("kind", &["sleep", "future"]);
    let mut report = args.end();
    let all = Arc::new(Countdown::new(n));
    let body = thread::current();

    let start = Instant::now();
    for i in 0..n {
        let (all, body) = (Arc::clone(&all), body.clone());
        if kind == "future" {
            runtime::spawn(async move {
                let t0 = Instant::now();
                runtime::time::sleep_async(time).await;
                if all.done(i, t0.elapsed().as_nanos() as u64) {
                    body.unpark();
                }
            });
        } else {
            runtime::spawn(move || {
                let t0 = Instant::now();
                runtime::sleep(time);
                if all.done(i, t0.elapsed().as_nanos() as u64) {
                    body.unpark();
                }
            });
        }
    }
    while !all.is_over() {
        thread::park();
    }
    let wall = start.elapsed();

    all.report(&mut report, time, wall);
    report
}

pub(crate) fn sleepers_memory(mut args: Args) -> Report {
    let n = args.count("n", 100_000);
    let time = Duration::from_secs(args.number("secs", 5));
    let kind = args.word("kind", &["closure", "future"]);
    let mut report = args.end();
    let started = Arc::new(AtomicUsize::new(0));
    let before = rss_bytes();

    let start = Instant::now();
    for _ in 0..n {
        let started = Arc::clone(&started);
        if kind == "future" {
            runtime::spawn(async move {
                started.fetch_add(1, Ordering::Relaxed);
                runtime::time::sleep_async(time).await;
            });
        } else {
            runtime::spawn(move || {
                started.fetch_add(1, Ordering::Relaxed);
                runtime::sleep(time);
            });
        }
    }
    let spawned = start.elapsed();
    while started.load(Ordering::Relaxed) < n {
        runtime::sleep(Duration::from_millis(1));
    }
    let all_started = start.elapsed();
    runtime::sleep(Duration::from_millis(200));
    let after = rss_bytes();
    let valid = start.elapsed() < time;

    report.number("bytes_per_task", bytes_each(before, after, n));
    report.number("spawn_ms", spawned.as_secs_f64() * 1e3);
    report.number("started_ms", all_started.as_secs_f64() * 1e3);
    report.flag("valid", valid);
    report
}
