//! `Async`: waiting for the readiness of any descriptor that the system can poll.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use netpoll::Direction;
use netpoll::source::{SourceFd, is_ready};

use super::awaited::Waits;
use super::registration::Registration;
use super::socket::call;

/// Waits until a descriptor is ready, without holding up an OS thread. Such a descriptor is a pipe, a
/// terminal, a timerfd, an inotify instance, or a socket of a C library.
///
/// [`read_with`](Async::read_with) and [`write_with`](Async::write_with) call a function until it would no
/// longer block.
///
/// The descriptor's mode is not changed. After [`readable`](Async::readable) a read does not block, unless
/// another reader took what was there. So make the descriptor non-blocking if several readers share it, or if
/// a write may be larger than the room. A runtime can wait for a descriptor once: for a second `Async`,
/// duplicate it.
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
    // Taken out before its registration is removed.
    io: Option<T>,
    registered: RawFd,
    registration: Registration,
}

impl<T: AsFd> Async<T> {
    /// Registers `io` with the caller's runtime.
    ///
    /// # Errors
    ///
    /// - `Unsupported`: the system cannot wait for it, because it is a regular file or a directory, which are
    ///   always ready. Read and write those in [`blocking`](crate::blocking). macOS and the BSDs take them,
    ///   and wait for nothing. The same kind in a [forked child](crate::docs::fork).
    /// - `AlreadyExists`: this runtime waits for this descriptor already.
    /// - Another kind: the system's error.
    ///
    /// ```
    /// let file = std::fs::File::open("Cargo.toml")?;
    /// let error = runtime::net::Async::new(file).unwrap_err();
    /// # #[cfg(target_os = "linux")]
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new(io: T) -> io::Result<Async<T>> {
        Async::with(io, |source, number| Registration::new(source, number))
    }

    pub(crate) fn with(
        io: T,
        registration: impl FnOnce(&mut SourceFd<'_>, i64) -> io::Result<Registration>,
    ) -> io::Result<Async<T>> {
        let registered = io.as_fd().as_raw_fd();
        let registration = registration(&mut SourceFd(&registered), registered.into())?;
        Ok(Async { io: Some(io), registered, registration })
    }

    /// Waits until there is something to read or to accept, or an end or an error to report.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `NotConnected` after the end of the runtime in which it was
    /// registered.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
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

    /// Waits until there is room to write, or an error to report.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `NotConnected` after the end of the runtime in which it was
    /// registered.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (_reader, writer) = std::io::pipe()?;
    /// runtime::net::Async::new(writer)?.writable()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn writable(&self) -> io::Result<()> {
        self.ready(Direction::Write)
    }

    /// Calls `op` with the value that was registered until `op` returns something else than `WouldBlock`, and
    /// waits in between until there is something to read. The descriptor must be non-blocking, or `op` must
    /// be a call that does not block.
    ///
    /// This is the loop around a call of a C library. Written out in one function, such a loop is wrong: a
    /// wait may have moved the green thread (see [moving](crate::docs::moving)). An inlined
    /// [`last_os_error`](io::Error::last_os_error) may then read the `errno` of the OS thread on which the
    /// loop began. Here each
    /// `op` is a call of its own, within which nothing moves.
    ///
    /// `op` must not park: a park in it moves the green thread between the call and its `errno` again.
    ///
    /// # Errors
    ///
    /// Returns the error of `op`, the system's error, and `NotConnected` after the end of the runtime in
    /// which it was registered. An `op` that returns `Interrupted` is called again.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use std::ffi::{c_int, c_void};
    /// use std::io::{self, Write};
    /// use std::os::fd::AsRawFd;
    /// use std::os::unix::net::UnixStream;
    /// use runtime::net::Async;
    ///
    /// unsafe extern "C" {
    ///     fn recv(socket: c_int, bytes: *mut c_void, len: usize, flags: c_int) -> isize;
    /// }
    /// const MSG_DONTWAIT: c_int = 0x40;
    ///
    /// fn receive(socket: &Async<UnixStream>, bytes: &mut [u8]) -> io::Result<usize> {
    ///     socket.read_with(|socket| {
    ///         // SAFETY: the bytes are valid for writes during the call.
    ///         let n = unsafe { recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), MSG_DONTWAIT) };
    ///         usize::try_from(n).map_err(|_| io::Error::last_os_error())
    ///     })
    /// }
    ///
    /// let (near, mut far) = UnixStream::pair()?;
    /// let near = Async::new(near)?;
    /// let received = runtime::spawn(move || receive(&near, &mut [0; 10]));
    /// far.write_all(b"hello")?;
    /// assert_eq!(received.join().unwrap()?, 5);
    /// # }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn read_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.run(Direction::Read, op)
    }

    /// Calls `op` as [`read_with`](Async::read_with) does, and waits in between until there is room to write.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Async::read_with).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// use std::io::Write;
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// assert_eq!(writer.write_with(|mut writer| writer.write(b"hello"))?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn write_with<R>(&self, op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.run(Direction::Write, op)
    }

    fn run<R>(&self, direction: Direction, mut op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        loop {
            let attempt = self.registration.prepare(direction);
            match call(|| op(self.get_ref())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.wait(self.registered.into(), direction, attempt, None)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn ready(&self, direction: Direction) -> io::Result<()> {
        loop {
            let attempt = self.registration.prepare(direction);
            if is_ready(self.descriptor(), direction)? {
                return Ok(());
            }
            self.registration.wait(self.registered.into(), direction, attempt, None)?;
        }
    }

    /// Waits as [`readable`](Async::readable) does, in a future, with any executor. Dropping the future ends
    /// the wait.
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
        self.ready_async(Direction::Read)
    }

    /// Waits as [`writable`](Async::writable) does, in a future, with any executor. Dropping the future ends
    /// the wait.
    ///
    /// ```
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// runtime::block_on(async { writer.writable_async().await })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn writable_async(&self) -> Readiness<'_, T> {
        self.ready_async(Direction::Write)
    }

    /// Calls `op` as [`read_with`](Async::read_with) does, in a future, with any executor. Dropping the
    /// future ends the wait.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Async::read_with).
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let reader = runtime::net::Async::new(reader)?;
    /// writer.write_all(b"hello")?;
    /// let mut bytes = [0; 10];
    /// assert_eq!(runtime::block_on(async { reader.read_with_async(|mut reader| reader.read(&mut bytes)).await })?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn read_with_async<R>(&self, mut op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        Waits::new(&self.registration, Direction::Read).run(|| op(self.get_ref())).await
    }

    /// Calls `op` as [`write_with`](Async::write_with) does, in a future, with any executor. Dropping the
    /// future ends the wait.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Async::read_with).
    ///
    /// ```
    /// use std::io::Write;
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// let written = runtime::block_on(async { writer.write_with_async(|mut writer| writer.write(b"hello")).await })?;
    /// assert_eq!(written, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn write_with_async<R>(&self, mut op: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        Waits::new(&self.registration, Direction::Write).run(|| op(self.get_ref())).await
    }

    fn ready_async(&self, direction: Direction) -> Readiness<'_, T> {
        Readiness { of: self, direction, waits: Waits::new(&self.registration, direction) }
    }

    /// Returns a reference to the value that was registered.
    ///
    /// ```
    /// use std::io::Write;
    /// let (_reader, writer) = std::io::pipe()?;
    /// let writer = runtime::net::Async::new(writer)?;
    /// writer.get_ref().write_all(b"hello")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn get_ref(&self) -> &T {
        self.io.as_ref().expect("the value is there until it is taken")
    }

    /// Removes the registration and returns the value that was registered.
    ///
    /// ```
    /// let (reader, _writer) = std::io::pipe()?;
    /// let reader = runtime::net::Async::new(reader)?.into_inner();
    /// runtime::net::Async::new(reader)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn into_inner(mut self) -> T {
        self.take().expect("the value is there until it is taken")
    }

    fn take(&mut self) -> Option<T> {
        let io = self.io.take()?;
        self.registration.deregister(&mut SourceFd(&self.registered));
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

/// The future that [`Async::readable_async`] and [`Async::writable_async`] return.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Readiness<'a, T: AsFd> {
    of: &'a Async<T>,
    direction: Direction,
    waits: Waits<'a>,
}

impl<T: AsFd> Future for Readiness<'_, T> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.waits.poll(cx, || match is_ready(self.of.descriptor(), self.direction)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
    }
}

impl<T: AsFd> std::panic::UnwindSafe for Async<T> {}
impl<T: AsFd> std::panic::RefUnwindSafe for Async<T> {}
