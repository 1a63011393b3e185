//! Near pollers: an epoll for each *place* (a P of the scheduler), beside the one that all threads share.
//!
//! A source moves to the place on the processor that receives its packets: its thread runs there. So the
//! kernel's data of a connection, its events and its green threads stay with one processor; over loopback
//! both sides of a connection come together. The caller decides when (`sched/src/sources/near.rs`).
//!
//! # No event waits for a thread that computes
//!
//! The shared poller watches each near poller, level-triggered: it reports a near poller as long as that has
//! events. So these are taken by the thread of the place, by the thread that blocks in the shared poller, and
//! by each thread that polls the shared one when the thread of the place has not polled for long.
//!
//! # No event is lost by a move
//!
//! A source joins its next poller before it leaves the last one. A registration reports what is ready
//! already, so at worst an event comes twice. An event that was taken from the last poller, and is
//! delivered late, reaches only its owner: a slot waits for the rounds of all pollers that it was
//! registered with (`arena.rs`).
//!
//! # Rejected
//!
//! - *A near poller for each source by its number*, without the kernel's word on its packets: over loopback
//!   the sides of a connection meet by chance only, and two loops over epoll were as fast with one epoll.
//! - *One epoll, and lists of events for the other places*: as slow. Both processors then write the lists and
//!   the lock of that epoll.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Poll, Registry, Token};
use parking_lot::Mutex;

use crate::arena::{At, MOST_NEAR, OWN, SHARED};
use crate::raw::call;
use crate::sys::INTERESTS;

/// Sources can be moved.
pub(crate) const MOVES: bool = true;
/// How many events a poll takes at once.
const BATCH: usize = 32;

/// The near pollers of a netpoller. Each is made with its first source.
pub(crate) struct Nears {
    /// `None` inside if the system has refused one.
    all: [OnceLock<Option<Box<Near>>>; MOST_NEAR],
    /// Where the thread of each place was when it polled last: the processor's number and one; zero if it has
    /// not polled yet. Relaxed: hints.
    processors: [AtomicU32; MOST_NEAR],
}

/// The poller of one place.
#[repr(align(128))]
pub(crate) struct Near {
    poller: Mutex<(Poll, Events)>,
    registry: Registry,
    /// How many sources are registered here. Relaxed: a hint.
    sources: AtomicUsize,
    /// When the thread of the place polled last, by its clock. Relaxed: a hint.
    polled: AtomicU64,
    /// Polls, and woken waiters. Here, because the threads of all places count at once.
    counts: [AtomicU64; 2],
}

impl Nears {
    pub(crate) fn new() -> Nears {
        Nears {
            all: [const { OnceLock::new() }; MOST_NEAR],
            processors: [const { AtomicU32::new(0) }; MOST_NEAR],
        }
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Near> {
        self.all.get(place)?.get()?.as_deref()
    }

    /// Returns the near poller of a place, and makes it if needed: watched by `shared` under `token`. `None`
    /// if there are no more, or the system refuses one.
    fn get_or_make(&self, place: usize, shared: i32) -> Option<&Near> {
        let make = || Near::new(shared, token(place)).ok().map(Box::new);
        self.all.get(place)?.get_or_init(make).as_deref()
    }

    /// Notes on which processor the thread of a place is. *Runs on: that thread.*
    pub(crate) fn note_processor(&self, place: usize, processor: u32) {
        if let Some(noted) = self.processors.get(place)
            && noted.load(Ordering::Relaxed) != processor.wrapping_add(1)
        {
            noted.store(processor.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns the place with the thread that was on that processor when it polled last.
    pub(crate) fn place_of(&self, processor: u32) -> Option<usize> {
        (0..MOST_NEAR).find(|place| self.is_at(*place, processor))
    }

    /// Returns `true` if the thread of a place was on that processor when it polled last.
    pub(crate) fn is_at(&self, place: usize, processor: u32) -> bool {
        self.processors[place].load(Ordering::Relaxed) == processor.wrapping_add(1)
    }

    /// How many sources are near a place.
    pub(crate) fn sources(&self, place: usize) -> usize {
        self.get(place).map_or(0, |near| near.sources.load(Ordering::Relaxed))
    }

    /// Moves a source to the near poller of a place, or to the shared one, which has this registry and
    /// descriptor. `join` notes the next poller in its slot. It stays where it is if the system refuses,
    /// or another thread moves it. Returns `true` if it has moved. *Runs on: any thread that keeps the
    /// source open.*
    pub(crate) fn change(
        &self,
        at: &At,
        fd: i32,
        place: Option<usize>,
        token: Token,
        (shared, shared_fd): (&Registry, i32),
        join: impl FnOnce(usize),
    ) -> bool {
        let to = match place {
            None => SHARED,
            Some(place) if place < MOST_NEAR => place + 1,
            Some(_) => return false,
        };
        let Some(from) = at.take() else { return false };
        let registry = |poller: usize| match poller.checked_sub(1) {
            None => Some(shared),
            Some(place) => self.get_or_make(place, shared_fd).map(|near| &near.registry),
        };
        let mut now = from;
        if from != to
            && let Some(next) = registry(to)
        {
            join(to);
            if add(next, fd, token).is_ok() {
                if let Some(last) = registry(from) {
                    remove(last, fd);
                }
                self.count(from, to);
                now = to;
            }
        }
        at.give_back(now);
        now != from
    }

    /// Removes a source from its near poller. Returns `false` if it is registered with the shared one. *Runs
    /// on: the owner of the descriptor, which is still open. No thread waits for the source.*
    pub(crate) fn leave(&self, at: &At, fd: i32) -> bool {
        let Some(near) = self.forget(at) else { return false };
        remove(&near.registry, fd);
        true
    }

    /// Counts a source no more that may be closed already, and returns the near poller that it had. *Runs on:
    /// as `leave`.*
    pub(crate) fn forget(&self, at: &At) -> Option<&Near> {
        let from = at.take()?;
        at.give_back(SHARED);
        let near = self.get(from.checked_sub(1)?)?;
        near.sources.fetch_sub(1, Ordering::Relaxed);
        Some(near)
    }

    fn count(&self, from: usize, to: usize) {
        let of = |poller: usize| self.get(poller.checked_sub(1)?);
        if let Some(near) = of(from) {
            near.sources.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(near) = of(to) {
            near.sources.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Near {
    fn new(shared: i32, token: Token) -> io::Result<Near> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        watch(shared, poll.as_raw_fd(), token)?;
        let poller = Mutex::new((poll, Events::with_capacity(BATCH)));
        Ok(Near {
            poller,
            registry,
            sources: AtomicUsize::new(0),
            polled: AtomicU64::new(0),
            counts: Default::default(),
        })
    }

    /// Notes that the thread of this place polls now.
    pub(crate) fn polls_at(&self, now: u64) {
        self.polled.store(now, Ordering::Relaxed);
    }

    /// Returns `true` if the thread of this place has not polled since.
    pub(crate) fn polled_before(&self, time: u64) -> bool {
        self.polled.load(Ordering::Relaxed) < time
    }

    /// Counts a poll that woke so many waiters.
    pub(crate) fn count_poll(&self, woken: usize) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
        self.counts[1].fetch_add(woken as u64, Ordering::Relaxed);
    }

    /// Returns how many polls there were, and how many waiters these woke.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|which: usize| self.counts[which].load(Ordering::Relaxed))
    }

    /// Begins to count anew.
    pub(crate) fn reset_counts(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    pub(crate) fn has_sources(&self) -> bool {
        self.sources.load(Ordering::Relaxed) != 0
    }

    /// Polls without blocking, and hands the events to `deliver`. Returns `true` if more may wait. Does
    /// nothing if another thread polls here. *Runs on: any thread.*
    pub(crate) fn poll(&self, deliver: impl FnOnce(&mut dyn Iterator<Item = &Event>)) -> bool {
        let Some(mut poller) = self.poller.try_lock() else { return false };
        let (poll, events) = &mut *poller;
        if !wait(poll, events) {
            return false;
        }
        let mut count = 0;
        deliver(&mut events.iter().inspect(|_| count += 1));
        count >= BATCH
    }
}

/// The token under which the shared poller watches the near poller of a place.
fn token(place: usize) -> Token {
    Token(usize::MAX - OWN - place)
}

/// Returns the place with the near poller of that token.
pub(crate) fn place_of(token: Token) -> Option<usize> {
    (usize::MAX - OWN).checked_sub(token.0).filter(|place| *place < MOST_NEAR)
}

/// Returns the descriptor of a poller.
pub(crate) fn descriptor(poll: &Poll) -> i32 {
    poll.as_raw_fd()
}

// The system calls, never inlined: as those of `poller.rs`.

/// Makes the shared poller report a near poller as long as that has events.
#[inline(never)]
fn watch(shared: i32, near: i32, token: Token) -> io::Result<()> {
    // Not by mio, which registers for edges.
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token.0 as u64 };
    // SAFETY: the event outlives the call. Both descriptors are open.
    let result = unsafe { call!(libc::SYS_epoll_ctl, shared, libc::EPOLL_CTL_ADD, near, &raw mut event) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

#[inline(never)]
fn wait(poll: &mut Poll, events: &mut Events) -> bool {
    poll.poll(events, Some(Duration::ZERO)).is_ok()
}

#[inline(never)]
fn add(registry: &Registry, fd: i32, token: Token) -> io::Result<()> {
    registry.register(&mut SourceFd(&fd), token, INTERESTS)
}

#[inline(never)]
fn remove(registry: &Registry, fd: i32) {
    // Fails only for a descriptor that was closed by code that did not own it.
    drop(registry.deregister(&mut SourceFd(&fd)));
}

/// Returns the processor that has received the last packet of a socket with a peer (TCP, connected UDP);
/// `None` for other descriptors, and before the first packet.
#[inline(never)]
pub(crate) fn incoming_processor(fd: i32) -> Option<u32> {
    let mut processor: libc::c_int = -1;
    let mut bytes = size_of_val(&processor) as libc::socklen_t;
    // SAFETY: both outlive the call, which writes no more than their sizes.
    let result = unsafe {
        let (option, at, len) = (libc::SO_INCOMING_CPU, &raw mut processor, &raw mut bytes);
        call!(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, option, at, len)
    };
    if result < 0 { None } else { u32::try_from(processor).ok() }
}
