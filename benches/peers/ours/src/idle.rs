//! `idle`: the processor time and context switches of a process that is idle, or has only a ticker.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use peer_common::args::Args;
use peer_common::process::Usage;
use peer_common::report::Report;
use runtime::net::{TcpListener, TcpStream};

pub(crate) fn idle(mut args: Args) -> Report {
    let tasks = args.number("tasks", 10_000);
    let conns = args.number("conns", 1_000);
    let tick = Duration::from_millis(args.number("tick-ms", 0));
    let time = Duration::from_secs(args.number("secs", 10));
    let mut report = args.end();

    for _ in 0..tasks {
        runtime::spawn(|| runtime::sleep(Duration::from_secs(3600)));
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port to listen on");
    let addr = listener.local_addr().expect("the listener has an address");
    let held: Vec<TcpStream> = (0..conns)
        .map(|_| {
            let client = TcpStream::connect(addr).expect("the listener accepts");
            let (mut stream, _) = listener.accept().expect("the connection");
            runtime::spawn(move || {
                let n = stream.read(&mut [0; 512]);
                panic!("a read of an idle connection returned {n:?}");
            });
            client
        })
        .collect();
    let ticks = Arc::new(AtomicU64::new(0));
    if !tick.is_zero() {
        let ticks = Arc::clone(&ticks);
        runtime::spawn(move || {
            loop {
                runtime::sleep(tick);
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    runtime::sleep(Duration::from_millis(500));

    let (before, ticks_before) = (Usage::now(), ticks.load(Ordering::Relaxed));
    runtime::sleep(time);
    let used = Usage::now() - before;
    used.report(&mut report);
    report.count("ticks", ticks.load(Ordering::Relaxed) - ticks_before);
    assert_eq!(held.len() as u64, conns);
    // The connections stay open until the process ends.
    std::mem::forget(held);
    report
}
