//! TCP: `TcpListener` and `TcpStream` as in `std::net`.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::panic::{RefUnwindSafe, UnwindSafe};

use netpoll::{Direction, net};

use super::socket::Socket;

/// Resolves without holding up a P, and tries one address after the other as std does.
fn each_address<A: ToSocketAddrs, T>(
    addr: A,
    mut f: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in crate::blocking(|| addr.to_socket_addrs())? {
        match f(addr) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the name resolved to no address: give at least one")
    }))
}

/// A TCP socket that listens; see [`std::net::TcpListener`].
///
/// Several threads may accept on one listener. Dropping it closes it.
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
#[derive(Debug)]
pub struct TcpListener(Socket<net::TcpListener>);

impl TcpListener {
    /// Listens on the first of the addresses that can be had. Port 0 asks the system for a free one.
    ///
    /// # Errors
    ///
    /// No address can be bound (the error of the last), the name cannot be resolved, or there are no descriptors left.
    ///
    /// ```
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        each_address(addr, |addr| Socket::new(net::TcpListener::bind(addr)?).map(TcpListener))
    }

    /// Waits for the next connection and gives it with its peer's address.
    ///
    /// # Errors
    ///
    /// What the system says; with no descriptors left the connection stays pending, and a later call may get it.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here; no connection is lost.
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

    /// The connections as they come; it never ends.
    ///
    /// ```no_run
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:7")?;
    /// for stream in listener.incoming() {
    ///     let stream = stream?;
    ///     runtime::spawn(move || std::io::copy(&mut &stream, &mut &stream));
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// ```
    /// let listener = runtime::net::TcpListener::bind("127.0.0.1:0")?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.source().local_addr()
    }
}

/// The connections of a [`TcpListener`], as they come.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _peer)| stream))
    }
}

/// A TCP connection; see [`std::net::TcpStream`].
///
/// `&TcpStream` reads and writes too, so one thread can read while another writes. Dropping it closes it.
///
/// ```no_run
/// use std::io::{Read, Write};
/// let mut stream = runtime::net::TcpStream::connect("localhost:80")?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct TcpStream(Socket<net::TcpStream>);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// None did (the error of the last), the name cannot be resolved, or there are no descriptors left.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here, and the connection is closed.
    ///
    /// ```
    /// let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let error = runtime::net::TcpStream::connect(nobody).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        each_address(addr, TcpStream::connect_to)
    }

    fn connect_to(addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(net::TcpStream::connect(addr)?)?;
        loop {
            let attempt = socket.prepare(Direction::Write);
            if let Some(error) = socket.source().take_error()? {
                return Err(error);
            }
            match socket.source().peer_addr() {
                Ok(_) => return Ok(TcpStream(socket)),
                // Not connected yet: the system tells when it is, or why it will not be, by making it writable.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    socket.wait(Direction::Write, attempt)?
                }
                Err(error) => return Err(error),
            }
        }
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
        self.0.source().local_addr()
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
        self.0.source().peer_addr()
    }

    /// Ends reading, writing or both; whoever waits in that direction, here or at the other end, is woken.
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
        self.0.source().shutdown(how)
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
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.source().set_nodelay(nodelay)
    }
}

// As std's.
impl UnwindSafe for TcpListener {}
impl RefUnwindSafe for TcpListener {}
impl UnwindSafe for TcpStream {}
impl RefUnwindSafe for TcpStream {}

impl Read for &TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.run(Direction::Read, |mut stream| stream.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Read, |mut stream| stream.read_vectored(bufs))
    }
}

impl Write for &TcpStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut stream| stream.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut stream| stream.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for TcpStream {
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
