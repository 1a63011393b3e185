//! `duplex`: two connected streams in memory. They are streams of no socket, with the traits that those of
//! this folder have.

mod flow;
mod side;

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;

use netpoll::Direction;

#[allow(unused_imports, reason = "only the traits of hyper name it")]
pub(crate) use side::End;
pub(crate) use side::Side;

/// Returns two streams in memory that are connected with each other. Each direction has room for
/// `max_buf_size` bytes, which are allocated as they are written. It is tokio's function.
///
/// What one end writes, the other end reads. It tests code that works on a stream, without a socket. In a
/// simulation the streams are simulated, too, but have no latency and no faults.
///
/// # Panics
///
/// Panics if `max_buf_size` is 0.
///
/// ```
/// use std::io::{Read, Write};
/// let (mut client, mut server) = runtime::io::duplex(64);
/// let echo = runtime::spawn(move || {
///     let mut word = [0; 4];
///     server.read_exact(&mut word)?;
///     server.write_all(&word)
/// });
/// client.write_all(b"ping")?;
/// let mut answer = String::new();
/// // It ends, because the green thread has dropped the other end.
/// client.read_to_string(&mut answer)?;
/// assert_eq!(answer, "ping");
/// echo.join().unwrap()?;
/// # std::io::Result::Ok(())
/// ```
pub fn duplex(max_buf_size: usize) -> (DuplexStream, DuplexStream) {
    assert!(max_buf_size > 0, "a stream without room could never be written to");
    let (one, other) = Side::pair(max_buf_size);
    (DuplexStream(one), DuplexStream(other))
}

/// One end of a pair of streams in memory. [`duplex`] makes it.
///
/// `&DuplexStream` reads and writes, too, so one thread can read while another writes. With the features
/// `futures-io`, `tokio-io` and `hyper` it has the traits of these crates, as a `TcpStream` has.
///
/// - A read returns 0 after the other end has been dropped or has shut its writing side, and what was
///   written before has been read.
/// - A write returns `BrokenPipe` after the other end has been dropped, or after `shutdown`.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a call that has to wait.
///
/// ```
/// use std::io::{Read, Write};
/// let (mut one, other) = runtime::io::duplex(64);
/// one.write_all(b"hello")?;
/// drop(one);
/// assert_eq!(std::io::read_to_string(other)?, "hello");
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct DuplexStream(pub(crate) Side);

// Its state is consistent after a panic of a reader or writer.
impl std::panic::UnwindSafe for DuplexStream {}
impl std::panic::RefUnwindSafe for DuplexStream {}

impl DuplexStream {
    /// Reads into `buf` in a future, with any executor. Returns the number of bytes, which is 0 at the end of
    /// the stream.
    ///
    /// Dropping the future before it is ready loses no byte. Several futures and threads may read from one
    /// stream.
    ///
    /// # Errors
    ///
    /// Never fails.
    ///
    /// ```
    /// let (one, other) = runtime::io::duplex(64);
    /// runtime::block_on(async {
    ///     let mut buf = [0; 100];
    ///     let (read, written) = futures::join!(other.read_async(&mut buf), one.write_async(b"hello"));
    ///     assert_eq!((read?, written?, &buf[..5]), (5, 5, &b"hello"[..]));
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn read_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Read, |mut end| end.read(buf)).await
    }

    /// Writes bytes of `buf` in a future, with any executor. Returns the number of bytes that were written.
    ///
    /// Dropping the future before it is ready writes nothing.
    ///
    /// # Errors
    ///
    /// Returns `BrokenPipe` after the other end has been dropped, or after [`shutdown`](Self::shutdown).
    ///
    /// ```
    /// let (one, other) = runtime::io::duplex(3);
    /// assert_eq!(runtime::block_on(async { one.write_async(b"hello").await })?, 3);
    /// # drop(other);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn write_async(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Write, |mut end| end.write(buf)).await
    }

    /// Ends reading, writing or both, for all owners of this end. Wakes what waits in that direction, at both
    /// ends. What was written before can still be read.
    ///
    /// # Errors
    ///
    /// Never fails. It returns a `Result` as the method of sockets does.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// let (mut one, mut other) = runtime::io::duplex(64);
    /// one.shutdown(std::net::Shutdown::Write)?;
    /// assert_eq!(other.read(&mut [0])?, 0);
    /// assert_eq!(one.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how);
        Ok(())
    }
}

impl Read for &DuplexStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |mut end| end.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Read, |mut end| end.read_vectored(bufs))
    }
}

impl Write for &DuplexStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut end| end.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut end| end.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for DuplexStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for DuplexStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
