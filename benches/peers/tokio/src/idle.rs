//! `idle`: the processor time and context switches of a process that is idle, or has only a ticker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use peer_common::args::Args;
use peer_common::process::Usage;
use peer_common::report::Report;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::listen;

pub(crate) async fn idle(mut args: Args) -> Report {
    let tasks = args.number("tasks", 10_000);
    let conns = args.number("conns", 1_000);
    let tick = Duration::from_millis(args.number("tick-ms", 0));
    let time = Duration::from_secs(args.number("secs", 10));
    let mut report = args.end();

    for _ in 0..tasks {
        tokio::spawn(sleep(Duration::from_secs(3600)));
    }
    let listener = listen(0);
    let addr = listener.local_addr().expect("the listener has an address");
    let mut held = Vec::new();
    for _ in 0..conns {
        held.push(TcpStream::connect(addr).await.expect("the listener accepts"));
        let (mut stream, _) = listener.accept().await.expect("the connection");
        tokio::spawn(async move {
            let n = stream.read(&mut [0; 512]).await;
            panic!("a read of an idle connection returned {n:?}");
        });
    }
    let ticks = Arc::new(AtomicU64::new(0));
    if !tick.is_zero() {
        let ticks = Arc::clone(&ticks);
        tokio::spawn(async move {
            loop {
                sleep(tick).await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    sleep(Duration::from_millis(500)).await;

    let (before, ticks_before) = (Usage::now(), ticks.load(Ordering::Relaxed));
    sleep(time).await;
    let used = Usage::now() - before;
    used.report(&mut report);
    report.count("ticks", ticks.load(Ordering::Relaxed) - ticks_before);
    // The connections stay open until the process ends.
    std::mem::forget(held);
    report
}
