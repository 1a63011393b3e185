//! `UdpSocket`: datagrams over UDP, with calls that park. The API is that of std.

mod polls;
mod tries;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use netpoll::Direction;

use super::addrs::{ToSocketAddrs, each_address, first_address, resolve_async};
use super::macros::{
    poll_readiness_methods, readiness_methods, shared_methods, timeout_methods, ttl_methods,
};
use super::socket::{Socket, call};
use super::source as net;

/// A UDP socket, with the API of [`std::net::UdpSocket`].
///
/// Several threads may use one socket, and each datagram is received once. Dropping the last clone closes it.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a call that has to wait. No datagram is lost.
///
/// ```
/// use runtime::net::UdpSocket;
/// # fn main() -> std::io::Result<()> {
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let addr = server.local_addr()?;
/// let server = runtime::spawn(move || -> std::io::Result<usize> {
///     let mut buf = [0; 100];
///     let (n, peer) = server.recv_from(&mut buf)?;
///     server.send_to(&buf[..n], peer)
/// });
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.connect(addr)?;
/// client.send(b"hello")?;
/// let mut buf = [0; 100];
/// let n = client.recv(&mut buf)?;
/// assert_eq!(&buf[..n], b"hello");
/// assert_eq!(server.join().unwrap()?, 5);
/// # Ok(())
/// # }
/// ```
pub struct UdpSocket(pub(in crate::net) Socket<net::UdpSocket>);

/// An option of the system: the methods that set it and return it.
macro_rules! option {
    ($(#[$doc:meta])* $set:ident, $get:ident: $type:ty = $example:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = concat!(
            "let socket = runtime::net::UdpSocket::bind(\"", $example, "\")?;\n",
            "socket.", stringify!($set), "(socket.", stringify!($get), "()?)?;\n",
            "# std::io::Result::Ok(())",
        )]
        /// ```
        pub fn $set(&self, value: $type) -> io::Result<()> {
            self.0.ask(|socket| socket.$set(value))
        }

        #[doc = concat!("Returns the value that [`", stringify!($set), "`](Self::", stringify!($set), ") has set.")]
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = concat!(
            "let socket = runtime::net::UdpSocket::bind(\"", $example, "\")?;\n",
            "let _value: ", stringify!($type), " = socket.", stringify!($get), "()?;\n",
            "# std::io::Result::Ok(())",
        )]
        /// ```
        pub fn $get(&self) -> io::Result<$type> {
            self.0.ask(|socket| socket.$get())
        }
    };
}

impl UdpSocket {
    /// Returns a socket at the first of the addresses that can be bound. Port 0 lets the system choose a free
    /// port.
    ///
    /// # Errors
    ///
    /// Returns an error if no address can be bound (that of the last) or the name cannot be resolved. Also
    /// returns an error if the process has no descriptors left.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        each_address(addr, bind)
    }

    /// Returns a socket as [`bind`](UdpSocket::bind) does, in a future: a look-up of a name does not park the
    /// task.
    ///
    /// Dropping the future leaves a look-up to the background.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bind`](UdpSocket::bind).
    ///
    /// ```
    /// let socket = runtime::block_on(async { runtime::net::UdpSocket::bind_async("localhost:0").await })?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn bind_async<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        resolve_async(addr).await?.each(bind)
    }

    /// Waits for a datagram. Returns its length and its sender's address. Bytes that do not fit into `buf`
    /// are lost.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UdpSocket::set_read_timeout).
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"to myself", socket.local_addr()?)?;
    /// assert_eq!(socket.recv_from(&mut [0; 100])?, (9, socket.local_addr()?));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run(Direction::Read, |socket| socket.recv_from(buf))
    }

    /// Waits for a datagram as [`recv_from`](UdpSocket::recv_from) does, in a future, with any executor.
    ///
    /// Several futures and threads may wait; each datagram goes to one of them. Dropping the future before it
    /// is ready loses no datagram. The time-outs and the non-blocking mode hold for blocking calls only.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let addr = socket.local_addr()?;
    /// runtime::block_on(async {
    ///     let mut buf = [0; 100];
    ///     let (received, sent) = futures::join!(socket.recv_from_async(&mut buf), socket.send_to_async(b"hello", addr));
    ///     assert_eq!((received?, sent?), ((5, addr), 5));
    ///     std::io::Result::Ok(())
    /// })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn recv_from_async(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run_async(Direction::Read, |socket| socket.recv_from(buf)).await
    }

    /// Reads a datagram without taking it as [`peek_from`](UdpSocket::peek_from) does, in a future. Dropping
    /// the future ends the wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"to myself", socket.local_addr()?)?;
    /// let peeked = runtime::block_on(async { socket.peek_from_async(&mut [0; 100]).await })?;
    /// assert_eq!(peeked, socket.recv_from(&mut [0; 100])?);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn peek_from_async(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run_async(Direction::Read, |socket| socket.peek_from(buf)).await
    }

    /// Waits for a datagram and reads it without taking it. Returns its length and its sender's address.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UdpSocket::set_read_timeout).
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"to myself", socket.local_addr()?)?;
    /// assert_eq!(socket.peek_from(&mut [0; 100])?, socket.recv_from(&mut [0; 100])?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.run(Direction::Read, |socket| socket.peek_from(buf))
    }

    /// Waits for a datagram, leaves it, and returns its sender's address.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UdpSocket::set_read_timeout).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"to myself", socket.local_addr()?)?;
    /// assert_eq!(socket.peek_sender()?, socket.local_addr()?);
    /// assert_eq!(socket.recv(&mut [0; 100])?, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.0.run(Direction::Read, net::peek_sender)
    }

    /// Waits as [`peek_sender`](UdpSocket::peek_sender) does, in a future, with any executor. Dropping the
    /// future takes no datagram.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"to myself", socket.local_addr()?)?;
    /// assert_eq!(runtime::block_on(async { socket.peek_sender_async().await })?, socket.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn peek_sender_async(&self) -> io::Result<SocketAddr> {
        self.0.run_async(Direction::Read, net::peek_sender).await
    }

    /// Sends a datagram to the first of the addresses. Returns its length.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or that of the [time-out](UdpSocket::set_write_timeout).
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.send_to(b"to myself", socket.local_addr()?)?, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let addr = first_address(addr)?;
        self.0.run(Direction::Write, |socket| socket.send_to(buf, addr))
    }

    /// Sends a datagram as [`send_to`](UdpSocket::send_to) does, in a future, with any executor.
    ///
    /// Dropping the future before it is ready sends nothing. A look-up of a name is left to the background.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let addr = socket.local_addr()?;
    /// assert_eq!(runtime::block_on(async { socket.send_to_async(b"to myself", addr).await })?, 9);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_to_async<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let addr = resolve_async(addr).await?.first()?;
        self.0.run_async(Direction::Write, |socket| socket.send_to(buf, addr)).await
    }

    /// Sets the peer to the first of the addresses that the system accepts: the socket then sends to it, and
    /// receives from it only.
    ///
    /// # Errors
    ///
    /// Returns an error if no address is accepted (that of the last), or if the name cannot be resolved.
    ///
    /// ```
    /// let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// assert_eq!(one.peer_addr()?, other.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        each_address(addr, |addr| self.0.ask(|socket| socket.connect(addr)))
    }

    /// Sets the peer as [`connect`](UdpSocket::connect) does, in a future: a look-up of a name does not park
    /// the task.
    ///
    /// Dropping the future before it is ready sets no peer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](UdpSocket::connect).
    ///
    /// ```
    /// let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// let addr = other.local_addr()?;
    /// runtime::block_on(async { one.connect_async(addr).await })?;
    /// assert_eq!(one.peer_addr()?, addr);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn connect_async<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        resolve_async(addr).await?.each(|addr| self.0.ask(|socket| socket.connect(addr)))
    }

    /// Sends a datagram to the peer that [`connect`](UdpSocket::connect) has set. Returns its length.
    ///
    /// # Errors
    ///
    /// Returns the system's error, which may report that an earlier datagram found no receiver, or the error
    /// of the [time-out](UdpSocket::set_write_timeout).
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// assert_eq!(one.send(b"hello")?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(Direction::Write, |socket| socket.send(buf))
    }

    /// Sends a datagram as [`send`](UdpSocket::send) does, in a future, with any executor. Dropping the
    /// future before it is ready sends nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error, which may report that an earlier datagram found no receiver.
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// assert_eq!(runtime::block_on(async { one.send_async(b"hello").await })?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn send_async(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Write, |socket| socket.send(buf)).await
    }

    /// Waits for a datagram from the peer that [`connect`](UdpSocket::connect) has set. Returns its length.
    /// Bytes that do not fit into `buf` are lost.
    ///
    /// # Errors
    ///
    /// Returns the system's error, which may report that an earlier datagram found no receiver, or the error
    /// of the [time-out](UdpSocket::set_read_timeout).
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// other.send_to(b"hello", one.local_addr()?)?;
    /// assert_eq!(one.recv(&mut [0; 100])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |socket| socket.recv(buf))
    }

    /// Waits for a datagram as [`recv`](UdpSocket::recv) does, in a future, with any executor. Dropping the
    /// future before it is ready loses no datagram.
    ///
    /// # Errors
    ///
    /// Returns the system's error, which may report that an earlier datagram found no receiver.
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// other.send_to(b"hello", one.local_addr()?)?;
    /// assert_eq!(runtime::block_on(async { one.recv_async(&mut [0; 100]).await })?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn recv_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Read, |socket| socket.recv(buf)).await
    }

    /// Waits for a datagram from the peer and reads it without taking it. Returns its length.
    ///
    /// # Errors
    ///
    /// Returns the system's error, which may report that an earlier datagram found no receiver, or the error
    /// of the [time-out](UdpSocket::set_read_timeout).
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// other.send_to(b"hello", one.local_addr()?)?;
    /// assert_eq!(one.peek(&mut [0; 100])?, one.recv(&mut [0; 100])?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |socket| socket.peek(buf))
    }

    /// Reads a datagram without taking it as [`peek`](UdpSocket::peek) does, in a future. Dropping the future
    /// ends the wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let [one, other] = [(); 2].map(|()| runtime::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    /// one.connect(other.local_addr()?)?;
    /// other.send_to(b"hello", one.local_addr()?)?;
    /// let peeked = runtime::block_on(async { one.peek_async(&mut [0; 100]).await })?;
    /// assert_eq!(peeked, one.recv(&mut [0; 100])?);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn peek_async(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Read, |socket| socket.peek(buf)).await
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UdpSocket::local_addr)
    }

    /// Returns the address that [`connect`](UdpSocket::connect) has set.
    ///
    /// # Errors
    ///
    /// Returns `NotConnected` if none was set.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UdpSocket::peer_addr)
    }

    option! {
        /// Sets whether the socket may send to a broadcast address.
        set_broadcast, broadcast: bool = "127.0.0.1:0"
    }
    option! {
        /// Sets whether multicast packets come back to this machine.
        set_multicast_loop_v4, multicast_loop_v4: bool = "127.0.0.1:0"
    }
    option! {
        /// Sets the number of hops that a multicast packet may make. The default is 1.
        set_multicast_ttl_v4, multicast_ttl_v4: u32 = "127.0.0.1:0"
    }
    option! {
        /// Sets whether multicast packets of an IPv6 socket come back to this machine.
        set_multicast_loop_v6, multicast_loop_v6: bool = "[::1]:0"
    }

    /// Joins a multicast group on the interface with this address. With an unspecified address the system
    /// chooses.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```no_run
    /// # use std::net::Ipv4Addr;
    /// let socket = runtime::net::UdpSocket::bind("0.0.0.0:5353")?;
    /// socket.join_multicast_v4(&Ipv4Addr::new(224, 0, 0, 251), &Ipv4Addr::UNSPECIFIED)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.ask(|socket| socket.join_multicast_v4(group, interface))
    }

    /// Joins a multicast group on the interface with this number. With 0 the system chooses.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```no_run
    /// let socket = runtime::net::UdpSocket::bind("[::]:5353")?;
    /// socket.join_multicast_v6(&"ff02::fb".parse().unwrap(), 0)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.ask(|socket| socket.join_multicast_v6(group, interface))
    }

    /// Leaves a group that [`join_multicast_v4`](UdpSocket::join_multicast_v4) has joined.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```no_run
    /// # use std::net::Ipv4Addr;
    /// # let socket = runtime::net::UdpSocket::bind("0.0.0.0:5353")?;
    /// socket.leave_multicast_v4(&Ipv4Addr::new(224, 0, 0, 251), &Ipv4Addr::UNSPECIFIED)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.ask(|socket| socket.leave_multicast_v4(group, interface))
    }

    /// Leaves a group that [`join_multicast_v6`](UdpSocket::join_multicast_v6) has joined.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```no_run
    /// # let socket = runtime::net::UdpSocket::bind("[::]:5353")?;
    /// socket.leave_multicast_v6(&"ff02::fb".parse().unwrap(), 0)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.ask(|socket| socket.leave_multicast_v6(group, interface))
    }

    shared_methods!("let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
    timeout_methods!("let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
    poll_readiness_methods!(
        poll_recv_ready,
        poll_send_ready,
        "let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;"
    );
    readiness_methods!("let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
    ttl_methods!("let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
}

fn bind(addr: SocketAddr) -> io::Result<UdpSocket> {
    Socket::new(call(|| net::UdpSocket::bind(addr))?).map(UdpSocket)
}
