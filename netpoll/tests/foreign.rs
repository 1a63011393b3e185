//! Waits for foreign descriptors, at stations of their own and at the shared one.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use netpoll::{Netpoll, Seen, Station, Waiter};

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

/// The shared station of a netpoller, at which registrations stand.
struct Shared<'a>(&'a Netpoll, &'a Station);

impl<'a> Shared<'a> {
    fn of(netpoll: &'a Netpoll) -> Shared<'a> {
        Shared(netpoll, netpoll.shared_station().unwrap())
    }

    /// Waits with a system call, and returns the words of the waiters for a closed file with this number.
    fn arm(&self, fd: RawFd, events: u32, word: u64) -> Vec<u64> {
        let mut stale = Vec::new();
        self.0.foreign().wait(self.1, fd, events, Waiter::new(word), &mut stale).unwrap();
        words(stale)
    }

    /// Begins an attempt at a descriptor that stands registered.
    fn seen(&self, fd: RawFd) -> Seen {
        self.0.foreign().seen(fd).expect("the descriptor does not stand registered")
    }

    fn wait_since(&self, seen: Seen, fd: RawFd, events: u32, word: u64) -> bool {
        self.0.foreign().wait_since(fd, events, Waiter::new(word), seen)
    }

    /// Returns the words that a poll wakes.
    fn poll(&self) -> Vec<u64> {
        let mut ready = Vec::new();
        self.0.poll_now(usize::MAX, 0, &mut ready);
        words(ready)
    }
}

#[test]
fn a_registration_that_stands_serves_each_wait_and_tells_of_each_event_between() {
    let netpoll = Netpoll::new().unwrap();
    let shared = Shared::of(&netpoll);
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    assert_eq!(netpoll.foreign().seen(fd), None);
    assert_eq!(shared.arm(fd, READ, 1), []);
    // There is room to write, for which no one waits.
    assert_eq!(shared.poll(), []);
    for round in 0..200 {
        theirs.write_all(b"x").unwrap();
        assert_eq!(shared.poll(), [1], "round {round}");
        ours.read_exact(&mut [0]).unwrap();
        let seen = shared.seen(fd);
        assert!(shared.wait_since(seen, fd, READ, 1));
    }
    assert_eq!(netpoll.sources(), 1);
    // An event between the attempt and the wait.
    let seen = shared.seen(fd);
    theirs.write_all(b"x").unwrap();
    assert_eq!(shared.poll(), [1]);
    assert!(!shared.wait_since(seen, fd, READ, 2));
    assert_eq!(netpoll.sources(), 0);
    // A wait with a system call hears of what is ready already.
    assert_eq!(shared.arm(fd, READ, 3), []);
    assert_eq!(shared.poll(), [3]);
    // The end wakes all.
    let seen = shared.seen(fd);
    assert!(shared.wait_since(seen, fd, READ, 4) && shared.wait_since(seen, fd, READ, 5));
    drop(theirs);
    assert_eq!(shared.poll(), [4, 5]);
}

#[test]
fn a_wait_finds_out_by_arming_that_its_number_was_used_again() {
    let netpoll = Netpoll::new().unwrap();
    let shared = Shared::of(&netpoll);
    let ((old, _peer), (new, mut sender)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let fd = old.as_raw_fd();
    shared.arm(fd, READ, 1);
    assert_eq!(shared.poll(), []);
    replace(fd, new.as_raw_fd());
    let seen = shared.seen(fd);
    assert!(shared.wait_since(seen, fd, READ, 2));
    sender.write_all(b"new").unwrap();
    assert_eq!(shared.poll(), [], "no event comes");
    assert_eq!(shared.arm(fd, READ, 3), [1, 2]);
    assert!(!shared.wait_since(seen, fd, READ, 4), "the registration is another one");
    assert_eq!(shared.poll(), [3]);
}

#[test]
fn what_a_descriptor_leaves_behind_makes_no_events() {
    let netpoll = Netpoll::new().unwrap();
    let shared = Shared::of(&netpoll);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (fd, other) = (ours.as_raw_fd(), ours.try_clone().unwrap());
    shared.arm(fd, READ, 1);
    let seen = shared.seen(fd);
    netpoll.foreign().leave(fd);
    assert_eq!(netpoll.foreign().seen(fd), None);
    assert!(!shared.wait_since(seen, fd, READ, 2));
    drop(ours);
    let mut waiters = Vec::new();
    netpoll.foreign().closed(fd, &mut waiters);
    assert_eq!(words(waiters), [1]);
    assert_eq!(shared.poll(), []);
    theirs.write_all(b"for the other descriptor").unwrap();
    let events = |millis| {
        let mut turn = netpoll.begin_block().unwrap();
        turn.publish(1);
        let start = Instant::now();
        turn.block(1, Some(Duration::from_millis(millis)), &mut Vec::new()).unwrap();
        start.elapsed() < Duration::from_millis(millis)
    };
    assert!(!events(30), "the poller was woken for a descriptor that is closed");
    drop(other);
}

/// A close that was not seen: the registration is gone, and no waiter is there who would find that out.
#[test]
fn a_close_that_is_told_late_ends_what_stands() {
    let netpoll = Netpoll::new().unwrap();
    let shared = Shared::of(&netpoll);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    shared.arm(fd, WRITE, 1);
    assert_eq!(shared.poll(), [1]);
    netpoll.foreign().closed(fd, &mut Vec::new());
    assert!(netpoll.foreign().seen(fd).is_some(), "the descriptor is open");
    drop(ours);
    netpoll.foreign().closed(fd, &mut Vec::new());
    assert_eq!(netpoll.foreign().seen(fd), None);
}

/// Events that no one waits for must not wake the poller for ever.
#[test]
fn a_registration_ends_after_many_events_that_no_one_wants() {
    let netpoll = Netpoll::new().unwrap();
    let shared = Shared::of(&netpoll);
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    shared.arm(fd, READ, 1);
    let mut event = || {
        theirs.write_all(b"x").unwrap();
        let woken = shared.poll();
        ours.read_exact(&mut [0]).unwrap();
        woken
    };
    assert_eq!(event(), [1]);
    // One that is wanted begins the count anew.
    (0..60).for_each(|_| assert_eq!(event(), []));
    assert!(shared.wait_since(shared.seen(fd), fd, READ, 2));
    assert_eq!(event(), [2]);
    let unwanted = (0..1000).take_while(|_| event().is_empty() && netpoll.foreign().seen(fd).is_some());
    assert_eq!(unwanted.count(), 63);
    // The next wait registers it anew.
    assert_eq!(shared.arm(fd, READ, 3), []);
    assert_eq!(event(), [3]);
}
