//! An echo server and 64 clients over loopback, a green thread per connection on either side: requests per
//! second.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::JoinHandle;
use runtime::net::{TcpListener, TcpStream};

mod support;

const CONNECTIONS: u64 = 64;
const MESSAGE: usize = 64;

fn requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("echo/64 connections, 64 bytes");
    // One iteration is a request on each connection.
    group.throughput(Throughput::Elements(CONNECTIONS));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            b.iter_custom(|iters| round(iters).expect("loopback connections work"));
        });
    }
}

/// Opens all connections, and then times `requests` requests on each connection.
fn round(requests: u64) -> io::Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let mut pairs = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(addr)?;
        let (server, _peer) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        pairs.push((client, server));
    }

    let start = Instant::now();
    let (clients, servers): (Vec<_>, Vec<_>) = pairs
        .into_iter()
        .map(|(client, server)| {
            (runtime::spawn(move || ask(client, requests)), runtime::spawn(|| echo(server)))
        })
        .unzip();
    let answered = sum(clients)?;
    let wall = start.elapsed();
    assert_eq!(answered, CONNECTIONS * requests);
    assert_eq!(sum(servers)?, answered * MESSAGE as u64, "bytes echoed");
    Ok(wall)
}

/// Returns the number of answers. Closes the connection, which ends the server's green thread.
fn ask(mut stream: TcpStream, requests: u64) -> io::Result<u64> {
    let mut answer = [0; MESSAGE];
    for i in 0..requests {
        let message = [i as u8; MESSAGE];
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        assert_eq!(answer, message, "the echoed bytes differ from the sent bytes");
    }
    Ok(requests)
}

/// Returns the number of echoed bytes.
fn echo(mut stream: TcpStream) -> io::Result<u64> {
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

fn sum(threads: Vec<JoinHandle<io::Result<u64>>>) -> io::Result<u64> {
    threads
        .into_iter()
        .map(|thread| thread.join().expect("a green thread of the benchmark does not panic"))
        .sum()
}

criterion_group!(name = echo_server; config = support::settings(); targets = requests);
criterion_main!(echo_server);
