//! Waits for foreign descriptors, each at a station of its own.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use netpoll::{Netpoll, Station, Waiter};

const READ: u32 = libc::EPOLLIN as u32;
const WRITE: u32 = libc::EPOLLOUT as u32;

struct World {
    netpoll: Netpoll,
    one: Station,
    two: Station,
}

impl World {
    fn new() -> World {
        World { netpoll: Netpoll::new().unwrap(), one: Station::new().unwrap(), two: Station::new().unwrap() }
    }

    /// Waits, and returns the words of the waiters for a closed file that had this number.
    fn wait(&self, station: &Station, fd: RawFd, events: u32, word: u64) -> Vec<u64> {
        let mut stale = Vec::new();
        self.netpoll.foreign().wait(station, fd, events, Waiter::new(word), &mut stale).unwrap();
        words(stale)
    }

    /// Returns the words that the present events of a station wake.
    fn poll(&self, station: &Station) -> Vec<u64> {
        let mut ready = Vec::new();
        self.netpoll.foreign().poll(station, &mut ready);
        words(ready)
    }
}

fn words(waiters: Vec<Waiter>) -> Vec<u64> {
    let mut words: Vec<u64> = waiters.into_iter().map(Waiter::word).collect();
    words.sort_unstable();
    words
}

/// Gives the number of `old` to the file of `new`.
fn replace(old: RawFd, new: RawFd) {
    // SAFETY: both are descriptors of this test.
    assert_eq!(unsafe { libc::dup2(new, old) }, old);
}

#[test]
fn an_event_is_that_of_its_station_alone() {
    let world = World::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    assert_eq!(world.wait(&world.one, fd, READ, 1), []);
    assert_eq!(world.wait(&world.two, fd, READ, 2), []);
    assert_eq!(world.wait(&world.two, fd, WRITE, 3), []);
    assert_eq!(world.netpoll.sources(), 3);
    // There is room to write at once.
    assert_eq!((world.poll(&world.one), world.poll(&world.two)), (vec![], vec![3]));
    theirs.write_all(b"a byte for each").unwrap();
    assert_eq!((world.poll(&world.two), world.poll(&world.one)), (vec![2], vec![1]));
    // One-shot: the bytes are still there, and no waiter is.
    assert_eq!((world.poll(&world.one), world.poll(&world.two)), (vec![], vec![]));
    assert_eq!(world.netpoll.sources(), 0);
}

#[test]
fn a_withdrawn_waiter_is_not_woken() {
    let world = World::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    world.wait(&world.one, ours.as_raw_fd(), READ, 1);
    world.wait(&world.one, ours.as_raw_fd(), READ, 2);
    world.netpoll.foreign().withdraw(ours.as_raw_fd(), Waiter::new(1));
    drop(theirs);
    assert_eq!(world.poll(&world.one), [2]);
    assert_eq!(world.netpoll.sources(), 0);
}

/// The old waiters of all stations are found when the number is waited for again, at whichever station; the
/// new ones never are.
#[test]
fn a_number_that_is_used_again_gives_its_old_waiters_back() {
    let world = World::new();
    let (old, _peer) = UnixStream::pair().unwrap();
    let (new, mut sender) = UnixStream::pair().unwrap();
    let fd = old.as_raw_fd();
    assert_eq!(world.wait(&world.one, fd, READ, 1), []);
    assert_eq!(world.wait(&world.two, fd, READ, 2), []);
    replace(fd, new.as_raw_fd());
    assert_eq!(world.wait(&world.two, fd, READ, 3), [1, 2]);
    assert_eq!(world.wait(&world.one, fd, READ, 4), []);
    sender.write_all(b"new").unwrap();
    assert_eq!((world.poll(&world.one), world.poll(&world.two)), (vec![4], vec![3]));
}

/// A station that has never waited for the number finds them, too.
#[test]
fn a_new_station_finds_the_old_waiters_of_another() {
    let world = World::new();
    let (old, _peer) = UnixStream::pair().unwrap();
    let (new, _sender) = UnixStream::pair().unwrap();
    assert_eq!(world.wait(&world.one, old.as_raw_fd(), READ, 1), []);
    replace(old.as_raw_fd(), new.as_raw_fd());
    assert_eq!(world.wait(&world.two, old.as_raw_fd(), READ, 2), [1]);
}

#[test]
fn a_close_gives_all_waiters_back() {
    let world = World::new();
    let (old, _peer) = UnixStream::pair().unwrap();
    let fd = old.as_raw_fd();
    world.wait(&world.one, fd, READ, 1);
    world.wait(&world.two, fd, READ, 2);
    let closed = || {
        let mut waiters = Vec::new();
        world.netpoll.foreign().closed(fd, &mut waiters);
        words(waiters)
    };
    assert_eq!(closed(), [], "the descriptor is open");
    drop(old);
    assert_eq!(closed(), [1, 2]);
    assert_eq!(world.netpoll.sources(), 0);
}

/// A wake-up ends one block, whether it comes before or after its begin.
#[test]
fn a_wake_up_ends_a_block() {
    let world = World::new();
    let foreign = world.netpoll.foreign();
    let mut ready = Vec::new();
    for time in [None, Some(Duration::from_secs(60))] {
        world.one.wake();
        foreign.block(&world.one, time, &mut ready);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                world.one.wake();
            });
            foreign.block(&world.one, time, &mut ready);
        });
    }
    // Each was used up.
    let start = Instant::now();
    foreign.block(&world.one, Some(Duration::from_millis(20)), &mut ready);
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(ready, []);
}

/// The M in the netpoller blocks at its station, too: an event of either ends the wait, and no break is lost.
#[test]
fn a_turn_blocks_beside_a_station() {
    let world = World::new();
    let block = |timeout: Option<Duration>| {
        let mut turn = world.netpoll.begin_block().unwrap();
        let until = if timeout.is_some() { 1 } else { u64::MAX };
        turn.publish(until);
        turn.block_beside(&world.one, until, timeout, &mut Vec::new()).unwrap()
    };
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    world.wait(&world.one, ours.as_raw_fd(), READ, 1);
    assert!(!block(Some(Duration::from_millis(5))));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            theirs.write_all(b"x").unwrap();
        });
        assert!(block(None));
    });
    assert_eq!(world.poll(&world.one), [1]);
    ours.read_exact(&mut [0]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            world.netpoll.break_poll();
        });
        assert!(!block(None));
    });
    // An event and a break at one time: the break may be reported now or by the next wait, but not by none.
    world.wait(&world.one, ours.as_raw_fd(), WRITE, 2);
    world.netpoll.break_poll();
    assert!(block(None));
    assert_eq!(world.poll(&world.one), [2]);
}
