//! A TCP proxy: two green threads for each connection. Each copies a direction and passes on the end of the stream.
//!
//! ```sh
//! cargo run --release --example proxy                                       # with both sides of its own, for a moment
//! cargo run --release --example proxy -- 127.0.0.1:8081 example.org:80      # until Ctrl-C
//! curl -H 'Host: example.org' http://127.0.0.1:8081/
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;

use runtime::net::{TcpListener, TcpStream};
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
    runtime::scope(|s| {
        let there = s.spawn(|| pass(&near, &far));
        let back = pass(&far, &near);
        there.join().expect("the green thread does not panic").and(back)
    })
}

/// Copies one direction. The end of the stream is passed on. An error ends both directions: the other one may wait for a peer
/// that reads nothing.
fn pass(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    // Errors of `shutdown` mean that the peer is already disconnected.
    match copied {
        Ok(_) => drop(to.shutdown(Shutdown::Write)),
        Err(_) => [from, to].iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both))),
    }
    copied.map(drop)
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
