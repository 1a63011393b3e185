//! Real sockets over loopback, with OS threads as waiters: accepting, reading, writing, connecting, closing.

#![cfg(not(loom))]

mod common;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::Reactor;
use netpoll::net::{TcpListener, TcpStream, UdpSocket};
use netpoll::{Direction, Netpoll, PollDesc, Polled, Wait, Waiter};

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn listener(reactor: &Reactor) -> (TcpListener, PollDesc, SocketAddr) {
    let mut listener = TcpListener::bind(any_port()).unwrap();
    let desc = reactor.netpoll.register(&mut listener).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, desc, address)
}

/// Both ends of a connection, made by waiting for it on both sides.
fn connect(reactor: &Reactor) -> ((TcpStream, PollDesc), (TcpStream, PollDesc)) {
    let (listener, accepting, address) = listener(reactor);
    let mut client = TcpStream::connect(address).unwrap();
    let client_desc = reactor.netpoll.register(&mut client).unwrap();
    reactor
        .retry(&client_desc, Direction::Write, || {
            client.take_error()?.map_or(Ok(()), Err)?;
            match client.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                other => other,
            }
        })
        .unwrap();
    let (mut server, _) = reactor.retry(&accepting, Direction::Read, || listener.accept()).unwrap();
    let server_desc = reactor.netpoll.register(&mut server).unwrap();
    ((client, client_desc), (server, server_desc))
}

#[test]
fn sent_bytes_arrive_and_the_reader_sees_the_end() {
    let reactor = Reactor::start();
    let ((client, client_desc), (server, server_desc)) = connect(&reactor);
    let sent: Vec<u8> = (0..4 << 20).map(|i: u32| (i % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            // More than any buffer takes, so the writer waits too.
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let n = reactor.retry(&client_desc, Direction::Write, || (&client).write(rest)).unwrap();
                rest = &rest[n..];
            }
            client.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match reactor.retry(&server_desc, Direction::Read, || (&server).read(&mut buffer)).unwrap() {
                0 => break,
                n => received.extend_from_slice(&buffer[..n]),
            }
        }
        assert!(received == sent);
    });
}

#[test]
fn several_accept_on_one_listener_and_each_gets_its_connection() {
    const ACCEPTORS: usize = 8;
    let reactor = Reactor::start();
    for _ in 0..20 {
        let (listener, desc, address) = listener(&reactor);
        thread::scope(|scope| {
            for _ in 0..ACCEPTORS {
                // Each acceptor takes one connection and then ends.
                scope.spawn(|| reactor.retry(&desc, Direction::Read, || listener.accept()).unwrap());
            }
            let connections: Vec<_> =
                (0..ACCEPTORS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            drop(connections);
        });
    }
}

#[test]
fn closing_wakes_both_sides_with_an_error() {
    let reactor = Reactor::start();
    let ((client, desc), _server) = connect(&reactor);
    let full = vec![0; 1 << 20];
    thread::scope(|scope| {
        let reader = scope.spawn(|| reactor.retry(&desc, Direction::Read, || (&client).read(&mut [0; 16])));
        let writer = scope.spawn(|| {
            loop {
                if let Err(error) = reactor.retry(&desc, Direction::Write, || (&client).write(&full)) {
                    break error;
                }
            }
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished() && !writer.is_finished());
        let mut waiting = Vec::new();
        desc.close(&mut waiting);
        reactor.wake(waiting);
        assert_eq!(reader.join().unwrap().unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(writer.join().unwrap().kind(), io::ErrorKind::NotConnected);
    });
    assert!(desc.is_closed());
}

#[test]
fn a_late_event_does_not_reach_the_next_owner_of_the_place() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let mut old = UdpSocket::bind(any_port()).unwrap();
    let old_desc = netpoll.register(&mut old).unwrap();
    // The source outlives its descriptor, so its events still come with the old token.
    let place = format!("{old_desc:?}");
    drop(old_desc);
    let mut new = UdpSocket::bind(any_port()).unwrap();
    let new_desc = netpoll.register(&mut new).unwrap();
    assert_eq!(format!("{new_desc:?}"), place, "the place is used again");

    let mut ready = Vec::new();
    // The first poll reports both sockets as writable.
    netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
    let stranger = Waiter::new(9);
    let attempt = new_desc.prepare(Direction::Read);
    assert_eq!(new_desc.wait(attempt, stranger), Ok(Wait::Park));
    new.send_to(b"to the old socket", old.local_addr().unwrap()).unwrap();
    for _ in 0..50 {
        netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ready, [], "an event of the old socket woke the new one's waiter");
    old.send_to(b"to the new socket", new.local_addr().unwrap()).unwrap();
    while ready.is_empty() {
        netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
    }
    assert_eq!(ready, [stranger]);
}

/// Each poll takes a share, in the order of the events, and says when the rest is over.
#[test]
fn a_poll_for_few_events_leaves_the_others_to_the_next_polls() {
    const SOCKETS: u64 = 100;
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = |_| {
        let mut socket = UdpSocket::bind(any_port()).unwrap();
        let desc = netpoll.register(&mut socket).unwrap();
        (socket, desc)
    };
    let sockets: Vec<_> = (0..SOCKETS).map(socket).collect();
    let mut ready = Vec::new();
    // All are reported as writable.
    let polled = netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
    assert_eq!((polled.woken, polled.more), (0, false));
    for (number, (_, desc)) in (1..).zip(&sockets) {
        assert_eq!(desc.wait(desc.prepare(Direction::Read), Waiter::new(number)), Ok(Wait::Park));
    }
    for (socket, _) in &sockets {
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    }
    let mut polls = Vec::new();
    while ready.len() < sockets.len() {
        polls.push(netpoll.poll_now(1, 0, &mut ready).unwrap());
    }
    // The model of kqueue returns fewer events than it may.
    let more = |polled: &Polled| polled.more || cfg!(kqueue_model);
    assert!(polls[..2].iter().all(|polled| more(polled) && polled.woken < 50), "{polls:?}");
    assert_eq!(netpoll.poll_now(1, 0, &mut ready).map(|polled| polled.more), Some(false));
    assert_eq!(ready.len() as u64, SOCKETS);
    // Where the system keeps the order of the events, the first socket comes first.
    if cfg!(all(target_os = "linux", not(portable))) {
        assert!(ready.iter().copied().map(Waiter::word).eq(1..=SOCKETS), "{ready:?}");
    }
}

#[test]
fn a_withdrawn_waiter_is_not_woken() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let mut socket = UdpSocket::bind(any_port()).unwrap();
    let desc = netpoll.register(&mut socket).unwrap();
    let mut ready = Vec::new();
    netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
    let (gone, stays) = (Waiter::new(1), Waiter::new(2));
    let attempt = desc.prepare(Direction::Read);
    assert_eq!(desc.wait(attempt, gone), Ok(Wait::Park));
    assert_eq!(desc.wait(attempt, stays), Ok(Wait::Park));
    assert!(desc.withdraw(Direction::Read, gone));
    socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    while ready.is_empty() {
        netpoll.poll_now(usize::MAX, 0, &mut ready).unwrap();
    }
    assert_eq!(ready, [stays]);
    assert!(!desc.withdraw(Direction::Read, stays));
}

#[test]
fn a_deregistered_source_can_be_registered_again() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let mut socket = UdpSocket::bind(any_port()).unwrap();
    assert!(!netpoll.has_sources());
    for _ in 0..3 {
        let desc = netpoll.register(&mut socket).unwrap();
        assert_eq!(netpoll.sources(), 1);
        desc.deregister(&mut socket).unwrap();
    }
    assert!(!netpoll.has_sources());
}

#[test]
fn sockets_may_come_and_go_while_others_work() {
    let reactor = Reactor::start();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let ((client, _client_desc), (server, server_desc)) = connect(&reactor);
                    (&client).write_all(b"ping").unwrap();
                    let mut buffer = [0; 8];
                    let n =
                        reactor.retry(&server_desc, Direction::Read, || (&server).read(&mut buffer)).unwrap();
                    assert_eq!(&buffer[..n], b"ping");
                }
            });
        }
    });
    assert!(!reactor.netpoll.has_sources());
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(portable, ignore = "only Linux has a hint, and kqueue takes regular files")]
fn a_regular_file_is_refused_in_plain_words() {
    use netpoll::source::SourceFd;
    use std::os::fd::AsRawFd;

    let netpoll = Arc::new(Netpoll::new().unwrap());
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let error = netpoll.register(&mut SourceFd(&file.as_raw_fd())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("regular file"), "{error}");
    assert!(!netpoll.has_sources(), "nothing is left of it");
}

#[cfg(unix)]
#[test]
#[cfg_attr(all(portable, not(kqueue_model)), ignore = "epoll has the error, and only Linux has a hint")]
fn a_descriptor_registered_twice_is_refused_in_plain_words() {
    use netpoll::source::SourceFd;
    use std::os::fd::AsRawFd;

    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = UdpSocket::bind(any_port()).unwrap();
    let fd = socket.as_raw_fd();
    let register = || netpoll.register_numbered(&mut SourceFd(&fd), fd.into());
    let desc = register().unwrap();
    for _ in 0..2 {
        let error = register().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("registered already"), "{error}");
    }
    assert_eq!(netpoll.sources(), 1, "nothing is left of what was refused");
    desc.deregister(&mut SourceFd(&fd)).unwrap();
    let next = register().unwrap();
    // The end of the first registration is not that of the second.
    drop(desc);
    assert_eq!(register().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    drop(next);
}
