//! `timer-churn`, `timer-reset` and `timer-drop`: timers that hardly ever fire.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use peer_common::args::{Args, wrong};
use peer_common::load::Random;
use peer_common::report::Report;
use peer_common::samples::ms;
use runtime::time::{Timer, after_func, sleep, sleep_async};

const SECOND: Duration = Duration::from_secs(1);

/// A timer with a function, one with a channel, or the timer of a future that is polled once and dropped.
pub(crate) fn churn(mut args: Args) -> Report {
    let n = args.number("n", 5_000_000);
    let kind = args.word("kind", &["func", "chan", "future"]);
    let mut report = args.end();
    let task = runtime::spawn(std::future::poll_fn(move |cx| {
        let start = Instant::now();
        match &*kind {
            "func" => (0..n).for_each(|_| assert!(after_func(SECOND, || ()).stop())),
            "chan" => (0..n).for_each(|_| assert!(Timer::new(SECOND).stop())),
            _ => (0..n).for_each(|_| arm_and_drop(cx)),
        }
        Poll::Ready(start.elapsed())
    }));
    let wall = task.join().expect("the task ends");
    assert_eq!(runtime::metrics::snapshot().timers_fired, 0, "no timer can have fired");
    report.number("ns_per_op", wall.as_nanos() as f64 / n as f64);
    report
}

fn arm_and_drop(cx: &mut Context<'_>) {
    let sleep = pin!(sleep_async(SECOND));
    assert!(sleep.poll(cx).is_pending(), "a second was over at once");
}

pub(crate) fn reset(mut args: Args) -> Report {
    let live = args.count("live", 100_000);
    let tasks = args.count("tasks", 2);
    let n = args.count("n", 5_000_000);
    let kind = args.word("kind", &["func", "chan"]);
    let procs = args.procs();
    let mut report = args.end();
    if tasks > procs || live < tasks {
        wrong("--tasks is not above --procs or --live");
    }
    let make = if kind == "func" { |time| after_func(time, || ()) } else { Timer::new };

    let running = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let running = Arc::clone(&running);
            runtime::spawn(move || {
                let mut random = Random::of_task(task as u64);
                let timers: Vec<_> = (0..live / tasks).map(|_| make(random.deadline())).collect();
                reset_own(&timers, &mut random, tasks, n / tasks, &running)
            })
        })
        .collect();
    let spans: Vec<_> = handles.into_iter().map(|handle| handle.join().expect("the task ends")).collect();
    let first = spans.iter().map(|span| span.0).min().expect("there are tasks");
    let last = spans.iter().map(|span| span.1).max().expect("there are tasks");

    let resets = n / tasks * tasks;
    report.number("ns_per_op", (last - first).as_nanos() as f64 / resets as f64);
    report
}

fn reset_own(
    timers: &[Timer],
    random: &mut Random,
    tasks: usize,
    n: usize,
    running: &AtomicUsize,
) -> (Instant, Instant) {
    // No yield: only on different workers can all be here.
    running.fetch_add(1, Ordering::AcqRel);
    let wait = Instant::now();
    while running.load(Ordering::Acquire) < tasks {
        assert!(wait.elapsed() < Duration::from_secs(60), "the tasks do not get to run at the same moment");
        std::hint::spin_loop();
    }
    let start = Instant::now();
    for _ in 0..n {
        let i = random.next() as usize % timers.len();
        timers[i].reset(random.deadline());
    }
    (start, Instant::now())
}

/// Makes n timers, with a ticker for each P beside; drops them all at once; then sleeps.
pub(crate) fn drop_many(mut args: Args) -> Report {
    const TICK: Duration = Duration::from_millis(1);
    let n = args.count("n", 1_000_000);
    let procs = args.procs();
    let mut report = args.end();
    let stop = Arc::new(AtomicBool::new(false));
    let tickers: Vec<_> = (0..procs)
        .map(|_| {
            let stop = Arc::clone(&stop);
            runtime::spawn(move || {
                let mut ticks = Vec::with_capacity(1 << 16);
                while !stop.load(Ordering::Relaxed) {
                    let due = Instant::now() + TICK;
                    sleep(TICK);
                    ticks.push((due, Instant::now()));
                }
                ticks
            })
        })
        .collect();
    let mut random = Random::of_task(0);
    let timers: Vec<_> = (0..n).map(|_| after_func(3600 * SECOND + random.deadline(), || ())).collect();
    sleep(100 * TICK);

    let begun = Instant::now();
    drop(timers);
    let dropped = Instant::now();
    sleep(TICK);
    let late = dropped.elapsed() - TICK;
    // Until what is left of the timers is gone.
    sleep(2 * SECOND);
    stop.store(true, Ordering::Relaxed);
    let ticks: Vec<_> = tickers.into_iter().flat_map(|ticker| ticker.join().expect("it ends")).collect();
    // What a tick waited between those two moments.
    let latest = |from: Instant, to: Instant| {
        let lates = ticks.iter().map(|&(due, end)| end.min(to).saturating_duration_since(due.max(from)));
        ms(lates.max().unwrap_or_default().as_nanos() as u64)
    };
    report.number("drop_ms", ms((dropped - begun).as_nanos() as u64));
    report.number("sleep_late_ms", ms(late.as_nanos() as u64));
    report.number("tick_max_while_dropping_ms", latest(begun, dropped));
    report.number("tick_max_after_ms", latest(dropped, dropped + 2 * SECOND));
    report
}
