//! The workloads `timer-churn`, `timer-reset`, `timer-drop` and `timer-earlier`: timers of which few or none
//! fire.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use peer_common::args::{Args, wrong};
use peer_common::load::Random;
use peer_common::report::Report;
use peer_common::samples::ms;
use runtime::thread::JoinHandle;
use runtime::time::{Timer, after_func, sleep, sleep_async};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(1);

/// Creates and cancels timers of one kind: with a function, with a channel, or of a future that is polled
/// once and dropped.
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
    assert!(sleep.poll(cx).is_pending(), "a sleep of a second ended at once");
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
    // The wait does not yield, so that all tasks can arrive only if they run on different workers.
    running.fetch_add(1, Ordering::AcqRel);
    let wait = Instant::now();
    while running.load(Ordering::Acquire) < tasks {
        assert!(wait.elapsed() < Duration::from_secs(60), "the tasks do not run at the same moment");
        std::hint::spin_loop();
    }
    let start = Instant::now();
    for _ in 0..n {
        let i = random.below(timers.len());
        timers[i].reset(random.deadline());
    }
    (start, Instant::now())
}

/// Makes n timers while a ticker for each P runs, drops all timers together, and then sleeps.
pub(crate) fn drop_many(mut args: Args) -> Report {
    let n = args.count("n", 1_000_000);
    let procs = args.procs();
    let mut report = args.end();
    let tickers = Tickers::start(procs);
    let timers = far_timers(n, &mut Random::of_task(0));
    sleep(100 * TICK);

    let begun = Instant::now();
    drop(timers);
    let dropped = Instant::now();
    sleep(TICK);
    let late = dropped.elapsed() - TICK;
    // The tickers run on until the scheduler has removed the dropped timers.
    sleep(2 * SECOND);
    let ticks = tickers.end();
    report.number("drop_ms", ms((dropped - begun).as_nanos() as u64));
    report.number("sleep_late_ms", ms(late.as_nanos() as u64));
    report.number("tick_max_while_dropping_ms", ticks.latest(begun, dropped));
    report.number("tick_max_after_ms", ticks.latest(dropped, dropped + 2 * SECOND));
    report
}

/// Makes n timers while a ticker for each P runs. In each of `rounds` rounds the body stops `earlier` timers,
/// and sets each to an earlier time that is still far away. Then the body sets another stopped timer to 1 ms,
/// and sleeps 1 ms.
pub(crate) fn set_earlier(mut args: Args) -> Report {
    let n = args.count("n", 1_000_000);
    let earlier = args.count("earlier", 1_000);
    let rounds = args.count("rounds", 10);
    let procs = args.procs();
    let mut report = args.end();
    if n == 0 || earlier >= n || rounds > 50 {
        wrong("--earlier is not below --n, or --rounds is above 50");
    }
    let tickers = Tickers::start(procs);
    let mut random = Random::of_task(0);
    let mut timers = far_timers(n / 2, &mut random);
    let fired = Arc::new(Mutex::new(None));
    let soon = after_func(3630 * SECOND, {
        let fired = Arc::clone(&fired);
        move || *fired.lock().expect("no holder panics") = Some(Instant::now())
    });
    timers.extend(far_timers(n - n / 2, &mut random));
    sleep(100 * TICK);

    let (mut set, mut func_late, mut sleep_late) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let begun = Instant::now();
    for round in 1..=rounds as u32 {
        let start = Instant::now();
        // Each timer is a minute earlier than in the round before.
        for timer in timers.iter().step_by(n / earlier.max(1)).take(earlier) {
            assert!(timer.stop());
            timer.reset((3600 - 60 * round) * SECOND + random.deadline());
        }
        set += start.elapsed();
        soon.stop();
        let now = Instant::now();
        soon.reset(TICK);
        sleep(TICK);
        sleep_late = sleep_late.max(now.elapsed() - TICK);
        sleep(200 * TICK);
        let at = fired.lock().expect("no holder panics").take().expect("the function ran within 200 ms");
        func_late = func_late.max(at - now - TICK);
        soon.reset(3630 * SECOND);
    }
    let ended = Instant::now();
    let ticks = tickers.end();
    report.number("ns_per_set", set.as_nanos() as f64 / (rounds * earlier.max(1)) as f64);
    report.number("func_late_ms", ms(func_late.as_nanos() as u64));
    report.number("sleep_late_ms", ms(sleep_late.as_nanos() as u64));
    report.number("tick_max_ms", ticks.latest(begun, ended));
    report
}

fn far_timers(n: usize, random: &mut Random) -> Vec<Timer> {
    (0..n).map(|_| after_func(3600 * SECOND + random.deadline(), || ())).collect()
}

/// Green threads that sleep 1 ms in a loop.
struct Tickers {
    stop: Arc<AtomicBool>,
    tickers: Vec<JoinHandle<Vec<(Instant, Instant)>>>,
}

/// For each tick the time at which it was due, and the time at which the ticker woke.
struct Ticks(Vec<(Instant, Instant)>);

impl Tickers {
    /// Starts a ticker for each P.
    fn start(procs: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ticker = |stop: Arc<AtomicBool>| {
            let mut ticks = Vec::with_capacity(1 << 16);
            while !stop.load(Ordering::Relaxed) {
                let due = Instant::now() + TICK;
                sleep(TICK);
                ticks.push((due, Instant::now()));
            }
            ticks
        };
        let tickers = (0..procs).map(|_| {
            let stop = Arc::clone(&stop);
            runtime::spawn(move || ticker(stop))
        });
        Tickers { tickers: tickers.collect(), stop }
    }

    fn end(self) -> Ticks {
        self.stop.store(true, Ordering::Relaxed);
        Ticks(self.tickers.into_iter().flat_map(|ticker| ticker.join().expect("the task ends")).collect())
    }
}

impl Ticks {
    /// Returns the longest lateness of a tick between two moments, in ms. Only the part between these moments
    /// counts.
    fn latest(&self, from: Instant, to: Instant) -> f64 {
        let lates = self.0.iter().map(|&(due, end)| end.min(to).saturating_duration_since(due.max(from)));
        ms(lates.max().unwrap_or_default().as_nanos() as u64)
    }
}
