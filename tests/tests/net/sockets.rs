//! Sockets: every byte arrives, every waiter is woken, and green threads of other runtimes and plain threads
//! can use them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::{JoinHandle, spawn};
use tests::{Random, on, on_each, wait_until, with};

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

fn connected() -> (TcpStream, TcpStream) {
    let (listener, addr) = listener();
    let client = TcpStream::connect(addr).unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    assert_eq!(server.peer_addr().unwrap(), peer);
    (client, server)
}

/// Sends everything back until the peer shuts down. Returns the number of bytes.
fn echo(mut stream: &TcpStream) -> io::Result<usize> {
    let (mut buffer, mut all) = (vec![0; 3000], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(Shutdown::Write).map(|()| all),
            n => {
                stream.write_all(&buffer[..n])?;
                all += n;
            }
        }
    }
}

/// Sends random pieces to an echo server and checks each byte that comes back. Returns the number of bytes.
fn talk_to_an_echo(addr: std::net::SocketAddr, seed: u64, pieces: usize, largest: u64) -> usize {
    let stream = Arc::new(TcpStream::connect(addr).unwrap());
    stream.set_nodelay(seed.is_multiple_of(2)).unwrap();
    let writer = {
        let stream = stream.clone();
        spawn(move || {
            let (mut random, mut bytes) = (Random::new(seed), Random::new(!seed));
            let mut sent = 0;
            for _ in 0..pieces {
                let piece: Vec<u8> = (0..random.below(largest)).map(|_| bytes.number() as u8).collect();
                sent += piece.len();
                (&*stream).write_all(&piece).unwrap();
                if random.below(20) == 0 {
                    runtime::sleep(Duration::from_micros(random.below(500)));
                }
            }
            stream.shutdown(Shutdown::Write).unwrap();
            sent
        })
    };
    let (mut bytes, mut buffer, mut received) = (Random::new(!seed), vec![0; 5000], 0);
    loop {
        let n = (&*stream).read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        for &byte in &buffer[..n] {
            assert_eq!(byte, bytes.number() as u8, "byte {received} of connection {seed}");
            received += 1;
        }
    }
    assert_eq!(writer.join().unwrap(), received);
    received
}

fn echo_server(listener: TcpListener, connections: usize) -> JoinHandle<usize> {
    spawn(move || {
        let threads: Vec<_> = listener
            .incoming()
            .take(connections)
            .map(|stream| spawn(move || echo(&stream.unwrap()).unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn many_connections_and_large_pieces_echo_every_byte() {
    for (connections, pieces, largest) in [(64, 30, 3000), (3, 4, 500_000)] {
        on_each(|| {
            let (listener, addr) = listener();
            let server = echo_server(listener, connections);
            let clients: Vec<_> = (0..connections as u64)
                .map(|seed| spawn(move || talk_to_an_echo(addr, seed, pieces, largest)))
                .collect();
            let received: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
            assert_eq!(server.join().unwrap(), received);
        });
    }
}

#[test]
fn plain_threads_use_the_same_sockets() {
    // The listener belongs to the default runtime. Plain threads and green threads of another runtime use it.
    let (listener, addr) = listener();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(6) {
            let stream = stream.unwrap();
            std::thread::spawn(move || echo(&stream).unwrap());
        }
    });
    let plain: Vec<_> =
        (0..3).map(|seed| std::thread::spawn(move || talk_to_an_echo(addr, seed, 20, 2000))).collect();
    with(2, |runtime| {
        runtime.block_on(|| {
            let green: Vec<_> =
                (3..6).map(|seed| spawn(move || talk_to_an_echo(addr, seed, 20, 2000))).collect();
            assert!(green.into_iter().all(|client| client.join().unwrap() > 0));
        });
    });
    assert!(plain.into_iter().all(|client| client.join().unwrap() > 0));
    server.join().unwrap();
}

#[test]
fn a_socket_works_in_the_poll_of_a_future() {
    on_each(|| {
        let (client, server) = connected();
        let reader = spawn(async move {
            let mut text = String::new();
            (&client).read_to_string(&mut text).unwrap();
            text
        });
        runtime::sleep(Duration::from_millis(1));
        (&server).write_all(b"hello").unwrap();
        drop(server);
        assert_eq!(reader.join().unwrap(), "hello");
    });
}

#[test]
fn a_connection_without_a_listener_is_refused() {
    on_each(|| {
        let (listener, addr) = listener();
        drop(listener);
        for _ in 0..20 {
            assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(TcpStream::connect(closed).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn connect_tries_all_addresses() {
    on(2, || {
        let (dead, closed) = listener();
        drop(dead);
        let (listener, addr) = listener();
        let client = TcpStream::connect(&[closed, addr][..]).unwrap();
        assert_eq!(client.peer_addr().unwrap(), addr);
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
        let none: &[std::net::SocketAddr] = &[];
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn an_address_in_use_is_an_error() {
    on(1, || {
        let (_listener, addr) = listener();
        assert_eq!(TcpListener::bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn several_threads_accept_each_connection_once() {
    on_each(|| {
        let (listener, addr) = listener();
        let (listener, accepted) = (Arc::new(listener), Arc::new(AtomicUsize::new(0)));
        let acceptors: Vec<_> = (0..8)
            .map(|_| {
                let (listener, accepted) = (listener.clone(), accepted.clone());
                spawn(move || {
                    loop {
                        let (mut stream, _) = listener.accept().unwrap();
                        accepted.fetch_add(1, SeqCst);
                        stream.write_all(b"x").unwrap();
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..100)
            .map(|_| {
                spawn(move || {
                    let mut text = String::new();
                    TcpStream::connect(addr).unwrap().read_to_string(&mut text).unwrap();
                    assert_eq!(text, "x");
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(accepted.load(SeqCst), 100);
        for acceptor in acceptors {
            acceptor.cancel();
            assert!(acceptor.join().is_err());
        }
    });
}

#[test]
fn reads_and_writes_of_a_socket_run_concurrently() {
    on_each(|| {
        let (client, server) = connected();
        let (client, server) = (Arc::new(client), Arc::new(server));
        // Both directions of the connection carry bytes at the same time.
        let mut threads = Vec::new();
        for stream in [&client, &server] {
            let (writes, reads) = (stream.clone(), stream.clone());
            threads.push(spawn(move || {
                let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
                (&*writes).write_all(&bytes).unwrap();
                writes.shutdown(Shutdown::Write).unwrap();
            }));
            threads.push(spawn(move || {
                let mut bytes = Vec::new();
                (&*reads).read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes.len(), 300_000);
                assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i % 251) as u8));
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_shutdown_of_either_end_wakes_the_reader() {
    on_each(|| {
        for how in [Shutdown::Read, Shutdown::Both] {
            let (client, server) = connected();
            let (client, server) = (Arc::new(client), Arc::new(server));
            let reads = client.clone();
            let reader = spawn(move || (&*reads).read(&mut [0; 8]).unwrap());
            runtime::sleep(Duration::from_millis(1));
            client.shutdown(how).unwrap();
            assert_eq!(reader.join().unwrap(), 0);
            drop(server);
        }
        let (client, server) = connected();
        let reader = spawn(move || (&client).read(&mut [0; 8]).unwrap());
        runtime::sleep(Duration::from_millis(1));
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_writer_ends_when_its_peer_is_dropped() {
    on_each(|| {
        let (client, server) = connected();
        let writer = spawn(move || {
            loop {
                if let Err(error) = (&client).write_all(&[0; 65536]) {
                    return error.kind();
                }
            }
        });
        runtime::sleep(Duration::from_millis(2));
        drop(server);
        assert!(matches!(writer.join().unwrap(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    });
}

#[test]
fn many_connections_open_and_close() {
    on_each(|| {
        let (listener, addr) = listener();
        let server = echo_server(listener, 1000);
        let clients: Vec<_> = (0..10)
            .map(|c| {
                spawn(move || (0..100).map(|i| talk_to_an_echo(addr, c * 100 + i, 1, 50)).sum::<usize>())
            })
            .collect();
        let received: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert_eq!(server.join().unwrap(), received);
    });
}

#[test]
fn parked_readers_are_woken_after_a_long_wait() {
    on_each(|| {
        let pairs: Vec<_> = (0..50).map(|_| connected()).collect();
        let woken = Arc::new(AtomicUsize::new(0));
        let (readers, writers): (Vec<_>, Vec<_>) = pairs
            .into_iter()
            .map(|(client, server)| {
                let woken = woken.clone();
                let reader = spawn(move || {
                    (&client).read_exact(&mut [0; 2]).unwrap();
                    woken.fetch_add(1, SeqCst);
                });
                (reader, server)
            })
            .unzip();
        // All readers are parked, while other threads sleep and end.
        (0..5).for_each(|_| spawn(|| runtime::sleep(Duration::from_millis(1))).join().unwrap());
        writers.iter().for_each(|mut stream| stream.write_all(b"a").unwrap());
        runtime::sleep(Duration::from_millis(1));
        assert_eq!(woken.load(SeqCst), 0);
        writers.iter().for_each(|mut stream| stream.write_all(b"b").unwrap());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        wait_until("all readers were woken", || woken.load(SeqCst) == 50);
    });
}

#[test]
fn a_socket_may_outlive_its_runtime() {
    let (client, server) = {
        let runtime = tests::runtime(1);
        runtime.block_on(connected)
    };
    // Bytes that have arrived are read without waiting.
    (&server).write_all(b"late").unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let mut text = [0; 4];
    (&client).read_exact(&mut text).unwrap();
    assert_eq!(&text, b"late");
}
