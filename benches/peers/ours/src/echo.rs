//! `echo`: requests over loopback. The server and its clients are in one runtime.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use peer_common::args::Args;
use peer_common::report::Report;
use peer_common::samples::{Samples, us};
use runtime::net::{TcpListener, TcpStream};

pub(crate) fn echo(mut args: Args) -> Report {
    let conns = args.count("conns", 64);
    let size = args.count("size", 64);
    let time = Duration::from_secs(args.number("secs", 5));
    let mut report = args.end();

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port to listen on");
    let addr = listener.local_addr().expect("the listener has an address");
    let server = runtime::spawn(move || {
        let accept = |_| {
            let (stream, _) = listener.accept().expect("a connection");
            runtime::spawn(move || serve(stream).expect("the server's side works"))
        };
        (0..conns).map(accept).collect::<Vec<_>>()
    });
    let streams: Vec<_> =
        (0..conns).map(|_| TcpStream::connect(addr).expect("the listener accepts")).collect();
    let servers = server.join().expect("the listener accepts all connections");

    let start = Instant::now();
    let clients: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            runtime::spawn(move || ask(stream, size, start + time).expect("the client's side works"))
        })
        .collect();
    let times: Vec<u64> =
        clients.into_iter().flat_map(|client| client.join().expect("the task ends")).collect();
    let wall = start.elapsed();

    let requests = times.len() as u64;
    let echoed: u64 = servers.into_iter().map(|server| server.join().expect("the task ends")).sum();
    assert_eq!(echoed, requests * size as u64, "bytes were lost");
    let times = Samples::new(times);
    report.number("req_per_s", requests as f64 / wall.as_secs_f64());
    report.number("p50_us", us(times.percentile_ns(50)));
    report.number("p99_us", us(times.percentile_ns(99)));
    report.number("max_us", us(times.max_ns()));
    report
}

/// Serves a connection. Returns the number of echoed bytes.
fn serve(mut stream: TcpStream) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    let mut echoed = 0;
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(echoed);
        }
        stream.write_all(&buffer[..n])?;
        echoed += n as u64;
    }
}

/// Sends requests until `end`. Returns the time of each request, in ns.
fn ask(mut stream: TcpStream, size: usize, end: Instant) -> io::Result<Vec<u64>> {
    stream.set_nodelay(true)?;
    let mut times = Vec::with_capacity(1 << 16);
    let (mut message, mut answer) = (vec![0; size], vec![0; size]);
    loop {
        message.fill(times.len() as u8);
        let start = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        let now = Instant::now();
        assert_eq!(answer, message, "the echoed bytes differ from the sent bytes");
        times.push((now - start).as_nanos() as u64);
        if now >= end {
            return Ok(times);
        }
    }
}
