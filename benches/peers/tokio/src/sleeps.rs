//! `sleep-precision` and `sleep-loaded`: the lateness of sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::load::spin;
use peer_common::report::Report;
use peer_common::samples::Samples;
use tokio::task::yield_now;
use tokio::time::sleep;

pub(crate) async fn precision(mut args: Args) -> Report {
    let reps = args.count("reps", 1_000);
    let mut report = args.end();
    for time_us in [20, 100, 500, 1_000, 10_000] {
        measure(&mut report, time_us, reps).await;
    }
    report
}

pub(crate) async fn loaded(mut args: Args) -> Report {
    let reps = args.count("reps", 1_000);
    let busy = args.count("busy", 2);
    let mut report = args.end();
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..busy)
        .map(|_| {
            let over = Arc::clone(&over);
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    spin(Duration::from_micros(50));
                    yield_now().await;
                }
            })
        })
        .collect();
    for time_us in [1_000, 10_000] {
        measure(&mut report, time_us, reps).await;
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("a busy task ends");
    }
    report
}

async fn measure(report: &mut Report, time_us: u64, reps: usize) {
    let time = Duration::from_micros(time_us);
    let mut over = Vec::with_capacity(reps);
    for _ in 0..reps {
        let start = Instant::now();
        sleep(time).await;
        let late = start.elapsed().checked_sub(time).expect("no sleep ends early");
        over.push(late.as_nanos() as u64);
    }
    Samples::new(over).report_overshoot(report, time_us);
}
