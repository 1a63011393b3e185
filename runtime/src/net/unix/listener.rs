//! `UnixListener`: accepts connections within one machine, and parks its caller meanwhile. The API is that of
//! std.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll, ready};

use netpoll::Direction;
use socket2::SockRef;

use super::UnixStream;
use crate::net::backlog::BACKLOG;
use crate::net::incoming::Pauses;
use crate::net::macros::shared_methods;
use crate::net::socket::{Socket, call};
use crate::net::source as net;

/// A Unix socket that accepts connections, with the API of [`std::os::unix::net::UnixListener`].
///
/// Several threads may accept on one listener. Dropping the last clone closes it. A path to which it was
/// bound stays.
///
/// ```
/// use runtime::net::unix::{UnixListener, UnixStream};
/// use std::io::{Read, Write};
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("runtime-doc-listener-{}", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// let server = runtime::spawn(move || -> std::io::Result<()> {
///     let (mut stream, _peer) = listener.accept()?;
///     stream.write_all(b"hello")
/// });
/// let mut text = String::new();
/// UnixStream::connect(&path)?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// std::fs::remove_file(&path)?;
/// server.join().unwrap()
/// # }
/// ```
pub struct UnixListener(pub(in crate::net) Socket<net::UnixListener>);

impl UnixListener {
    /// Returns a listener at a path, at which nothing may exist yet.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `AddrInUse` if something exists at that path.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("runtime-doc-bind-{}", std::process::id()));
    /// let listener = runtime::net::unix::UnixListener::bind(&path)?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
    /// std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Returns a listener at an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `AddrInUse` if the address is taken.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use std::os::linux::net::SocketAddrExt;
    /// use runtime::net::unix::{SocketAddr, UnixListener, UnixStream};
    /// let addr = SocketAddr::from_abstract_name(format!("runtime doc {}", std::process::id()))?;
    /// let listener = UnixListener::bind_addr(&addr)?;
    /// UnixStream::connect_addr(&addr)?;
    /// listener.accept()?;
    /// # }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixListener> {
        let listener = call(|| net::listen_unix(addr, || listen_in_system(addr)))?;
        Socket::new(listener).map(UnixListener)
    }

    /// Waits for the next connection. Returns it with its peer's address, which often has no name.
    ///
    /// # Errors
    ///
    /// Returns the system's error. [`TcpListener::accept`](crate::net::TcpListener::accept) shows how a loop
    /// goes on after one.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No connection is lost.
    ///
    /// ```no_run
    /// let listener = runtime::net::unix::UnixListener::bind("/tmp/socket")?;
    /// let (_stream, peer) = listener.accept()?;
    /// assert!(peer.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = self.0.run(Direction::Read, net::UnixListener::accept)?;
        Ok((UnixStream(Socket::new(stream)?), peer))
    }

    /// Accepts as [`accept`](UnixListener::accept) does, in a future, with any executor.
    ///
    /// Several futures and threads may accept on one listener. Each connection goes to one of them. Dropping
    /// the future before it is ready loses no connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`accept`](UnixListener::accept).
    ///
    /// ```
    /// use runtime::net::unix::{UnixListener, UnixStream};
    /// # let path = std::env::temp_dir().join(format!("runtime-doc-accept-{}", std::process::id()));
    /// let listener = UnixListener::bind(&path)?;
    /// runtime::block_on(async {
    ///     let (accepted, connected) = futures::join!(listener.accept_async(), UnixStream::connect_async(&path));
    ///     accepted.and(connected)
    /// })?;
    /// # std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn accept_async(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = self.0.run_async(Direction::Read, net::UnixListener::accept).await?;
        Ok((UnixStream(Socket::new(stream)?), peer))
    }

    /// Polls for a connection, for a future that is written by hand.
    ///
    /// If there is none, it wakes the task of `cx` later, and returns `Pending`. The task that was polled
    /// last with one clone is woken: a clone each lets several tasks wait.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`accept`](UnixListener::accept).
    ///
    /// ```
    /// use runtime::net::unix::{UnixListener, UnixStream};
    /// # let path = std::env::temp_dir().join(format!("poll-accept-{}", std::process::id()));
    /// let listener = UnixListener::bind(&path)?;
    /// let accepts = std::future::poll_fn(|cx| listener.poll_accept(cx));
    /// let (accepted, connected) =
    ///     runtime::block_on(async { futures::join!(accepts, UnixStream::connect_async(&path)) });
    /// assert!(accepted.is_ok() && connected.is_ok());
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let (stream, peer) = ready!(self.0.poll(Direction::Read, cx, net::UnixListener::accept))?;
        Poll::Ready(Socket::new(stream).map(|socket| (UnixStream(socket), peer)))
    }

    /// Returns an iterator over connections, which waits for each and never ends. After errors it pauses as
    /// [`TcpListener::incoming`](crate::net::TcpListener::incoming) does.
    ///
    /// ```no_run
    /// let listener = runtime::net::unix::UnixListener::bind("/tmp/socket")?;
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

    /// Returns the address at which it listens.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("runtime-doc-local-{}", std::process::id()));
    /// let listener = runtime::net::unix::UnixListener::bind(&path)?;
    /// assert!(!listener.local_addr()?.is_unnamed());
    /// std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ask(net::UnixListener::local_addr)
    }

    shared_methods!(
        "# let path = std::env::temp_dir().join(format!(\"runtime-doc-{}-{}\", line!(), std::process::id()));\n\
         # std::fs::remove_file(&path).ok();\n\
         let socket = runtime::net::unix::UnixListener::bind(&path)?;\n\
         # std::fs::remove_file(&path)?;"
    );
}

fn listen_in_system(addr: &SocketAddr) -> io::Result<netpoll::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind_addr(addr)?;
    // The backlog of std's listener is shorter. It may be changed at any time.
    SockRef::from(&listener).listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(netpoll::net::UnixListener::from_std(listener))
}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

/// The iterator that [`UnixListener::incoming`] returns.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
    pauses: Pauses,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.pauses.accept(|| self.listener.accept()).map(|(stream, _peer)| stream))
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}

#[cfg(feature = "stream")]
impl Incoming<'_> {
    /// Accepts as `next` does, in a future.
    pub(crate) async fn next_async(&mut self) -> io::Result<UnixStream> {
        self.pauses.accept_async(self.listener.accept_async()).await.map(|(stream, _peer)| stream)
    }
}
