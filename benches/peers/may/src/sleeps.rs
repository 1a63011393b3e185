//! `sleep-precision` and `sleep-loaded`: the lateness of sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use may::{coroutine, go};
use peer_common::args::Args;
use peer_common::load::spin;
use peer_common::report::Report;
use peer_common::samples::Samples;

pub(crate) fn precision(mut args: Args) -> Report {
    let reps = args.count("reps", 1_000);
    let mut report = args.end();
    for time_us in [20, 100, 500, 1_000, 10_000] {
        measure(&mut report, time_us, reps);
    }
    report
}

pub(crate) fn loaded(mut args: Args) -> Report {
    let reps = args.count("reps", 1_000);
    let busy = args.count("busy", 2);
    let mut report = args.end();
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..busy)
        .map(|_| {
            let over = Arc::clone(&over);
            go!(move || {
                while !over.load(Ordering::Relaxed) {
                    spin(Duration::from_micros(50));
                    coroutine::yield_now();
                }
            })
        })
        .collect();
    for time_us in [1_000, 10_000] {
        measure(&mut report, time_us, reps);
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.join().expect("a busy task ends");
    }
    report
}

fn measure(report: &mut Report, time_us: u64, reps: usize) {
    let time = Duration::from_micros(time_us);
    let over: Vec<u64> = (0..reps)
        .map(|_| {
            let start = Instant::now();
            coroutine::sleep(time);
            let over = start.elapsed().checked_sub(time).expect("no sleep ends early");
            over.as_nanos() as u64
        })
        .collect();
    Samples::new(over).report_overshoot(report, time_us);
}
