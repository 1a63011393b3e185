//! `http`: a server that gives each request the same answer. The server runs until the driver kills the
//! process.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;

use peer_common::args::Args;
use peer_common::http::Requests;
use peer_common::report::Report;

use crate::poller::{Poller, Ready};

struct Connection {
    stream: TcpStream,
    requests: Requests,
    answers: Vec<u8>,
}

pub(crate) fn http(mut args: Args) -> Report {
    let procs = args.procs();
    let port = args.number("port", 0) as u16;
    let mut report = args.end();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a port to listen on");
    report.count("listens", listener.local_addr().expect("the listener has an address").port().into());
    report.print();
    let pollers: Vec<_> = (0..procs).map(|_| Arc::new(Poller::new().expect("an epoll"))).collect();
    for poller in &pollers {
        let poller = poller.clone();
        thread::spawn(move || serve(&poller).expect("the epoll works"));
    }
    for poller in pollers.iter().cycle() {
        let (stream, _) = listener.accept().expect("a connection");
        // An error of a connection is ignored: a client may close a connection at any moment.
        drop(give(poller, stream));
    }
    unreachable!("the loop has no end")
}

/// Gives a connection to the thread of `poller`.
fn give(poller: &Poller, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let connection = Box::new(Connection { stream, requests: Requests::default(), answers: Vec::new() });
    let socket = connection.stream.as_raw_fd();
    let word = Box::into_raw(connection).expose_provenance() as u64;
    poller.add(&socket, word)
}

/// Serves the connections of `poller`.
fn serve(poller: &Poller) -> io::Result<()> {
    let mut ready = Ready::new();
    loop {
        poller.wait(&mut ready)?;
        for word in ready.words() {
            let connection = std::ptr::with_exposed_provenance_mut::<Connection>(word as usize);
            // SAFETY: `give` has left the connection to this thread alone, until it is dropped here.
            let goes_on = answer(unsafe { &mut *connection }).unwrap_or(false);
            if !goes_on {
                // SAFETY: as above. The socket is closed with it, so the epoll names it no more.
                drop(unsafe { Box::from_raw(connection) });
            }
        }
    }
}

/// Answers the requests that have come. Returns `false` at the end of the connection.
fn answer(connection: &mut Connection) -> io::Result<bool> {
    let Connection { stream, requests, answers } = connection;
    let n = stream.read(requests.space())?;
    if n == 0 {
        return Ok(false);
    }
    requests.answer(n, answers);
    stream.write_all(answers)?;
    answers.clear();
    Ok(true)
}
