//! `hog`, `hog-block` and `hog-crowd`: a ticker beside tasks that compute, or block their OS thread, without
//! an announcement to the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::hogs::{Span, TICK, report, report_ticks};
use peer_common::load::spin;
use peer_common::process::os_threads;
use peer_common::report::Report;

pub(crate) fn computing(args: Args) -> Report {
    run(args, spin)
}

pub(crate) fn blocking(args: Args) -> Report {
    run(args, |time| {
        let start = Instant::now();
        std::thread::sleep(time);
        start.elapsed()
    })
}

fn run(mut args: Args, hog: fn(Duration) -> Duration) -> Report {
    let hogs = args.count("hogs", 2);
    let time = Duration::from_millis(args.number("ms", 200));
    let bursts = args.count("bursts", 5);
    let mut result = args.end();

    let epoch = Instant::now();
    let since = move || epoch.elapsed().as_nanos() as u64;
    let over = Arc::new(AtomicBool::new(false));
    let ticker = start_ticker(epoch, &over);
    runtime::sleep(Duration::from_millis(50));
    let (mut spans, mut hogs_ns) = (Vec::new(), Vec::new());
    for _ in 0..bursts {
        let start_ns = since();
        let handles: Vec<_> = (0..hogs).map(|_| runtime::spawn(move || hog(time))).collect();
        for handle in handles {
            hogs_ns.push(handle.join().expect("a hog ends").as_nanos() as u64);
        }
        spans.push(Span { start_ns, end_ns: since() });
        runtime::sleep(Duration::from_millis(50));
    }
    over.store(true, Ordering::Relaxed);
    let ticks = ticker.join().expect("the ticker ends");

    report(&mut result, &ticks, &spans, hogs_ns);
    result
}

/// Starts the ticker, which sleeps [`TICK`] in a loop until `over`. The ticker returns the span of each sleep
/// since `epoch`.
fn start_ticker(epoch: Instant, over: &Arc<AtomicBool>) -> runtime::JoinHandle<Vec<Span>> {
    let over = Arc::clone(over);
    let since = move || epoch.elapsed().as_nanos() as u64;
    runtime::spawn(move || {
        let mut ticks = Vec::with_capacity(20_000);
        while !over.load(Ordering::Relaxed) {
            let start_ns = since();
            runtime::sleep(TICK);
            ticks.push(Span { start_ns, end_ns: since() });
        }
        ticks
    })
}

/// The state that the hogs of a crowd share.
#[derive(Default)]
struct Crowd {
    begun: AtomicU64,
    /// The time since the epoch at which the last hog began.
    last_begun_ns: AtomicU64,
    over: AtomicBool,
}

pub(crate) fn crowd(mut args: Args) -> Report {
    let hogs = args.count("hogs", 1000);
    let time = Duration::from_secs(args.number("secs", 10));
    let mut result = args.end();

    let epoch = Instant::now();
    let since = move || epoch.elapsed().as_nanos() as u64;
    let (over, crowd) = (Arc::new(AtomicBool::new(false)), Arc::new(Crowd::default()));
    let ticker = start_ticker(epoch, &over);
    runtime::sleep(Duration::from_millis(50));
    let start_ns = since();
    let handles: Vec<_> = (0..hogs)
        .map(|_| {
            let crowd = Arc::clone(&crowd);
            runtime::spawn(move || {
                crowd.begun.fetch_add(1, Ordering::Relaxed);
                crowd.last_begun_ns.fetch_max(since(), Ordering::Relaxed);
                while !crowd.over.load(Ordering::Relaxed) {
                    spin(Duration::ZERO);
                }
            })
        })
        .collect();
    let mut threads = 0;
    while since() - start_ns < time.as_nanos() as u64 {
        runtime::sleep(Duration::from_millis(100));
        threads = threads.max(os_threads());
    }
    let begun = crowd.begun.load(Ordering::Relaxed);
    let last_begun_ns = crowd.last_begun_ns.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    let ticks = ticker.join().expect("the ticker ends");
    let span = Span { start_ns, end_ns: since() };
    crowd.over.store(true, Ordering::Relaxed);
    handles.into_iter().for_each(|handle| handle.join().expect("a hog ends"));

    report_ticks(&mut result, &ticks, &[span]);
    result.count("begun", begun);
    result.number("last_begun_s", (last_begun_ns - start_ns) as f64 / 1e9);
    result.count("threads", threads);
    result
}
