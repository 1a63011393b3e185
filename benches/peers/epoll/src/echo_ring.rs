//! `echo` over io_uring: the loop of `echo.rs` with receives and sends that the kernel performs.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use crate::echo::Measured;
use crate::ring::{Event, Ring};

/// A side of a connection.
enum Side {
    /// What it echoes, until the client has received it.
    Server(Vec<u8>),
    Client(Asking),
}

/// A request under way.
struct Asking {
    message: Vec<u8>,
    answer: Vec<u8>,
    start: Instant,
}

/// The connections of a thread.
pub(crate) struct Loop {
    ring: Ring,
    sides: Vec<Option<(TcpStream, Side)>>,
    open: usize,
    measured: Measured,
}

impl Loop {
    /// Opens the connections.
    pub(crate) fn connect(conns: usize, size: usize) -> io::Result<Loop> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut own = Loop { ring: Ring::new()?, sides: Vec::new(), open: 0, measured: Measured::default() };
        for _ in 0..conns {
            let client = TcpStream::connect(listener.local_addr()?)?;
            let asking = Asking { message: vec![0; size], answer: Vec::new(), start: Instant::now() };
            own.add(client, Side::Client(asking))?;
            own.add(listener.accept()?.0, Side::Server(Vec::new()))?;
        }
        let sockets: Vec<_> = own.sides.iter().flatten().map(|(stream, _)| stream.as_raw_fd()).collect();
        own.ring.register(&sockets)?;
        Ok(own)
    }

    fn add(&mut self, stream: TcpStream, side: Side) -> io::Result<()> {
        stream.set_nodelay(true)?;
        self.sides.push(Some((stream, side)));
        self.open += 1;
        Ok(())
    }

    /// Sends requests until `end`, and serves them. Returns when all connections are closed.
    pub(crate) fn run(mut self, end: Instant) -> io::Result<Measured> {
        for i in 0..self.sides.len() {
            self.ring.receive(i as u32, i as u64)?;
            if let Some((_, Side::Client(asking))) = &mut self.sides[i] {
                asking.ask(&mut self.ring, i as u32, 0)?;
            }
        }
        while self.open > 0 {
            self.ring.wait()?;
            while let Some(event) = self.ring.next()? {
                self.on(event, end)?;
            }
        }
        Ok(self.measured)
    }

    fn on(&mut self, event: Event, end: Instant) -> io::Result<()> {
        let i = event.word as usize;
        let Some((stream, side)) = &mut self.sides[i] else {
            self.ring.give(event);
            return Ok(());
        };
        if event.starved {
            return self.ring.receive(i as u32, event.word);
        }
        let goes_on = match side {
            Side::Server(echo) => {
                echo.clear();
                echo.extend_from_slice(self.ring.bytes(&event));
                if !echo.is_empty() {
                    // SAFETY: the client receives the whole echo before it asks again.
                    unsafe { self.ring.send(i as u32, echo)? };
                }
                self.measured.echoed += event.len as u64;
                event.len > 0
            }
            Side::Client(asking) => {
                assert!(event.len > 0, "the server has closed the connection");
                asking.answer.extend_from_slice(self.ring.bytes(&event));
                asking.hear(&mut self.ring, i as u32, end, &mut self.measured.times)?
            }
        };
        if !goes_on {
            // The kernel keeps the file open for the ring.
            stream.shutdown(std::net::Shutdown::Both).or_else(|error| match error.kind() {
                io::ErrorKind::NotConnected => Ok(()),
                _ => Err(error),
            })?;
            self.sides[i] = None;
            self.open -= 1;
        } else if !event.more {
            self.ring.receive(i as u32, event.word)?;
        }
        self.ring.give(event);
        Ok(())
    }
}

impl Asking {
    fn ask(&mut self, ring: &mut Ring, socket: u32, number: usize) -> io::Result<()> {
        self.message.fill(number as u8);
        self.answer.clear();
        self.start = Instant::now();
        // SAFETY: the message changes after the answer, which the server sends after the whole message.
        unsafe { ring.send(socket, &self.message) }
    }

    /// Sends the next request after a whole answer. Returns `false` if that was the last.
    fn hear(&mut self, ring: &mut Ring, socket: u32, end: Instant, times: &mut Vec<u64>) -> io::Result<bool> {
        if self.answer.len() < self.message.len() {
            return Ok(true);
        }
        let now = Instant::now();
        assert_eq!(self.answer, self.message, "the echoed bytes differ from the sent bytes");
        times.push((now - self.start).as_nanos() as u64);
        if now >= end {
            return Ok(false);
        }
        self.ask(ring, socket, times.len())?;
        Ok(true)
    }
}
