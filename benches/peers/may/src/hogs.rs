//! `hog` and `hog-block`: a ticker beside tasks that compute, or block their OS thread, without an
//! announcement to the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use may::{coroutine, go};
use peer_common::args::Args;
use peer_common::hogs::{Span, TICK, report};
use peer_common::load::spin;
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
    let ticker = go!({
        let over = Arc::clone(&over);
        move || {
            let mut ticks = Vec::with_capacity(10_000);
            while !over.load(Ordering::Relaxed) {
                let start_ns = since();
                coroutine::sleep(TICK);
                ticks.push(Span { start_ns, end_ns: since() });
            }
            ticks
        }
    });
    coroutine::sleep(Duration::from_millis(50));
    let (mut spans, mut hogs_ns) = (Vec::new(), Vec::new());
    for _ in 0..bursts {
        let start_ns = since();
        let handles: Vec<_> = (0..hogs).map(|_| go!(move || hog(time))).collect();
        for handle in handles {
            hogs_ns.push(handle.join().expect("a hog ends").as_nanos() as u64);
        }
        spans.push(Span { start_ns, end_ns: since() });
        coroutine::sleep(Duration::from_millis(50));
    }
    over.store(true, Ordering::Relaxed);
    let ticks = ticker.join().expect("the ticker ends");

    report(&mut result, &ticks, &spans, hogs_ns);
    result
}
