//! The two halves of a stream, for two owners. The names are those of tokio.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;

use super::TcpStream;
use super::duplex::DuplexStream;
#[cfg(unix)]
use super::unix::UnixStream;

/// The streams that can be split: [`TcpStream`], `io::DuplexStream`, and `UnixStream` on Unix. No other type
/// implements it.
pub trait Split: private::Sealed + Read + Write + Send + Sync {}

mod private {
    use std::net::Shutdown;

    pub trait Sealed: Sized {
        fn share(&self) -> Self;
        fn is_same(&self, other: &Self) -> bool;
        fn shut(&self, how: Shutdown) -> std::io::Result<()>;
    }
}

/// Returns another owner of the same stream.
pub(crate) fn share<S: Split>(stream: &S) -> S {
    private::Sealed::share(stream)
}

/// Ends reading, writing or both of a stream.
pub(crate) fn shut<S: Split>(stream: &S, how: Shutdown) -> io::Result<()> {
    private::Sealed::shut(stream, how)
}

macro_rules! split {
    ($stream:ident, $made:literal) => {
        impl Split for $stream {}

        impl private::Sealed for $stream {
            fn share(&self) -> Self {
                $stream(self.0.share())
            }

            fn is_same(&self, other: &Self) -> bool {
                self.0.is_same(&other.0)
            }

            fn shut(&self, how: Shutdown) -> io::Result<()> {
                self.shutdown(how)
            }
        }

        impl $stream {
            /// Splits the stream into a half that reads and a half that writes, for two owners. Never waits.
            ///
            /// Dropping the half that writes ends the stream for the peer, as
            /// [`shutdown`](Self::shutdown) does. Dropping both closes the connection. A clone or a reference
            /// does the same without these ends: `&stream` reads and writes, too.
            ///
            /// ```
            /// use std::io::{Read, Write};
            #[doc = $made]
            /// let (mut read, mut write) = one.into_split();
            /// let echo = runtime::spawn(move || std::io::copy(&mut &other, &mut &other));
            /// let writes = runtime::spawn(move || write.write_all(b"hello"));
            /// let mut answer = String::new();
            /// // The stream ends, because the other half was dropped.
            /// read.read_to_string(&mut answer)?;
            /// assert_eq!(answer, "hello");
            /// writes.join().unwrap()?;
            /// assert_eq!(echo.join().unwrap()?, 5);
            /// # std::io::Result::Ok(())
            /// ```
            pub fn into_split(self) -> (OwnedReadHalf<$stream>, OwnedWriteHalf<$stream>) {
                let read = private::Sealed::share(&self);
                (OwnedReadHalf(read), OwnedWriteHalf(Some(self)))
            }

            /// Returns two references, one to read with and one to write with. Never waits.
            ///
            /// It is the same as writing `&stream` twice, under tokio's name.
            ///
            /// ```
            /// use std::io::{Read, Write};
            #[doc = $made]
            /// let mut stream = one;
            /// let (mut read, mut write) = stream.split();
            /// write.write_all(b"hello")?;
            /// (&other).write_all(b"world")?;
            /// let mut five = [0; 5];
            /// read.read_exact(&mut five)?;
            /// assert_eq!(&five, b"world");
            /// # std::io::Result::Ok(())
            /// ```
            pub fn split(&mut self) -> (&$stream, &$stream) {
                (self, self)
            }
        }
    };
}

split!(
    TcpStream,
    "# let listener = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
     # let addr = listener.local_addr()?;\n\
     let one = runtime::net::TcpStream::connect(addr)?;\n\
     let (other, _) = listener.accept()?;"
);
#[cfg(unix)]
split!(UnixStream, "let (one, other) = runtime::net::unix::UnixStream::pair()?;");
split!(DuplexStream, "let (one, other) = runtime::io::duplex(64);");

/// The half that reads, of a stream that `into_split` has split.
///
/// It reads as the stream does: by [`Read`], and by the traits of the features `futures-io` and `tokio-io`.
/// It gives the stream with all its methods by [`as_ref`](AsRef::as_ref).
///
/// ```
/// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
/// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
/// let (read, write) = stream.into_split();
/// assert_eq!(read.as_ref().peer_addr()?, listener.local_addr()?);
/// let stream = read.reunite(write).unwrap();
/// # drop(stream);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct OwnedReadHalf<S: Split>(pub(crate) S);

/// The half that writes, of a stream that `into_split` has split.
///
/// It writes as the stream does: by [`Write`], and by the traits of the features `futures-io` and `tokio-io`.
/// It gives the stream with all its methods by [`as_ref`](AsRef::as_ref).
///
/// **Dropping it ends the stream for the peer**, unless [`forget`](Self::forget) drops it.
///
/// ```
/// use std::io::Read;
/// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
/// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
/// let (mut peer, _) = listener.accept()?;
/// let (_read, write) = stream.into_split();
/// drop(write);
/// assert_eq!(peer.read(&mut [0; 100])?, 0);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Split>(
    /// Taken when the half is reunited or forgotten.
    Option<S>,
);

impl<S: Split> OwnedReadHalf<S> {
    /// Returns the stream of both halves.
    ///
    /// # Errors
    ///
    /// Returns both halves if they are of different streams.
    ///
    /// ```
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// let addr = listener.local_addr()?;
    /// let (read, write) = runtime::net::TcpStream::connect(addr)?.into_split();
    /// let (other, _) = runtime::net::TcpStream::connect(addr)?.into_split();
    /// let write = other.reunite(write).unwrap_err().1;
    /// assert!(read.reunite(write).is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn reunite(self, mut write: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        match write.0.take() {
            Some(stream) if stream.is_same(&self.0) => Ok(stream),
            other => Err(ReuniteError(self, OwnedWriteHalf(other))),
        }
    }
}

impl<S: Split> OwnedWriteHalf<S> {
    /// Returns the stream of both halves, as [`OwnedReadHalf::reunite`] does.
    ///
    /// # Errors
    ///
    /// Returns both halves if they are of different streams.
    ///
    /// ```
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// let (read, write) = runtime::net::TcpStream::connect(listener.local_addr()?)?.into_split();
    /// assert!(write.reunite(read).is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn reunite(self, read: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        read.reunite(self)
    }

    /// Drops this half without ending the stream for the peer. The connection stays until the other half is
    /// dropped.
    ///
    /// ```
    /// use std::io::Read;
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// let (peer, _) = listener.accept()?;
    /// let (_read, write) = stream.into_split();
    /// write.forget();
    /// assert!(peer.try_read(&mut [0; 100]).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn forget(mut self) {
        drop(self.0.take());
    }

    fn stream(&self) -> &S {
        self.0.as_ref().expect("the stream is taken when the half ends")
    }

    pub(crate) fn stream_mut(&mut self) -> &mut S {
        self.0.as_mut().expect("the stream is taken when the half ends")
    }
}

impl<S: Split> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if let Some(stream) = &self.0 {
            // It fails if the peer has left already.
            let _ = stream.shut(Shutdown::Write);
        }
    }
}

impl<S: Split> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.0
    }
}

impl<S: Split> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        self.stream()
    }
}

impl<S: Split + Read> Read for OwnedReadHalf<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(bufs)
    }
}

impl<S: Split + Write> Write for OwnedWriteHalf<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream_mut().write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream_mut().write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream_mut().flush()
    }
}

/// The error of [`OwnedReadHalf::reunite`]: the halves are of different streams. It has both halves.
///
/// ```
/// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
/// let addr = listener.local_addr()?;
/// let (one, _) = runtime::net::TcpStream::connect(addr)?.into_split();
/// let (_, other) = runtime::net::TcpStream::connect(addr)?.into_split();
/// assert_eq!(one.reunite(other).unwrap_err().to_string(), "the halves are of different streams");
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ReuniteError<S: Split>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Split> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are of different streams")
    }
}

impl<S: Split + fmt::Debug> Error for ReuniteError<S> {}
