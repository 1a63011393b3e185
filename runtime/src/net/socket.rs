//! A socket that is non-blocking underneath and blocks its caller, green or not, by parking it: try, wait, try again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netpoll::source::Source;
use netpoll::{Attempt, Direction};
use socket2::SockRef;

use super::place::{Place, Waited};

/// A source with its place in the netpoller of the runtime that made it. Clones share all of it, as duplicated
/// descriptors share what the system keeps of a socket: its mode and its time-outs.
#[derive(Debug)]
pub(crate) struct Socket<S: Source> {
    shared: Arc<Shared<S>>,
    /// What futures wait with that use this clone.
    #[cfg(feature = "poll-io")]
    pub(crate) pending: [super::place::Pending; 2],
}

#[derive(Debug)]
struct Shared<S: Source> {
    // In this order: the source closes first, so no event of it comes for whoever has the descriptor's place next.
    source: Option<S>,
    /// The error: this adopted source cannot be waited for.
    place: io::Result<Place>,
    mode: Mode,
}

/// How calls behave that cannot be done at once. Relaxed throughout: these are settings, and publish nothing.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    nonblocking: AtomicBool,
    /// In nanoseconds; 0: for ever.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
}

impl Mode {
    /// That of a socket which comes from elsewhere. An open socket tells all this; what is none does not do as one later.
    pub(crate) fn of(socket: &SockRef<'_>) -> Mode {
        let mode = Mode::default();
        // Windows does not tell.
        #[cfg(unix)]
        mode.nonblocking.store(socket.nonblocking().unwrap_or(false), Ordering::Relaxed);
        mode.keep_timeout(Direction::Read, socket.read_timeout().ok().flatten());
        mode.keep_timeout(Direction::Write, socket.write_timeout().ok().flatten());
        mode
    }

    /// Puts a socket that goes elsewhere into it, if it is one.
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

/// True where the poller reports urgent bytes (`EPOLLPRI`).
const REPORTS_URGENT: bool = cfg!(any(target_os = "linux", target_os = "android"));

pub(crate) fn no_time() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a time-out of zero is not allowed: give at least a nanosecond, or `None` to wait for ever",
    )
}

impl<S: Source> Socket<S> {
    /// A non-blocking source that was just made here.
    ///
    /// # Errors
    /// It cannot be registered.
    pub(crate) fn new(mut source: S) -> io::Result<Self> {
        let place = Place::new(&mut source)?;
        Ok(Socket::with(source, Ok(place), Mode::default()))
    }

    /// One that comes from elsewhere, non-blocking by now. If it cannot be registered it works all the same, as long as
    /// it need not wait.
    pub(crate) fn adopt(mut source: S, mode: Mode) -> Self {
        let place = Place::new(&mut source);
        Socket::with(source, place, mode)
    }

    fn with(source: S, place: io::Result<Place>, mode: Mode) -> Self {
        Socket::of(Arc::new(Shared { source: Some(source), place, mode }))
    }

    fn of(shared: Arc<Shared<S>>) -> Self {
        Socket {
            shared,
            #[cfg(feature = "poll-io")]
            pending: Default::default(),
        }
    }

    /// The same socket for somebody else.
    pub(crate) fn share(&self) -> Self {
        Socket::of(Arc::clone(&self.shared))
    }

    #[cfg(feature = "poll-io")]
    pub(crate) fn place(&self) -> Result<&Place, &io::Error> {
        self.shared.place.as_ref()
    }

    #[inline]
    pub(crate) fn source(&self) -> &S {
        self.shared.source.as_ref().expect("it is there until it is taken")
    }

    /// What goes elsewhere: the source itself, or what `duplicate` makes of it while others have clones.
    pub(crate) fn into_source(
        self,
        duplicate: impl FnOnce(&S) -> io::Result<S>,
        restore: impl FnOnce(&S, &Mode),
    ) -> io::Result<S> {
        call(|| restore(self.source(), &self.shared.mode));
        let shared = Arc::clone(&self.shared);
        drop(self);
        match Arc::try_unwrap(shared) {
            Ok(mut shared) => Ok(shared.take().expect("nobody else has taken it")),
            Err(shared) => call(|| duplicate(shared.source.as_ref().expect("others have it"))),
        }
    }

    /// A system call that never waits.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&S) -> io::Result<T>) -> io::Result<T> {
        call(|| question(self.source()))
    }

    /// Does `op` until it no longer would block, waiting in between, for as long as the socket's time-out allows.
    #[inline]
    pub(crate) fn run<T>(&self, direction: Direction, op: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        self.run_until(direction, || self.until(direction), op)
    }

    /// Likewise, until the time that `limit` says when it first has to wait: most calls need not, and read no clock.
    #[inline]
    pub(crate) fn run_until<T>(
        &self,
        direction: Direction,
        limit: impl Fn() -> Option<Instant>,
        op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.run_draining(direction, limit, |_| false, op)
    }

    /// Reads up to `wanted` bytes of a stream.
    #[cfg(unix)]
    #[inline]
    pub(crate) fn read(&self, _wanted: usize, op: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        self.run(Direction::Read, op)
    }

    /// Reads up to `wanted` bytes of a TCP stream. A read that gives less than was asked for has drained the stream: the next
    /// read then waits for the poller's report without the attempt that would only tell so. This holds where the poller
    /// reports each arrival, and tells of urgent bytes, at which a read stops short. (It does not hold for Unix sockets, whose
    /// reads end where descriptors were sent along.)
    #[inline]
    pub(crate) fn read_drained(
        &self,
        wanted: usize,
        mut op: impl FnMut(&S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if wanted == 0 {
            return self.ask(op);
        }
        let drains = |&got: &usize| REPORTS_URGENT && (1..wanted).contains(&got);
        self.run_draining(Direction::Read, || self.until(Direction::Read), drains, &mut op)
    }

    /// As `run_until`; `drains` says of what `op` gave that there is no more now.
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
            let place = self.shared.place.as_ref();
            let attempt = place.map(|place| place.prepare(direction));
            if let (Ok(place), Ok(attempt)) = (place, attempt)
                && place.is_drained(attempt)
                && !self.nonblocking()
            {
                match place.wait(direction, attempt, *until.get_or_insert_with(&limit))? {
                    Waited::Again => continue,
                    // For the system's own words.
                    Waited::TimeIsUp => return call(|| op(self.source())).map_err(expired),
                }
            }
            match call(|| op(self.source())) {
                Ok(done) => {
                    if let (Ok(place), Ok(attempt)) = (place, attempt)
                        && drains(&done)
                    {
                        place.set_drained(attempt);
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

    /// Waits after an attempt that would have blocked, if the caller wants that.
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
        let place = self.shared.place.as_ref().map_err(again)?;
        match place.wait(direction, attempt.map_err(again)?, until)? {
            Waited::Again => Ok(()),
            Waited::TimeIsUp => Err(expired(would_block)),
        }
    }

    /// Until when a call that begins now may wait.
    pub(crate) fn until(&self, direction: Direction) -> Option<Instant> {
        // What is beyond the clock's range is never.
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
    /// Takes the source out, of the poller too.
    fn take(&mut self) -> Option<S> {
        let mut source = self.source.take()?;
        if let Ok(place) = &self.place {
            place.leave(&mut source);
        }
        Some(source)
    }
}

impl<S: Source> Drop for Shared<S> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// An error is told each time somebody runs into it.
pub(crate) fn again(refusal: &io::Error) -> io::Error {
    io::Error::new(refusal.kind(), refusal.to_string())
}

/// What std gives when a time-out has run out: on Unix the error of the call that would have blocked.
fn expired(error: io::Error) -> io::Error {
    if cfg!(unix) || error.kind() != io::ErrorKind::WouldBlock {
        error
    } else {
        io::ErrorKind::TimedOut.into()
    }
}

/// A system call and the reading of its error, in one function that no park is inlined into: `errno` belongs to the OS
/// thread.
#[inline(never)]
pub(crate) fn call<T>(f: impl FnOnce() -> T) -> T {
    f()
}
