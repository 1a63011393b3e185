//! `mutex`: tasks that add to one counter under a mutex.

use std::sync::Arc;
use std::time::Instant;

use peer_common::args::Args;
use peer_common::report::Report;
use tokio::task::JoinHandle;

pub(crate) async fn mutex(mut args: Args) -> Report {
    let tasks = args.count("tasks", 8);
    let share = args.number("n", 4_000_000) / tasks as u64;
    let kind = args.word("kind", &["tokio", "std"]);
    let mut report = args.end();
    let n = share * tasks as u64;
    let ours = Arc::new(tokio::sync::Mutex::new(0));
    let stds = Arc::new(std::sync::Mutex::new(0));

    let start = Instant::now();
    let handles: Vec<JoinHandle<()>> = (0..tasks)
        .map(|_| {
            let (ours, stds) = (Arc::clone(&ours), Arc::clone(&stds));
            if kind == "tokio" {
                tokio::spawn(async move {
                    for _ in 0..share {
                        *ours.lock().await += 1;
                    }
                })
            } else {
                tokio::spawn(async move {
                    for _ in 0..share {
                        *stds.lock().expect("no task panics under this lock") += 1;
                    }
                })
            }
        })
        .collect();
    for handle in handles {
        handle.await.expect("the task ends");
    }
    let wall = start.elapsed();

    let counted: u64 = *ours.lock().await + *stds.lock().expect("no task panics under this lock");
    assert_eq!(counted, n);
    report.number("ns_per_op", wall.as_nanos() as f64 / n as f64);
    report
}
