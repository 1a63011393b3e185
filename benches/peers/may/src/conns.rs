//! `conns-memory`: the memory of an idle connection in the server. This file has the server, and the client
//! that holds the connections.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use may::coroutine::{self, JoinHandle};
use may::go;
use may::net::TcpStream;
use peer_common::args::Args;
use peer_common::client::Client;
use peer_common::process::{bytes_each, rss_bytes};
use peer_common::report::Report;

use crate::listen;

pub(crate) fn memory(mut args: Args) -> Report {
    let n = args.count("n", 10_000);
    let procs = args.procs();
    let mut report = args.end();
    let listener = listen(0);
    let port = listener.local_addr().expect("the listener has an address").port();

    let before = rss_bytes();
    let client = Client::start(port, n, procs);
    for _ in 0..n {
        let (stream, _) = listener.accept().expect("a connection");
        go!(move || wait(stream));
    }
    coroutine::sleep(Duration::from_millis(500));
    let after = rss_bytes();
    client.end();

    report.number("bytes_per_conn", bytes_each(before, after, n));
    report
}

/// Blocks in a read until the client ends.
fn wait(mut stream: TcpStream) {
    let n = stream.read(&mut [0; 512]);
    assert!(!matches!(n, Ok(1..)), "the client never writes");
}

/// The client. The server kills the client at its end.
pub(crate) fn client(mut args: Args) -> Report {
    let port = args.number("port", 0) as u16;
    let n = args.count("n", 10_000);
    let report = args.end();
    let open = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let open = Arc::clone(&open);
            // The first tasks also take the remainder of the division.
            let share = n / 4 + usize::from(task < n % 4);
            go!(move || connect(port, share, &open))
        })
        .collect();
    let waits: Vec<_> =
        tasks.into_iter().flat_map(|task| task.join().expect("a connecting task ends")).collect();
    assert_eq!(open.load(Ordering::Acquire), n);
    println!("ready");
    for wait in waits {
        wait.join().expect("the task ends");
    }
    report
}

fn connect(port: u16, n: usize, open: &AtomicUsize) -> Vec<JoinHandle<()>> {
    let connect = |_| {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        open.fetch_add(1, Ordering::AcqRel);
        go!(move || wait(stream))
    };
    (0..n).map(connect).collect()
}
