//! `UnixDatagram`: datagrams within one machine, with calls that park. The API is that of std.

mod polls;
mod tries;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use netpoll::Direction;

use super::pauses::{after_pauses, after_pauses_async};
use crate::net::macros::{poll_readiness_methods, readiness_methods, shared_methods, timeout_methods};
use crate::net::socket::{Socket, call};
use crate::net::source::{self as net, Sourced};

/// A Unix socket for datagrams, with the API of [`std::os::unix::net::UnixDatagram`].
///
/// Several threads may use one socket, and each datagram is received once. Dropping the last clone closes it.
/// A path to which it was bound stays.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a call that has to wait.
///
/// ```
/// use runtime::net::unix::UnixDatagram;
/// let (one, other) = UnixDatagram::pair()?;
/// let receiver = runtime::spawn(move || {
///     let mut buf = [0; 100];
///     other.recv(&mut buf).map(|n| buf[..n].to_vec())
/// });
/// one.send(b"hello")?;
/// assert_eq!(receiver.join().unwrap()?, b"hello");
/// # std::io::Result::Ok(())
/// ```
pub struct UnixDatagram(pub(in crate::net) Socket<net::UnixDatagram>);

impl UnixDatagram {
    fn made(make: impl FnOnce() -> io::Result<net::UnixDatagram>) -> io::Result<UnixDatagram> {
        Socket::new(call(make)?).map(UnixDatagram)
    }

    /// Returns a socket that is bound to a path, at which nothing may exist yet.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `AddrInUse` if something exists at that path.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("runtime-doc-dgram-{}", std::process::id()));
    /// let socket = runtime::net::unix::UnixDatagram::bind(&path)?;
    /// assert_eq!(socket.local_addr()?.as_pathname(), Some(&*path));
    /// std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Returns a socket that is bound to an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `AddrInUse` if the address is taken.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use std::os::linux::net::SocketAddrExt;
    /// use runtime::net::unix::{SocketAddr, UnixDatagram};
    /// let addr = SocketAddr::from_abstract_name(format!("runtime dgram {}", std::process::id()))?;
    /// let socket = UnixDatagram::bind_addr(&addr)?;
    /// UnixDatagram::unbound()?.send_to_addr(b"hello", &addr)?;
    /// assert_eq!(socket.recv(&mut [0; 100])?, 5);
    /// # }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixDatagram> {
        UnixDatagram::made(|| net::UnixDatagram::bind_addr(addr))
    }

    /// Returns a socket without an address.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no descriptors or no memory left.
    ///
    /// ```
    /// assert!(runtime::net::unix::UnixDatagram::unbound()?.local_addr()?.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::made(net::UnixDatagram::unbound)
    }

    /// Returns two sockets that are connected with each other and have no address.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no descriptors or no memory left.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// assert_eq!(other.recv(&mut [0; 100])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = call(net::UnixDatagram::pair)?;
        Ok((UnixDatagram(Socket::new(one)?), UnixDatagram(Socket::new(other)?)))
    }

    /// Sets the peer to the socket at `path`: this socket then sends to it, and receives from it only.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let socket = runtime::net::unix::UnixDatagram::unbound()?;
    /// assert!(socket.connect("/no/such/path").is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Sets the peer to the socket at `addr`, which may be an abstract name: this socket then sends to it,
    /// and receives from it only.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use runtime::net::unix::{SocketAddr, UnixDatagram};
    /// let addr = SocketAddr::from_pathname("/no/such/path")?;
    /// assert!(UnixDatagram::unbound()?.connect_addr(&addr).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        self.0.ask(|socket| net::connect_unix(socket, addr))
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert!(one.local_addr()?.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UnixDatagram::local_addr)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// Returns `NotConnected` if there is no peer.
    ///
    /// ```
    /// let socket = runtime::net::unix::UnixDatagram::unbound()?;
    /// assert_eq!(socket.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UnixDatagram::peer_addr)
    }

    /// Waits for a datagram. Returns its length and its sender's address. Bytes that do not fit into `buf`
    /// are lost.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UnixDatagram::set_read_timeout).
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let (n, sender) = other.recv_from(&mut [0; 100])?;
    /// assert!(n == 5 && sender.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run(Direction::Read, |socket| socket.recv_from(buf))
    }

    /// Waits for a datagram. Returns its length. Bytes that do not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UnixDatagram::set_read_timeout).
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// assert_eq!(other.recv(&mut [0; 100])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |socket| socket.recv(buf))
    }

    /// Waits for a datagram as [`recv_from`](UnixDatagram::recv_from) does, in a future, with any executor.
    /// Dropping the future before it is ready loses no datagram.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// let (n, _sender) = runtime::block_on(async { other.recv_from_async(&mut [0; 100]).await })?;
    /// assert_eq!(n, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn recv_from_async(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run_async(Direction::Read, |socket| socket.recv_from(buf)).await
    }

    /// Waits for a datagram as [`recv`](UnixDatagram::recv) does, in a future, with any executor. Dropping
    /// the future before it is ready loses no datagram.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, other) = runtime::net::unix::UnixDatagram::pair()?;
    /// runtime::block_on(async {
    ///     let mut buf = [0; 100];
    ///     let (received, sent) = futures::join!(other.recv_async(&mut buf), one.send_async(b"hello"));
    ///     assert_eq!((received?, sent?), (5, 5));
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn recv_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Read, |socket| socket.recv(buf)).await
    }

    /// Sends a datagram to the socket at `path`. Returns its length.
    ///
    /// If the queue of that socket is full, it waits until there is room. The system reports no event for
    /// that, so it tries again after pauses, from 20 us to 10 ms. ([`send`](UnixDatagram::send) on a
    /// connected socket is woken by an event.)
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UnixDatagram::set_write_timeout).
    ///
    /// ```
    /// let socket = runtime::net::unix::UnixDatagram::unbound()?;
    /// assert!(socket.send_to(b"hello", "/no/such/path").is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram to the socket at `addr`, which may be an abstract name. Returns its length. It waits
    /// as [`send_to`](UnixDatagram::send_to) does.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UnixDatagram::set_write_timeout).
    ///
    /// ```
    /// use runtime::net::unix::{SocketAddr, UnixDatagram};
    /// let addr = SocketAddr::from_pathname("/no/such/path")?;
    /// assert!(UnixDatagram::unbound()?.send_to_addr(b"hello", &addr).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send_to_addr(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let send = |socket: &net::UnixDatagram| net::send_to_unix(socket, buf, addr);
        if self.0.source().reports_room() {
            return self.0.run(Direction::Write, send);
        }
        let until = || match self.0.nonblocking() {
            true => Some(Instant::now()),
            false => self.0.until(Direction::Write),
        };
        after_pauses(until, || self.0.ask(send))
    }

    /// Sends a datagram as [`send_to`](UnixDatagram::send_to) does, in a future, with any executor. Dropping
    /// the future before it is ready sends nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let socket = runtime::net::unix::UnixDatagram::unbound()?;
    /// assert!(runtime::block_on(async { socket.send_to_async(b"hello", "/no/such/path").await }).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_to_async<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr_async(buf, &SocketAddr::from_pathname(path)?).await
    }

    /// Sends a datagram as [`send_to_addr`](UnixDatagram::send_to_addr) does, in a future, with any executor.
    /// Dropping the future before it is ready sends nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use runtime::net::unix::{SocketAddr, UnixDatagram};
    /// let addr = SocketAddr::from_pathname("/no/such/path")?;
    /// let socket = UnixDatagram::unbound()?;
    /// assert!(runtime::block_on(async { socket.send_to_addr_async(b"hello", &addr).await }).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_to_addr_async(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let send = |socket: &net::UnixDatagram| net::send_to_unix(socket, buf, addr);
        if self.0.source().reports_room() {
            return self.0.run_async(Direction::Write, send).await;
        }
        after_pauses_async(|| self.0.ask(send)).await
    }

    /// Sends a datagram to the peer. Returns its length.
    ///
    /// # Errors
    ///
    /// Returns the system's error (`NotConnected` if there is no peer), or that of the
    /// [time-out](UnixDatagram::set_write_timeout).
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(one.send(b"hello")?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(Direction::Write, |socket| socket.send(buf))
    }

    /// Sends a datagram as [`send`](UnixDatagram::send) does, in a future, with any executor. Dropping the
    /// future before it is ready sends nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error (`NotConnected` if there is no peer).
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixDatagram::pair()?;
    /// assert_eq!(runtime::block_on(async { one.send_async(b"hello").await })?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_async(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Write, |socket| socket.send(buf)).await
    }

    /// Ends reading, writing or both, for all clones.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let (one, _other) = runtime::net::unix::UnixDatagram::pair()?;
    /// one.shutdown(std::net::Shutdown::Both)?;
    /// assert!(one.send(b"hello").is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how, |socket| socket.shutdown(how))
    }

    shared_methods!("let (socket, _other) = runtime::net::unix::UnixDatagram::pair()?;");
    timeout_methods!("let (socket, _other) = runtime::net::unix::UnixDatagram::pair()?;");
    poll_readiness_methods!(
        poll_recv_ready,
        poll_send_ready,
        "let (socket, _other) = runtime::net::unix::UnixDatagram::pair()?;"
    );
    readiness_methods!("let (socket, _other) = runtime::net::unix::UnixDatagram::pair()?;");
}
