//! `spawn-join`, `spawn-batch` and `yield`: the cost of a task and of a switch.

use std::time::Instant;

use may::coroutine::{self, JoinHandle};
use may::go;
use peer_common::args::Args;
use peer_common::report::Report;

pub(crate) fn spawn_join(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let mut report = args.end();
    let start = Instant::now();
    for _ in 0..n {
        go!(|| ()).join().expect("the task ends");
    }
    let wall = start.elapsed();
    report.number("ns_per_op", wall.as_nanos() as f64 / n as f64);
    report
}

pub(crate) fn spawn_batch(mut args: Args) -> Report {
    let n = args.count("n", 100_000);
    let rounds = args.count("rounds", 10);
    let mut report = args.end();
    let mut handles: Vec<JoinHandle<()>> = Vec::with_capacity(n);
    let start = Instant::now();
    for _ in 0..rounds {
        handles.extend((0..n).map(|_| go!(|| ())));
        for handle in handles.drain(..) {
            handle.join().expect("the task ends");
        }
    }
    let wall = start.elapsed();
    report.number("ns_per_task", wall.as_nanos() as f64 / (n * rounds) as f64);
    report
}

pub(crate) fn yields(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let procs = args.procs();
    let mut report = args.end();
    let tasks = 2 * procs;
    let start = Instant::now();
    let handles: Vec<JoinHandle<u64>> = (0..tasks).map(|_| go!(move || yield_often(n))).collect();
    let yields: u64 = handles.into_iter().map(|handle| handle.join().expect("the task ends")).sum();
    let wall = start.elapsed();
    assert_eq!(yields, n * tasks as u64);
    report.number("ns_per_yield", wall.as_nanos() as f64 * procs as f64 / yields as f64);
    report
}

fn yield_often(n: u64) -> u64 {
    let mut yields = 0;
    for _ in 0..n {
        coroutine::yield_now();
        yields += 1;
    }
    yields
}
