//! The client of one connection: its request, the wait for which it stays, and the answer that it reads in
//! time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::connections::Connections;
use super::request::{MOST_BYTES, Refusal, Request};
use super::server::Access;

/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a wait looks whether the client is still there.
const LOOK: Duration = Duration::from_millis(50);
/// How long a client may read nothing of an answer.
const STALL: Duration = Duration::from_secs(30);
/// A client that reads an answer more slowly, after a first `STALL`, does not get the rest.
const LEAST_BYTES_A_SECOND: u64 = 64 << 10;
/// How long a client may take to close the connection after its answer.
const PARTING: Duration = Duration::from_millis(500);

/// A connection to the debug page.
pub(super) struct Client<'c> {
    stream: TcpStream,
    connections: &'c Connections,
}

impl<'c> Client<'c> {
    pub(super) fn new(stream: TcpStream, connections: &'c Connections) -> Client<'c> {
        Client { stream, connections }
    }

    /// Reads the request. Fails if the client does not send it in time.
    pub(super) fn request(&mut self, access: &Access) -> io::Result<Result<Request, Refusal>> {
        let until = Instant::now() + PATIENCE;
        let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Err(Refusal(408, "the request did not come in time")));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => bytes.extend_from_slice(&part[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
            let head = &bytes[..bytes.len().min(MOST_BYTES)];
            match Request::parse(head, access) {
                Ok(None) => {}
                Ok(Some(request)) => return Ok(Ok(request)),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
    }

    /// Waits for `time`. Returns `false` soon after the client has closed the connection, and at once when
    /// the server ends.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !self.connections.wait(left.min(LOOK)) || self.has_left() {
                return false;
            }
            if left <= LOOK {
                return true;
            }
        }
    }

    /// Returns `true` if the client has closed its side of the connection. What it sent after its request is
    /// thrown away: an unread byte would hide the end.
    fn has_left(&self) -> bool {
        let read = self.stream.set_nonblocking(true).and_then(|()| (&self.stream).read(&mut [0; 1024]));
        let is_there = match read {
            Ok(n) => n > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        !(is_there && self.stream.set_nonblocking(false).is_ok())
    }

    /// Sends the answer. Fails if the client does not read it in time.
    pub(super) fn send(mut self, answer: &Answer, is_head: bool) -> io::Result<()> {
        let (head, body) = (answer.head(), if is_head { &[][..] } else { answer.body() });
        let until = Instant::now() + time_for(head.len() + body.len());
        // The last wait may have left it so.
        self.stream.set_nonblocking(false)?;
        write_by(&mut self.stream, head.as_bytes(), until)?;
        write_by(&mut self.stream, body, until)?;
        self.stream.shutdown(Shutdown::Write)?;
        self.part()
    }

    /// Waits until the client has closed: a close with unread bytes of the client would take the answer away
    /// from it.
    fn part(&mut self) -> io::Result<()> {
        let until = Instant::now() + PARTING;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left))?;
            if self.stream.read(&mut [0; 1024])? == 0 {
                return Ok(());
            }
        }
    }
}

/// Returns how long a client may take to read an answer.
fn time_for(bytes: usize) -> Duration {
    STALL + Duration::from_secs(bytes as u64 / LEAST_BYTES_A_SECOND)
}

/// Writes all `bytes`. Fails after `until`: the time-out of a socket alone would begin anew with each part
/// that the client reads.
fn write_by(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left.min(STALL)))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn a_slow_reader_gets_no_more_than_its_time() {
        let (mut server, mut client) = pair();
        // It reads all the time, but far from all.
        let reader = thread::spawn(move || {
            while client.read(&mut [0; 100]).is_ok_and(|n| n > 0) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let start = Instant::now();
        let written = write_by(&mut server, &vec![0; 64 << 20], start + Duration::from_millis(300));
        let kind = written.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock), "{kind}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        server.shutdown(Shutdown::Both).unwrap();
        drop(server);
        drop(reader);
    }

    #[test]
    fn a_large_answer_has_more_time() {
        assert_eq!(time_for(100), STALL);
        assert_eq!(time_for(10 << 20), STALL + Duration::from_secs(160));
    }

    #[test]
    fn a_wait_ends_with_the_client() {
        let connections = Connections::default();
        let (server, mut stream) = pair();
        let client = Client::new(server, &connections);
        let long = Duration::from_secs(60);
        assert!(client.wait(Duration::from_millis(1)) && client.wait(LOOK * 2));
        // What follows the request hides nothing.
        stream.write_all(&[0; 3000]).unwrap();
        assert!(client.wait(LOOK * 2));
        drop(stream);
        let start = Instant::now();
        assert!(!client.wait(long) && start.elapsed() < long / 2);
        // The end of the server ends a wait, too.
        let (server, _stream) = pair();
        connections.end();
        assert!(!Client::new(server, &connections).wait(long));
    }
}
