//! `TcpStream`: a TCP connection whose reads and writes park. The API is that of std.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use netpoll::Direction;

use crate::net::addrs::{ToSocketAddrs, each_address, no_address, resolve_async};
use crate::net::macros::{
    poll_readiness_methods, readiness_methods, shared_methods, stream_async_methods, stream_io,
    stream_try_methods, timeout_methods, ttl_methods,
};
use crate::net::socket::{Socket, call, no_time, result_of_connect};
use crate::net::source as net;

/// A TCP connection, with the API of [`std::net::TcpStream`].
///
/// `&TcpStream` reads and writes, too, so one thread can read while another writes. Dropping the last clone
/// closes the connection. A read or write that need not wait is one system call.
///
/// Options without a method here are set through the crate `socket2`, as for std's type:
/// `socket2::SockRef::from(&stream).set_tcp_keepalive(..)`.
///
/// Bytes behind an urgent byte are read as std reads them. There is one exception, on Linux: the user takes
/// the urgent byte from the descriptor (`MSG_OOB`) before the runtime has seen its event. A later read may
/// then wait until further bytes come. Such a user sets `SO_OOBINLINE`, or reads in non-blocking mode.
///
/// ```no_run
/// use std::io::{Read, Write};
/// let mut stream = runtime::net::TcpStream::connect("localhost:80")?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// # std::io::Result::Ok(())
/// ```
pub struct TcpStream(pub(crate) Socket<net::TcpStream>);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// Returns an error if no address answers (that of the last), if the name cannot be resolved, or if the
    /// process has no descriptors left.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, also while a name is looked up, and the
    /// connection is closed.
    ///
    /// ```
    /// let closed_port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let error = runtime::net::TcpStream::connect(closed_port).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        each_address(addr, |addr| TcpStream::connect_until(addr, None))
    }

    /// Connects as [`connect`](TcpStream::connect) does, in a future, with any executor.
    ///
    /// Dropping the future before it is ready closes the connection, also a half-made one. A look-up of a
    /// name is left to the background. [`timeout_async`](crate::time::timeout_async) sets a limit.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](TcpStream::connect).
    ///
    /// ```
    /// use std::time::Duration;
    /// use runtime::{net::TcpStream, time::timeout_async};
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let connecting = TcpStream::connect_async(listener.local_addr()?);
    /// let stream = runtime::block_on(async { timeout_async(Duration::from_secs(60), connecting).await })??;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn connect_async<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        let mut last = None;
        for addr in resolve_async(addr).await? {
            match TcpStream::connect_to(addr).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(no_address))
    }

    /// Connects to one address, and waits at most for `timeout`.
    ///
    /// # Errors
    ///
    /// Returns `TimedOut` if the time was up, `InvalidInput` for a time of zero, and else the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and the connection is closed.
    ///
    /// ```
    /// use std::time::Duration;
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(60))?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(no_time());
        }
        // A time beyond the clock's range means for ever.
        TcpStream::connect_until(*addr, Instant::now().checked_add(timeout)).map_err(|error| {
            match error.kind() {
                // The second is this crate's own on Windows. One of the system has a number.
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if error.raw_os_error().is_none() => {
                    io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("{addr} has not answered within {timeout:?}"),
                    )
                }
                _ => error,
            }
        })
    }

    async fn connect_to(addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = TcpStream::begin(addr)?;
        socket.run_async(Direction::Write, connected).await?;
        Ok(TcpStream(socket))
    }

    /// Begins to connect. Never waits.
    fn begin(addr: SocketAddr) -> io::Result<Socket<net::TcpStream>> {
        Socket::new(call(|| net::TcpStream::connect(addr))?)
    }

    fn connect_until(addr: SocketAddr, until: Option<Instant>) -> io::Result<TcpStream> {
        let socket = TcpStream::begin(addr)?;
        socket.run_until(Direction::Write, || until, connected)?;
        Ok(TcpStream(socket))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert!(stream.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::TcpStream::local_addr)
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::TcpStream::peer_addr)
    }

    /// Ends reading, writing or both, for all clones. Wakes threads that wait in that direction, at both
    /// ends.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # use std::io::Read;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// stream.shutdown(std::net::Shutdown::Both)?;
    /// assert_eq!(stream.read(&mut [0; 8])?, 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how, |stream| stream.shutdown(how))
    }

    /// Reads into `buf` without taking the bytes: the next read returns the same. Waits as a read does.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](TcpStream::set_read_timeout).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// listener.accept()?.0.write_all(b"hello")?;
    /// let mut bytes = [0; 5];
    /// assert!(stream.peek(&mut bytes)? > 0);
    /// stream.read_exact(&mut bytes)?;
    /// assert_eq!(&bytes, b"hello");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |stream| stream.peek(buf))
    }

    /// Reads into `buf` as [`peek`](TcpStream::peek) does, in a future. Dropping the future ends the wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// listener.accept()?.0.write_all(b"hello")?;
    /// assert!(runtime::block_on(async { stream.peek_async(&mut [0; 5]).await })? > 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn peek_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Read, |stream| stream.peek(buf)).await
    }

    stream_async_methods!(
        "# let listener = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         # let addr = listener.local_addr()?;\n\
         let one = runtime::net::TcpStream::connect(addr)?;\n\
         let (other, _) = listener.accept()?;"
    );
    stream_try_methods!(
        "# let listener = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         # let addr = listener.local_addr()?;\n\
         let one = runtime::net::TcpStream::connect(addr)?;\n\
         let (other, _) = listener.accept()?;"
    );

    /// Sets whether small writes are sent at once (`true`), or gathered by Nagle's algorithm (`false`, the
    /// default).
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_nodelay(true)?;
    /// assert!(stream.nodelay()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.ask(|stream| stream.set_nodelay(nodelay))
    }

    /// Returns the value that [`set_nodelay`](TcpStream::set_nodelay) has set.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert!(!stream.nodelay()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.ask(net::TcpStream::nodelay)
    }

    /// Sets what happens to unsent bytes when the connection is closed.
    ///
    /// - `None`, the default: they are sent in the background.
    /// - Zero: they are dropped, and the connection is reset.
    /// - A time, in whole seconds: closing waits for their sending. The thread that drops the last clone then
    ///   blocks its OS thread.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use std::io::{ErrorKind, Read};
    /// # use std::time::Duration;
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// let (mut peer, _) = listener.accept()?;
    /// stream.set_linger(Some(Duration::ZERO))?;
    /// drop(stream);
    /// assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.ask(|stream| net::set_linger(stream, linger))
    }

    /// Makes closing reset the connection, and drop what is not sent: as
    /// [`set_linger`](TcpStream::set_linger) with a time of zero. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use std::io::{ErrorKind, Read};
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// let (mut peer, _) = listener.accept()?;
    /// stream.set_zero_linger()?;
    /// drop(stream);
    /// assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Returns the value that [`set_linger`](TcpStream::set_linger) has set, in whole seconds.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.linger()?, None);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.0.ask(net::linger)
    }

    shared_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    timeout_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    poll_readiness_methods!(
        poll_read_ready,
        poll_write_ready,
        "let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    readiness_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    ttl_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
}

stream_io!(TcpStream, read_drained);

/// Returns the result of the attempt to connect, or `WouldBlock` until it is known. The system then makes the
/// socket writable.
pub(super) fn connected(stream: &net::TcpStream) -> io::Result<()> {
    result_of_connect(stream.take_error()?, || stream.peer_addr())
}
