//! A UDP service: a green thread for each datagram, and a limit on how many are handled at a time. The
//! service answers a text with the same text in capitals.
//!
//! ```sh
//! cargo run --release --example udp                       # with clients of its own, for a moment
//! cargo run --release --example udp -- 127.0.0.1:7007     # until Ctrl-C
//! echo hello | nc -u -w 1 127.0.0.1 7007
//! ```

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use runtime::net::UdpSocket;
use runtime::sync::Semaphore;
use runtime::time::timeout;
use support::Args;
use support::server::{Signals, wrong};

mod support;

const USAGE: &str = "usage: udp [ADDR]\n\n  ADDR   serve there (like 127.0.0.1:7007) until SIGTERM or SIGINT";

/// The most bytes of a datagram. A longer one is dropped.
const DATAGRAM: usize = 1200;
/// The most datagrams that are handled at a time. Further ones are dropped: a client must expect that anyway.
const REQUESTS: usize = 1000;
/// How long the handlers may go on after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let addr = args.positional().map(|addr| addr.to_string_lossy().into_owned());
    args.end();
    match runtime::block_on(|| run(addr.as_deref())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// With an address, serves there until a signal. Without an address, serves until the clients have ended.
fn run(addr: Option<&str>) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::bind(addr.unwrap_or("127.0.0.1:0"))?);
    let here = socket.local_addr()?;
    let end = Signals::new()?;
    let slots = Arc::new(Semaphore::new(REQUESTS));
    let receiver = {
        let slots = slots.clone();
        runtime::spawn(move || receive(&socket, &slots))
    };
    println!("serving on {here}");
    match addr {
        Some(_) => end.wait(),
        None => clients(here)?,
    }
    // No further datagram is received. The handlers hold their slots until they have answered.
    receiver.cancel();
    let _cancelled = receiver.join();
    if timeout(PATIENCE, || drop(slots.acquire_many(REQUESTS as u32))).is_err() {
        println!("some datagrams were not answered");
    }
    Ok(())
}

fn receive(socket: &Arc<UdpSocket>, slots: &Arc<Semaphore>) -> io::Result<()> {
    let mut bytes = [0; DATAGRAM + 1];
    loop {
        let (length, client) = match socket.recv_from(&mut bytes) {
            Ok(received) => received,
            // The system reports that an earlier answer did not arrive.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        if length > DATAGRAM {
            continue;
        }
        let (socket, request) = (socket.clone(), bytes[..length].to_vec());
        runtime::spawn(move || {
            // An error means that this client gets no answer.
            let _ = socket.send_to(&answer(&request), client);
            drop(slot);
        });
    }
}

/// The answer is as long as the request. So a request with a forged sender floods no other machine with more
/// than it has.
fn answer(request: &[u8]) -> Vec<u8> {
    request.to_ascii_uppercase()
}

/// A hundred clients with many datagrams each.
fn clients(addr: SocketAddr) -> io::Result<()> {
    let clients: Vec<_> = (0..100).map(|number| runtime::spawn(move || client(addr, number))).collect();
    clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))?;
    println!("100 clients received every answer");
    Ok(())
}

fn client(addr: SocketAddr, number: usize) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(addr)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    (0..20).try_for_each(|i| ask(&socket, &format!("datagram {i} of client {number}")))
}

/// Sends a text until its answer comes: datagrams may be lost.
fn ask(socket: &UdpSocket, text: &str) -> io::Result<()> {
    let mut bytes = [0; DATAGRAM];
    for _ in 0..20 {
        socket.send(text.as_bytes())?;
        while let Ok(length) = socket.recv(&mut bytes) {
            // Another text is a late answer to an earlier attempt.
            if bytes[..length] == *text.to_uppercase().as_bytes() {
                return Ok(());
            }
        }
    }
    Err(wrong(format_args!("{text}: no answer")))
}
