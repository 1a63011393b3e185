//! `conns-memory`: the memory of an idle connection in the server. This file has the server, and the client
//! that holds the connections.

use std::time::Duration;

use peer_common::args::Args;
use peer_common::client::Client;
use peer_common::process::{bytes_each, rss_bytes};
use peer_common::report::Report;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::listen;

pub(crate) async fn memory(mut args: Args) -> Report {
    let n = args.count("n", 10_000);
    let procs = args.procs();
    let mut report = args.end();
    let listener = listen(0);
    let port = listener.local_addr().expect("the listener has an address").port();

    let before = rss_bytes();
    let client = Client::start(port, n, procs);
    for _ in 0..n {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(wait(stream));
    }
    sleep(Duration::from_millis(500)).await;
    let after = rss_bytes();
    client.end();

    report.number("bytes_per_conn", bytes_each(before, after, n));
    report
}

/// Blocks in a read until the client ends.
async fn wait(mut stream: TcpStream) {
    let mut buffer = [0; 512];
    let n = stream.read(&mut buffer).await;
    assert!(!matches!(n, Ok(1..)), "the client never writes");
}

/// The client. The server kills the client at its end.
pub(crate) async fn client(mut args: Args) -> Report {
    let port = args.number("port", 0) as u16;
    let n = args.count("n", 10_000);
    let report = args.end();
    // The first tasks also take the remainder of the division.
    let share = |task| n / 4 + usize::from(task < n % 4);
    let tasks: Vec<_> = (0..4).map(|task| tokio::spawn(connect(port, share(task)))).collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.expect("a connecting task ends"));
    }
    assert_eq!(waits.len(), n);
    println!("ready");
    for wait in waits {
        wait.await.expect("the task ends");
    }
    report
}

async fn connect(port: u16, n: usize) -> Vec<JoinHandle<()>> {
    let mut waits = Vec::with_capacity(n);
    for _ in 0..n {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server accepts");
        waits.push(tokio::spawn(wait(stream)));
    }
    waits
}
