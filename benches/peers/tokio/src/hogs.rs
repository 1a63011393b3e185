//! `hog` and `hog-block`: a ticker beside tasks that compute, or block their OS thread, without an
//! announcement to the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::hogs::{Span, TICK, report};
use peer_common::load::spin;
use peer_common::report::Report;
use tokio::time::sleep;

pub(crate) async fn computing(args: Args) -> Report {
    run(args, spin).await
}

pub(crate) async fn blocking(mut args: Args) -> Report {
    match args.word("kind", &["undeclared", "in-place"]) {
        "in-place" => run(args, |time| tokio::task::block_in_place(|| block(time))).await,
        _ => run(args, block).await,
    }
}

fn block(time: Duration) -> Duration {
    let start = Instant::now();
    std::thread::sleep(time);
    start.elapsed()
}

async fn run(mut args: Args, hog: fn(Duration) -> Duration) -> Report {
    let hogs = args.count("hogs", 2);
    let time = Duration::from_millis(args.number("ms", 200));
    let bursts = args.count("bursts", 5);
    let mut result = args.end();

    let epoch = Instant::now();
    let since = move || epoch.elapsed().as_nanos() as u64;
    let over = Arc::new(AtomicBool::new(false));
    let ticker = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut ticks = Vec::with_capacity(10_000);
            while !over.load(Ordering::Relaxed) {
                let start_ns = since();
                sleep(TICK).await;
                ticks.push(Span { start_ns, end_ns: since() });
            }
            ticks
        }
    });
    sleep(Duration::from_millis(50)).await;
    let (mut spans, mut hogs_ns) = (Vec::new(), Vec::new());
    for _ in 0..bursts {
        let start_ns = since();
        let handles: Vec<_> = (0..hogs).map(|_| tokio::spawn(async move { hog(time) })).collect();
        for handle in handles {
            hogs_ns.push(handle.await.expect("a hog ends").as_nanos() as u64);
        }
        spans.push(Span { start_ns, end_ns: since() });
        sleep(Duration::from_millis(50)).await;
    }
    over.store(true, Ordering::Relaxed);
    let ticks = ticker.await.expect("the ticker ends");

    report(&mut result, &ticks, &spans, hogs_ns);
    result
}
