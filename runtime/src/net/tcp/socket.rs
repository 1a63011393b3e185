//! `TcpSocket`: a socket of TCP that is neither a listener nor a stream yet. The API is that of tokio.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use netpoll::Direction;
use netpoll::source::connect_goes_on;
use socket2::{Domain, Protocol, Socket as System, Type};

use super::stream::connected;
use super::{TcpListener, TcpStream};
use crate::net::socket::{Socket, call};
use crate::net::source as net;

/// A socket of TCP before it listens or connects, for options that have to be set before, and for the address
/// from which it connects.
///
/// Further options are set through the crate `socket2`: `socket2::SockRef::from(&socket)`.
///
/// ```
/// use runtime::net::TcpSocket;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_recv_buffer_size(65_536)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(16)?;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let from = socket.local_addr()?;
/// let _stream = socket.connect(listener.local_addr()?)?;
/// assert_eq!(listener.accept()?.1, from);
/// # std::io::Result::Ok(())
/// ```
pub struct TcpSocket(System);

/// The methods that set and return an option, by functions of a socket of socket2.
macro_rules! options {
    ($(
        $(#[cfg($cfg:meta)])*
        $new:ident, $value:literal, $(#[doc = $doc:literal])+
        $get:ident = $getter:path, $set:ident = $setter:path, $t:ty;
    )*) => { $(
        $(#[doc = $doc])+
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = concat!("let socket = runtime::net::TcpSocket::", stringify!($new), "()?;")]
        #[doc = concat!("socket.", stringify!($set), "(", $value, ")?;")]
        /// # std::io::Result::Ok(())
        /// ```
        $(#[cfg($cfg)])*
        pub fn $set(&self, value: $t) -> io::Result<()> {
            call(|| $setter(&self.0, value))
        }

        #[doc = concat!(
            "Returns what [`", stringify!($set), "`](TcpSocket::", stringify!($set), ") sets, as the system has it."
        )]
        ///
        /// # Errors
        ///
        /// Returns the system's error.
        ///
        /// ```
        #[doc = concat!("let socket = runtime::net::TcpSocket::", stringify!($new), "()?;")]
        #[doc = concat!("let _now = socket.", stringify!($get), "()?;")]
        /// # std::io::Result::Ok(())
        /// ```
        $(#[cfg($cfg)])*
        pub fn $get(&self) -> io::Result<$t> {
            call(|| $getter(&self.0))
        }
    )* };
}

fn send_buffer_size(socket: &System) -> io::Result<u32> {
    socket.send_buffer_size().map(saturated)
}

fn set_send_buffer_size(socket: &System, size: u32) -> io::Result<()> {
    socket.set_send_buffer_size(size as usize)
}

fn recv_buffer_size(socket: &System) -> io::Result<u32> {
    socket.recv_buffer_size().map(saturated)
}

fn set_recv_buffer_size(socket: &System, size: u32) -> io::Result<()> {
    socket.set_recv_buffer_size(size as usize)
}

fn saturated(size: usize) -> u32 {
    size.try_into().unwrap_or(u32::MAX)
}

impl TcpSocket {
    /// Returns a socket for addresses of IPv4.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `Unsupported` in a simulation, which has listeners and streams alone.
    ///
    /// ```
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// assert!(socket.local_addr()?.is_ipv4());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new_v4() -> io::Result<TcpSocket> {
        TcpSocket::new(Domain::IPV4)
    }

    /// Returns a socket for addresses of IPv6.
    ///
    /// # Errors
    ///
    /// Returns the system's error, and `Unsupported` in a simulation, which has listeners and streams alone.
    ///
    /// ```
    /// let socket = runtime::net::TcpSocket::new_v6()?;
    /// assert!(socket.local_addr()?.is_ipv6());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new_v6() -> io::Result<TcpSocket> {
        TcpSocket::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<TcpSocket> {
        if crate::in_simulation() {
            let text = "a simulation has no sockets that are neither listener nor stream";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        call(|| {
            let socket = System::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            Ok(TcpSocket(socket))
        })
    }

    /// Sets the address of this end. Port 0 lets the system choose a free port.
    ///
    /// # Errors
    ///
    /// Returns the system's error: the address is in use, it is none of this machine, or the socket has one.
    ///
    /// ```
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        call(|| self.0.bind(&addr.into()))
    }

    /// Makes this socket a listener. `backlog` is the number of connections that may wait to be accepted, if
    /// the system allows as many. A socket without an address gets a free port of all interfaces.
    ///
    /// # Errors
    ///
    /// Returns the system's error, such as that of an address at which another socket listens.
    ///
    /// ```
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// let listener = socket.listen(1024)?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        call(|| self.0.listen(i32::try_from(backlog).unwrap_or(i32::MAX)))?;
        Socket::new(net::TcpListener::from_std(self.0.into())).map(TcpListener)
    }

    /// Connects to `addr`. Waits for the answer.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and the connection is closed.
    ///
    /// ```
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// let stream = socket.connect(listener.local_addr()?)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.begin(addr)?;
        socket.run_until(Direction::Write, || None, connected)?;
        Ok(TcpStream(socket))
    }

    /// Connects as [`connect`](TcpSocket::connect) does, in a future. Dropping the future closes the
    /// connection, also a half-made one.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// let stream = runtime::block_on(socket.connect_async(listener.local_addr()?))?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn connect_async(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.begin(addr)?;
        socket.run_async(Direction::Write, connected).await?;
        Ok(TcpStream(socket))
    }

    /// Begins to connect. Never waits.
    fn begin(self, addr: SocketAddr) -> io::Result<Socket<net::TcpStream>> {
        match call(|| self.0.connect(&addr.into())) {
            Err(error) if !connect_goes_on(&error) => return Err(error),
            _ => {}
        }
        Socket::new(net::TcpStream::from_std(self.0.into()))
    }

    /// Returns the address of this end: port 0 before [`bind`](TcpSocket::bind).
    ///
    /// # Errors
    ///
    /// Returns the system's error. On Windows that is an error before `bind`.
    ///
    /// ```
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// socket.bind("127.0.0.1:0".parse().unwrap())?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = call(|| self.0.local_addr())?;
        addr.as_socket()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an address of the internet"))
    }

    /// Returns the error that waits in the socket, and removes it.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// assert!(runtime::net::TcpSocket::new_v4()?.take_error()?.is_none());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        call(|| self.0.take_error())
    }

    /// Makes closing reset the connection, and drop what is not sent.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use std::time::Duration;
    /// let socket = runtime::net::TcpSocket::new_v4()?;
    /// socket.set_zero_linger()?;
    /// assert_eq!(socket.linger()?, Some(Duration::ZERO));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    options! {
        new_v4, "true",
        /// Sets whether the system looks from time to time whether an idle peer is still there.
        keepalive = System::keepalive, set_keepalive = System::set_keepalive, bool;

        new_v4, "true",
        /// Sets whether the address may be one that connections of the past still have (`SO_REUSEADDR`). On
        /// Windows, also one at which another socket listens.
        reuseaddr = System::reuse_address, set_reuseaddr = System::set_reuse_address, bool;

        #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))))]
        new_v4, "true",
        /// Sets whether several sockets may listen at one address (`SO_REUSEPORT`).
        reuseport = System::reuse_port, set_reuseport = System::set_reuse_port, bool;

        new_v4, "65_536",
        /// Sets how many bytes may wait to be sent. Linux takes twice as many, and has bounds.
        send_buffer_size = send_buffer_size, set_send_buffer_size = set_send_buffer_size, u32;

        new_v4, "65_536",
        /// Sets how many bytes may wait to be read. Linux takes twice as many, and has bounds.
        recv_buffer_size = recv_buffer_size, set_recv_buffer_size = set_recv_buffer_size, u32;

        new_v4, "true",
        /// Sets whether small writes are sent at once, or gathered by Nagle's algorithm (the default).
        nodelay = System::tcp_nodelay, set_nodelay = System::set_tcp_nodelay, bool;

        new_v4, "Some(std::time::Duration::ZERO)",
        /// Sets what closing does with bytes that are not sent yet. `TcpStream::set_linger` has the values.
        linger = System::linger, set_linger = System::set_linger, Option<Duration>;

        #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
        new_v4, "96",
        /// Sets the type of service of packets of IPv4 (`IP_TOS`).
        tos_v4 = System::tos_v4, set_tos_v4 = System::set_tos_v4, u32;

        #[cfg(any(target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "linux",
            target_os = "macos", target_os = "netbsd", target_os = "openbsd"))]
        new_v6, "96",
        /// Sets the traffic class of packets of IPv6 (`IPV6_TCLASS`).
        tclass_v6 = System::tclass_v6, set_tclass_v6 = System::set_tclass_v6, u32;
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Formatted into a string first: the user's formatter may park between two system calls.
        let text = call(|| format!("{:?}", self.0));
        f.debug_tuple("TcpSocket").field(&format_args!("{text}")).finish()
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for TcpSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for TcpSocket {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.0.as_socket()
    }
}
