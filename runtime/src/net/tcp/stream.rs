//! `TcpStream` as in `std::net`.

use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use netpoll::{Direction, net};
use socket2::SockRef;

use crate::net::addrs::each_address;
use crate::net::macros::{shared_methods, stream_io, timeout_methods, ttl_methods};
use crate::net::socket::{Socket, call, no_time};

/// A TCP connection; see [`std::net::TcpStream`].
///
/// `&TcpStream` reads and writes too, so one thread can read while another writes. Dropping it closes it. A read or write that
/// need not wait is one system call.
///
/// Options that have no method here are set through the crate `socket2`, as for std's type:
/// `socket2::SockRef::from(&stream).set_tcp_keepalive(..)`.
///
/// Bytes behind an urgent one are read as std reads them. On Linux there is one exception: the caller takes the urgent byte out of
/// the descriptor (`MSG_OOB`) before the runtime has seen its event. A later read may then wait until further bytes come. Such a
/// caller sets `SO_OOBINLINE`, so that the urgent byte is one of the stream's, or reads in non-blocking mode.
///
/// ```no_run
/// use std::io::{Read, Write};
/// let mut stream = runtime::net::TcpStream::connect("localhost:80")?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// # std::io::Result::Ok(())
/// ```
pub struct TcpStream(pub(in crate::net) Socket<net::TcpStream>);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// None did (the error of the last), the name cannot be resolved, or there are no descriptors left.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that must wait unwinds from here, and the connection is closed.
    ///
    /// ```
    /// let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let error = runtime::net::TcpStream::connect(nobody).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        each_address(addr, |addr| TcpStream::connect_until(addr, None))
    }

    /// Connects to one address, if that answers within `timeout`.
    ///
    /// # Errors
    ///
    /// `TimedOut`: it did not. `InvalidInput` for a time of zero. Otherwise as for [`connect`](TcpStream::connect).
    ///
    /// # Cancellation
    ///
    /// As for [`connect`](TcpStream::connect).
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
        // What is beyond the clock's range is never.
        TcpStream::connect_until(*addr, Instant::now().checked_add(timeout)).map_err(|error| {
            match error.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{addr} has not answered within {timeout:?}"),
                ),
                _ => error,
            }
        })
    }

    fn connect_until(addr: SocketAddr, until: Option<Instant>) -> io::Result<TcpStream> {
        let socket = Socket::new(call(|| net::TcpStream::connect(addr))?)?;
        socket.run_until(Direction::Write, || until, connected)?;
        Ok(TcpStream(socket))
    }

    /// This end's address.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// The other end's address.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// Ends reading, writing or both, for all clones; whoever waits in that direction, here or at the other end, is woken.
    ///
    /// # Errors
    ///
    /// What the system says.
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
        self.0.ask(|stream| stream.shutdown(how))
    }

    /// Reads without taking: the next read gives the same bytes. It waits as a read does.
    ///
    /// # Errors
    ///
    /// As for a read: what the system says, or the [time-out](TcpStream::set_read_timeout).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that must wait unwinds from here.
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

    /// Sends small writes at once (`true`) or gathers them (Nagle's algorithm, the default).
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// What [`set_nodelay`](TcpStream::set_nodelay) has set.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// What becomes of unsent bytes when the connection is closed: they are sent in the background (`None`, the default),
    /// thrown away with a reset (zero), or waited for so long (in whole seconds): whoever drops the last clone then blocks its
    /// OS thread.
    ///
    /// # Errors
    ///
    /// What the system says.
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
        self.0.ask(|stream| SockRef::from(stream).set_linger(linger))
    }

    /// What [`set_linger`](TcpStream::set_linger) has set, in whole seconds.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// ```
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let stream = runtime::net::TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.linger()?, None);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.0.ask(|stream| SockRef::from(stream).linger())
    }

    shared_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    timeout_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
    ttl_methods!(
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;"
    );
}

stream_io!(TcpStream, read_drained);

/// `WouldBlock` until it is known what came of the attempt to connect: the system then makes the socket writable.
fn connected(stream: &net::TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        other => other.map(drop),
    }
}
