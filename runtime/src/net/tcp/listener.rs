//! `TcpListener`: accepts TCP connections, and parks its caller meanwhile. The API is that of std.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use netpoll::Direction;
use socket2::SockRef;

use super::TcpStream;
use crate::net::addrs::{ToSocketAddrs, each_address, resolve_async};
use crate::net::backlog::BACKLOG;
use crate::net::incoming::Pauses;
use crate::net::macros::{shared_methods, ttl_methods};
use crate::net::socket::{Socket, call};
use crate::net::source as net;

/// A TCP socket that accepts connections, with the API of [`std::net::TcpListener`].
///
/// Several threads may accept on one listener. Dropping it closes it. Up to 4,096 connections may wait to be
/// accepted, if the system allows as many (Linux: `net.core.somaxconn`).
///
/// ```
/// use runtime::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let addr = listener.local_addr()?;
/// let server = runtime::spawn(move || -> std::io::Result<()> {
///     let (mut stream, _peer) = listener.accept()?;
///     stream.write_all(b"hello")
/// });
/// let mut text = String::new();
/// TcpStream::connect(addr)?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// server.join().unwrap()
/// # }
/// ```
pub struct TcpListener(pub(in crate::net) Socket<net::TcpListener>);

impl TcpListener {
    /// Returns a listener at the first of the addresses that can be bound. Port 0 lets the system choose a
    /// free port.
    ///
    /// # Errors
    ///
    /// Returns an error if no address can be bound (that of the last) or the name cannot be resolved. Also
    /// returns an error if the process has no descriptors left.
    ///
    /// ```
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        each_address(addr, bind)
    }

    /// Returns a listener as [`bind`](TcpListener::bind) does, in a future: a look-up of a name does not park
    /// the task.
    ///
    /// Dropping the future leaves a look-up to the background.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bind`](TcpListener::bind).
    ///
    /// ```
    /// let listener = runtime::block_on(async { runtime::net::TcpListener::bind_async("localhost:0").await })?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn bind_async<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        resolve_async(addr).await?.each(bind)
    }

    /// Waits for the next connection. Returns it with its peer's address.
    ///
    /// # Errors
    ///
    /// Returns the system's error. If the process has no descriptors left, the connection stays pending, and
    /// a later call may get it. A call at once would fail again, so a loop pauses first, as
    /// [`incoming`](TcpListener::incoming) does by itself:
    ///
    /// ```no_run
    /// # let listener = runtime::net::TcpListener::bind("127.0.0.1:7")?;
    /// loop {
    ///     match listener.accept() {
    ///         Ok((stream, _peer)) => drop(runtime::spawn(move || std::io::copy(&mut &stream, &mut &stream))),
    ///         Err(error) => {
    ///             eprintln!("cannot accept: {error}");
    ///             runtime::sleep(std::time::Duration::from_millis(100));
    ///         }
    ///     }
    /// }
    /// # #[allow(unreachable_code)]
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No connection is lost.
    ///
    /// ```
    /// use runtime::net::{TcpListener, TcpStream};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (_stream, peer) = listener.accept()?;
    /// assert_eq!(peer, client.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.run(Direction::Read, net::TcpListener::accept)?;
        Ok((TcpStream(Socket::new(stream)?), peer))
    }

    /// Accepts as [`accept`](TcpListener::accept) does, in a future, with any executor.
    ///
    /// Several futures and threads may accept on one listener. Each connection goes to one of them. Dropping
    /// the future before it is ready loses no connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`accept`](TcpListener::accept). A loop pauses after an error, for example with
    /// [`sleep_async`](crate::time::sleep_async). In [non-blocking mode](TcpListener::set_nonblocking) it
    /// waits all the same.
    ///
    /// ```
    /// use runtime::net::{TcpListener, TcpStream};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let addr = listener.local_addr()?;
    /// runtime::block_on(async {
    ///     // Both in one task: while the accept waits, the connect goes on.
    ///     let (accepted, connected) = futures::join!(listener.accept_async(), TcpStream::connect_async(addr));
    ///     assert_eq!(accepted?.1, connected?.local_addr()?);
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn accept_async(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.run_async(Direction::Read, net::TcpListener::accept).await?;
        Ok((TcpStream(Socket::new(stream)?), peer))
    }

    /// Polls for a connection, for a future that is written by hand.
    ///
    /// If there is none, it wakes the task of `cx` later, and returns `Pending`. The task that was polled
    /// last with one clone is woken: a clone each lets several tasks wait.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`accept`](TcpListener::accept).
    ///
    /// ```
    /// use runtime::net::{TcpListener, TcpStream};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let accepts = std::future::poll_fn(|cx| listener.poll_accept(cx));
    /// let connects = TcpStream::connect_async(listener.local_addr()?);
    /// let (accepted, connected) = runtime::block_on(async { futures::join!(accepts, connects) });
    /// assert_eq!(accepted?.1, connected?.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (stream, peer) = ready!(self.0.poll(Direction::Read, cx, net::TcpListener::accept))?;
        Poll::Ready(Socket::new(stream).map(|socket| (TcpStream(socket), peer)))
    }

    /// Returns an iterator over connections, which waits for each and never ends.
    ///
    /// After an error that would repeat at once (most likely no descriptors left), it pauses before the next
    /// accept, from 5 ms to 1 s. So a loop that reports errors and goes on does not spin.
    ///
    /// ```no_run
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:7")?;
    /// for stream in listener.incoming() {
    ///     match stream {
    ///         Ok(stream) => drop(runtime::spawn(move || std::io::copy(&mut &stream, &mut &stream))),
    ///         Err(error) => eprintln!("cannot accept: {error}"),
    ///     }
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self, pauses: Pauses::default() }
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::TcpListener::local_addr)
    }

    shared_methods!("let socket = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;");
    ttl_methods!("let socket = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;");
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    Socket::new(call(|| listen(addr))?).map(TcpListener)
}

fn listen(addr: SocketAddr) -> io::Result<net::TcpListener> {
    net::listen(addr, || listen_in_system(addr))
}

fn listen_in_system(addr: SocketAddr) -> io::Result<netpoll::net::TcpListener> {
    let listener = std::net::TcpListener::bind(addr)?;
    // The backlog of std's listener is shorter. It may be changed at any time.
    SockRef::from(&listener).listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(netpoll::net::TcpListener::from_std(listener))
}

/// The iterator that [`TcpListener::incoming`] returns.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
    pauses: Pauses,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pauses.accept(|| self.listener.accept()).map(|(stream, _peer)| stream))
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}

#[cfg(feature = "stream")]
impl Incoming<'_> {
    /// Accepts as `next` does, in a future.
    pub(crate) async fn next_async(&mut self) -> io::Result<TcpStream> {
        self.pauses.accept_async(self.listener.accept_async()).await.map(|(stream, _peer)| stream)
    }
}
