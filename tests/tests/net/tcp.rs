//! TCP as in std: time-outs, clones, modes, options, conversions. Each wait ends by a cancellation or a
//! time-out.

use std::collections::HashSet;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::Cancelled;
use runtime::time::timeout;
use runtime::{sleep, spawn};
use socket2::SockRef;
use tests::sockets::{connected, fill, full, is_of_shut_writes, listener, push, push_to_error};
use tests::{everywhere, on, on_each};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The error kind of an expired time-out in std on this system.
const EXPIRED: ErrorKind = if cfg!(unix) { ErrorKind::WouldBlock } else { ErrorKind::TimedOut };

/// Returns an address that does not answer, because its queue of connections to be accepted is full.
fn deaf() -> (socket2::Socket, SocketAddr, Vec<TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(1).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    // One time-out may also come of a busy machine that lets this thread wait for so long.
    let mut refused_in_a_row = 0;
    while refused_in_a_row < 3 {
        match TcpStream::connect_timeout(&addr, MILLI * 100) {
            Ok(stream) => {
                waiting.push(stream);
                refused_in_a_row = 0;
            }
            Err(_) => refused_in_a_row += 1,
        }
        assert!(waiting.len() < 100, "the queue is short");
    }
    (socket, addr, waiting)
}

#[test]
fn a_read_times_out_and_the_next_read_gets_later_bytes() {
    everywhere(|| {
        let (client, server) = connected();
        assert_eq!(client.read_timeout().unwrap(), None);
        let time = 5 * MILLI;
        client.set_read_timeout(Some(time)).unwrap();
        assert_eq!(client.read_timeout().unwrap(), Some(time));
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!((&client).read(&mut [0; 8]).unwrap_err().kind(), EXPIRED);
            assert_eq!(client.peek(&mut [0; 8]).unwrap_err().kind(), EXPIRED);
            assert!(start.elapsed() >= time * 2);
        }
        (&server).write_all(b"late").unwrap();
        client.set_read_timeout(Some(HOUR)).unwrap();
        let mut bytes = [0; 4];
        (&client).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"late");
        client.set_read_timeout(Some(Duration::MAX)).unwrap();
        (&server).write_all(b"later").unwrap();
        assert!((&client).read(&mut bytes).unwrap() > 0);
    });
}

#[test]
fn a_write_without_a_reader_times_out() {
    everywhere(|| {
        let (client, server) = connected();
        client.set_write_timeout(Some(5 * MILLI)).unwrap();
        let (written, kind) = fill(&client);
        assert_eq!(kind, EXPIRED);
        // Exactly the bytes that were reported as written arrive.
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(io::copy(&mut &server, &mut io::sink()).unwrap(), written as u64);
    });
}

#[test]
fn a_time_out_of_zero_is_refused_and_changes_nothing() {
    on(1, || {
        let (client, _server) = connected();
        client.set_read_timeout(Some(MILLI)).unwrap();
        for refused in [
            client.set_read_timeout(Some(Duration::ZERO)),
            client.set_write_timeout(Some(Duration::ZERO)),
            TcpStream::connect_timeout(&client.peer_addr().unwrap(), Duration::ZERO).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(client.read_timeout().unwrap(), Some(MILLI));
        assert_eq!(client.write_timeout().unwrap(), None);
        client.set_read_timeout(None).unwrap();
        assert_eq!(client.read_timeout().unwrap(), None);
    });
}

#[test]
fn connect_timeout_ends_at_an_address_that_does_not_answer() {
    everywhere(|| {
        let (_socket, addr, _waiting) = deaf();
        let start = Instant::now();
        let error = TcpStream::connect_timeout(&addr, 20 * MILLI).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
        assert!(start.elapsed() >= 20 * MILLI);
        // In time, `connect_timeout` connects to a listener, and is refused at a port without a listener.
        let (listener, addr) = listener();
        let client = TcpStream::connect_timeout(&addr, HOUR).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
        drop(listener);
        let error = TcpStream::connect_timeout(&addr, HOUR).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn reads_and_writes_of_clones_run_concurrently() {
    on_each(|| {
        let (client, server) = connected();
        let echo = spawn(move || io::copy(&mut &server, &mut &server).unwrap());
        let mut writes = client.try_clone().unwrap();
        let writer = spawn(move || {
            for i in 0..2000u32 {
                writes.write_all(&i.to_le_bytes()).unwrap();
            }
            writes.shutdown(Shutdown::Write).unwrap();
        });
        let mut reads = client.try_clone().unwrap();
        drop(client);
        for i in 0..2000u32 {
            let mut bytes = [0; 4];
            reads.read_exact(&mut bytes).unwrap();
            assert_eq!(u32::from_le_bytes(bytes), i);
        }
        assert_eq!(reads.read(&mut [0]).unwrap(), 0);
        writer.join().unwrap();
        assert_eq!(echo.join().unwrap(), 8000);
    });
}

#[test]
fn clones_share_mode_and_time_outs_and_the_last_closes() {
    on(2, || {
        let (client, mut server) = connected();
        let clone = client.try_clone().unwrap();
        client.set_read_timeout(Some(MILLI)).unwrap();
        client.set_nonblocking(true).unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(MILLI));
        let start = Instant::now();
        assert_eq!((&clone).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() < HOUR);
        drop(client);
        server.set_read_timeout(Some(5 * MILLI)).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), EXPIRED, "a clone keeps the connection open");
        drop(clone);
        server.set_read_timeout(None).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn clones_of_a_listener_accept_concurrently() {
    on_each(|| {
        let (listener, addr) = listener();
        let accepted = Arc::new(AtomicUsize::new(0));
        let acceptors: Vec<_> = (0..4)
            .map(|_| {
                let (listener, accepted) = (listener.try_clone().unwrap(), accepted.clone());
                spawn(move || {
                    for stream in listener.incoming() {
                        stream.unwrap().write_all(b"x").unwrap();
                        accepted.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        drop(listener);
        for _ in 0..50 {
            let mut text = String::new();
            TcpStream::connect(addr).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
        }
        acceptors.iter().for_each(|acceptor| acceptor.cancel());
        assert!(acceptors.into_iter().all(|acceptor| acceptor.join().is_err()));
        assert_eq!(accepted.load(SeqCst), 50);
        assert_eq!(
            TcpStream::connect(addr).unwrap_err().kind(),
            ErrorKind::ConnectionRefused,
            "all clones are dropped"
        );
    });
}

#[test]
fn non_blocking_calls_do_not_wait() {
    everywhere(|| {
        let (listener, addr) = listener();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(listener.incoming().next().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = TcpStream::connect(addr).unwrap();
        let (server, _) = listener.accept().unwrap();
        // An accepted socket is in blocking mode.
        (&client).write_all(b"a").unwrap();
        (&server).read_exact(&mut [0]).unwrap();
        client.set_nonblocking(true).unwrap();
        assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(client.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(fill(&client).1, ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
        (&server).write_all(b"b").unwrap();
        (&client).read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn peek_waits_and_consumes_nothing() {
    everywhere(|| {
        let (client, server) = connected();
        let writer = spawn(move || {
            sleep(MILLI);
            (&server).write_all(b"hello").unwrap();
            server
        });
        let mut bytes = [0; 8];
        assert!(client.peek(&mut bytes).unwrap() > 0);
        assert_eq!(bytes[0], b'h');
        let _server = writer.join().unwrap();
        (&client).read_exact(&mut bytes[..5]).unwrap();
        assert_eq!(&bytes[..5], b"hello");
    });
}

#[test]
fn vectored_writes_and_reads_keep_the_order_of_the_buffers() {
    on(2, || {
        let (mut client, server) = connected();
        let n =
            client.write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b"two "), IoSlice::new(b"three")]);
        assert_eq!(n.unwrap(), 13);
        while server.peek(&mut [0; 16]).unwrap() < 13 {}
        let (mut one, mut two) = ([0; 4], [0; 11]);
        let n = (&server).read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]);
        assert_eq!((n.unwrap(), &one, &two), (13, b"one ", b"two three\0\0"));
    });
}

/// One system call takes at most 1,024 of the buffers.
#[test]
fn a_read_into_many_buffers_leaves_bytes_for_the_next_read() {
    everywhere(|| {
        let (mut client, server) = connected();
        // A read that waits although bytes are there gets them when its time is up.
        client.set_read_timeout(Some(5000 * MILLI)).unwrap();
        let begun = Instant::now();
        for _ in 0..3 {
            (&server).write_all(&[7; 1500]).unwrap();
            while client.peek(&mut [0; 1500]).unwrap() < 1500 {}
            let mut bytes = [0; 1500];
            let mut buffers: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
            let first = client.read_vectored(&mut buffers).unwrap();
            client.read_exact(&mut bytes[first..]).unwrap_or_else(|error| panic!("after {first}: {error}"));
            assert_eq!(bytes, [7; 1500]);
        }
        assert!(begun.elapsed() < 5000 * MILLI);
    });
}

/// A `TcpStream` adopts any stream. A read from this one ends with a packet.
#[test]
#[cfg(target_os = "linux")]
fn a_read_of_an_adopted_socket_that_stops_short_leaves_bytes_for_the_next_read() {
    everywhere(|| {
        let kind = socket2::Type::SEQPACKET;
        let (one, other) = socket2::Socket::pair(socket2::Domain::UNIX, kind, None).unwrap();
        let mut client = TcpStream::from(std::os::fd::OwnedFd::from(one));
        client.set_read_timeout(Some(5000 * MILLI)).unwrap();
        let begun = Instant::now();
        for _ in 0..3 {
            for packet in [&b"one"[..], b"three", b"eleven"] {
                other.send(packet).unwrap();
            }
            for packet in [&b"one"[..], b"three", b"eleven"] {
                let mut bytes = [0; 100];
                let n = client.read(&mut bytes).unwrap();
                assert_eq!(&bytes[..n], packet);
            }
        }
        assert!(begun.elapsed() < 5000 * MILLI);
    });
}

#[test]
fn options_reach_the_socket_of_the_system() {
    on(1, || {
        let (client, _server) = connected();
        assert!(!client.nodelay().unwrap());
        client.set_nodelay(true).unwrap();
        assert!(client.nodelay().unwrap() && SockRef::from(&client).tcp_nodelay().unwrap());
        client.set_ttl(9).unwrap();
        assert_eq!((client.ttl().unwrap(), SockRef::from(&client).ttl_v4().unwrap()), (9, 9));
        client.set_linger(Some(Duration::from_secs(2))).unwrap();
        assert_eq!(client.linger().unwrap(), Some(Duration::from_secs(2)));
        client.set_linger(None).unwrap();
        assert_eq!(client.linger().unwrap(), None);
        let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(77));
        SockRef::from(&client).set_tcp_keepalive(&keepalive).unwrap();
        assert!(SockRef::from(&client).keepalive().unwrap());
        let (listener, _) = listener();
        listener.set_ttl(8).unwrap();
        assert_eq!(listener.ttl().unwrap(), 8);
        assert!(listener.take_error().unwrap().is_none());
    });
}

#[test]
fn a_thousand_connections_wait_to_be_accepted() {
    on(2, || {
        let (listener, addr) = listener();
        // With std's backlog of 128, the system would delay some of these connects by a second or more.
        let clients: Vec<_> = (0..1000).map(|_| TcpStream::connect(addr).unwrap()).collect();
        let accepted: HashSet<_> = clients.iter().map(|_| listener.accept().unwrap().1).collect();
        assert_eq!(accepted.len(), 1000);
    });
}

#[test]
fn a_stream_converts_to_std_and_back() {
    everywhere(|| {
        let (client, mut server) = connected();
        // The system rounds the time to some milliseconds.
        client.set_read_timeout(Some(100 * MILLI)).unwrap();
        let mut client = std::net::TcpStream::from(client);
        assert_eq!(client.read_timeout().unwrap(), Some(100 * MILLI));
        client.set_read_timeout(None).unwrap();
        // After the conversion the socket blocks its OS thread.
        let writer = spawn(move || {
            sleep(MILLI);
            server.write_all(b"hello").unwrap();
            server
        });
        let mut bytes = [0; 5];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
        let mut server = writer.join().unwrap();
        client.set_read_timeout(Some(20 * MILLI)).unwrap();
        let client = TcpStream::from(client);
        assert_eq!(client.read_timeout().unwrap(), Some(20 * MILLI));
        assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), EXPIRED);
        server.write_all(b"again").unwrap();
        client.set_read_timeout(None).unwrap();
        (&client).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"again");
    });
}

#[test]
fn a_listener_converts_to_std_and_back() {
    everywhere(|| {
        let (listener, addr) = listener();
        let listener = std::net::TcpListener::from(listener);
        let client = spawn(move || {
            sleep(MILLI);
            TcpStream::connect(addr).unwrap()
        });
        listener.accept().unwrap();
        client.join().unwrap();
        let listener = TcpListener::from(listener);
        let client = spawn(move || {
            sleep(MILLI);
            TcpStream::connect(addr).unwrap()
        });
        assert_eq!(listener.accept().unwrap().1, client.join().unwrap().local_addr().unwrap());
    });
}

#[test]
fn a_cancellation_ends_waiting_calls() {
    on_each(|| {
        let ends = |name: &str, wait: fn()| {
            let thread = spawn(wait);
            sleep(2 * MILLI);
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>(), "{name}");
        };
        ends("accept", || drop(listener().0.accept()));
        ends("incoming", || drop(listener().0.incoming().next()));
        ends("read", || {
            let (client, _server) = connected();
            let _ = (&client).read(&mut [0]);
        });
        ends("read with a time-out", || {
            let (client, _server) = connected();
            client.set_read_timeout(Some(HOUR)).unwrap();
            let _ = (&client).read(&mut [0]);
        });
        ends("peek", || {
            let (client, _server) = connected();
            let _ = client.peek(&mut [0]);
        });
        ends("write", || {
            let (client, _server) = full();
            push(&client);
        });
    });
    on(2, || {
        let (_socket, addr, _waiting) = deaf();
        let connects = [
            spawn(move || drop(TcpStream::connect(addr))),
            spawn(move || drop(TcpStream::connect_timeout(&addr, HOUR))),
        ];
        sleep(5 * MILLI);
        for thread in connects {
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
        }
    });
}

#[test]
fn a_timeout_ends_waiting_calls() {
    everywhere(|| {
        let ended = |wait: &dyn Fn()| assert!(timeout(2 * MILLI, wait).is_err());
        let (listener, _) = listener();
        ended(&|| drop(listener.accept()));
        let (client, server) = full();
        ended(&|| assert!(push(&client) != ErrorKind::WouldBlock));
        ended(&|| drop((&client).read(&mut [0])));
        ended(&|| drop(client.peek(&mut [0])));
        // The ended calls have consumed no byte and left no waiter.
        (&server).write_all(b"x").unwrap();
        (&client).read_exact(&mut [0]).unwrap();
        let (_socket, addr, _waiting) = deaf();
        ended(&|| drop(TcpStream::connect(addr)));
    });
}

#[test]
fn a_reset_ends_waits_with_an_error() {
    on_each(|| {
        let (client, server) = connected();
        let reader = spawn(move || (&client).read(&mut [0]).unwrap_err().kind());
        sleep(MILLI);
        server.set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);

        let (client, server) = full();
        let writer = spawn(move || push(&client));
        sleep(MILLI);
        server.set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        assert!(matches!(writer.join().unwrap(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    });
}

#[test]
fn a_shutdown_of_a_clone_wakes_waiters_of_other_clones() {
    everywhere(|| {
        let (client, _server) = full();
        let waits = client.try_clone().unwrap();
        let reader = spawn(move || (&waits).read(&mut [0]).unwrap());
        let waits = client.try_clone().unwrap();
        let writer = spawn(move || push_to_error(&waits));
        sleep(MILLI);
        client.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
        assert!(is_of_shut_writes(&writer.join().unwrap()));
    });
}

/// Each way to wait, also several waiters of one direction.
#[test]
fn a_shutdown_for_reading_ends_all_reads_and_no_write() {
    everywhere(|| {
        let (client, mut server) = connected();
        let mut readers = Vec::new();
        for i in 0..6 {
            let waits = client.try_clone().unwrap();
            readers.push(spawn(move || match i % 3 {
                0 => (&waits).read(&mut [0]),
                1 => waits.peek(&mut [0]),
                _ => runtime::block_on(async { waits.read_async(&mut [0]).await }),
            }));
        }
        sleep(MILLI);
        client.shutdown(Shutdown::Read).unwrap();
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        }
        assert_eq!((&client).read(&mut [0]).unwrap(), 0);
        assert_eq!((&client).read_vectored(&mut [IoSliceMut::new(&mut [0])]).unwrap(), 0);
        (&client).write_all(b"still here").unwrap();
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
    });
}

#[test]
fn a_shutdown_for_writing_ends_all_writes_and_no_read() {
    everywhere(|| {
        let (client, mut server) = full();
        let clones: Vec<_> = (0..3).map(|_| client.try_clone().unwrap()).collect();
        let writers: Vec<_> = clones.into_iter().map(|waits| spawn(move || push_to_error(&waits))).collect();
        let waits = client.try_clone().unwrap();
        let reader = spawn(move || (&waits).read(&mut [0]).unwrap());
        sleep(MILLI);
        client.shutdown(Shutdown::Write).unwrap();
        for writer in writers {
            assert!(is_of_shut_writes(&writer.join().unwrap()));
        }
        server.write_all(&[1]).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn a_half_closed_connection_carries_the_other_direction() {
    everywhere(|| {
        let (client, mut server) = connected();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(is_of_shut_writes(&(&client).write(&[0]).unwrap_err()));
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        server.write_all(b"still here").unwrap();
        drop(server);
        let mut text = String::new();
        (&client).read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
    });
}

#[test]
fn a_slow_reader_gets_every_byte() {
    on_each(|| {
        let (client, server) = connected();
        let writer = spawn(move || {
            let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
            (&client).write_all(&bytes).unwrap();
        });
        let (mut buffer, mut received) = (vec![0; 100_000], 0usize);
        loop {
            sleep(MILLI / 2);
            let n = (&server).read(&mut buffer).unwrap();
            if n == 0 {
                break;
            }
            assert!(buffer[..n].iter().enumerate().all(|(i, &byte)| byte == ((received + i) % 253) as u8));
            received += n;
        }
        assert_eq!(received, 3_000_000);
        writer.join().unwrap();
    });
}

/// An event wakes all waiters of its direction. Waiters that find no byte wait again.
#[test]
fn readers_woken_without_a_byte_wait_again() {
    on_each(|| {
        let (client, mut server) = connected();
        let got = Arc::new(AtomicUsize::new(0));
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let (mut client, got) = (client.try_clone().unwrap(), got.clone());
                spawn(move || {
                    client.read_exact(&mut [0]).unwrap();
                    got.fetch_add(1, SeqCst);
                })
            })
            .collect();
        for sent in 1..=8 {
            server.write_all(&[1]).unwrap();
            tests::wait_until("a reader has the byte", || got.load(SeqCst) == sent);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
    use tests::child;
    use tests::sockets::is_registered;
    use tests::system::{Limit, descriptors};

    fn is_nonblocking(socket: &impl AsFd) -> bool {
        SockRef::from(socket).nonblocking().unwrap()
    }

    #[test]
    fn descriptors_are_converted_in_the_mode_that_the_user_set() {
        everywhere(|| {
            for nonblocking in [false, true] {
                let (client, _server) = connected();
                client.set_nonblocking(nonblocking).unwrap();
                assert!(is_nonblocking(&client), "the descriptor itself is always non-blocking");
                let std = std::net::TcpStream::from(client);
                assert_eq!(is_nonblocking(&std), nonblocking);
                let fd = OwnedFd::from(TcpStream::from(std));
                assert_eq!(is_nonblocking(&fd), nonblocking);
                let raw = TcpStream::from(fd).into_raw_fd();
                // SAFETY: `into_raw_fd` has just given up the ownership of `raw`.
                let client = unsafe { TcpStream::from_raw_fd(raw) };
                assert!(is_nonblocking(&client));
                assert_eq!(client.as_raw_fd(), raw);
                assert_eq!(client.as_fd().as_raw_fd(), raw);
                // If the mode were lost, this read would wait for an hour.
                let time = if nonblocking { HOUR } else { MILLI };
                client.set_read_timeout(Some(time)).unwrap();
                let start = Instant::now();
                assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                assert!(nonblocking || start.elapsed() >= MILLI);
            }
        });
    }

    #[test]
    fn an_inherited_descriptor_keeps_its_mode() {
        everywhere(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from(OwnedFd::from(listener));
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            listener.set_nonblocking(false).unwrap();
            let client = spawn(move || {
                sleep(MILLI);
                TcpStream::connect(addr).unwrap().local_addr().unwrap()
            });
            assert_eq!(listener.accept().unwrap().1, client.join().unwrap());
        });
    }

    #[test]
    fn a_clone_stays_usable_when_another_is_converted() {
        everywhere(|| {
            let (client, mut server) = connected();
            let clone = client.try_clone().unwrap();
            let mut std = std::net::TcpStream::from(client);
            assert_ne!(std.as_raw_fd(), clone.as_raw_fd());
            server.write_all(b"ab").unwrap();
            let mut byte = [0];
            std.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"a");
            (&clone).read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"b");
            drop(std);
            // The clones share their mode in the system. In blocking mode, the clone would block its OS
            // thread.
            clone.set_nonblocking(false).unwrap();
            (&clone).write_all(b"c").unwrap();
            server.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"c");
        });
    }

    #[test]
    fn clones_use_no_further_descriptors() {
        child::passes("linux::clones_use_no_further_descriptors", "", || {
            on(1, || {
                let (client, _server) = connected();
                let before = descriptors();
                let clones: Vec<_> = (0..100).map(|_| client.try_clone().unwrap()).collect();
                assert_eq!(descriptors(), before);
                drop(clones);
                let fd = OwnedFd::from(client);
                assert_eq!(descriptors(), before);
                drop(fd);
                assert_eq!(descriptors(), before - 1);
            });
        });
    }

    /// A duplicated descriptor keeps the system's socket alive. Unless the socket leaves the poller, events
    /// come for ever.
    #[test]
    fn a_dropped_socket_leaves_the_poller_despite_a_duplicate() {
        child::passes("linux::a_dropped_socket_leaves_the_poller_despite_a_duplicate", "", || {
            on(1, || {
                let (client, _server) = connected();
                let number = client.as_raw_fd();
                assert!(is_registered(number));
                let duplicate = client.as_fd().try_clone_to_owned().unwrap();
                drop(client);
                assert!(!is_registered(number));
                let client = TcpStream::from(duplicate);
                let number = client.as_raw_fd();
                assert!(is_registered(number));
                let std = std::net::TcpStream::from(client);
                assert_eq!(std.as_raw_fd(), number);
                assert!(!is_registered(number));
            });
        });
    }

    #[test]
    fn a_descriptor_that_is_no_socket_gives_errors() {
        everywhere(|| {
            let file = TcpStream::from(OwnedFd::from(File::open("/proc/self/exe").unwrap()));
            assert!((&file).read(&mut [0]).is_err());
            assert!((&file).write(&[0]).is_err());
            assert!(file.peer_addr().is_err() && file.nodelay().is_err());
            let file = TcpListener::from(OwnedFd::from(File::from(OwnedFd::from(file))));
            assert!(file.accept().is_err());
        });
    }

    #[test]
    fn an_accept_loop_without_descriptors_pauses_and_recovers() {
        child::passes("linux::an_accept_loop_without_descriptors_pauses_and_recovers", "", || {
            on(2, || {
                let (listener, addr) = listener();
                let errors = Arc::new(AtomicUsize::new(0));
                let counted = errors.clone();
                let server = spawn(move || {
                    // Keeps the streams, so that no descriptor becomes free.
                    let mut streams = Vec::new();
                    for stream in listener.incoming() {
                        match stream {
                            Ok(mut stream) => {
                                stream.write_all(b"x").unwrap();
                                streams.push(stream);
                            }
                            Err(error) => {
                                assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                                counted.fetch_add(1, SeqCst);
                            }
                        }
                    }
                });
                let mut client = TcpStream::connect(addr).unwrap();
                client.read_exact(&mut [0]).unwrap();
                // The limit allows a descriptor for the client's end, and none for the server's end.
                let more = OwnedFd::from(File::open("/dev/null").unwrap());
                let limit = Limit::new(libc::RLIMIT_NOFILE, more.as_raw_fd() as u64 + 1);
                drop(more);
                let mut client = TcpStream::connect(addr).unwrap();
                let start = Instant::now();
                sleep(300 * MILLI);
                // `accept` pauses for 5, 10, 20, 40, 80 and 160 ms, and for longer later.
                let (count, most) = (errors.load(SeqCst), 6 + start.elapsed().as_millis() as usize / 160);
                assert!((1..=most).contains(&count), "{count} errors, at most {most} expected");
                drop(limit);
                client.read_exact(&mut [0]).unwrap();
                server.cancel();
                assert!(server.join().unwrap_err().is::<Cancelled>());
            });
        });
    }

    /// A loop over `select!` does the same, and its other cases are chosen in between.
    #[test]
    fn a_select_loop_without_descriptors_pauses_and_recovers() {
        child::passes("linux::a_select_loop_without_descriptors_pauses_and_recovers", "", || {
            on(2, || {
                let (listener, addr) = listener();
                let (errors, ticks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                let (counted, ticked) = (errors.clone(), ticks.clone());
                let (end, ends) = runtime::channel::bounded::<()>(0);
                let server = spawn(move || {
                    let (mut streams, ticker) = (Vec::new(), runtime::time::Ticker::new(20 * MILLI));
                    loop {
                        runtime::select! {
                            accept(listener) -> accepted => match accepted {
                                Ok((mut stream, _peer)) => {
                                    stream.write_all(b"x").unwrap();
                                    streams.push(stream);
                                }
                                Err(error) => {
                                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                                    counted.fetch_add(1, SeqCst);
                                }
                            },
                            timer(ticker) -> _ => { ticked.fetch_add(1, SeqCst); }
                            recv(ends) -> _ => break,
                        }
                    }
                });
                let mut client = TcpStream::connect(addr).unwrap();
                client.read_exact(&mut [0]).unwrap();
                let more = OwnedFd::from(File::open("/dev/null").unwrap());
                let limit = Limit::new(libc::RLIMIT_NOFILE, more.as_raw_fd() as u64 + 1);
                drop(more);
                let (mut client, before) = (TcpStream::connect(addr).unwrap(), ticks.load(SeqCst));
                let start = Instant::now();
                sleep(300 * MILLI);
                // Each error comes after a pause of 5 ms.
                let (count, most) = (errors.load(SeqCst), 1 + start.elapsed().as_millis() as usize / 5);
                assert!((1..=most).contains(&count), "{count} errors, at most {most} expected");
                assert!(ticks.load(SeqCst) > before, "the other cases are chosen meanwhile");
                drop(limit);
                client.read_exact(&mut [0]).unwrap();
                drop(end);
                server.join().unwrap();
            });
        });
    }

    const CLIENT: &str = "TESTS_IDLE_CLIENT";
    const MANY: usize = 10_000;

    /// Connects `MANY` times, waits for a line on stdin, and exchanges a byte on each connection. It has a
    /// process of its own, because it needs as many descriptors as the server.
    fn idle_client(addr: &str) {
        let streams: Vec<_> = (0..MANY).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
        println!("connected");
        io::stdin().read_line(&mut String::new()).unwrap();
        for (i, mut stream) in streams.iter().enumerate() {
            stream.write_all(&[i as u8]).unwrap();
        }
        for (i, mut stream) in streams.iter().enumerate() {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [i as u8]);
            // A reset leaves no port in use.
            SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    #[test]
    fn ten_thousand_idle_connections_stay_usable() {
        if let Ok(addr) = std::env::var(CLIENT) {
            return idle_client(&addr);
        }
        // The limit is that of the process.
        tests::alone!();
        tests::with(2, |runtime| {
            let _limit = Limit::new(libc::RLIMIT_NOFILE, MANY as u64 + 2000);
            let (listener, addr) = runtime.block_on(listener);
            let mut client = child::command("linux::ten_thousand_idle_connections_stay_usable")
                .env(CLIENT, addr.to_string())
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let server = runtime.spawn(move || {
                let echo = |stream: TcpStream| {
                    let mut byte = [0];
                    while let Ok(1) = (&stream).read(&mut byte) {
                        (&stream).write_all(&byte).unwrap();
                    }
                };
                let echoes: Vec<_> = (0..MANY)
                    .map(|_| listener.accept().unwrap().0)
                    .map(|stream| spawn(move || echo(stream)))
                    .collect();
                echoes.into_iter().for_each(|echo| echo.join().unwrap());
            });
            let mut said = io::BufRead::lines(io::BufReader::new(client.stdout.take().unwrap()));
            assert!(said.any(|line| line.unwrap().contains("connected")), "the client has connected");
            // The further waiter is the server's thread, which joins the others.
            tests::wait_until("all threads are parked", || {
                runtime.handle().metrics().waiting == MANY as u64 + 1
            });
            client.stdin.take().unwrap().write_all(b"now\n").unwrap();
            said.for_each(drop);
            assert!(client.wait().unwrap().success());
            server.join().unwrap();
        });
    }
}
