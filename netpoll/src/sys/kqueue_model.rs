//! A model of kqueue on Linux (`--cfg kqueue_model`, always with `--cfg portable`), to run on Linux what
//! macOS and the BSDs report in another way than epoll.
//!
//! mio has a selector for kqueue and hides its calls, but not its semantics. Each difference below is one
//! that the netpoller or its callers could notice, and the model shows it:
//!
//! - Each direction has a registration of its own, a *filter*. A change in one direction reports that
//!   direction alone, and changes in both are two events, which may come in two batches.
//! - The end of a direction is a mark of that filter's event.
//! - A second registration of a descriptor replaces the first without an error.
//! - A regular file is no error, and is ready.
//! - A wake-up is an event of the kqueue itself (`EVFILT_USER`). It has no descriptor and is never read.
//! - The wait's own time-out is precise. Darwin refuses long ones with `EINVAL`.
//! - A child of `fork` does not have the kqueues of its parent.
//! - What this process has shut is reported. (Windows does not, for which `untold.rs` stands in.)
//!
//! With `KQUEUE_MODEL_SPURIOUS` in the environment a wait also reports what is not so: readiness of sources
//! that are not ready, also of some that are registered no more. A wait then ends after a millisecond at the
//! latest. Every system may report so, as when another thread has taken the bytes.
//!
//! Under it lie three epoll instances. One watches the other two, which watch a direction each. Linux wakes
//! the waiters of a descriptor by direction, so one instance learns nothing of the changes in the other
//! direction.
//!
//! mio's sources register themselves, and show their descriptor to `epoll_ctl` alone. So the model
//! defines that function for the whole program. While a source registers itself with `front`, an instance
//! that nothing waits for, the function notes the descriptor and does nothing else.
//!
//! Not modelled: low-water marks, and room for datagrams of Unix sockets, for which these systems return
//! `ENOBUFS`.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use parking_lot::Mutex;

use crate::source::Source;

/// The longest time-out that Darwin takes.
const LONGEST: Duration = Duration::from_secs(100_000_000);

/// The most events that one look at a filter takes: few, so that the events of a descriptor often come in
/// two batches.
const LOOK: usize = 4;

/// How long a wait without events lasts if there are spurious events.
const SPURIOUS_AFTER: Duration = Duration::from_millis(1);

/// How many spurious events one look adds at most.
const SPURIOUS: u64 = 3;

fn has_spurious() -> bool {
    static IS_SET: OnceLock<bool> = OnceLock::new();
    *IS_SET.get_or_init(|| std::env::var_os("KQUEUE_MODEL_SPURIOUS").is_some())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Read,
    Write,
    User,
}

/// An event of one filter, with mio's names for what kqueue reports (its `selector/kqueue.rs`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    token: usize,
    filter: Filter,
    /// `EV_EOF`.
    end: bool,
    /// The descriptor has an error, which an `EV_EOF` reports with itself (`fflags`).
    error: bool,
}

impl Event {
    pub(crate) fn token(&self) -> Token {
        Token(self.token)
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.filter != Filter::Write
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.filter == Filter::Write
    }

    pub(crate) fn is_error(&self) -> bool {
        self.end && self.error
    }

    pub(crate) fn is_read_closed(&self) -> bool {
        self.end && self.filter == Filter::Read
    }

    pub(crate) fn is_write_closed(&self) -> bool {
        self.end && self.filter == Filter::Write
    }

    pub(crate) fn is_priority(&self) -> bool {
        false
    }
}

/// The events of one wait.
pub(crate) struct Events {
    events: Vec<Event>,
    capacity: usize,
}

impl Events {
    pub(crate) fn with_capacity(capacity: usize) -> Events {
        Events { events: Vec::with_capacity(capacity), capacity }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    fn is_full(&self) -> bool {
        self.events.len() >= self.capacity
    }
}

#[derive(Debug)]
struct Kqueue {
    /// Watches the three below.
    all: OwnedFd,
    read: OwnedFd,
    write: OwnedFd,
    /// An eventfd: what `EVFILT_USER` has of its own.
    user: OwnedFd,
    user_token: AtomicU64,
    /// Which tokens are those of sockets. Only these have an error that an event can report.
    sockets: Mutex<HashMap<usize, bool>>,
    /// Regular files, which epoll does not take: each is reported once.
    files: Mutex<VecDeque<Event>>,
    /// Counts the looks, each of which begins with another filter.
    looks: AtomicU64,
}

impl Kqueue {
    fn new() -> io::Result<Kqueue> {
        let [all, read, write] = [new_epoll()?, new_epoll()?, new_epoll()?];
        // SAFETY: the call takes no pointer.
        let user = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        for (inner, filter) in [(&read, Filter::Read), (&write, Filter::Write), (&user, Filter::User)] {
            control(&all, libc::EPOLL_CTL_ADD, inner.as_raw_fd(), libc::EPOLLIN as u32, filter as usize)?;
        }
        let kqueue = Kqueue {
            all,
            read,
            write,
            user,
            user_token: AtomicU64::new(0),
            sockets: Mutex::default(),
            files: Mutex::default(),
            looks: AtomicU64::new(0),
        };
        at_fork::add(kqueue.descriptors());
        Ok(kqueue)
    }

    fn descriptors(&self) -> [RawFd; 4] {
        [&self.all, &self.read, &self.write, &self.user].map(AsRawFd::as_raw_fd)
    }

    fn of(&self, filter: Filter) -> &OwnedFd {
        match filter {
            Filter::Read => &self.read,
            Filter::Write => &self.write,
            Filter::User => &self.user,
        }
    }

    /// `EV_ADD` with `EV_CLEAR`. If the filter is there already, its token changes.
    fn add(&self, fd: RawFd, filter: Filter, token: usize) -> io::Result<()> {
        let events = match filter {
            Filter::Read => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET,
            Filter::Write => libc::EPOLLOUT | libc::EPOLLET,
            Filter::User => unreachable!("a wake-up has no descriptor"),
        } as u32;
        self.sockets.lock().insert(token, is_socket(fd));
        match control(self.of(filter), libc::EPOLL_CTL_ADD, fd, events, token) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                control(self.of(filter), libc::EPOLL_CTL_MOD, fd, events, token)
            }
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                self.files.lock().push_back(Event { token, filter, end: false, error: false });
                self.wake()
            }
            done => done,
        }
    }

    /// `EV_DELETE`. A filter that is not there is none to delete.
    fn delete(&self, fd: RawFd, filter: Filter) -> io::Result<()> {
        match control(self.of(filter), libc::EPOLL_CTL_DEL, fd, 0, 0) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM)) => Ok(()),
            done => done,
        }
    }

    /// `NOTE_TRIGGER`. Triggers before the next event are one.
    fn wake(&self) -> io::Result<()> {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the call reads the eight bytes of `one`.
        let written = unsafe { libc::write(self.user.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes events without waiting.
    fn look(&self, events: &mut Events) {
        let mut order = [Filter::Read, Filter::Write, Filter::User];
        // Relaxed: only the thread that polls looks.
        order.rotate_left(self.looks.fetch_add(1, Ordering::Relaxed) as usize % 3);
        for filter in order {
            match filter {
                Filter::User => self.look_for_user(events),
                Filter::Read | Filter::Write => self.look_at(filter, events),
            }
        }
        if has_spurious() {
            self.look_for_nothing(events);
        }
    }

    /// Adds events that have no cause.
    fn look_for_nothing(&self, events: &mut Events) {
        let sockets = self.sockets.lock();
        // Relaxed: only the thread that polls looks. The product has well mixed high bits.
        let mut random = self.looks.load(Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..(random >> 32) % (SPURIOUS + 1) {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let nth = (random >> 33) as usize % sockets.len().max(1);
            let Some(&token) = sockets.keys().nth(nth) else { return };
            if events.is_full() {
                return;
            }
            let filter = if (random >> 32) % 2 == 0 { Filter::Read } else { Filter::Write };
            events.events.push(Event { token, filter, end: false, error: false });
        }
    }

    fn look_for_user(&self, events: &mut Events) {
        let mut count = [0; 8];
        // SAFETY: the call writes the eight bytes of `count`.
        let read = unsafe { libc::read(self.user.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        if read < 0 || events.is_full() {
            return;
        }
        // Relaxed: the token was set before the first wake-up, which the eventfd orders.
        let token = self.user_token.load(Ordering::Relaxed) as usize;
        events.events.push(Event { token, filter: Filter::User, end: false, error: false });
        events.events.extend(self.files.lock().drain(..));
    }

    fn look_at(&self, filter: Filter, events: &mut Events) {
        const NONE: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };
        let mut found = [NONE; LOOK];
        let most = LOOK.min(events.capacity - events.events.len());
        if most == 0 {
            return;
        }
        // SAFETY: the call writes at most `most` events, and `found` has room for as many.
        let n =
            unsafe { libc::epoll_wait(self.of(filter).as_raw_fd(), found.as_mut_ptr(), most as c_int, 0) };
        let sockets = self.sockets.lock();
        events.events.extend(found[..n.max(0) as usize].iter().map(|event| {
            let token = event.u64 as usize;
            let has = |bits: c_int| event.events & bits as u32 != 0;
            let is_socket = sockets.get(&token).is_some_and(|&is_socket| is_socket);
            let end = match filter {
                Filter::Read => has(libc::EPOLLRDHUP | libc::EPOLLHUP),
                // A pipe without a reader has `EPOLLERR`.
                _ => has(libc::EPOLLHUP) || !is_socket && has(libc::EPOLLERR),
            };
            Event { token, filter, end, error: is_socket && has(libc::EPOLLERR) }
        }));
    }
}

impl Drop for Kqueue {
    fn drop(&mut self) {
        at_fork::remove(self.descriptors());
    }
}

/// The calls of mio's `Poll` that the netpoller makes.
pub(crate) struct Poll {
    kqueue: Arc<Kqueue>,
    registry: Registry,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        let kqueue = Arc::new(Kqueue::new()?);
        let registry = Registry { kqueue: Arc::clone(&kqueue), front: Arc::new(mio::Poll::new()?) };
        let fd = kqueue.user.as_raw_fd();
        let noted =
            registry.note(|front| front.register(&mut SourceFd(&fd), Token(0), Interest::READABLE))?;
        assert_eq!(noted, Some(fd), "mio calls another `epoll_ctl` than that of the model");
        Ok(Poll { kqueue, registry })
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn poll(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.events.clear();
        if timeout.is_some_and(|timeout| timeout > LONGEST) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left =
                if has_spurious() { Some(left.unwrap_or(SPURIOUS_AFTER).min(SPURIOUS_AFTER)) } else { left };
            let is_over = !wait(&self.kqueue.all, left)?;
            self.kqueue.look(events);
            // An event that another look has taken leaves none.
            if is_over || !events.events.is_empty() || left == Some(Duration::ZERO) {
                return Ok(());
            }
        }
    }
}

impl AsRawFd for Poll {
    fn as_raw_fd(&self) -> RawFd {
        self.kqueue.all.as_raw_fd()
    }
}

/// The calls of mio's `Registry` that the netpoller makes.
pub(crate) struct Registry {
    kqueue: Arc<Kqueue>,
    /// Where sources register themselves; nothing waits for it.
    front: Arc<mio::Poll>,
}

impl Registry {
    pub(crate) fn try_clone(&self) -> io::Result<Registry> {
        Ok(Registry { kqueue: Arc::clone(&self.kqueue), front: Arc::clone(&self.front) })
    }

    pub(crate) fn register<S: Source + ?Sized>(
        &self,
        source: &mut S,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let Some(fd) = self.note(|front| front.register(source, token, interest))? else { return Ok(()) };
        // Both changes are made before the first error is returned (`EV_RECEIPT`).
        let write = if interest.is_writable() { self.kqueue.add(fd, Filter::Write, token.0) } else { Ok(()) };
        let read = if interest.is_readable() { self.kqueue.add(fd, Filter::Read, token.0) } else { Ok(()) };
        write.and(read)
    }

    pub(crate) fn deregister<S: Source + ?Sized>(&self, source: &mut S) -> io::Result<()> {
        let Some(fd) = self.note(|front| front.deregister(source))? else { return Ok(()) };
        self.kqueue.delete(fd, Filter::Write).and(self.kqueue.delete(fd, Filter::Read))
    }

    /// Returns the descriptor that a source shows during `call`. A simulated source shows none.
    fn note(&self, call: impl FnOnce(&mio::Registry) -> io::Result<()>) -> io::Result<Option<RawFd>> {
        NOTED.set(Noted::Listens);
        let done = call(self.front.registry());
        let noted = NOTED.replace(Noted::Sleeps);
        done?;
        Ok(if let Noted::Saw(fd) = noted { Some(fd) } else { None })
    }
}

/// The calls of mio's `Waker` that the netpoller makes.
#[derive(Debug)]
pub(crate) struct Waker(Arc<Kqueue>);

impl Waker {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Waker> {
        // Relaxed: the eventfd orders it before the event (`look_for_user`).
        registry.kqueue.user_token.store(token.0 as u64, Ordering::Relaxed);
        Ok(Waker(Arc::clone(&registry.kqueue)))
    }

    pub(crate) fn wake(&self) -> io::Result<()> {
        self.0.wake()
    }
}

#[derive(Clone, Copy)]
enum Noted {
    Sleeps,
    Listens,
    Saw(RawFd),
}

thread_local! {
    /// What `epoll_ctl` does on this OS thread. No green thread stops while it is set.
    static NOTED: Cell<Noted> = const { Cell::new(Noted::Sleeps) };
}

/// libc's function, in the place of libc's for the whole program: mio's sources call it.
///
/// # Safety
/// As libc's.
// SAFETY: the signature is libc's, and so is the effect but where `note` asks for the descriptor.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
    match NOTED.get() {
        Noted::Sleeps => {
            // SAFETY: the caller answers for the arguments, as it does to libc.
            unsafe { libc::syscall(libc::SYS_epoll_ctl, ep, op, fd, event) as c_int }
        }
        Noted::Listens | Noted::Saw(_) => {
            NOTED.set(Noted::Saw(fd));
            0
        }
    }
}

#[inline(never)]
fn owned(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just returned this descriptor, so no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn new_epoll() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

#[inline(never)]
fn control(epoll: &OwnedFd, op: c_int, fd: RawFd, events: u32, token: usize) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: token as u64 };
    // SAFETY: the call reads `event`, which outlives it. The function is the one above, which refers the
    // linker to it.
    let result = unsafe { epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[inline(never)]
fn is_socket(fd: RawFd) -> bool {
    let (mut kind, mut size) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the call writes at most `size` bytes to `kind`.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut size)
    };
    result == 0
}

/// Waits until `epoll` has an event. Returns `false` if the time-out came first.
#[inline(never)]
fn wait(epoll: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
    let mut look = libc::pollfd { fd: epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as _,
        // Below 10^9, which fits whatever type the system has here.
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the count of 1 lets the call access `look` alone. It reads the time-out, if there is one, and
    // sets no signal mask.
    let result = unsafe { libc::ppoll(&raw mut look, 1, timeout, std::ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result > 0) }
}

/// A forked child has none of its parent's kqueues, and the numbers are free for other descriptors.
mod at_fork {
    use std::os::fd::RawFd;
    use std::sync::Once;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// The descriptors, -1 where there is none. The child of a process with several threads may take no lock.
    /// A program that has more of them keeps the rest open in its children.
    static OPEN: [AtomicI32; 1024] = [const { AtomicI32::new(-1) }; 1024];

    pub(super) fn add(descriptors: [RawFd; 4]) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the function only closes descriptors, which a child of `fork` may do.
            unsafe { libc::pthread_atfork(None, None, Some(close_all)) };
        });
        // Relaxed: `fork` copies what this thread has written, and what others write is for their own.
        let is_free =
            |place: &&AtomicI32| place.compare_exchange(-1, -2, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // A place is taken only for a descriptor that is there.
        for fd in descriptors {
            if let Some(place) = OPEN.iter().find(is_free) {
                place.store(fd, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn remove(descriptors: [RawFd; 4]) {
        for place in &OPEN {
            if descriptors.contains(&place.load(Ordering::Relaxed)) {
                place.store(-1, Ordering::Relaxed);
            }
        }
    }

    unsafe extern "C" fn close_all() {
        for place in &OPEN {
            let fd = place.load(Ordering::Relaxed);
            if fd >= 0 {
                // SAFETY: this is the child's own copy. No code of the child uses it, as on the systems that
                // are modelled, where it is closed already.
                unsafe { libc::close(fd) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

    /// Returns the events of one wait that does not block, as token, filter, end and error.
    fn look(poll: &mut Poll) -> Vec<(usize, Filter, bool, bool)> {
        let mut events = Events::with_capacity(100);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        let mut found: Vec<_> =
            events.iter().map(|event| (event.token, event.filter, event.end, event.is_error())).collect();
        found.sort_by_key(|&(token, filter, ..)| (token, filter as u8));
        found
    }

    fn register(poll: &Poll, source: &impl AsRawFd, token: usize) {
        poll.registry().register(&mut SourceFd(&source.as_raw_fd()), Token(token), BOTH).unwrap();
    }

    #[test]
    fn each_direction_has_its_events_and_its_end() {
        let mut poll = Poll::new().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        register(&poll, &near, 7);
        assert_eq!(look(&mut poll), [(7, Filter::Write, false, false)]);
        far.write_all(b"x").unwrap();
        assert_eq!(look(&mut poll), [(7, Filter::Read, false, false)], "epoll would report room again");
        assert_eq!(look(&mut poll), []);
        while (&near).write(&[0; 4096]).is_ok() {}
        look(&mut poll);
        far.set_nonblocking(true).unwrap();
        while far.read(&mut [0; 4096]).is_ok() {}
        assert_eq!(look(&mut poll), [(7, Filter::Write, false, false)]);
        far.shutdown(Shutdown::Write).unwrap();
        assert!(look(&mut poll).contains(&(7, Filter::Read, true, false)));
        drop(far);
        let ends = look(&mut poll);
        assert!(ends.iter().any(|&(_, filter, end, _)| filter == Filter::Write && end), "{ends:?}");
    }

    #[test]
    fn what_this_process_shuts_is_reported() {
        let mut poll = Poll::new().unwrap();
        let (near, _far) = UnixStream::pair().unwrap();
        register(&poll, &near, 7);
        look(&mut poll);
        near.shutdown(Shutdown::Read).unwrap();
        assert!(look(&mut poll).contains(&(7, Filter::Read, true, false)));
        near.shutdown(Shutdown::Write).unwrap();
        assert!(look(&mut poll).iter().any(|&(_, filter, ..)| filter == Filter::Write));
    }

    #[test]
    fn a_pipe_without_a_reader_has_an_end_and_no_error() {
        let mut poll = Poll::new().unwrap();
        let (reader, writer) = pipe().unwrap();
        register(&poll, &writer, 7);
        drop(reader);
        // A child that another test has just forked may have the reader, too.
        let start = Instant::now();
        while !look(&mut poll).contains(&(7, Filter::Write, true, false)) {
            assert!(start.elapsed() < Duration::from_secs(20), "the end is not reported");
        }
    }

    #[test]
    fn the_last_registration_of_a_descriptor_has_its_events() {
        let mut poll = Poll::new().unwrap();
        let (reader, mut writer) = pipe().unwrap();
        register(&poll, &reader, 7);
        register(&poll, &reader, 8);
        writer.write_all(b"x").unwrap();
        assert_eq!(look(&mut poll), [(8, Filter::Read, false, false)]);
        for _ in 0..2 {
            poll.registry().deregister(&mut SourceFd(&reader.as_raw_fd())).unwrap();
        }
        writer.write_all(b"x").unwrap();
        assert_eq!(look(&mut poll), []);
    }

    #[test]
    fn wake_ups_are_one_until_they_are_reported() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(9)).unwrap();
        for _ in 0..3 {
            waker.wake().unwrap();
            waker.wake().unwrap();
            assert_eq!(look(&mut poll), [(9, Filter::User, false, false)]);
            assert_eq!(look(&mut poll), []);
        }
    }

    #[test]
    fn a_time_out_may_be_short_but_not_long() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(1);
        let long = LONGEST + Duration::from_nanos(1);
        let refused = poll.poll(&mut events, Some(long)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        let start = Instant::now();
        poll.poll(&mut events, Some(Duration::from_micros(300))).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(300));
    }

    #[test]
    fn a_forked_child_has_no_kqueue() {
        let poll = Poll::new().unwrap();
        let fd = poll.as_raw_fd();
        // SAFETY: the child makes two calls that need no lock of this process, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(libc::fcntl(fd, libc::F_GETFD) != -1)) };
        }
        let mut status = 0;
        // SAFETY: the call writes the status of the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 0);
        // SAFETY: the call takes no pointer.
        assert_ne!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, -1, "the parent keeps its own");
    }
}
