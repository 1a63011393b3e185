//! Foreign descriptors: those of code that does not know the netpoller. They are in blocking mode, keep their owner's settings, and
//! may be closed and their numbers used again without notice. (Linux; feature `foreign`.)
//!
//! They stand in an epoll instance of their own, which is one source of the poller. Each registration is *one-shot*: a wait arms
//! it, and its first event disarms it. So a registration never outlives the interest of its waiters by more than one event, and
//! it cannot disturb a registration of the runtime's own sockets.
//!
//! ```text
//!   the waiter                                       the poller
//!   1  attempt -> would block                        1  the system reports the descriptor, which is now disarmed
//!   2  lock the descriptor's list, add the waiter    2  lock the descriptor's list
//!   3  arm for what all its waiters want; unlock     3  take the waiters of these events
//!   4  park; then attempt again                      4  arm for the other waiters; unlock
//! ```
//!
//! No event is lost: step 3 of the waiter makes the system look at the descriptor anew. An event of an earlier arming may wake a
//! waiter without cause, which is harmless.
//!
//! **A number that was used again.** The system forgets a registration when its file is closed. Arming (`EPOLL_CTL_MOD`) then fails
//! with `ENOENT`, and the descriptor is registered anew. Waiters that stood in the list before belong to the closed file. They
//! are returned to the caller, which ends their waits as *closed*. [`Foreign::closed`] ends them earlier: a hint, not a duty.
//!
//! Rejected:
//!
//! - *mio's epoll instance for these, too*: `EPOLL_CTL_MOD` would overwrite a registration of the runtime's own if its owner also
//!   calls libc with the same descriptor.
//! - *A registration for each wait* (`ADD`, `DEL`): four times the cost, and `DEL` may hit the next user of the number.
//! - *The semaphores of `PollDesc`*: one-shot needs the union of what the waiters want, under a lock.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::waiter::Waiter;

/// Descriptors with numbers from here on cannot be waited for.
const MAX_FD: usize = 1 << 20;
const CHUNK: usize = 256;
/// The most events that one system call returns.
const BATCH: usize = 128;

/// The waiters for foreign descriptors. All methods may run on any thread.
#[derive(Debug)]
pub struct Foreign {
    epoll: OwnedFd,
    chunks: Box<[Chunk]>,
    /// The number of waiters in all lists.
    waiters: AtomicUsize,
}

/// The lists of `CHUNK` descriptors, made when the first of them is waited for.
type Chunk = OnceLock<Box<[Mutex<List>]>>;

/// The waiters for one descriptor.
#[derive(Debug, Default)]
struct List {
    waiters: Vec<Wants>,
    /// False if the epoll instance certainly does not have this descriptor.
    registered: bool,
}

#[derive(Debug)]
struct Wants {
    waiter: Waiter,
    /// `EPOLLIN`, `EPOLLOUT` and the like.
    events: u32,
}

impl Foreign {
    pub(crate) fn new() -> io::Result<Foreign> {
        Ok(Foreign {
            epoll: create()?,
            chunks: (0..MAX_FD / CHUNK).map(|_| OnceLock::new()).collect(),
            waiters: AtomicUsize::new(0),
        })
    }

    /// Adds a waiter for `events` of `fd`: bits of `EPOLLIN`, `EPOLLOUT`, `EPOLLPRI`, `EPOLLRDHUP`. An error or a hang-up ends
    /// every wait. The first event wakes the waiter; until then the caller may [`withdraw`](Foreign::withdraw) it.
    ///
    /// Adds to `stale` the waiters for a closed file that had the same number. The caller must end their waits.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the system cannot wait for such a file; it is always ready.
    /// - `EBADF`: the descriptor is not open.
    /// - `EMFILE`: the number of the descriptor is too large.
    /// - Others: those of `epoll_ctl`.
    pub fn wait(&self, fd: RawFd, events: u32, waiter: Waiter, stale: &mut Vec<Waiter>) -> io::Result<()> {
        let Some(list) = self.list(fd) else { return Err(io::Error::from_raw_os_error(libc::EMFILE)) };
        let mut list = list.lock();
        let union = list.union() | events;
        if self.arm(fd, union, &mut list.registered)? == Armed::Anew {
            self.count_out(list.waiters.len());
            stale.extend(list.waiters.drain(..).map(|wants| wants.waiter));
        }
        list.waiters.push(Wants { waiter, events });
        // Relaxed, here and below: a statistic. The thread that waits sees its own count.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes a waiter for `fd`, if it is still there. The descriptor may stay armed for one event.
    pub fn withdraw(&self, fd: RawFd, waiter: Waiter) {
        let Some(list) = self.list(fd) else { return };
        let mut list = list.lock();
        let before = list.waiters.len();
        list.waiters.retain(|wants| wants.waiter != waiter);
        self.count_out(before - list.waiters.len());
    }

    /// Takes the waiters for `fd` if its number has been closed or has a new file. The caller must end their waits.
    pub fn closed(&self, fd: RawFd, waiters: &mut Vec<Waiter>) {
        let Some(list) = self.list(fd) else { return };
        let mut list = list.lock();
        if list.waiters.is_empty() {
            return;
        }
        let union = list.union();
        if !matches!(self.arm(fd, union, &mut list.registered), Ok(Armed::Again)) {
            self.count_out(list.waiters.len());
            waiters.extend(list.waiters.drain(..).map(|wants| wants.waiter));
        }
    }

    /// How many waiters there are. The answer may be stale at once.
    pub(crate) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::Relaxed)
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Takes the waiters that the present events wake. *Runs on: the thread that has the poller's lock.*
    pub(crate) fn deliver(&self, ready: &mut Vec<Waiter>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        loop {
            let count = look(&self.epoll, &mut events);
            events[..count]
                .iter()
                .for_each(|event| self.deliver_one(event.u64 as RawFd, event.events, ready));
            if count < BATCH {
                return;
            }
        }
    }

    fn deliver_one(&self, fd: RawFd, events: u32, ready: &mut Vec<Waiter>) {
        let Some(list) = self.list(fd) else { return };
        let mut list = list.lock();
        let before = list.waiters.len();
        let over = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let fired = if events & over != 0 { u32::MAX } else { events };
        list.take(fired, ready);
        if !list.waiters.is_empty() {
            let union = list.union();
            // If the system refuses, or the number has a new file, the waiters find that out themselves.
            if !matches!(self.arm(fd, union, &mut list.registered), Ok(Armed::Again)) {
                list.take(u32::MAX, ready);
            }
        }
        self.count_out(before - list.waiters.len());
    }

    /// Arms `fd` for one event of `events`.
    fn arm(&self, fd: RawFd, events: u32, registered: &mut bool) -> io::Result<Armed> {
        let events = events | libc::EPOLLONESHOT as u32;
        if *registered {
            match control(&self.epoll, libc::EPOLL_CTL_MOD, fd, events) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => *registered = false,
                armed => return armed.map(|()| Armed::Again),
            }
        }
        control(&self.epoll, libc::EPOLL_CTL_ADD, fd, events)?;
        *registered = true;
        Ok(Armed::Anew)
    }

    fn count_out(&self, waiters: usize) {
        if waiters > 0 {
            self.waiters.fetch_sub(waiters, Ordering::Relaxed);
        }
    }

    fn list(&self, fd: RawFd) -> Option<&Mutex<List>> {
        let fd = usize::try_from(fd).ok()?;
        let chunk = self.chunks.get(fd / CHUNK)?;
        let lists = chunk.get_or_init(|| (0..CHUNK).map(|_| Mutex::default()).collect());
        Some(&lists[fd % CHUNK])
    }
}

impl List {
    fn union(&self) -> u32 {
        self.waiters.iter().fold(0, |union, wants| union | wants.events)
    }

    /// Takes the waiters for any of `events`.
    fn take(&mut self, events: u32, ready: &mut Vec<Waiter>) {
        self.waiters.retain(|wants| {
            let woken = wants.events & events != 0;
            if woken {
                ready.push(wants.waiter);
            }
            !woken
        });
    }
}

/// How a descriptor was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    /// It was registered already.
    Again,
    /// It is registered now: it is new here, or its number has a new file.
    Anew,
}

// The system calls. Each stands with the reading of its error in a function that is never inlined: see `poller.rs`.

#[inline(never)]
fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `epoll_create1` has just returned this descriptor, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[inline(never)]
fn control(epoll: &OwnedFd, operation: i32, fd: RawFd, events: u32) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: fd as u64 };
    // SAFETY: the call only reads `event`. The system checks `fd`.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &mut event) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns how many events there are now. An interrupted call has none; the poller then looks again at the next event.
#[inline(never)]
fn look(epoll: &OwnedFd, events: &mut [libc::epoll_event; BATCH]) -> usize {
    // SAFETY: the count is that of the array, which the call fills. A time-out of 0 never waits, so no signal interrupts it.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, 0) };
    usize::try_from(count).unwrap_or(0)
}
