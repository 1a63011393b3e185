//! Sources near a place: which poll reports them, and that no event is lost by a move.

#![cfg(all(target_os = "linux", not(portable), not(loom)))]

#[allow(dead_code, reason = "the other programs need the rest")]
mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::Reactor;
use netpoll::net::{TcpStream, UdpSocket};
use netpoll::source::Source;
use netpoll::{Direction, Netpoll, PollDesc, Wait, Waiter};

/// How many places there can be.
const PLACES: usize = 63;

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn register<S: Source + AsRawFd>(netpoll: &Arc<Netpoll>, source: &mut S) -> PollDesc {
    let fd = source.as_raw_fd();
    netpoll.register_numbered(source, fd.into()).unwrap()
}

/// A socket that sends to itself.
struct Own(UdpSocket, PollDesc);

impl Own {
    /// Makes a socket, and moves it near a place.
    fn near(netpoll: &Arc<Netpoll>, place: usize) -> Own {
        let mut socket = UdpSocket::bind(any_port()).unwrap();
        let desc = register(netpoll, &mut socket);
        desc.move_to(Some(place));
        assert_eq!(desc.place(), Some(place));
        // It is reported as writable.
        netpoll.poll_near(place, 0, 0, &mut Vec::new()).unwrap();
        Own(socket, desc)
    }

    fn send(&self) {
        self.0.send_to(b"x", self.0.local_addr().unwrap()).unwrap();
    }

    fn wait(&self, word: u64) {
        assert_eq!(self.1.wait(self.1.prepare(Direction::Read), Waiter::new(word)), Ok(Wait::Park));
    }
}

fn words(ready: Vec<Waiter>) -> Vec<u64> {
    ready.into_iter().map(Waiter::word).collect()
}

/// Whom a poll of the shared poller wakes.
fn shared(netpoll: &Netpoll, overdue: u64) -> Vec<u64> {
    let mut ready = Vec::new();
    netpoll.poll_now(usize::MAX, overdue, &mut ready).unwrap();
    words(ready)
}

/// Whom a poll near a place wakes at that time.
fn near(netpoll: &Netpoll, place: usize, now: u64) -> Vec<u64> {
    let mut ready = Vec::new();
    let polled = netpoll.poll_near(place, 0, now, &mut ready).expect("a source is near this place");
    assert_eq!((polled.woken, polled.more), (ready.len(), false));
    words(ready)
}

#[test]
fn the_thread_of_the_place_has_its_events_alone_until_it_is_overdue() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = Own::near(&netpoll, 5);
    socket.wait(1);
    assert_eq!(near(&netpoll, 5, 100), []);
    socket.send();
    assert_eq!(shared(&netpoll, 100), [], "the thread has polled at that time");
    assert_eq!(netpoll.poll_near(4, 0, 100, &mut Vec::new()), None, "nothing is near this place");
    assert_eq!(near(&netpoll, 5, 100), [1]);

    socket.wait(2);
    socket.send();
    assert_eq!(shared(&netpoll, 100), []);
    assert_eq!(shared(&netpoll, 101), [2], "the thread has not polled since that time");
    assert_eq!(near(&netpoll, 5, 102), []);
    assert_eq!(netpoll.counters().delivered, 2);
}

#[test]
fn a_thread_that_blocks_has_the_events_near_all_places() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let sockets = [0, 7, PLACES - 1].map(|place| Own::near(&netpoll, place));
    for round in 0..100 {
        for (word, socket) in (1..).zip(&sockets) {
            socket.wait(word);
        }
        let (here, first) = (Arc::clone(&netpoll), round % 2 == 0);
        let send = || sockets.iter().for_each(Own::send);
        if first {
            send();
        }
        let blocked = thread::spawn(move || {
            let mut ready = Vec::new();
            while ready.len() < 3 {
                let mut turn = here.begin_block().unwrap();
                turn.publish(u64::MAX);
                turn.block(u64::MAX, None, &mut ready).unwrap();
            }
            words(ready)
        });
        if !first {
            send();
        }
        let mut woken = blocked.join().unwrap();
        woken.sort_unstable();
        assert_eq!(woken, [1, 2, 3]);
    }
}

#[test]
fn what_is_ready_is_reported_again_after_each_move() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = Own::near(&netpoll, 0);
    // The byte stays in the socket.
    socket.send();
    assert_eq!(near(&netpoll, 0, 1), []);
    for place in [1, 2, 0, 1] {
        socket.wait(7);
        socket.1.move_to(Some(place));
        assert_eq!(near(&netpoll, place, 1), [7]);
        socket.wait(8);
        socket.1.move_to(None);
        assert_eq!(socket.1.place(), None);
        assert_eq!(netpoll.poll_near(place, 0, 1, &mut Vec::new()), None);
        assert_eq!(shared(&netpoll, 0), [8]);
    }
    assert_eq!(netpoll.counters().moves, 9);
    // To where it is already.
    socket.1.move_to(None);
    assert_eq!(netpoll.counters().moves, 9);
}

#[test]
fn there_are_so_many_places_and_a_source_stays_where_there_is_none() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = Own::near(&netpoll, PLACES - 1);
    for place in [PLACES, PLACES + 1, u32::MAX as usize - 1, usize::MAX] {
        socket.1.move_to(Some(place));
        assert_eq!(socket.1.place(), Some(PLACES - 1));
        assert_eq!(netpoll.poll_near(place, 0, 1, &mut Vec::new()), None);
    }
    // Registered without its descriptor.
    let mut other = UdpSocket::bind(any_port()).unwrap();
    let desc = netpoll.register(&mut other).unwrap();
    desc.move_to(Some(0));
    assert_eq!((desc.place(), desc.place_of_packets(1)), (None, None));
}

#[test]
fn a_source_that_is_deregistered_near_a_place_can_be_registered_anywhere() {
    let (netpoll, other) = (Arc::new(Netpoll::new().unwrap()), Arc::new(Netpoll::new().unwrap()));
    let Own(mut socket, desc) = Own::near(&netpoll, 3);
    desc.deregister(&mut socket).unwrap();
    assert_eq!(netpoll.poll_near(3, 0, 1, &mut Vec::new()), None);
    assert!(desc.deregister(&mut socket).is_err(), "it is registered no more");
    drop(desc);
    for netpoll in [&netpoll, &other] {
        let desc = register(netpoll, &mut socket);
        desc.move_to(Some(3));
        assert_eq!(desc.place(), Some(3));
        desc.deregister(&mut socket).unwrap();
    }
}

#[test]
fn a_late_event_near_a_place_does_not_reach_the_next_owner_of_the_slot() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let Own(old, desc) = Own::near(&netpoll, 0);
    let slot = format!("{desc:?}");
    // The source outlives its descriptor, so its events still come with the old token.
    drop(desc);
    assert_eq!(netpoll.poll_near(0, 0, 1, &mut Vec::new()), None, "no source of an owner is here");
    let next = Own::near(&netpoll, 0);
    assert_eq!(format!("{:?}", next.1), slot, "the slot is used again");
    next.wait(9);
    for _ in 0..20 {
        old.send_to(b"x", old.local_addr().unwrap()).unwrap();
        assert_eq!(near(&netpoll, 0, 1), []);
        assert_eq!(shared(&netpoll, u64::MAX), []);
    }
    next.send();
    assert_eq!(near(&netpoll, 0, 1), [9]);
}

#[test]
fn a_place_has_no_more_than_its_share() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let mut noted = Vec::new();
    netpoll.poll_near(2, current_processor(), 1, &mut noted);
    let sockets: Vec<_> = (0..40)
        .map(|_| {
            let mut socket = UdpSocket::bind(any_port()).unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            let desc = register(&netpoll, &mut socket);
            Own(socket, desc)
        })
        .collect();
    let [first, ..] = &sockets[..] else { unreachable!() };
    assert_eq!(first.1.place_of_packets(4), None, "no packet has come");
    // This thread may go to another processor at any time.
    let belongs = |socket: &Own, places| {
        (0..1000).any(|_| {
            netpoll.poll_near(2, current_processor(), 1, &mut Vec::new());
            socket.0.send(b"x").unwrap();
            let _ = socket.0.recv(&mut [0; 8]);
            socket.1.place_of_packets(places) == Some(2)
        })
    };
    assert!(belongs(first, 4));
    assert!(!belongs(first, 2), "there is no place 2 of two");
    // Its share of those near any place is a quarter. It may have eight more.
    for socket in &sockets[..10] {
        assert!(belongs(socket, 4));
        socket.1.move_to(Some(2));
    }
    assert!(!belongs(&sockets[10], 4));
    for (place, socket) in [0, 1, 3].into_iter().cycle().zip(&sockets[20..]) {
        socket.1.move_to(Some(place));
    }
    assert!(belongs(&sockets[10], 4), "its share is greater");
}

#[test]
fn a_source_stays_if_its_place_is_one_of_several_on_the_processor() {
    let netpoll = Arc::new(Netpoll::new().unwrap());
    let socket = Own::near(&netpoll, 3);
    socket.0.connect(socket.0.local_addr().unwrap()).unwrap();
    // This thread may go to another processor at any time, but mostly stays.
    let mostly = |here: &[usize], place| {
        let belongs = |_: &u32| {
            for each in here {
                netpoll.poll_near(*each, current_processor(), 1, &mut Vec::new());
            }
            socket.0.send(b"x").unwrap();
            let _ = socket.0.recv(&mut [0; 8]);
            socket.1.place_of_packets(4) == Some(place)
        };
        (0..1000).filter(belongs).count() > 500
    };
    assert!(mostly(&[2, 3], 3));
    socket.1.move_to(Some(1));
    assert!(mostly(&[2, 3], 2), "the first");
}

/// Two sides of a connection answer each other, while one thread moves both, one blocks, and one polls near
/// some places.
#[test]
fn no_event_is_lost_while_sources_move() {
    const MESSAGES: usize = 20_000;
    let reactor = Reactor::start();
    let end = AtomicBool::new(false);
    let listener = TcpListener::bind(any_port()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    let mut server = TcpStream::from_std(server);
    let descs = [register(&reactor.netpoll, &mut client), register(&reactor.netpoll, &mut server)];
    let read = |mut stream: &TcpStream, desc| {
        let mut bytes = [0; size_of::<usize>()];
        let n = reactor.retry(desc, Direction::Read, || stream.read(&mut bytes)).unwrap();
        assert_eq!(n, bytes.len());
        usize::from_ne_bytes(bytes)
    };
    let write = |mut stream: &TcpStream, message: usize| stream.write_all(&message.to_ne_bytes()).unwrap();
    thread::scope(|scope| {
        // Two threads, which meet at a source now and then.
        for step in [7, 5] {
            let (descs, end) = (&descs, &end);
            scope.spawn(move || {
                for i in (0..).take_while(|_| !end.load(Ordering::Relaxed)) {
                    descs[i % 2].move_to([None, Some(0), Some(1), Some(PLACES - 1)][i % step % 4]);
                }
            });
        }
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                for place in [0, 1] {
                    let mut ready = Vec::new();
                    reactor.netpoll.poll_near(place, 0, 1, &mut ready);
                    reactor.wake(ready);
                }
                thread::sleep(Duration::from_micros(20));
            }
        });
        scope.spawn(|| {
            for message in 0..MESSAGES {
                assert_eq!(read(&server, &descs[1]), message);
                write(&server, !message);
            }
        });
        for message in 0..MESSAGES {
            write(&client, message);
            assert_eq!(read(&client, &descs[0]), !message);
        }
        end.store(true, Ordering::Relaxed);
    });
    descs[0].deregister(&mut client).unwrap();
    descs[1].deregister(&mut server).unwrap();
    for place in [0, 1, PLACES - 1] {
        assert_eq!(reactor.netpoll.poll_near(place, 0, 1, &mut Vec::new()), None, "no source is left there");
    }
    assert!(reactor.netpoll.counters().moves > 100);
}

fn current_processor() -> u32 {
    // SAFETY: the call has no argument.
    #[allow(unsafe_code)]
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap()
}
