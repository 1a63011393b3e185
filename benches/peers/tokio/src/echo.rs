//! `echo`: requests over loopback. The server and its clients are in one runtime.

use std::io;
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::report::Report;
use peer_common::samples::{Samples, us};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::listen;

pub(crate) async fn echo(mut args: Args) -> Report {
    let conns = args.count("conns", 64);
    let size = args.count("size", 64);
    let time = Duration::from_secs(args.number("secs", 5));
    let mut report = args.end();

    let listener = listen(0);
    let addr = listener.local_addr().expect("the listener has an address");
    let server = tokio::spawn(async move {
        let mut servers = Vec::new();
        for _ in 0..conns {
            let (stream, _) = listener.accept().await.expect("a connection");
            servers.push(tokio::spawn(async { serve(stream).await.expect("the server's side works") }));
        }
        servers
    });
    let mut streams = Vec::new();
    for _ in 0..conns {
        streams.push(TcpStream::connect(addr).await.expect("the listener accepts"));
    }
    let servers = server.await.expect("the listener accepts all connections");

    let start = Instant::now();
    let end = start + time;
    let client = |stream| async move { ask(stream, size, end).await.expect("the client's side works") };
    let clients: Vec<_> = streams.into_iter().map(|stream| tokio::spawn(client(stream))).collect();
    let mut times: Vec<u64> = Vec::new();
    for client in clients {
        times.extend(client.await.expect("the task ends"));
    }
    let wall = start.elapsed();

    let requests = times.len() as u64;
    let mut echoed = 0;
    for server in servers {
        echoed += server.await.expect("the task ends");
    }
    assert_eq!(echoed, requests * size as u64, "bytes were lost");
    let times = Samples::new(times);
    report.number("req_per_s", requests as f64 / wall.as_secs_f64());
    report.number("p50_us", us(times.percentile_ns(50)));
    report.number("p99_us", us(times.percentile_ns(99)));
    report.number("max_us", us(times.max_ns()));
    report
}

/// Serves a connection. Returns the number of echoed bytes.
async fn serve(mut stream: TcpStream) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    let mut echoed = 0;
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Ok(echoed);
        }
        stream.write_all(&buffer[..n]).await?;
        echoed += n as u64;
    }
}

/// Sends requests until `end`. Returns the time of each request, in ns.
async fn ask(mut stream: TcpStream, size: usize, end: Instant) -> io::Result<Vec<u64>> {
    stream.set_nodelay(true)?;
    let mut times = Vec::with_capacity(1 << 16);
    let (mut message, mut answer) = (vec![0; size], vec![0; size]);
    loop {
        message.fill(times.len() as u8);
        let start = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut answer).await?;
        let now = Instant::now();
        assert_eq!(answer, message, "the echoed bytes differ from the sent bytes");
        times.push((now - start).as_nanos() as u64);
        if now >= end {
            return Ok(times);
        }
    }
}
