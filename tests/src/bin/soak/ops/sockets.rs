//! Sockets of every kind: many connections with ends that close at any moment, clones, time-outs,
//! conversions, datagrams, pipes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use runtime::net::{TcpStream, UdpSocket};

use super::net::{connect, listen};
use crate::actor::{Actor, not_before};
use crate::world::count_refused;

/// The error kind of an expired time-out in std on this system.
const EXPIRED: ErrorKind = if cfg!(unix) { ErrorKind::WouldBlock } else { ErrorKind::TimedOut };

/// Returns the byte at offset `at` of the stream of bytes that `seed` stands for.
fn byte(seed: u8, at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8 ^ seed
}

fn piece(seed: u8, at: usize, length: usize) -> Vec<u8> {
    (at..at + length).map(|at| byte(seed, at)).collect()
}

/// Prepares the end of a connection: a shutdown, a reset, or a plain close.
fn abort(a: &mut Actor, stream: &TcpStream) {
    match a.number(0..3) {
        0 => drop(stream.shutdown(Shutdown::Both)),
        1 => drop(stream.set_linger(Some(Duration::ZERO))),
        _ => {}
    }
}

/// Up to 64 connections at once, with random sizes and ends. Received bytes equal the sent bytes. All arrive
/// unless an end closes early.
pub(super) fn storm(a: &mut Actor) {
    let (listener, addr) = listen(a);
    let server = a.spawn(move |b| {
        loop {
            let Ok((stream, _)) = listener.accept() else { continue };
            // The thread ends with its connection, so no joiner waits for it.
            b.spawn(move |c| echoes(c, &stream)).detach();
        }
    });
    let clients: Vec<_> = (0..a.number(1..65)).map(|_| a.spawn(move |b| storms(b, addr))).collect();
    // If this operation is interrupted, the server ends, and clients that still run see errors, which are not
    // judged.
    clients.into_iter().for_each(|client| a.good(client.value()));
    server.cancel();
    let _cancelled = server.ended();
}

/// Echoes. An odd first byte allows the server to close early.
fn echoes(a: &mut Actor, mut stream: &TcpStream) {
    let (mut buffer, mut first) = (vec![0; a.number(1..5000) as usize], true);
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let early = !buffer[0].is_multiple_of(2) && a.one_in(4);
        if std::mem::take(&mut first) && early {
            return abort(a, stream);
        }
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
        if a.one_in(8) {
            a.pause();
        }
    }
}

fn storms(a: &mut Actor, addr: SocketAddr) -> io::Result<()> {
    let stream = match TcpStream::connect(addr) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            count_refused(&a.world);
            return Ok(());
        }
        connected => connected?,
    };
    let seed = a.random.number() as u8;
    let (polite, quits) = (byte(seed, 0).is_multiple_of(2), a.one_in(4));
    let reads = stream.try_clone()?;
    let reader = a.spawn(move |b| {
        let (mut buffer, mut got) = (vec![0; b.number(1..9000) as usize], 0);
        loop {
            match (&reads).read(&mut buffer) {
                Ok(0) => return (got, Ok(())),
                Ok(n) => {
                    assert!(buffer[..n] == piece(seed, got, n), "other bytes came back");
                    got += n;
                }
                Err(error) => return (got, Err(error)),
            }
            if b.one_in(8) {
                b.pause();
            }
        }
    });
    let mut sent = 0;
    let mut written = Ok(());
    for _ in 0..a.number(1..8) {
        let most = if a.one_in(4) { 100_000 } else { 2000 };
        let piece = piece(seed, sent, a.number(1..most) as usize);
        written = (&stream).write_all(&piece);
        if written.is_err() {
            break;
        }
        sent += piece.len();
        if quits && a.one_in(3) {
            abort(a, &stream);
            // Without the shutdown, the reader's clone would keep the connection open and wait for an answer.
            let _ = stream.shutdown(Shutdown::Both);
            let _ended = reader.value();
            return Ok(());
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let (got, ended) = reader.value();
    if polite {
        written.and(ended)?;
        if got != sent {
            return Err(io::Error::other(format!("{got} of {sent} bytes have come back")));
        }
    }
    Ok(())
}

/// A time-out of a socket is not early, and bytes that arrive later are there for the next read.
pub(super) fn timeouts(a: &mut Actor) {
    let (listener, addr) = listen(a);
    let Some(mut client) = connect(a, addr) else { return };
    let (mut server, _) = a.good(listener.accept());
    let time = a.micros(400) + Duration::from_nanos(1);
    a.good(client.set_read_timeout(Some(time)));
    not_before(time, || {
        let error = client.read(&mut [0]).expect_err("nothing was sent");
        assert_eq!(error.kind(), EXPIRED, "{error}");
    });
    a.good(client.set_nonblocking(true));
    assert_eq!(client.read(&mut [0]).expect_err("nothing was sent").kind(), ErrorKind::WouldBlock);
    a.good(client.set_nonblocking(false));
    a.good(client.set_read_timeout(None));
    a.good(server.write_all(b"late"));
    let mut text = [0; 4];
    a.good(client.read_exact(&mut text));
    assert_eq!(&text, b"late");
}

/// A socket is converted to std's type and back between reads.
pub(super) fn converted(a: &mut Actor) {
    let (listener, addr) = listen(a);
    let Some(client) = connect(a, addr) else { return };
    let (mut server, _) = a.good(listener.accept());
    let writer = a.spawn(move |b| {
        for i in 0..6 {
            server.write_all(&[i])?;
            b.pause();
        }
        io::Result::Ok(())
    });
    let (mut client, mut byte) = (client, [0]);
    for i in [0, 2, 4] {
        a.good(client.read_exact(&mut byte));
        assert_eq!(byte, [i]);
        let mut std = std::net::TcpStream::from(client);
        if a.site.mode.keeps_thread {
            // The writer may be bound to the OS thread that std's read would block.
            client = TcpStream::from(std);
            a.good(client.read_exact(&mut byte));
        } else {
            a.good(runtime::blocking(|| std.read_exact(&mut byte)));
            client = TcpStream::from(std);
        }
        assert_eq!(byte, [i + 1]);
    }
    a.good(writer.value());
}

/// Questions and answers over UDP. A lost question is asked again.
pub(super) fn datagrams(a: &mut Actor) {
    let server = a.good(UdpSocket::bind("127.0.0.1:0"));
    let addr = a.good(server.local_addr());
    let answers = a.spawn(move |_| {
        let mut buffer = [0; 2000];
        loop {
            if let Ok((n, peer)) = server.recv_from(&mut buffer) {
                let _ = server.send_to(&buffer[..n], peer);
            }
        }
    });
    let client = a.good(UdpSocket::bind("127.0.0.1:0"));
    a.good(client.connect(addr));
    a.good(client.set_read_timeout(Some(Duration::from_millis(50))));
    for i in 0..a.number(1..5) {
        let mut sent = vec![i as u8];
        sent.resize(a.number(1..1500) as usize, a.random.number() as u8);
        let mut buffer = [0; 2000];
        loop {
            a.good(client.send(&sent));
            match client.recv(&mut buffer) {
                // The answer to a question that was asked twice.
                Ok(n) if buffer[..n] != sent => {
                    assert!(buffer[0] <= i as u8, "an answer before its question")
                }
                Ok(_) => break,
                // The answering thread was cancelled, by an operation around this operation, and its socket
                // is closed.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    let _cancelled = answers.ended();
                    return;
                }
                Err(error) => assert_eq!(error.kind(), EXPIRED, "{error}"),
            }
        }
    }
    answers.cancel();
    let _cancelled = answers.ended();
}

/// A pair of Unix stream sockets, with many bytes in both directions, and a pair of datagram sockets.
#[cfg(unix)]
pub(super) fn unix_pair(a: &mut Actor) {
    use runtime::net::unix::{UnixDatagram, UnixStream};
    let (one, other) = a.good(UnixStream::pair());
    let (seed, length) = (a.random.number() as u8, a.number(1..300_000) as usize);
    let echo =
        a.spawn(move |_| io::copy(&mut &other, &mut &other).and_then(|_| other.shutdown(Shutdown::Write)));
    let mut writes = a.good(one.try_clone());
    let writer = a.spawn(move |_| {
        writes.write_all(&piece(seed, 0, length))?;
        writes.shutdown(Shutdown::Write)
    });
    let mut got = Vec::new();
    a.good((&one).read_to_end(&mut got));
    a.good(writer.value());
    a.good(echo.value());
    a.check(got == piece(seed, 0, length), "all bytes have come back");

    let (one, other) = a.good(UnixDatagram::pair());
    let count = a.number(1..700) as u32;
    let sender = a.spawn(move |_| (0..count).try_for_each(|i| one.send(&i.to_le_bytes()).map(drop)));
    for i in 0..count {
        let mut number = [0; 4];
        a.good(other.recv(&mut number));
        assert_eq!(u32::from_le_bytes(number), i);
    }
    a.good(sender.value());
}

/// A pipe in `net::Async`, which threads and futures wait for. The first two waits time out.
#[cfg(unix)]
pub(super) fn pipe(a: &mut Actor) {
    use runtime::net::Async;
    use runtime::time::{timeout, timeout_async};
    let (reader, mut writer) = a.good(io::pipe());
    let reader = a.good(Async::new(reader));
    let time = a.micros(300);
    assert!(timeout(time, || reader.readable()).is_err());
    assert!(a.block_on(async { timeout_async(time, reader.readable_async()).await }).is_err());
    let count = a.number(1..20) as u8;
    let writes = a.spawn(move |b| {
        (0..count).try_for_each(|i| {
            b.pause();
            writer.write_all(&[i])
        })
    });
    for i in 0..count {
        let ready = match a.one_in(2) {
            true => a.block_on(async { reader.readable_async().await }),
            false => reader.readable(),
        };
        a.good(ready);
        let mut byte = [0];
        a.good(reader.get_ref().read_exact(&mut byte));
        assert_eq!(byte, [i]);
    }
    a.good(writes.value());
    a.good(reader.readable());
    assert_eq!(a.good(reader.get_ref().read(&mut [0])), 0);
}
