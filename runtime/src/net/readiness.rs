//! `Async`: the readiness of any descriptor that the system can wait for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use netpoll::Direction;
use netpoll::source::{SourceFd, is_ready};

use super::place::{Pending, Place};

/// Anything with a descriptor (a pipe, a terminal, a timerfd, an inotify instance, a socket of a C library), to be waited for
/// without holding up an OS thread.
///
/// It does not touch the descriptor's mode. Where others may take what is there first (several readers of one pipe), or where a
/// write may be larger than the room, make it non-blocking; otherwise a read after [`readable`](Async::readable) does not
/// block. A runtime waits for one descriptor once: to have a second `Async`, duplicate it.
///
/// ```
/// use std::io::{Read, Write};
/// use runtime::net::Async;
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let reader = Async::new(reader)?;
/// let thread = runtime::spawn(move || -> std::io::Result<String> {
///     let mut bytes = [0; 100];
///     reader.readable()?;
///     let n = reader.get_ref().read(&mut bytes)?;
///     Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
/// });
/// writer.write_all(b"hello")?;
/// assert_eq!(thread.join().unwrap()?, "hello");
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Async<T: AsFd> {
    // Taken out before its place is given back.
    io: Option<T>,
    registered: RawFd,
    place: Place,
}

impl<T: AsFd> Async<T> {
    /// Has the runtime of the caller wait for `io` from now on.
    ///
    /// # Errors
    ///
    /// The system cannot wait for it: `Unsupported` for a regular file or a directory, which are always ready; read and write
    /// those in [`blocking`](crate::blocking). `AlreadyExists`: this runtime waits for this descriptor already. `Unsupported`
    /// in a [forked child](crate#after-fork).
    ///
    /// ```
    /// let file = std::fs::File::open("Cargo.toml")?;
    /// let error = runtime::net::Async::new(file).unwrap_err();
    /// # #[cfg(target_os = "linux")]
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new(io: T) -> io::Result<Async<T>> {
        Async::with(io, |source| Place::new(source))
    }

    pub(crate) fn with(
        io: T,
        place: impl FnOnce(&mut SourceFd<'_>) -> io::Result<Place>,
    ) -> io::Result<Async<T>> {
        let registered = io.as_fd().as_raw_fd();
        let place = place(&mut SourceFd(&registered))?;
        Ok(Async { io: Some(io), registered, place })
    }

    /// Waits until there is something to read, to accept, or an end or an error to be told.
    ///
    /// # Errors
    ///
    /// What the system says; `NotConnected` when the runtime that waits for it has ended.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that must wait unwinds from here.
    ///
    /// ```
    /// use runtime::time::{Duration, timeout};
    /// let (reader, _writer) = std::io::pipe()?;
    /// let reader = runtime::net::Async::new(reader)?;
    /// assert!(timeout(Duration::from_millis(5), || reader.readable()).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn readable(&self) -> io::Result<()> {
        self.ready(Direction::Read)
    }

    /// Waits until there is room to write, or an error to be told. Otherwise like [`readable`](Async::readable).
    ///
    /// # Errors
    ///
    /// As for [`readable`](Async::readable).
    ///
    /// # Cancellation
    ///
    /// As for [`readable`](Async::readable).
    ///
    /// ```
    /// let (_reader, writer) = std::io::pipe()?;
    /// runtime::net::Async::new(writer)?.writable()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn writable(&self) -> io::Result<()> {
        self.ready(Direction::Write)
    }

    fn ready(&self, direction: Direction) -> io::Result<()> {
        loop {
            let attempt = self.place.prepare(direction);
            if is_ready(self.descriptor(), direction)? {
                return Ok(());
            }
            self.place.wait(direction, attempt, None)?;
        }
    }

    /// [`readable`](Async::readable) for futures, with any executor. Dropping the future gives the wait up.
    ///
    /// ```
    /// use std::io::Write;
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let reader = runtime::net::Async::new(reader)?;
    /// let waits = runtime::spawn(async move { reader.readable_async().await });
    /// writer.write_all(b"x")?;
    /// waits.join().unwrap()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn readable_async(&self) -> Readiness<'_, T> {
        Readiness { of: self, direction: Direction::Read, pending: Pending::default() }
    }

    /// [`writable`](Async::writable) for futures, with any executor. Dropping the future gives the wait up.
    ///
    /// ```
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// runtime::block_on(async { writer.writable_async().await })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn writable_async(&self) -> Readiness<'_, T> {
        Readiness { of: self, direction: Direction::Write, pending: Pending::default() }
    }

    /// What it was made of.
    ///
    /// ```
    /// use std::io::Write;
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// writer.get_ref().write_all(b"hello")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn get_ref(&self) -> &T {
        self.io.as_ref().expect("it is there until it is taken")
    }

    /// Gives back what it was made of: the runtime waits for it no more.
    ///
    /// ```
    /// let (reader, _writer) = std::io::pipe()?;
    /// let reader = runtime::net::Async::new(reader)?.into_inner();
    /// runtime::net::Async::new(reader)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn into_inner(mut self) -> T {
        self.take().expect("it is there until it is taken")
    }

    fn take(&mut self) -> Option<T> {
        let io = self.io.take()?;
        self.place.leave(&mut SourceFd(&self.registered));
        Some(io)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd> Drop for Async<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

/// The future of [`Async::readable_async`] and [`Async::writable_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Readiness<'a, T: AsFd> {
    of: &'a Async<T>,
    direction: Direction,
    pending: Pending,
}

impl<T: AsFd> Future for Readiness<'_, T> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let attempt = self.of.place.prepare(self.direction);
            if is_ready(self.of.descriptor(), self.direction)? {
                return Poll::Ready(Ok(()));
            }
            match self.of.place.poll_wait(self.direction, attempt, &self.pending, cx) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
    }
}

impl<T: AsFd> Drop for Readiness<'_, T> {
    fn drop(&mut self) {
        self.of.place.forget(self.direction, std::mem::take(&mut self.pending));
    }
}
