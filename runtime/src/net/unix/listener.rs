//! `UnixListener` as in `std::os::unix::net`.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use netpoll::{Direction, net};
use socket2::SockRef;

use super::UnixStream;
use crate::net::BACKLOG;
use crate::net::incoming::Pauses;
use crate::net::macros::shared_methods;
use crate::net::socket::{Socket, call};

/// A Unix socket that listens; see [`std::os::unix::net::UnixListener`].
///
/// Several threads may accept on one listener. Dropping it closes it; a path that it was bound to stays.
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
    /// Listens at a path, at which nothing may be yet.
    ///
    /// # Errors
    ///
    /// What the system says: `AddrInUse` if there is anything at that path.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("runtime-doc-bind-{}", std::process::id()));
    /// let listener = runtime::net::unix::UnixListener::bind(&path)?;
    /// assert_eq!(listener.local_addr()?.as_pathname(), Some(&*path));
    /// std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::listen(|| std::os::unix::net::UnixListener::bind(path))
    }

    /// Listens at an address, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// As for [`bind`](UnixListener::bind).
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
        UnixListener::listen(|| std::os::unix::net::UnixListener::bind_addr(addr))
    }

    fn listen(
        bind: impl FnOnce() -> io::Result<std::os::unix::net::UnixListener>,
    ) -> io::Result<UnixListener> {
        let listener = call(|| {
            let listener = bind()?;
            // std's backlog is shorter; it may be changed at any time.
            SockRef::from(&listener).listen(BACKLOG)?;
            listener.set_nonblocking(true).map(|()| net::UnixListener::from_std(listener))
        })?;
        Socket::new(listener).map(UnixListener)
    }

    /// Waits for the next connection and gives it with its peer's address, which mostly has no name.
    ///
    /// # Errors
    ///
    /// As for [`TcpListener::accept`](crate::net::TcpListener::accept), which also says how to go on.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that must wait unwinds from here; no connection is lost.
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

    /// The connections as they come; it never ends. After errors it pauses as
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

    /// The address it listens at.
    ///
    /// # Errors
    ///
    /// What the system says.
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

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

/// The connections of a [`UnixListener`], as they come.
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
