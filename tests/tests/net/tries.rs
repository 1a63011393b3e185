//! Calls of sockets that never wait, and streams in halves.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::time::Duration;

use runtime::net::{OwnedReadHalf, OwnedWriteHalf, TcpStream, UdpSocket};
use runtime::time::timeout;
use runtime::{sleep, spawn};
use tests::sockets::connected;
use tests::{everywhere, on_each};

const MILLI: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Returns `true` if the call would have to wait.
fn would_block<T: std::fmt::Debug>(result: std::io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_stream_is_read_and_written_without_waiting() {
    everywhere(|| {
        let (one, other) = connected();
        let mut bytes = [0; 100];
        assert!(would_block(one.try_read(&mut bytes)));
        assert!(would_block(one.try_read_vectored(&mut [IoSliceMut::new(&mut bytes)])));
        assert_eq!(other.try_write(b"hello").unwrap(), 5);
        assert_eq!(other.try_write_vectored(&[IoSlice::new(b" wor"), IoSlice::new(b"ld")]).unwrap(), 6);
        // The bytes are on their way.
        let mut read = 0;
        timeout(MINUTE, || {
            while read < 11 {
                match one.try_read(&mut bytes[read..]) {
                    Ok(n) => read += n,
                    Err(_) => sleep(MILLI),
                }
            }
        })
        .unwrap();
        assert_eq!(&bytes[..read], b"hello world");
        // Until there is no room. A reader makes room again, for a write that waits.
        let mut written = 0;
        loop {
            match one.try_write(&[7; 65_536]) {
                Ok(n) => written += n,
                Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        let reader = spawn(move || std::io::copy(&mut &other, &mut std::io::sink()).unwrap());
        (&one).write_all(b"end").unwrap();
        drop(one);
        assert_eq!(reader.join().unwrap(), written as u64 + 3);
    });
}

#[test]
fn a_try_does_not_hide_what_comes_from_a_call_that_waits() {
    on_each(|| {
        let (one, other) = connected();
        for round in 0..100_u8 {
            let writes = spawn({
                let other = other.try_clone().unwrap();
                move || (&other).write_all(&[round]).unwrap()
            });
            let mut byte = [0];
            if one.try_read(&mut byte).is_err() {
                timeout(MINUTE, || (&one).read_exact(&mut byte)).unwrap().unwrap();
            }
            assert_eq!(byte, [round]);
            writes.join().unwrap();
        }
    });
}

#[test]
fn datagrams_are_sent_and_received_without_waiting() {
    everywhere(|| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut bytes = [0; 100];
        assert!(would_block(one.try_recv_from(&mut bytes)) && would_block(one.try_peek_from(&mut bytes)));
        assert_eq!(other.try_send_to(b"one", one.local_addr().unwrap()).unwrap(), 3);
        let sender = other.local_addr().unwrap();
        assert_eq!(one.peek_from(&mut bytes).unwrap(), (3, sender));
        assert_eq!(one.try_peek_from(&mut bytes).unwrap(), (3, sender));
        assert_eq!(one.try_recv_from(&mut bytes).unwrap(), (3, sender));
        one.connect(sender).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        assert!(would_block(one.try_recv(&mut bytes)));
        assert_eq!(other.try_send(b"four").unwrap(), 4);
        assert_eq!(one.peek(&mut bytes).unwrap(), 4);
        assert_eq!((one.try_recv(&mut bytes).unwrap(), &bytes[..4]), (4, &b"four"[..]));
    });
}

#[cfg(unix)]
#[test]
fn datagrams_of_unix_sockets_are_sent_without_waiting() {
    use runtime::net::unix::UnixDatagram;
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let mut bytes = [0; 100];
        assert!(would_block(one.try_recv(&mut bytes)) && would_block(one.try_recv_from(&mut bytes)));
        let mut sent = 0;
        loop {
            match other.try_send(b"hello") {
                Ok(5) => sent += 1,
                result => break assert!(would_block(result)),
            }
        }
        assert!(sent > 0);
        for _ in 0..sent {
            assert_eq!(one.try_recv(&mut bytes).unwrap(), 5);
        }
        assert!(would_block(one.try_recv(&mut bytes)));
    });
}

/// Reads to the end in one green thread, and writes in another.
fn there_and_back(mut read: OwnedReadHalf<TcpStream>, mut write: OwnedWriteHalf<TcpStream>) -> usize {
    let writes = spawn(move || write.write_all(&[7; 1_000_000]).unwrap());
    let mut got = Vec::new();
    read.read_to_end(&mut got).unwrap();
    writes.join().unwrap();
    got.len()
}

#[test]
fn the_halves_of_a_stream_belong_to_two_green_threads() {
    on_each(|| {
        let (one, other) = connected();
        let echo = spawn(move || std::io::copy(&mut &other, &mut &other).unwrap());
        let (read, write) = one.into_split();
        assert_eq!(there_and_back(read, write), 1_000_000, "the drop of the writing half ends the stream");
        assert_eq!(echo.join().unwrap(), 1_000_000);
    });
}

#[test]
fn halves_are_reunited_with_their_own() {
    everywhere(|| {
        let ((one, mut peer), (other, _other_peer)) = (connected(), connected());
        let address = one.local_addr().unwrap();
        let ((read, write), (other_read, other_write)) = (one.into_split(), other.into_split());
        let error = read.reunite(other_write).unwrap_err();
        let (read, other_write) = (error.0, error.1);
        let stream = write.reunite(read).unwrap();
        assert_eq!(stream.local_addr().unwrap(), address);
        // The stream was not ended on the way.
        (&stream).write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        peer.read_exact(&mut bytes).unwrap();
        drop(other_read.reunite(other_write).unwrap());
        let (_read, write) = stream.into_split();
        write.forget();
        assert!(timeout(MILLI, || peer.read(&mut bytes)).is_err(), "a forgotten half ends nothing");
    });
}
