//! `Socket`: a non-blocking socket of the system whose calls wait by parking: try, wait, try again.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netpoll::source::Source;
use netpoll::{Attempt, Direction};
use socket2::SockRef;

use super::registration::{Registration, WaitEnd};
use super::source::Sourced;

/// A source and its registration. Clones share both, and the mode, as duplicated descriptors share the
/// system's settings.
#[derive(Debug)]
pub(crate) struct Socket<S: Source> {
    shared: Arc<Shared<S>>,
    /// The waits of futures that use this clone.
    pub(crate) pending: [super::registration::Pending; 2],
}

#[derive(Debug)]
struct Shared<S: Source> {
    // Fields in this order: the source is closed first, so the next user of the descriptor's number gets no
    // event of it.
    source: Option<S>,
    /// The error with which the system refused to register this adopted source.
    registration: io::Result<Registration>,
    mode: Mode,
    /// `end_input` was called.
    #[cfg(windows)]
    input_ends: AtomicBool,
}

/// The settings of calls that have to wait. All accesses are Relaxed: settings publish nothing.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    nonblocking: AtomicBool,
    /// A short read may leave something to read: the socket was made elsewhere, and is not one of TCP.
    reads_by_parts: bool,
    /// In nanoseconds; 0 means for ever.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
}

impl Mode {
    /// Returns the mode of a socket that was made elsewhere. If the system does not say, the default is
    /// taken.
    pub(crate) fn of(socket: &SockRef<'_>) -> Mode {
        let mode = Mode { reads_by_parts: reads_by_parts(socket), ..Mode::default() };
        // Windows does not say.
        #[cfg(unix)]
        mode.nonblocking.store(socket.nonblocking().unwrap_or(false), Ordering::Relaxed);
        mode.keep_timeout(Direction::Read, socket.read_timeout().ok().flatten());
        mode.keep_timeout(Direction::Write, socket.write_timeout().ok().flatten());
        mode
    }

    /// Sets the mode on a socket that is given away.
    pub(crate) fn restore(&self, socket: &SockRef<'_>) {
        let _ = socket.set_nonblocking(self.nonblocking.load(Ordering::Relaxed));
        let _ = socket.set_read_timeout(self.timeout(Direction::Read));
        let _ = socket.set_write_timeout(self.timeout(Direction::Write));
    }

    fn timeout_of(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Read => &self.read_timeout,
            Direction::Write => &self.write_timeout,
        }
    }

    fn timeout(&self, direction: Direction) -> Option<Duration> {
        match self.timeout_of(direction).load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    fn keep_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        // At most 584 years.
        let nanos = timeout.map_or(0, |timeout| timeout.as_nanos().try_into().unwrap_or(u64::MAX));
        self.timeout_of(direction).store(nanos, Ordering::Relaxed);
    }
}

/// `true` where the poller reports urgent bytes (`EPOLLPRI`).
const REPORTS_URGENT: bool = cfg!(all(any(target_os = "linux", target_os = "android"), not(portable)));

/// The most bytes that one system call reads (`MAX_RW_COUNT`, with the largest pages).
const MOST_BYTES: usize = 0x7fff_0000;

/// Returns `true` unless the system says that this is a socket of TCP. Any stream may come in a `TcpStream`.
/// Reads of a Unix socket stop where descriptors were sent, and those of `SOCK_SEQPACKET` at the end of a
/// packet.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
fn reads_by_parts(socket: &SockRef<'_>) -> bool {
    !matches!(socket.protocol(), Ok(Some(socket2::Protocol::TCP)))
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
fn reads_by_parts(_socket: &SockRef<'_>) -> bool {
    true
}

pub(crate) fn no_time() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a time-out of zero is not allowed: give at least a nanosecond, or `None` to wait for ever",
    )
}

impl<S: Source> Socket<S> {
    pub(crate) fn registration(&self) -> Result<&Registration, &io::Error> {
        self.shared.registration.as_ref()
    }
}

impl<S: Sourced> Socket<S> {
    /// Returns a socket for a non-blocking source that was made here.
    ///
    /// # Errors
    /// Returns the error with which the system refused to register the source.
    pub(crate) fn new(mut source: S) -> io::Result<Self> {
        let number = source.number();
        let registration = Registration::new(&mut source, number)?;
        #[cfg(windows)]
        source.attach(registration.reporter())?;
        Ok(Socket::with(source, Ok(registration), Mode::default()))
    }

    /// Returns a socket for a non-blocking source that was made elsewhere. If it cannot be registered, calls
    /// that need not wait work all the same.
    pub(crate) fn adopt(mut source: S, mode: Mode) -> Self {
        let number = source.number();
        let registration = Registration::new(&mut source, number);
        Socket::with(source, registration, mode)
    }

    fn with(source: S, registration: io::Result<Registration>, mode: Mode) -> Self {
        Socket::of(Arc::new(Shared {
            source: Some(source),
            registration,
            mode,
            #[cfg(windows)]
            input_ends: AtomicBool::new(false),
        }))
    }

    fn of(shared: Arc<Shared<S>>) -> Self {
        Socket { shared, pending: Default::default() }
    }

    /// Returns another handle to the same socket.
    pub(crate) fn share(&self) -> Self {
        Socket::of(Arc::clone(&self.shared))
    }

    /// Returns `true` if both handles are of the same socket.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    #[inline]
    pub(crate) fn source(&self) -> &S {
        self.shared.source.as_ref().expect("the source is there until it is taken")
    }

    /// Returns the source to be given away. While clones exist it is what `duplicate` makes of the source.
    pub(crate) fn into_source(
        self,
        duplicate: impl FnOnce(&S) -> io::Result<S>,
        restore: impl FnOnce(&S, &Mode),
    ) -> io::Result<S> {
        self.source().check_descriptor()?;
        call(|| restore(self.source(), &self.shared.mode));
        let shared = Arc::clone(&self.shared);
        drop(self);
        match Arc::try_unwrap(shared) {
            Ok(mut shared) => Ok(shared.take().expect("the source is taken once")),
            Err(shared) => call(|| {
                duplicate(shared.source.as_ref().expect("the source is taken by the last clone only"))
            }),
        }
    }

    /// Makes a system call that never waits.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&S) -> io::Result<T>) -> io::Result<T> {
        call(|| question(self.source()))
    }

    /// Ends reading, writing or both by `shut`, a system call. All waiters in that direction try again.
    pub(crate) fn shutdown(&self, how: Shutdown, shut: impl FnOnce(&S) -> io::Result<()>) -> io::Result<()> {
        let _ = how;
        self.ask(shut)?;
        // The network of a simulation, in which numbers are less than -1, wakes them itself.
        #[cfg(any(windows, all(portable, not(kqueue_model))))]
        if self.source().number() >= -1
            && let Ok(registration) = &self.shared.registration
        {
            registration.report_shut(how);
        }
        Ok(())
    }

    /// Ends reading: a read returns what has come, and the end of the stream where it would have to wait.
    #[cfg(not(windows))]
    pub(crate) fn end_input(&self, shut: impl FnOnce(&S) -> io::Result<()>) -> io::Result<()> {
        self.shutdown(Shutdown::Read, shut)
    }

    /// Ends reading: a read returns what has come, and the end of the stream where it would have to wait.
    ///
    /// Windows resets a connection that is shut for reading if anything has come or comes: a reply that is
    /// under way would be lost. So the first read that would have to wait shuts it ([`Socket::attempt`]).
    #[cfg(windows)]
    pub(crate) fn end_input(&self, _shut: impl FnOnce(&S) -> io::Result<()>) -> io::Result<()> {
        // Relaxed: the event that follows publishes the mark. A wait that is not ended by it begins after it,
        // and its attempt has seen the mark.
        self.shared.input_ends.store(true, Ordering::Relaxed);
        if let Ok(registration) = &self.shared.registration {
            registration.report_shut(Shutdown::Read);
        }
        Ok(())
    }

    /// Makes one attempt, a system call that never waits.
    #[cfg(not(windows))]
    #[inline(always)]
    pub(super) fn attempt<T>(
        &self,
        _direction: Direction,
        op: &mut impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        op(self.source())
    }

    /// Makes one attempt, a system call that never waits. After `end_input` the first attempt to read that
    /// finds nothing shuts the reading half, and returns what the system then returns: the end of the stream.
    #[cfg(windows)]
    pub(super) fn attempt<T>(
        &self,
        direction: Direction,
        op: &mut impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        match op(self.source()) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && direction == Direction::Read
                    && self.shared.input_ends.load(Ordering::Relaxed) =>
            {
                self.source().shut_input()?;
                op(self.source())
            }
            done => done,
        }
    }

    /// Makes one attempt for a user, which never waits. An attempt that a signal interrupts is made again.
    pub(crate) fn attempt_once<T>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        crate::point();
        loop {
            match call(|| self.attempt(direction, &mut op)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Runs `op` until it would no longer block. Waits in between, at most for the socket's time-out.
    #[inline]
    pub(crate) fn run<T>(&self, direction: Direction, op: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        self.run_until(direction, || self.until(direction), op)
    }

    /// Runs `op` until it would no longer block. Waits in between until the moment that `limit` returns.
    /// `limit` is called at the first wait, because most calls never wait and read no clock.
    #[inline]
    pub(crate) fn run_until<T>(
        &self,
        direction: Direction,
        limit: impl Fn() -> Option<Instant>,
        op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.run_draining(direction, limit, |_| false, op)
    }

    /// Reads up to `wanted` bytes of a stream into one buffer.
    #[cfg(unix)]
    #[inline]
    pub(crate) fn read(&self, _wanted: usize, op: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        self.run(Direction::Read, op)
    }

    /// Reads up to `wanted` bytes of a TCP stream into one buffer. A shorter read has drained the stream: the
    /// next read then waits for an event at once, without an attempt that would find nothing.
    ///
    /// This holds if the poller reports each arrival, and reports urgent bytes, at which a read stops short.
    /// It does not hold for a list of buffers, of which one call fills a part only (Linux 1,024, a simulated
    /// socket one).
    #[inline]
    pub(crate) fn read_drained(
        &self,
        wanted: usize,
        mut op: impl FnMut(&S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if wanted == 0 {
            return self.ask(op);
        }
        let most = wanted.min(MOST_BYTES);
        let drains =
            |&got: &usize| REPORTS_URGENT && (1..most).contains(&got) && !self.shared.mode.reads_by_parts;
        self.run_draining(Direction::Read, || self.until(Direction::Read), drains, &mut op)
    }

    /// Runs `op` as `run_until` does. `drains` says of a result whether nothing is left to read.
    #[inline]
    fn run_draining<T>(
        &self,
        direction: Direction,
        limit: impl Fn() -> Option<Instant>,
        drains: impl Fn(&T) -> bool,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut until = None;
        loop {
            let registration = self.shared.registration.as_ref();
            let attempt = registration.map(|registration| registration.prepare(direction));
            if let (Ok(registration), Ok(attempt)) = (registration, attempt)
                && registration.is_drained(attempt)
                && !self.nonblocking()
            {
                match registration.wait(
                    self.source().number(),
                    direction,
                    attempt,
                    *until.get_or_insert_with(&limit),
                )? {
                    WaitEnd::Again => continue,
                    // One more attempt, for the system's own error.
                    WaitEnd::TimedOut => {
                        return call(|| self.attempt(direction, &mut op)).map_err(timeout_error);
                    }
                }
            }
            match call(|| self.attempt(direction, &mut op)) {
                Ok(done) => {
                    if let (Ok(registration), Ok(attempt)) = (registration, attempt)
                        && drains(&done)
                    {
                        registration.set_drained(attempt);
                    }
                    return Ok(done);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let until = *until.get_or_insert_with(&limit);
                    self.wait(direction, attempt, until, error)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits after an attempt that would have blocked, unless the socket is in non-blocking mode.
    fn wait(
        &self,
        direction: Direction,
        attempt: Result<Attempt, &io::Error>,
        until: Option<Instant>,
        would_block: io::Error,
    ) -> io::Result<()> {
        if self.nonblocking() {
            return Err(would_block);
        }
        let registration = self.shared.registration.as_ref().map_err(copy_error)?;
        match registration.wait(self.source().number(), direction, attempt.map_err(copy_error)?, until)? {
            WaitEnd::Again => Ok(()),
            WaitEnd::TimedOut => Err(timeout_error(would_block)),
        }
    }

    /// Returns the moment until which a call that begins now may wait.
    pub(crate) fn until(&self, direction: Direction) -> Option<Instant> {
        // A time beyond the clock's range means for ever.
        self.shared.mode.timeout(direction).and_then(|timeout| Instant::now().checked_add(timeout))
    }

    pub(crate) fn timeout(&self, direction: Direction) -> Option<Duration> {
        self.shared.mode.timeout(direction)
    }

    pub(crate) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(no_time());
        }
        self.shared.mode.keep_timeout(direction, timeout);
        Ok(())
    }

    #[inline]
    pub(crate) fn nonblocking(&self) -> bool {
        self.shared.mode.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.shared.mode.nonblocking.store(nonblocking, Ordering::Relaxed);
    }
}

impl<S: Source> Shared<S> {
    /// Takes the source out, and removes it from the poller.
    fn take(&mut self) -> Option<S> {
        let mut source = self.source.take()?;
        if let Ok(registration) = &self.registration {
            registration.deregister(&mut source);
        }
        Some(source)
    }
}

impl<S: Source> Drop for Shared<S> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Returns a copy of the error, for each call that meets it.
pub(crate) fn copy_error(refusal: &io::Error) -> io::Error {
    io::Error::new(refusal.kind(), refusal.to_string())
}

/// Returns the result of an attempt to connect, or `WouldBlock` until the socket has an error or a peer.
pub(crate) fn result_of_connect<A>(
    error: Option<io::Error>,
    peer: impl FnOnce() -> io::Result<A>,
) -> io::Result<()> {
    if let Some(error) = error {
        return Err(error);
    }
    match peer() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        other => other.map(drop),
    }
}

/// Returns what std returns when a time-out is over: on Unix the error of the call that would have blocked.
fn timeout_error(error: io::Error) -> io::Error {
    if cfg!(unix) || error.kind() != io::ErrorKind::WouldBlock {
        error
    } else {
        io::ErrorKind::TimedOut.into()
    }
}

/// Runs a system call and reads its error in one function. Nothing that parks is inlined here, because
/// `errno` belongs to the OS thread.
#[inline(never)]
pub(crate) fn call<T>(f: impl FnOnce() -> T) -> T {
    f()
}
