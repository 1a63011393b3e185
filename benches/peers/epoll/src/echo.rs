//! `echo`: requests over loopback. Each OS thread has its share of the connections, and both their sides.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use peer_common::args::{Args, not_offered};
use peer_common::report::Report;
use peer_common::samples::{Samples, us};

use crate::echo_ring;
use crate::poller::{Poller, Ready};
use crate::ring::Ring;

/// A side of a connection.
enum Side {
    Server,
    Client(Asking),
}

/// A request under way.
struct Asking {
    message: Vec<u8>,
    answer: Vec<u8>,
    received: usize,
    start: Instant,
}

/// What a thread has measured.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) times: Vec<u64>,
    pub(crate) echoed: u64,
}

/// The connections of a thread.
struct Loop {
    poller: Poller,
    sides: Vec<Option<(TcpStream, Side)>>,
    open: usize,
    measured: Measured,
}

pub(crate) fn echo(mut args: Args) -> Report {
    let procs = args.procs();
    let conns = args.count("conns", 64);
    let size = args.count("size", 64);
    let time = Duration::from_secs(args.number("secs", 5));
    let by_ring = args.word("kind", &["epoll", "uring"]) == "uring";
    let mut report = args.end();
    if by_ring && let Err(error) = Ring::new() {
        not_offered(format_args!("the system refuses an io_uring: {error}"));
    }

    let connected = Barrier::new(procs + 1);
    let (measured, wall) = thread::scope(|scope| {
        let share = |i| (i + 1) * conns / procs - i * conns / procs;
        let start = |i| {
            let connected = &connected;
            scope.spawn(move || {
                let end = |_| Instant::now() + time;
                if by_ring {
                    let own = echo_ring::Loop::connect(share(i), size).expect("connections over loopback");
                    let end = end(connected.wait());
                    return own.run(end).expect("both sides work");
                }
                let mut own = Loop::connect(share(i), size).expect("connections over loopback");
                let end = end(connected.wait());
                own.run(end).expect("both sides work");
                own.measured
            })
        };
        let threads: Vec<_> = (0..procs).map(start).collect();
        connected.wait();
        let start = Instant::now();
        let all = threads.into_iter().map(|thread| thread.join().expect("the thread ends"));
        let measured = all.fold(Measured::default(), |mut all, of_thread| {
            all.times.extend(of_thread.times);
            all.echoed += of_thread.echoed;
            all
        });
        (measured, start.elapsed())
    });
    let requests = measured.times.len() as u64;
    assert_eq!(measured.echoed, requests * size as u64, "bytes were lost");
    let times = Samples::new(measured.times);
    report.number("req_per_s", requests as f64 / wall.as_secs_f64());
    report.number("p50_us", us(times.percentile_ns(50)));
    report.number("p99_us", us(times.percentile_ns(99)));
    report.number("max_us", us(times.max_ns()));
    report
}

impl Loop {
    /// Opens the connections.
    fn connect(conns: usize, size: usize) -> io::Result<Loop> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut own =
            Loop { poller: Poller::new()?, sides: Vec::new(), open: 0, measured: Measured::default() };
        for _ in 0..conns {
            let client = TcpStream::connect(listener.local_addr()?)?;
            let asking =
                Asking { message: vec![0; size], answer: vec![0; size], received: 0, start: Instant::now() };
            own.add(client, Side::Client(asking))?;
            own.add(listener.accept()?.0, Side::Server)?;
        }
        Ok(own)
    }

    fn add(&mut self, stream: TcpStream, side: Side) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.poller.add(&stream, self.sides.len() as u64)?;
        self.sides.push(Some((stream, side)));
        self.open += 1;
        Ok(())
    }

    /// Sends requests until `end`, and serves them. Returns when all connections are closed.
    fn run(&mut self, end: Instant) -> io::Result<()> {
        let mut ready = Ready::new();
        for (stream, side) in self.sides.iter_mut().flatten() {
            if let Side::Client(asking) = side {
                asking.ask(stream, 0)?;
            }
        }
        while self.open > 0 {
            self.poller.wait(&mut ready)?;
            for word in ready.words() {
                let at = &mut self.sides[word as usize];
                let Some((stream, side)) = at else { continue };
                let goes_on = match side {
                    Side::Server => serve(stream, &mut self.measured.echoed)?,
                    Side::Client(asking) => asking.hear(stream, end, &mut self.measured.times)?,
                };
                if !goes_on {
                    *at = None;
                    self.open -= 1;
                }
            }
        }
        Ok(())
    }
}

/// Echoes what has come. Returns `false` at the end of the connection.
fn serve(stream: &mut TcpStream, echoed: &mut u64) -> io::Result<bool> {
    let mut buffer = [0; 1024];
    let n = stream.read(&mut buffer)?;
    // The kernel's buffers hold more than a request.
    stream.write_all(&buffer[..n])?;
    *echoed += n as u64;
    Ok(n > 0)
}

impl Asking {
    fn ask(&mut self, stream: &mut TcpStream, number: usize) -> io::Result<()> {
        self.message.fill(number as u8);
        self.received = 0;
        self.start = Instant::now();
        stream.write_all(&self.message)
    }

    /// Takes what has come of the answer, and sends the next request after a whole one. Returns `false` if
    /// that was the last.
    fn hear(&mut self, stream: &mut TcpStream, end: Instant, times: &mut Vec<u64>) -> io::Result<bool> {
        let n = stream.read(&mut self.answer[self.received..])?;
        assert!(n > 0, "the server has closed the connection");
        self.received += n;
        if self.received < self.answer.len() {
            return Ok(true);
        }
        let now = Instant::now();
        assert_eq!(self.answer, self.message, "the echoed bytes differ from the sent bytes");
        times.push((now - self.start).as_nanos() as u64);
        if now >= end {
            return Ok(false);
        }
        self.ask(stream, times.len())?;
        Ok(true)
    }
}
