//! Foreign descriptors: those of code that does not know the netpoller. They are in blocking mode, keep their
//! owner's settings, and may be closed and their numbers used again without notice. (Linux; feature
//! `foreign`.)
//!
//! They stand in epoll instances of their own. Each M has one, its [`Station`], for the green threads that
//! wait on it. Such a green thread resumes on its M only. So no other M needs to hear of its events, and an
//! event wakes the right OS thread at once. One more station is shared: that of green threads that may resume
//! on any M. The poller waits for it as for a source, and the M that polls takes its events. No registration
//! can disturb one of the runtime's own sockets.
//!
//! At the station of an M each registration is *one-shot*: a wait arms it, and its first event disarms it. So
//! it never outlives the interest of its waiters by more than one event.
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
//! At the shared station a registration *stands*: it is edge-triggered and for all events. The first wait
//! makes it. A later one that knows the count of events from before its attempt needs no system call
//! (`standing.rs`); one that does not know it arms, as above. After many events in turn that find no waiter
//! the registration is removed.
//!
//! **A number that was used again.** The system forgets a registration when its file is closed. Arming
//! (`EPOLL_CTL_MOD`) then fails with `ENOENT`, and the descriptor is registered anew. Waiters that stood in
//! the list before, of this M or of others, belong to the closed file if their registration is gone, too.
//! They are returned to the caller, which ends their waits as *closed*. [`Foreign::closed`] ends them
//! earlier: a hint, not a duty. A wait without a system call does not see that its registration is gone. So
//! the caller limits its time, and then arms. [`Foreign::leave`] says that a descriptor is about to be
//! closed.
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

use parking_lot::{Mutex, MutexGuard};

use crate::raw::call;
pub use crate::standing::Seen;
use crate::standing::Standing;
use crate::waiter::Waiter;

/// Descriptors with numbers from here on cannot be waited for.
const MAX_FD: usize = 1 << 20;
const CHUNK: usize = 256;
/// The most events that one system call returns.
const BATCH: usize = 128;
/// What the event of a [`Station::wake`] says in the place of a descriptor.
const WAKE: u64 = u64::MAX;
/// What a standing registration is for.
const STANDING: c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
/// So many events in turn that find no waiter end a standing registration: they wake the poller for nothing.
const UNWANTED: u32 = 64;

/// The waiters for foreign descriptors, at all stations of a runtime. All methods may run on any thread.
#[derive(Debug)]
pub struct Foreign {
    chunks: Box<[Chunk]>,
    /// The number of waiters in all lists.
    waiters: AtomicUsize,
    shared: OnceLock<Station>,
}

/// The lists of `CHUNK` descriptors, made when the first of them is waited for.
type Chunk = OnceLock<Box<[Standing<List>]>>;

/// The waiters for one descriptor.
#[derive(Debug, Default)]
struct List {
    waiters: Vec<Wants>,
    /// The stations that may have this descriptor. The others certainly have not.
    registered: Vec<RawFd>,
    /// The last events at the shared station, in turn, that have found no waiter.
    unwanted: u32,
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
        let Some(place) = self.place(fd) else { return Err(io::Error::from_raw_os_error(libc::EMFILE)) };
        let (mut place, at) = (self.lock(fd, place), station.at());
        let union = place.list.union(at) | events;
        if place.arm(at, union)? == Armed::Anew {
            // The number is new at this station, or has a new file.
            let before = place.list.waiters.len();
            place.list.take(|wants| wants.at == at, stale);
            place.take_closed(stale);
            self.count_out(before - place.list.waiters.len());
        }
        self.add(&mut place.list, Wants { waiter, events, at });
        Ok(())
    }

    /// Returns the count of events of `fd`, for [`wait_since`](Foreign::wait_since); `None` if it does not
    /// stand registered at the shared station. The caller's attempt follows.
    #[inline]
    pub fn seen(&self, fd: RawFd) -> Option<Seen> {
        let fd = usize::try_from(fd).ok()?;
        self.chunks.get(fd / CHUNK)?.get()?[fd % CHUNK].seen()
    }

    /// Adds a waiter at the shared station for some of `EPOLLIN`, `EPOLLOUT`, `EPOLLPRI` and `EPOLLRDHUP`,
    /// without a system call. Returns `false` if something has happened since `seen`: the caller tries again.
    ///
    /// If the number was closed and used again unseen, no event comes: the caller limits the time of the
    /// wait, and then waits by [`wait`](Foreign::wait).
    pub fn wait_since(&self, fd: RawFd, events: u32, waiter: Waiter, seen: Seen) -> bool {
        debug_assert_eq!(events & !(STANDING as u32), 0, "a registration that stands is not for all events");
        let (Some(place), Some(at)) = (self.place(fd), self.shared_at()) else { return false };
        place.wait(seen, |list| self.add(list, Wants { waiter, events, at }))
    }

    /// Removes the registration of `fd` at the shared station, if it stands: the number is about to be
    /// closed, and another holder of its file is to make no events here. Its waiters stay.
    pub fn leave(&self, fd: RawFd) {
        self.change(fd, |place| place.leave());
    }

    /// Removes a waiter for `fd`, if it is still there. The descriptor may stay armed for one event.
    pub fn withdraw(&self, fd: RawFd, waiter: Waiter) {
        self.change(fd, |place| place.list.waiters.retain(|wants| wants.waiter != waiter));
    }

    /// Takes the waiters for `fd` if its number has been closed or has a new file. The caller must end their
    /// waits.
    pub fn closed(&self, fd: RawFd, waiters: &mut Vec<Waiter>) {
        self.change(fd, |place| place.take_closed(waiters));
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
        self.change(fd, |place| {
            if place.shared == Some(at) {
                place.standing.event();
            }
            let before = ready.len();
            place.list.take(|wants| wants.at == at && wants.events & fired != 0, ready);
            let union = place.list.union(at);
            if place.shared == Some(at) {
                place.count_unwanted(ready.len() == before && union == 0);
            } else if union != 0 && !matches!(place.arm(at, union), Ok(Armed::Again)) {
                // The system refuses, or the number has a new file: the waiters find that out themselves.
                place.list.take(|wants| wants.at == at, ready);
            }
        });
    }

    /// Calls `change` with the place of `fd`, which may remove waiters.
    fn change(&self, fd: RawFd, change: impl FnOnce(&mut Place<'_>)) {
        let Some(place) = self.place(fd) else { return };
        let mut place = self.lock(fd, place);
        let before = place.list.waiters.len();
        change(&mut place);
        self.count_out(before - place.list.waiters.len());
    }

    fn add(&self, list: &mut List, wants: Wants) {
        list.waiters.push(wants);
        // Relaxed, here and below: a statistic. The thread that waits sees its own count.
        self.waiters.fetch_add(1, Ordering::Relaxed);
    }

    fn count_out(&self, waiters: usize) {
        if waiters > 0 {
            self.waiters.fetch_sub(waiters, Ordering::Relaxed);
        }
    }

    fn place(&self, fd: RawFd) -> Option<&Standing<List>> {
        let fd = usize::try_from(fd).ok()?;
        let chunk = self.chunks.get(fd / CHUNK)?;
        let places = chunk.get_or_init(|| (0..CHUNK).map(|_| Standing::new(List::default())).collect());
        Some(&places[fd % CHUNK])
    }

    fn lock<'a>(&self, fd: RawFd, standing: &'a Standing<List>) -> Place<'a> {
        Place { fd, shared: self.shared_at(), list: standing.list.lock(), standing }
    }

    fn shared_at(&self) -> Option<RawFd> {
        self.shared.get().map(Station::at)
    }
}

/// The list of one descriptor, under its lock.
struct Place<'a> {
    fd: RawFd,
    /// The shared station, if there is one.
    shared: Option<RawFd>,
    list: MutexGuard<'a, List>,
    standing: &'a Standing<List>,
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
}

impl Place<'_> {
    /// Takes the waiters whose registration is gone, because their file has been closed.
    fn take_closed(&mut self, closed: &mut Vec<Waiter>) {
        let mut stations: Vec<RawFd> = self.list.waiters.iter().map(|wants| wants.at).collect();
        // A registration that stands without a waiter is forgotten, too, if it is gone.
        stations.extend(self.shared.filter(|_| self.standing.stands()));
        stations.sort_unstable();
        stations.dedup();
        for at in stations {
            let union = self.list.union(at);
            if !matches!(self.arm(at, union), Ok(Armed::Again)) {
                self.list.take(|wants| wants.at == at, closed);
            }
        }
    }

    /// Arms the descriptor at a station: for one event of `events`, or for more and for good at the shared
    /// one. There the system reports what is ready now, too.
    fn arm(&mut self, at: RawFd, events: u32) -> io::Result<Armed> {
        let stands = self.shared == Some(at);
        let more = if stands { STANDING } else { libc::EPOLLONESHOT };
        let event = libc::epoll_event { events: events | more as u32, u64: self.fd as u64 };
        if self.list.registered.contains(&at) {
            let Err(error) = control(at, libc::EPOLL_CTL_MOD, self.fd, event) else {
                return Ok(Armed::Again);
            };
            self.forget(at);
            if error.raw_os_error() != Some(libc::ENOENT) {
                return Err(error);
            }
        }
        control(at, libc::EPOLL_CTL_ADD, self.fd, event)?;
        self.list.registered.push(at);
        if stands {
            self.standing.begin();
        }
        Ok(Armed::Anew)
    }

    /// Removes the registration at the shared station, if it stands.
    fn leave(&mut self) {
        if let Some(at) = self.shared
            && self.standing.stands()
        {
            // It fails if the number has a new file, which is not registered.
            let _ = control(at, libc::EPOLL_CTL_DEL, self.fd, libc::epoll_event { events: 0, u64: 0 });
            self.forget(at);
        }
    }

    /// Notes that there is no registration at a station any more.
    fn forget(&mut self, at: RawFd) {
        self.list.registered.retain(|&known| known != at);
        if self.shared == Some(at) {
            self.standing.end();
            self.list.unwanted = 0;
        }
    }

    /// Counts an event at the shared station that no waiter wanted, or begins to count anew.
    fn count_unwanted(&mut self, is_unwanted: bool) {
        self.list.unwanted = if is_unwanted { self.list.unwanted + 1 } else { 0 };
        if self.list.unwanted >= UNWANTED {
            self.leave();
        }
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
