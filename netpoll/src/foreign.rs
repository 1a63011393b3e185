//! Foreign descriptors: those of code that does not know the netpoller. They are in blocking mode, keep their
//! owner's settings, and may be closed and their numbers used again without notice. (Linux; feature
//! `foreign`.)
//!
//! They stand in epoll instances of their own. Each M has one, its [`Station`], for the green threads that
//! wait on it. Such a green thread resumes on its M only. So no other M needs to hear of its events, and an
//! event wakes the right OS thread at once. One more station is shared: that of green threads that may resume
//! on any M. The poller waits for it as for a source, and the M that polls takes its events. Each
//! registration is *one-shot*: a wait arms it, and its first event disarms it. So a registration never
//! outlives the interest of its waiters by more than one event. It cannot disturb a registration of the
//! runtime's own sockets.
//!
//! ```text
//!   the waiter, on its M                             its M, later
//!   1  attempt -> would block                        1  the system reports the descriptor, which is now disarmed
//!   2  lock the descriptor's list, add the waiter    2  lock the descriptor's list
//!   3  arm for what all waiters of the M want        3  take the M's waiters of these events
//!   4  unlock, park; then attempt again              4  arm for the M's other waiters; unlock
//! ```
//!
//! No event is lost: step 3 of the waiter makes the system look at the descriptor anew. An event of an
//! earlier arming may wake a waiter without cause, which is harmless.
//!
//! **A number that was used again.** The system forgets a registration when its file is closed. Arming
//! (`EPOLL_CTL_MOD`) then fails with `ENOENT`, and the descriptor is registered anew. Waiters that stood in
//! the list before, of this M or of others, belong to the closed file if their registration is gone, too.
//! They are returned to the caller, which ends their waits as *closed*. [`Foreign::closed`] ends them
//! earlier: a hint, not a duty.
//!
//! Rejected:
//!
//! - *mio's epoll instance for these, too*: `EPOLL_CTL_MOD` would overwrite a registration of the runtime's
//!   own if its owner also calls libc with the same descriptor.
//! - *The shared station for those that resume on their M*: each event first wakes the M that blocks in the
//!   poller. That M then wakes the M of the waiter. A round trip took two to four times as long.
//! - *A registration for each wait* (`ADD`, `DEL`): four times the cost, and `DEL` may hit the next user of
//!   the number.
//! - *The semaphores of `PollDesc`*: one-shot needs the union of what the waiters want, under a lock.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, ptr};

use parking_lot::Mutex;

use crate::raw::call;
use crate::waiter::Waiter;

/// Descriptors with numbers from here on cannot be waited for.
const MAX_FD: usize = 1 << 20;
const CHUNK: usize = 256;
/// The most events that one system call returns.
const BATCH: usize = 128;
/// What the event of a [`Station::wake`] says in the place of a descriptor.
const WAKE: u64 = u64::MAX;

/// The waiters for foreign descriptors, at all stations of a runtime. All methods may run on any thread.
#[derive(Debug)]
pub struct Foreign {
    chunks: Box<[Chunk]>,
    /// The number of waiters in all lists.
    waiters: AtomicUsize,
    shared: OnceLock<Station>,
}

/// The lists of `CHUNK` descriptors, made when the first of them is waited for.
type Chunk = OnceLock<Box<[Mutex<List>]>>;

/// The waiters for one descriptor.
#[derive(Debug, Default)]
struct List {
    waiters: Vec<Wants>,
    /// The stations that may have this descriptor. The others certainly have not.
    registered: Vec<RawFd>,
}

#[derive(Debug)]
struct Wants {
    waiter: Waiter,
    /// `EPOLLIN`, `EPOLLOUT` and the like.
    events: u32,
    /// The station of the waiter: its epoll instance.
    at: RawFd,
}

/// Where the green threads of one M wait for foreign descriptors: an epoll instance, and a way to wake the M
/// that blocks there. It must outlive its waiters, because the lists have its number only.
#[derive(Debug)]
pub struct Station {
    epoll: OwnedFd,
    wakes: OwnedFd,
}

impl Station {
    /// Makes a station without waiters.
    ///
    /// # Errors
    ///
    /// When the process or the system has no descriptors left.
    pub fn new() -> io::Result<Station> {
        let station = Station { epoll: create()?, wakes: create_event()? };
        // Edge-triggered: each wake-up is reported once, so it needs no reading.
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let wakes = station.wakes.as_raw_fd();
        control(station.at(), libc::EPOLL_CTL_ADD, wakes, libc::epoll_event { events, u64: WAKE })?;
        Ok(station)
    }

    /// Makes the present [`block`](Foreign::block) at this station, or the next one, return. *Runs on: any
    /// thread.*
    pub fn wake(&self) {
        write_event(&self.wakes);
    }

    /// Returns the epoll instance, by which the lists know the station.
    pub(crate) fn at(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Foreign {
    pub(crate) fn new() -> Foreign {
        Foreign {
            chunks: (0..MAX_FD / CHUNK).map(|_| OnceLock::new()).collect(),
            waiters: AtomicUsize::new(0),
            shared: OnceLock::new(),
        }
    }

    /// Returns the shared station; makes it and calls `begin` with it, if there is none.
    pub(crate) fn shared(&self, begin: impl FnOnce(&Station) -> io::Result<()>) -> io::Result<&Station> {
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(station) = self.shared.get() {
            return Ok(station);
        }
        let _one_at_a_time = MAKING.lock();
        if self.shared.get().is_none() {
            let station = Station::new()?;
            begin(&station)?;
            let _ = self.shared.set(station);
        }
        Ok(self.shared.get().expect("the station was set above, under the lock"))
    }

    pub(crate) fn shared_if_any(&self) -> Option<&Station> {
        self.shared.get()
    }

    /// Returns `true` if there may be waiters at the shared station. Those at other stations count, too.
    pub(crate) fn is_shared_in_use(&self) -> bool {
        self.shared.get().is_some() && self.waiters() > 0
    }

    /// Adds a waiter at `station` for `events` of `fd`: bits of `EPOLLIN`, `EPOLLOUT`, `EPOLLPRI`,
    /// `EPOLLRDHUP`. An error or a hang-up ends every wait. The first event wakes the waiter; until then the
    /// caller may [`withdraw`](Foreign::withdraw) it.
    ///
    /// Adds to `stale` the waiters for a closed file that had the same number. The caller must end their
    /// waits.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the system cannot wait for such a file; it is always ready.
    /// - `EBADF`: the descriptor is not open.
    /// - `EMFILE`: the number of the descriptor is too large.
    /// - Others: those of `epoll_ctl`.
    pub fn wait(
        &self,
        station: &Station,
        fd: RawFd,
        events: u32,
        waiter: Waiter,
        stale: &mut Vec<Waiter>,
    ) -> io::Result<()> {
        let Some(list) = self.list(fd) else { return Err(io::Error::from_raw_os_error(libc::EMFILE)) };
        let (mut list, at) = (list.lock(), station.at());
        let union = list.union(at) | events;
        if list.arm(fd, at, union)? == Armed::Anew {
            // The number is new at this station, or has a new file.
            let before = list.waiters.len();
            list.take(|wants| wants.at == at, stale);
            list.take_closed(fd, stale);
            self.count_out(before - list.waiters.len());
        }
        list.waiters.push(Wants { waiter, events, at });
        // Relaxed, here and below: a statistic. The thread that waits sees its own count.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes a waiter for `fd`, if it is still there. The descriptor may stay armed for one event.
    pub fn withdraw(&self, fd: RawFd, waiter: Waiter) {
        self.change(fd, |list| list.waiters.retain(|wants| wants.waiter != waiter));
    }

    /// Takes the waiters for `fd` if its number has been closed or has a new file. The caller must end their
    /// waits.
    pub fn closed(&self, fd: RawFd, waiters: &mut Vec<Waiter>) {
        self.change(fd, |list| list.take_closed(fd, waiters));
    }

    /// How many waiters there are. The answer may be stale at once.
    pub(crate) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::Relaxed)
    }

    /// Takes the waiters that the present events of `station` wake. *Runs on: the M of the station.*
    pub fn poll(&self, station: &Station, ready: &mut Vec<Waiter>) {
        self.deliver(station, 0, ready);
    }

    /// Blocks until `station` has an event, for `time` at most, and takes the waiters. It may return early,
    /// after a signal. *Runs on: the M of the station.*
    pub fn block(&self, station: &Station, time: Option<Duration>, ready: &mut Vec<Waiter>) {
        match time {
            None => self.deliver(station, -1, ready),
            // `epoll_wait` counts milliseconds.
            Some(_) => {
                if wait_for_any([station.at()], time) == [true] {
                    self.poll(station, ready);
                }
            }
        }
    }

    fn deliver(&self, station: &Station, mut milliseconds: c_int, ready: &mut Vec<Waiter>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        loop {
            let count = look(station, &mut events, milliseconds);
            for event in events[..count].iter().filter(|event| event.u64 != WAKE) {
                self.deliver_one(station.at(), event.u64 as RawFd, event.events, ready);
            }
            if count < BATCH {
                return;
            }
            milliseconds = 0;
        }
    }

    fn deliver_one(&self, at: RawFd, fd: RawFd, events: u32, ready: &mut Vec<Waiter>) {
        let over = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let fired = if events & over != 0 { u32::MAX } else { events };
        self.change(fd, |list| {
            list.take(|wants| wants.at == at && wants.events & fired != 0, ready);
            let union = list.union(at);
            // If the system refuses, or the number has a new file, the waiters find that out themselves.
            if union != 0 && !matches!(list.arm(fd, at, union), Ok(Armed::Again)) {
                list.take(|wants| wants.at == at, ready);
            }
        });
    }

    /// Calls `change` with the list of `fd`, which may remove waiters.
    fn change(&self, fd: RawFd, change: impl FnOnce(&mut List)) {
        let Some(list) = self.list(fd) else { return };
        let mut list = list.lock();
        let before = list.waiters.len();
        change(&mut list);
        self.count_out(before - list.waiters.len());
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
    /// Returns what the waiters at a station want.
    fn union(&self, at: RawFd) -> u32 {
        self.waiters.iter().filter(|wants| wants.at == at).fold(0, |union, wants| union | wants.events)
    }

    /// Takes the waiters that are `meant`.
    fn take(&mut self, meant: impl Fn(&Wants) -> bool, taken: &mut Vec<Waiter>) {
        taken.extend(self.waiters.extract_if(.., |wants| meant(wants)).map(|wants| wants.waiter));
    }

    /// Takes the waiters whose registration is gone, because their file has been closed.
    fn take_closed(&mut self, fd: RawFd, closed: &mut Vec<Waiter>) {
        let mut stations: Vec<RawFd> = self.waiters.iter().map(|wants| wants.at).collect();
        stations.sort_unstable();
        stations.dedup();
        for at in stations {
            if !matches!(self.arm(fd, at, self.union(at)), Ok(Armed::Again)) {
                self.take(|wants| wants.at == at, closed);
            }
        }
    }

    /// Arms `fd` for one event of `events` at a station.
    fn arm(&mut self, fd: RawFd, at: RawFd, events: u32) -> io::Result<Armed> {
        let event = libc::epoll_event { events: events | libc::EPOLLONESHOT as u32, u64: fd as u64 };
        if let Some(place) = self.registered.iter().position(|&known| known == at) {
            match control(at, libc::EPOLL_CTL_MOD, fd, event) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    self.registered.swap_remove(place);
                }
                armed => return armed.map(|()| Armed::Again),
            }
        }
        control(at, libc::EPOLL_CTL_ADD, fd, event)?;
        self.registered.push(at);
        Ok(Armed::Anew)
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

// The system calls. They leave `errno` alone where `call` needs no libc: foreign code that succeeds in a call
// may still read it. Elsewhere each stands with the reading of its error in a function that is never inlined:
// see `poller.rs`.

#[inline(never)]
fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    owned(unsafe { call!(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC) })
}

#[inline(never)]
fn create_event() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    owned(unsafe { call!(libc::SYS_eventfd2, 0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Makes the result of a system call that has just returned a new descriptor its owner.
fn owned(fd: isize) -> io::Result<OwnedFd> {
    // SAFETY: the system has just returned this descriptor, so no other code owns it.
    checked(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Converts the result of a system call.
fn checked(result: isize) -> io::Result<isize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result) }
}

/// Adds one to the count of an eventfd. It cannot fail before 2^64 - 2 such calls.
#[inline(never)]
fn write_event(event: &OwnedFd) {
    let one = 1u64;
    // SAFETY: the call reads the eight bytes of `one`.
    unsafe { call!(libc::SYS_write, event.as_raw_fd(), &raw const one, size_of::<u64>()) };
}

#[inline(never)]
fn control(epoll: RawFd, operation: i32, fd: RawFd, event: libc::epoll_event) -> io::Result<()> {
    // SAFETY: the call only reads `event`. The system checks the descriptors.
    checked(unsafe { call!(libc::SYS_epoll_ctl, epoll, operation, fd, &raw const event) }).map(drop)
}

/// Waits for events, and returns how many there are. A call that a signal interrupts has none.
#[inline(never)]
fn look(station: &Station, events: &mut [libc::epoll_event; BATCH], milliseconds: c_int) -> usize {
    let (most, no_mask) = (BATCH as c_int, ptr::null::<u64>());
    // SAFETY: the count is that of the array, which the call fills. It sets no signal mask.
    let count = unsafe {
        call!(libc::SYS_epoll_pwait, station.at(), events.as_mut_ptr(), most, milliseconds, no_mask, 0usize)
    };
    usize::try_from(count).unwrap_or(0)
}

/// Waits until one of some descriptors is readable, for `time` at most, and returns which are. A signal ends
/// the wait, too.
#[inline(never)]
pub(crate) fn wait_for_any<const N: usize>(fds: [RawFd; N], time: Option<Duration>) -> [bool; N] {
    let mut fds = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time = time.map(|time| libc::timespec {
        // The type differs between libraries and widths; this is 68 years.
        tv_sec: time.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: time.subsec_nanos() as _,
    });
    // The system call, unlike libc's, writes what is left of the time.
    let mut time = time;
    let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: the call fills the array of that length. The time lives until it returns, and it sets no signal
    // mask.
    let ready = unsafe { call!(libc::SYS_ppoll, fds.as_mut_ptr(), N, time, ptr::null::<u64>(), 0usize) };
    fds.map(|fd| ready > 0 && fd.revents != 0)
}
