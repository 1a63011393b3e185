//! `UnixStream`: a connection within one machine whose reads and writes park. The API is that of std.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use netpoll::Direction;

use super::pauses::{after_pauses, after_pauses_async};
use crate::net::macros::{
    poll_readiness_methods, readiness_methods, shared_methods, stream_async_methods, stream_io,
    stream_try_methods, timeout_methods,
};
use crate::net::socket::{Socket, call, result_of_connect};
use crate::net::source as net;

/// A connection between Unix sockets, with the API of [`std::os::unix::net::UnixStream`].
///
/// `&UnixStream` reads and writes, too, so one thread can read while another writes. Dropping the last clone
/// closes the connection.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a call that has to wait.
///
/// ```
/// use runtime::net::unix::UnixStream;
/// use std::io::{Read, Write};
/// let (mut one, mut other) = UnixStream::pair()?;
/// let writer = runtime::spawn(move || one.write_all(b"hello"));
/// let mut text = String::new();
/// other.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// writer.join().unwrap()?;
/// # std::io::Result::Ok(())
/// ```
pub struct UnixStream(pub(crate) Socket<net::UnixStream>);

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// If the listener's queue is full, it waits until there is room. The system reports no event for that,
    /// so it tries again after pauses, from 20 us to 10 ms.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `ConnectionRefused` if no socket listens there, `NotFound` if nothing
    /// exists at that path.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let error = runtime::net::unix::UnixStream::connect("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener at `addr`, which may be an abstract name. It waits as
    /// [`connect`](UnixStream::connect) does.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `ConnectionRefused` if no socket listens there.
    ///
    /// ```
    /// use runtime::net::unix::{SocketAddr, UnixStream};
    /// let addr = SocketAddr::from_pathname("/no/such/path")?;
    /// assert!(UnixStream::connect_addr(&addr).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect_addr(addr: &SocketAddr) -> io::Result<UnixStream> {
        if let Some(socket) = UnixStream::begin(addr)? {
            socket.run_until(Direction::Write, || None, connected)?;
            return Ok(UnixStream(socket));
        }
        let stream = after_pauses(|| None, || call(|| net::UnixStream::connect_addr(addr)))?;
        Socket::new(stream).map(UnixStream)
    }

    /// Connects as [`connect`](UnixStream::connect) does, in a future, with any executor. Dropping the future
    /// before it is ready makes no connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](UnixStream::connect).
    ///
    /// ```
    /// use runtime::net::unix::UnixStream;
    /// let error = runtime::block_on(async { UnixStream::connect_async("/no/such/path").await }).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    pub async fn connect_async<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr_async(&SocketAddr::from_pathname(path)?).await
    }

    /// Connects as [`connect_addr`](UnixStream::connect_addr) does, in a future, with any executor. Dropping
    /// the future before it is ready makes no connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect_addr`](UnixStream::connect_addr).
    ///
    /// ```
    /// use runtime::net::unix::{SocketAddr, UnixStream};
    /// let addr = SocketAddr::from_pathname("/no/such/path")?;
    /// assert!(runtime::block_on(async { UnixStream::connect_addr_async(&addr).await }).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn connect_addr_async(addr: &SocketAddr) -> io::Result<UnixStream> {
        if let Some(socket) = UnixStream::begin(addr)? {
            socket.run_async(Direction::Write, connected).await?;
            return Ok(UnixStream(socket));
        }
        let stream = after_pauses_async(|| call(|| net::UnixStream::connect_addr(addr))).await?;
        Socket::new(stream).map(UnixStream)
    }

    /// Begins to connect, where an event tells that the connection is made: in a simulation. Returns `None`
    /// elsewhere.
    fn begin(addr: &SocketAddr) -> io::Result<Option<Socket<net::UnixStream>>> {
        net::begin_unix(addr).map(|begun| Socket::new(begun?)).transpose()
    }

    stream_async_methods!("let (one, other) = runtime::net::unix::UnixStream::pair()?;");
    stream_try_methods!("let (one, other) = runtime::net::unix::UnixStream::pair()?;");

    /// Returns two streams that are connected with each other and have no address.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no descriptors or no memory left.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// let (mut one, mut other) = runtime::net::unix::UnixStream::pair()?;
    /// one.write_all(b"x")?;
    /// other.read_exact(&mut [0])?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = call(net::UnixStream::pair)?;
        Ok((UnixStream(Socket::new(one)?), UnixStream(Socket::new(other)?)))
    }

    /// Returns a pair of which one end is std's, for handlers of signals. Both are the system's in a
    /// simulation, too.
    pub(crate) fn pair_with_std() -> io::Result<(UnixStream, std::os::unix::net::UnixStream)> {
        let (one, other) = call(|| {
            let (one, other) = std::os::unix::net::UnixStream::pair()?;
            one.set_nonblocking(true)?;
            io::Result::Ok((one, other))
        })?;
        Ok((UnixStream(Socket::new(net::UnixStream::from_std(one))?), other))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// assert!(one.local_addr()?.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UnixStream::local_addr)
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// assert!(one.peer_addr()?.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UnixStream::peer_addr)
    }

    /// Returns which process is at the other end, and its user. Linux only.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `Unsupported` in a simulation.
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    /// let (one, _other) = runtime::net::unix::UnixStream::pair()?;
    /// let mine = std::fs::metadata("/proc/self")?.uid();
    /// assert!(one.peer_cred()?.uid() == mine, "only processes of the same user may connect");
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(target_os = "linux")]
    pub fn peer_cred(&self) -> io::Result<super::UCred> {
        self.0.ask(|stream| {
            crate::net::source::Sourced::check_descriptor(stream)?;
            super::UCred::of_peer(stream)
        })
    }

    /// Ends reading, writing or both, for all clones. Wakes threads that wait in that direction, at both
    /// ends.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use std::io::Read;
    /// let (one, mut other) = runtime::net::unix::UnixStream::pair()?;
    /// one.shutdown(std::net::Shutdown::Write)?;
    /// assert_eq!(other.read(&mut [0])?, 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how, |stream| stream.shutdown(how))
    }

    shared_methods!("let (socket, _other) = runtime::net::unix::UnixStream::pair()?;");
    timeout_methods!("let (socket, _other) = runtime::net::unix::UnixStream::pair()?;");
    poll_readiness_methods!(
        poll_read_ready,
        poll_write_ready,
        "let (socket, _other) = runtime::net::unix::UnixStream::pair()?;"
    );
    readiness_methods!("let (socket, _other) = runtime::net::unix::UnixStream::pair()?;");
}

stream_io!(UnixStream, read);

/// Returns the result of the attempt to connect, or `WouldBlock` until it is known.
fn connected(stream: &net::UnixStream) -> io::Result<()> {
    result_of_connect(stream.take_error()?, || stream.peer_addr())
}
