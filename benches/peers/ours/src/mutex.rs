//! `mutex`: tasks that add to one counter under a mutex.

use std::sync::Arc;
use std::time::Instant;

use peer_common::args::Args;
use peer_common::report::Report;
use runtime::JoinHandle;
use runtime::sync::Mutex;

pub(crate) fn mutex(mut args: Args) -> Report {
    let tasks = args.count("tasks", 8);
    let share = args.number("n", 4_000_000) / tasks as u64;
    let mut report = args.end();
    let n = share * tasks as u64;
    let counter = Arc::new(Mutex::new(0));

    let start = Instant::now();
    let handles: Vec<JoinHandle<()>> = (0..tasks)
        .map(|_| {
            let counter = Arc::clone(&counter);
            runtime::spawn(move || {
                for _ in 0..share {
                    *counter.lock() += 1;
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().expect("the task ends");
    }
    let wall = start.elapsed();

    let counted: u64 = *counter.lock();
    assert_eq!(counted, n);
    report.number("ns_per_op", wall.as_nanos() as f64 / n as f64);
    report
}
