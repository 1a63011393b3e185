//! An echo server and its clients in a single process, over real sockets: a green thread per connection on
//! either side.
//!
//! Each client writes a message, reads it back, checks every byte, and goes on until the time is over.
//!
//! ```sh
//! cargo run --release --example echo
//! cargo run --release --example echo -- --clients 1000 --secs 10
//! cargo run --release --example echo -- --serve 127.0.0.1:7777      # only the server, until it is killed
//! ```

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use runtime::net::{Server, TcpListener, TcpStream};
use support::{Args, Summary, commas};

mod support;

const USAGE: &str = "\
usage: echo [--clients N] [--secs S] [--size BYTES]
       echo --serve ADDR

  --clients N    number of connections (default 64)
  --secs S       length of the run in seconds (default 3)
  --size BYTES   the length of a message (default 64)
  --serve ADDR   only serve, on that address (like 127.0.0.1:7777), until SIGTERM or SIGINT";

#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    time: Duration,
    size: usize,
}

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let done = if let Some(addr) = args.option("--serve") {
        args.end();
        return support::server::run(Some(&addr), |stream| echo(&stream), |_| Ok(()));
    } else {
        let load = Load {
            clients: args.number("--clients", 64, 1..=100_000) as usize,
            time: Duration::from_secs(args.number("--secs", 3, 1..=3_600)),
            // A client writes a whole message before it reads, so a message must fit into the buffers of both
            // sides.
            size: args.number("--size", 64, 1..=65_536) as usize,
        };
        args.end();
        runtime::block_on(|| run(load))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn echo(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buf = [0; 1024];
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => stream.write_all(&buf[..n])?,
        }
    }
}

/// Runs the server and its clients, and prints the figures.
fn run(load: Load) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    // An error of a connection only means that the client has disconnected.
    let server = Server::builder().start(listener, |stream| drop(echo(&stream)))?;
    let (latencies, took) = drive(load, addr)?;
    server.shutdown(Duration::from_secs(1));

    let requests = latencies.len();
    let latency = Summary::of(latencies);
    println!("requests   {} in {took:.1?}, every byte checked", commas(requests));
    println!("per second {}", commas((requests as f64 / took.as_secs_f64()) as u64));
    println!("latency    p50 {:.1?}, p99 {:.1?}, max {:.1?}", latency.p50, latency.p99, latency.max);
    Ok(())
}

/// Runs all clients. Returns the latency of each request, and the time from the first to the last request.
fn drive(load: Load, addr: SocketAddr) -> io::Result<(Vec<Duration>, Duration)> {
    // All clients connect before the clock starts.
    let mut streams = Vec::new();
    for i in 1..=load.clients {
        let stream = TcpStream::connect(addr).map_err(|error| {
            io::Error::new(error.kind(), format!("client {i} of {} cannot connect: {error}", load.clients))
        })?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    println!("{} clients send {} bytes each and wait for their echo ...", load.clients, load.size);
    let start = Instant::now();
    let end = start + load.time;
    let clients: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(i, stream)| runtime::spawn(move || client(stream, i, load.size, end)))
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.append(&mut client.join().expect("a client does not panic")?);
    }
    Ok((latencies, start.elapsed()))
}

/// Runs one client until `end`. Returns the latency of each request.
fn client(mut stream: TcpStream, number: usize, size: usize, end: Instant) -> io::Result<Vec<Duration>> {
    let mut message = vec![0; size];
    let mut answer = vec![0; size];
    let mut latencies = Vec::new();
    let mut begin = Instant::now();
    while begin < end {
        // A different message each time, and different from those of the other clients.
        let seed = number.wrapping_mul(31).wrapping_add(latencies.len());
        message.iter_mut().enumerate().for_each(|(i, byte)| *byte = seed.wrapping_add(i) as u8);
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        if answer != message {
            return Err(io::Error::other(format!("client {number} received other bytes than it had sent")));
        }
        let now = Instant::now();
        latencies.push(now - begin);
        begin = now;
    }
    Ok(latencies)
}
