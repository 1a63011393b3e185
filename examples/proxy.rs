//! A TCP proxy: two green threads for each connection. Each copies a direction and passes on the end of the
//! stream.
//!
//! ```sh
//! cargo run --release --example proxy                                       # with both sides of its own, for a moment
//! cargo run --release --example proxy -- 127.0.0.1:8081 example.org:80      # until Ctrl-C
//! curl -H 'Host: example.org' http://127.0.0.1:8081/
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;
use std::time::Instant;

use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Mutex;
use support::Args;
use support::server::{self, wrong};

mod support;

const USAGE: &str = "\
usage: proxy [ADDR TARGET]

  ADDR     serve there (like 127.0.0.1:8081) until SIGTERM or SIGINT
  TARGET   connect each client to this address (like example.org:80)";

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let mut next = || args.positional().map(|arg| arg.to_string_lossy().into_owned());
    let (addr, target) = (next(), next());
    args.end();
    let target = match (&addr, target) {
        (Some(_), None) => args.wrong("connect to where?"),
        (_, Some(target)) => target,
        (None, None) => match reverser() {
            Ok(addr) => addr.to_string(),
            Err(error) => args.wrong(error),
        },
    };
    server::run(addr.as_deref(), move |stream| proxy(stream, &target), clients)
}

fn proxy(near: TcpStream, target: &str) -> io::Result<()> {
    let far = TcpStream::connect(target)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {target}: {error}")))?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(server::request_time()))?;
        stream.set_write_timeout(Some(server::request_time()))?;
    }
    let moved = Mutex::new(Instant::now());
    runtime::scope(|s| {
        let there = s.spawn(|| pass(&near, &far, &moved));
        let back = pass(&far, &near, &moved);
        there.join().expect("the green thread does not panic").and(back)
    })
}

/// Copies one direction. The end of the stream is passed on. An error ends both directions: the other one may
/// wait for a peer that reads nothing.
fn pass(from: &TcpStream, to: &TcpStream, moved: &Mutex<Instant>) -> io::Result<()> {
    let copied = copy(from, to, moved);
    // Errors of `shutdown` mean that the peer is already disconnected.
    match copied {
        Ok(_) => drop(to.shutdown(Shutdown::Write)),
        Err(_) => [from, to].iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both))),
    }
    copied
}

/// Copies to the end of the stream. Fails if no byte has moved for too long, in both directions: one of them
/// may rest while the other one works. `moved` is the time of the last bytes.
fn copy(mut from: &TcpStream, mut to: &TcpStream, moved: &Mutex<Instant>) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(&bytes[..n])?,
            // The read's time is up.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if moved.lock().elapsed() >= server::request_time() {
                    return Err(error);
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        *moved.lock() = Instant::now();
    }
}

/// Starts a server that reads to the end of the stream and sends the bytes back in reverse order.
fn reverser() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    runtime::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            runtime::spawn(move || -> io::Result<()> {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes)?;
                bytes.reverse();
                stream.write_all(&bytes)
            });
        }
    });
    Ok(addr)
}

fn clients(addr: SocketAddr) -> io::Result<()> {
    let clients: Vec<_> = (0..50usize)
        .map(|number| {
            runtime::spawn(move || -> io::Result<()> {
                let sent: Vec<u8> = (0..number * 10_000).map(|i| (i % 251) as u8).collect();
                let mut stream = TcpStream::connect(addr)?;
                stream.write_all(&sent)?;
                stream.shutdown(Shutdown::Write)?;
                let mut got = Vec::new();
                stream.read_to_end(&mut got)?;
                got.reverse();
                if got == sent {
                    Ok(())
                } else {
                    Err(wrong(format_args!("client {number} received other bytes")))
                }
            })
        })
        .collect();
    clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))?;
    println!("50 clients through the proxy, every byte checked");
    Ok(())
}
