//! `timer-churn` and `timer-reset`: timers that rarely fire. Both run `unconstrained`: otherwise tokio makes
//! a task that has polled often yield, and a poll then does not register the timer.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use peer_common::args::{Args, wrong};
use peer_common::load::Random;
use peer_common::report::Report;
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn churn(mut args: Args) -> Report {
    let n = args.number("n", 5_000_000);
    let mut report = args.end();
    let task = std::future::poll_fn(move |cx| {
        let start = Instant::now();
        for _ in 0..n {
            let sleep = pin!(sleep(SECOND));
            assert!(sleep.poll(cx).is_pending(), "a sleep of a second ended at once");
        }
        Poll::Ready(start.elapsed())
    });
    let wall = tokio::spawn(unconstrained(task)).await.expect("the task ends");
    report.number("ns_per_op", wall.as_nanos() as f64 / n as f64);
    report
}

pub(crate) async fn reset(mut args: Args) -> Report {
    let live = args.count("live", 100_000);
    let tasks = args.count("tasks", 2);
    let n = args.count("n", 5_000_000);
    let procs = args.procs();
    let mut report = args.end();
    if tasks > procs || live < tasks {
        wrong("--tasks is not above --procs or --live");
    }

    let running = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let running = Arc::clone(&running);
            let own = async move { reset_own(task, tasks, live / tasks, n / tasks, &running) };
            tokio::spawn(unconstrained(own))
        })
        .collect();
    let mut spans = Vec::new();
    for handle in handles {
        spans.push(handle.await.expect("the task ends"));
    }
    let first = spans.iter().map(|span| span.0).min().expect("there are tasks");
    let last = spans.iter().map(|span| span.1).max().expect("there are tasks");

    let resets = n / tasks * tasks;
    report.number("ns_per_op", (last - first).as_nanos() as f64 / resets as f64);
    report
}

fn reset_own(task: usize, tasks: usize, live: usize, n: usize, running: &AtomicUsize) -> (Instant, Instant) {
    let mut random = Random::of_task(task as u64);
    let mut timers: Vec<Pin<Box<Sleep>>> = (0..live).map(|_| armed(random.deadline())).collect();
    // The wait does not yield, so that all tasks can arrive only if they run on different workers.
    running.fetch_add(1, Ordering::AcqRel);
    let wait = Instant::now();
    while running.load(Ordering::Acquire) < tasks {
        assert!(wait.elapsed() < Duration::from_secs(60), "the tasks do not run at the same moment");
        std::hint::spin_loop();
    }
    let start = Instant::now();
    for _ in 0..n {
        let i = random.below(live);
        timers[i].as_mut().reset(tokio::time::Instant::now() + random.deadline());
    }
    (start, Instant::now())
}

/// Returns a registered timer that has no effect when it fires.
fn armed(time: Duration) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(time));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}
