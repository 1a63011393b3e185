//! `Server`: accepts connections, runs each on a green thread of its own, and ends without breaking a reply.
//!
//! ```text
//!   shutdown   end the acceptor
//!              shut the reading half of each connection: a handler between two requests reads the end of its input
//!              wait for the handlers, no longer than the given time
//!              cancel those that remain: their next wait unwinds
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::JoinHandle;
use crate::net::incoming::Pauses;
use crate::net::server::sealed::Stream as _;
use crate::net::{TcpListener, TcpStream};
use crate::sync::{Condvar, Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore};
use crate::thread::{Builder, uncancellable};

type OnError = Box<dyn Fn(io::Error) + Send + Sync>;

/// The settings of a [`Server`]. [`start`](ServerBuilder::start) starts it.
///
/// ```
/// use runtime::net::{Server, TcpListener};
/// let settings = Server::builder().max_connections(1000).on_error(|error| eprintln!("server: {error}"));
/// let server = settings.start(TcpListener::bind("127.0.0.1:0")?, |_stream| ())?;
/// assert_eq!(server.connections(), 0);
/// # std::io::Result::Ok(())
/// ```
#[must_use = "a server begins with `start`"]
pub struct ServerBuilder {
    max_connections: usize,
    end_input: bool,
    on_error: OnError,
}

/// Accepts connections, and runs a handler for each on a green thread of its own.
///
/// The handler gets the stream. The connection is closed when the handler has returned and has dropped the
/// stream. A panic in a handler ends only its connection.
///
/// An accept that fails does not end the server, nor does a connection for which no green thread can be
/// started: that connection is closed. Both are reported to [`on_error`](ServerBuilder::on_error). While
/// descriptors are short, the server pauses between its attempts.
///
/// Dropping a server does what [`shutdown`](Server::shutdown) does with a time of zero, but does not wait.
///
/// ```
/// use runtime::net::{Server, TcpListener, TcpStream};
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let addr = listener.local_addr()?;
/// let server = Server::builder().start(listener, |mut stream| {
///     let mut bytes = [0; 100];
///     while let Ok(n @ 1..) = stream.read(&mut bytes) {
///         if stream.write_all(&bytes[..n]).is_err() {
///             return;
///         }
///     }
/// })?;
/// let mut client = TcpStream::connect(addr)?;
/// client.write_all(b"hello")?;
/// client.read_exact(&mut [0; 5])?;
/// // The connection is idle, so nothing has to be cancelled.
/// assert_eq!(server.shutdown(Duration::from_secs(10)), 0);
/// assert_eq!(client.read(&mut [0; 5])?, 0);
/// # std::io::Result::Ok(())
/// ```
#[must_use = "dropping a server ends it and cancels its connections"]
pub struct Server {
    /// `None` once the acceptor has been cancelled.
    acceptor: Option<JoinHandle<()>>,
    open: Arc<dyn OpenConnections>,
}

impl Server {
    /// Returns the default settings: any number of connections, and errors are printed to stderr.
    ///
    /// ```
    /// let settings = runtime::net::Server::builder();
    /// # let _ = settings;
    /// ```
    pub fn builder() -> ServerBuilder {
        let on_error =
            Box::new(|error| sched::write_message(format_args!("cannot serve a connection: {error}")));
        ServerBuilder { max_connections: Semaphore::MAX_PERMITS, end_input: true, on_error }
    }

    /// Returns how many connections are open. Another connection may come or end meanwhile.
    ///
    /// ```
    /// use runtime::net::{Server, TcpListener};
    /// let server = Server::builder().start(TcpListener::bind("127.0.0.1:0")?, |_stream| ())?;
    /// assert_eq!(server.connections(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn connections(&self) -> usize {
        self.open.count()
    }

    /// Ends the server. Returns how many connections had to be cancelled.
    ///
    /// 1. No further connection is accepted, and the listener is closed.
    /// 2. The reading half of each connection is shut down, unless [`end_input`](ServerBuilder::end_input) is
    ///    `false`. A handler that waits for its next request reads the end of the input, as if the client had
    ///    left. A handler that has its whole request goes on, and can write its reply.
    /// 3. After `patience` the other handlers are [cancelled](crate::docs::cancellation). The call waits for
    ///    them for `patience` once more: a handler that computes, or blocks its OS thread, is left behind.
    ///
    /// # Cancellation
    ///
    /// A cancelled caller unwinds from the wait. The server is then dropped.
    ///
    /// ```no_run
    /// use runtime::net::{Server, TcpListener};
    /// use runtime::signal::{self, SIGINT, SIGTERM};
    /// use std::time::Duration;
    ///
    /// let signals = signal::notify(&[SIGINT, SIGTERM])?;
    /// let server = Server::builder().start(TcpListener::bind("127.0.0.1:8080")?, |_stream| ())?;
    /// signals.recv().unwrap();
    /// println!("{} connections were cancelled", server.shutdown(Duration::from_secs(10)));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown(mut self, patience: Duration) -> usize {
        self.end_acceptor().map(JoinHandle::join);
        self.open.begin_end();
        if self.open.wait(patience) {
            return 0;
        }
        let cancelled = self.open.cancel();
        self.open.wait(patience);
        cancelled
    }

    fn end_acceptor(&mut self) -> Option<JoinHandle<()>> {
        self.acceptor.take().inspect(JoinHandle::cancel)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_acceptor();
        self.open.begin_end();
        self.open.cancel();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Sets how many connections may be open. At that number the server accepts no further connection until
    /// one has ended. Clients meanwhile wait in the system's queue.
    ///
    /// # Panics
    ///
    /// Panics if `most` is 0.
    ///
    /// ```
    /// let settings = runtime::net::Server::builder().max_connections(10_000);
    /// # let _ = settings;
    /// ```
    pub fn max_connections(mut self, most: usize) -> Self {
        assert!(most > 0, "a server needs at least one connection: give max_connections a larger number");
        self.max_connections = most.min(Semaphore::MAX_PERMITS);
        self
    }

    /// Sets whether [`shutdown`](Server::shutdown) shuts the reading half of each connection; `true` by
    /// default.
    ///
    /// With `false` the handlers must learn of the end in another way, for example from a
    /// [`Context`](crate::context::Context) that the program cancels before `shutdown`. Protocols whose end
    /// is a conversation need this: in HTTP/2 the server sends GOAWAY, and goes on reading what belongs to
    /// open requests.
    ///
    /// ```
    /// use runtime::context::Context;
    /// use runtime::net::{Server, TcpListener, TcpStream};
    /// use std::io::Write;
    /// use std::time::Duration;
    ///
    /// let (ends, end) = Context::background().with_cancel();
    /// let handler = move |mut stream: TcpStream| {
    ///     let _ = ends.done().recv();
    ///     let _ = stream.write_all(b"goodbye");
    /// };
    /// let server = Server::builder().end_input(false).start(TcpListener::bind("127.0.0.1:0")?, handler)?;
    /// end.cancel();
    /// assert_eq!(server.shutdown(Duration::from_secs(10)), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn end_input(mut self, ends: bool) -> Self {
        self.end_input = ends;
        self
    }

    /// Sets what is called with each error of an accept, and of a green thread that could not be started. It
    /// must not panic: a panic ends the server.
    ///
    /// ```
    /// let settings = runtime::net::Server::builder().on_error(|error| eprintln!("server: {error}"));
    /// # let _ = settings;
    /// ```
    pub fn on_error(mut self, report: impl Fn(io::Error) + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(report);
        self
    }

    /// Starts to accept connections from `listener`, a `TcpListener` or a `UnixListener`. `handler` runs for
    /// each connection, on the caller's runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the green thread that accepts cannot be started.
    ///
    /// ```
    /// use runtime::net::{Server, TcpListener, TcpStream};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let server = Server::builder().start(listener, |stream: TcpStream| drop(stream.peer_addr()))?;
    /// # drop(server);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn start<L: Listener>(
        self,
        listener: L,
        handler: impl Fn(L::Stream) + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let open = Arc::new(Open::new(self.end_input));
        let acceptor = Acceptor { listener, open: open.clone(), handler: Arc::new(handler), settings: self };
        let acceptor = Builder::new().name("acceptor".into()).spawn(move || acceptor.run())?;
        Ok(Server { acceptor: Some(acceptor), open })
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

/// A listener from which a [`Server`] accepts. It is implemented for `TcpListener` (whose handler gets a
/// `TcpStream`) and `UnixListener` (`UnixStream`), and cannot be implemented elsewhere.
pub trait Listener: sealed::Sealed {}

mod sealed {
    use std::io;

    pub trait Sealed: Send + 'static {
        type Stream: Stream;
        fn accept_stream(&self) -> io::Result<Self::Stream>;
    }

    pub trait Stream: Sized + Send + Sync + 'static {
        /// Returns another handle to the same socket.
        fn share(&self) -> Self;
        fn end_input(&self);
    }
}

/// Implements the traits for a listener and its stream.
macro_rules! listener {
    ($listener:ty, $stream:ty) => {
        impl Listener for $listener {}

        impl sealed::Sealed for $listener {
            type Stream = $stream;

            fn accept_stream(&self) -> io::Result<$stream> {
                self.accept().map(|(stream, _)| stream)
            }
        }

        impl sealed::Stream for $stream {
            fn share(&self) -> Self {
                self.try_clone().expect("clones share one descriptor")
            }

            fn end_input(&self) {
                // An error means that the client has left.
                let _ = self.0.end_input(|stream| stream.shutdown(Shutdown::Read));
            }
        }
    };
}

listener!(TcpListener, TcpStream);
#[cfg(unix)]
listener!(super::unix::UnixListener, super::unix::UnixStream);

/// What runs on the green thread that accepts.
struct Acceptor<L: Listener, H> {
    listener: L,
    open: Arc<Open<L::Stream>>,
    handler: Arc<H>,
    settings: ServerBuilder,
}

impl<L: Listener, H: Fn(L::Stream) + Send + Sync + 'static> Acceptor<L, H> {
    /// Accepts until it is cancelled.
    fn run(self) {
        let (slots, mut pauses) =
            (Arc::new(Semaphore::new(self.settings.max_connections)), Pauses::default());
        // An accept that finds a connection does not park, so no cancellation ends it.
        while !crate::thread::cancelled() {
            let slot = slots.clone().acquire_owned().expect("the semaphore is not closed");
            let started = pauses.accept(|| self.listener.accept_stream()).and_then(|s| self.serve(s, slot));
            if let Err(error) = started {
                (self.settings.on_error)(error);
            }
        }
    }

    /// Starts a green thread for a connection. On an error the connection is closed.
    fn serve(&self, stream: L::Stream, slot: OwnedSemaphorePermit) -> io::Result<()> {
        let Some(number) = self.open.add(stream.share()) else { return Ok(()) };
        let entry = Entry { number, open: self.open.clone(), _slot: slot };
        let handler = self.handler.clone();
        let thread = Builder::new().spawn(move || {
            // Dropped last, also by a panic or a cancellation.
            let _entry = entry;
            handler(stream);
        })?;
        self.open.set_thread(number, thread);
        Ok(())
    }
}

/// The open connections of a server, by number.
struct Open<S> {
    all: Mutex<Connections<S>>,
    /// Notified when the last connection has ended.
    none: Condvar,
    /// Whether the end of the server shuts the reading half of each connection.
    end_input: bool,
}

struct Connections<S> {
    next: u64,
    /// The thread is `None` until it is started.
    open: HashMap<u64, (S, Option<JoinHandle<()>>)>,
    /// True once the server ends: no connection is added any more.
    ends: bool,
}

impl<S> Open<S> {
    fn new(end_input: bool) -> Self {
        Open {
            all: Mutex::new(Connections { next: 0, open: HashMap::new(), ends: false }),
            none: Condvar::new(),
            end_input,
        }
    }
}

impl<S> Open<S> {
    /// A cancellation does not end this wait. It would leave an ended connection in the list, or a thread
    /// that a later cancel does not reach.
    fn lock(&self) -> MutexGuard<'_, Connections<S>> {
        uncancellable(|| self.all.lock())
    }

    /// Adds a connection and returns its number; `None` if the server ends.
    fn add(&self, stream: S) -> Option<u64> {
        let mut all = self.lock();
        if all.ends {
            return None;
        }
        let number = all.next;
        all.next += 1;
        all.open.insert(number, (stream, None));
        Some(number)
    }

    /// Keeps the thread of a connection, unless the connection has ended.
    fn set_thread(&self, number: u64, thread: JoinHandle<()>) {
        let mut all = self.lock();
        if all.ends {
            // The server was dropped meanwhile, and its drop has not seen this thread.
            thread.cancel();
        }
        if let Some((_, place)) = all.open.get_mut(&number) {
            *place = Some(thread);
        }
    }
}

/// An open connection in the list. Dropping it removes the connection.
struct Entry<S> {
    number: u64,
    open: Arc<Open<S>>,
    _slot: OwnedSemaphorePermit,
}

impl<S> Drop for Entry<S> {
    fn drop(&mut self) {
        let mut all = self.open.lock();
        let removed = all.open.remove(&self.number);
        if all.open.is_empty() {
            self.open.none.notify_all();
        }
        drop(all);
        // Closes the stream, after the unlock.
        drop(removed);
    }
}

/// The open connections, whatever the type of their streams.
trait OpenConnections: Send + Sync {
    fn count(&self) -> usize;
    /// Ends the input of all connections, if the settings say so. No connection is added any more.
    fn begin_end(&self);
    /// Cancels all connections and returns how many there are.
    fn cancel(&self) -> usize;
    /// Waits until there are no connections. Returns `false` if there are some after `time`.
    fn wait(&self, time: Duration) -> bool;
}

impl<S: sealed::Stream> OpenConnections for Open<S> {
    fn count(&self) -> usize {
        self.lock().open.len()
    }

    fn begin_end(&self) {
        let mut all = self.lock();
        all.ends = true;
        if self.end_input {
            all.open.values().for_each(|(stream, _)| stream.end_input());
        }
    }

    fn cancel(&self) -> usize {
        let all = self.lock();
        all.open.values().filter_map(|(_, thread)| thread.as_ref()).for_each(JoinHandle::cancel);
        all.open.len()
    }

    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut all = self.lock();
        while !all.open.is_empty() {
            match until {
                None => self.none.wait(&mut all),
                Some(until) if self.none.wait_until(&mut all, until).timed_out() => {
                    return all.open.is_empty();
                }
                Some(_) => {}
            }
        }
        true
    }
}

impl std::panic::UnwindSafe for Server {}
impl std::panic::RefUnwindSafe for Server {}
