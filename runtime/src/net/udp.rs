//! `UdpSocket` as in `std::net`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use netpoll::{Direction, net};

use super::addrs::{each_address, first_address};
use super::macros::{shared_methods, timeout_methods, ttl_methods};
use super::socket::{Socket, call};

/// A UDP socket; see [`std::net::UdpSocket`].
///
/// Several threads may use one socket; each datagram is received once. Dropping it closes it. In the calls that wait, a cancelled
/// green thread that must wait unwinds; no datagram is lost by that.
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

/// An option that the system keeps: how it is set, and how it is asked for.
macro_rules! option {
    ($(#[$doc:meta])* $set:ident, $get:ident: $type:ty = $example:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// What the system says.
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

        #[doc = concat!("What [`", stringify!($set), "`](Self::", stringify!($set), ") has set.")]
        ///
        /// # Errors
        ///
        /// What the system says.
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
    /// A socket at the first of the addresses that can be had. Port 0 asks the system for a free one.
    ///
    /// # Errors
    ///
    /// No address can be bound (the error of the last), the name cannot be resolved, or there are no descriptors left.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        each_address(addr, |addr| Socket::new(call(|| net::UdpSocket::bind(addr))?).map(UdpSocket))
    }

    /// Waits for a datagram and gives its length and who has sent it. What does not fit into `buf` is lost.
    ///
    /// # Errors
    ///
    /// What the system says, or the [time-out](UdpSocket::set_read_timeout).
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

    /// Like [`recv_from`](UdpSocket::recv_from), but the datagram stays.
    ///
    /// # Errors
    ///
    /// As for [`recv_from`](UdpSocket::recv_from).
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

    /// Sends a datagram to the first of the addresses.
    ///
    /// # Errors
    ///
    /// What the system says, or the [time-out](UdpSocket::set_write_timeout).
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

    /// From now on the socket sends to the first of the addresses that the system accepts, and receives from it alone.
    ///
    /// # Errors
    ///
    /// None is accepted (the error of the last), or the name cannot be resolved.
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

    /// Sends a datagram to the peer that [`connect`](UdpSocket::connect) has set.
    ///
    /// # Errors
    ///
    /// What the system says, which may be that nobody was there for an earlier one; or the
    /// [time-out](UdpSocket::set_write_timeout).
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

    /// Waits for a datagram from the peer that [`connect`](UdpSocket::connect) has set. What does not fit into `buf` is
    /// lost.
    ///
    /// # Errors
    ///
    /// What the system says, which may be that nobody is there; or the [time-out](UdpSocket::set_read_timeout).
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

    /// Like [`recv`](UdpSocket::recv), but the datagram stays.
    ///
    /// # Errors
    ///
    /// As for [`recv`](UdpSocket::recv).
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

    /// This socket's address.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// ```
    /// let socket = runtime::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UdpSocket::local_addr)
    }

    /// The address that [`connect`](UdpSocket::connect) has set.
    ///
    /// # Errors
    ///
    /// `NotConnected`: none was set.
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
        /// Whether the socket may send to a broadcast address.
        set_broadcast, broadcast: bool = "127.0.0.1:0"
    }
    option! {
        /// Whether multicast packets come back to this machine.
        set_multicast_loop_v4, multicast_loop_v4: bool = "127.0.0.1:0"
    }
    option! {
        /// Over how many hops multicast packets may go; 1 unless set.
        set_multicast_ttl_v4, multicast_ttl_v4: u32 = "127.0.0.1:0"
    }
    option! {
        /// Whether multicast packets of an IPv6 socket come back to this machine.
        set_multicast_loop_v6, multicast_loop_v6: bool = "[::1]:0"
    }

    /// Joins a multicast group on the interface that has this address; with an unspecified one the system chooses.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// Joins a multicast group on the interface of this number; with 0 the system chooses.
    ///
    /// # Errors
    ///
    /// What the system says.
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
    /// What the system says.
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
    /// What the system says.
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
    ttl_methods!("let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
}
