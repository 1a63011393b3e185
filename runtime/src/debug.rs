//! A page in the browser that shows the inside of the running program: Go's name for it is `net/http/pprof`.
//!
//! [`serve`] serves it on an address of this machine. It needs the feature `debug`. The page about
//! [looking inside](crate::docs::inside) walks through it.
//!
//! | path | what it answers |
//! | --- | --- |
//! | `/` | the page: green threads by stack, charts of the metrics, a flame graph; it loads nothing from elsewhere |
//! | `/dump` | a [dump](crate::dump()) as text; `?format=grouped`, `tree`, `json` and `pprof` give its other [forms](crate::dump::Snapshot); `?seconds=60` lists only green threads that [were not there](crate::dump::Snapshot::since) a minute before |
//! | `/metrics` | the metrics of the runtime of [`serve`]'s caller, as [`metrics::prometheus`](crate::metrics::prometheus()) writes them |
//! | `/trace?seconds=1` | a [trace](crate::trace) of the scheduler for Perfetto; `&format=html` gives a page |
//! | `/profile?seconds=10` | a [CPU profile](crate::profile) for pprof; `&format=folded` gives the lines of a flame graph |
//! | `/heap` | a [heap profile](crate::profile#heap-profiles) for pprof; also `?format=folded` |
//! | `/waits?seconds=10` | a [profile of waiting](crate::profile::waits) for pprof; also `&format=folded` |
//!
//! [`Handler`] has the same answers for a server of the program's own, behind its log-in.
//!
//! Requests are answered by plain OS threads of the server's own, so the page works while green threads keep
//! every P.
//!
//! `/heap` answers with the status 404 unless the global allocator is `profile::Profiled`.
//!
//! A trace or a profile ends soon after its client has closed the connection, or its side of the connection.
//! A trace that begins during a recording shows that recording, the events before the request included. It
//! stops no recording that the program has [started](crate::trace::start), before the trace or during it.
//!
//! # Who may ask
//!
//! The answers show names of functions, files and addresses of the program.
//!
//! - The server binds to loopback addresses only, unless [`Builder::allow_remote`] is called.
//! - A request must name its host as `localhost`, as an IP address, or as a name of [`Builder::allow_host`].
//!   So a page of another site cannot reach the server by a name that it lets point to this machine (DNS
//!   rebinding). The addresses `0.0.0.0` and `::` are refused.
//! - A request that a page of another site makes is refused, by its headers `Origin` and `Sec-Fetch-Site`.
//!   Browsers send `Sec-Fetch-Site` to `localhost`, to loopback addresses and over `https`. A plain `GET`
//!   over `http` to another host has neither header, for example that of an image.
//! - So with `allow_remote` this check does not hold for an address such as `http://10.0.0.5:6060`. A page of
//!   another site cannot read the answers. But it can start profiles and traces, which cost time, from each
//!   browser that reaches the address.
//! - With [`Builder::token`] a request must have the token: `curl -u :TOKEN`, `http://:TOKEN@..` for pprof,
//!   or the log-in of a browser. Without it each user of this machine can read the page.
//! - Only `GET` and `HEAD` are served. A request has 8 KiB and 5 seconds at most, and 16 of them are served
//!   at once.
//! - A client that reads nothing of its answer for 30 seconds is dismissed. An answer has these 30 seconds,
//!   and a second more for each 64 KiB of it.
//! - Two dumps, traces or heap profiles are made and sent at once, so that many requests do not take the
//!   program's memory. Others wait for 30 seconds, and then get the status 503.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{RefUnwindSafe, UnwindSafe};

#[doc(inline)]
pub use inspect::debug::Answer;
use inspect::debug::{Handler as Answering, Rules, Server as Serving, Token};

/// What a server may do; [`Server::builder`] makes it.
#[derive(Clone, Debug, Default)]
#[must_use = "`serve` starts the server"]
pub struct Builder {
    rules: Rules,
}

impl Builder {
    /// Lets the server bind to addresses that other machines can reach. They can then read names of
    /// functions, files and sockets of the program, and cost it time, unless a [`token`](Builder::token) is
    /// asked for. Without one, a page of another site in a browser on one of them can start profiles and
    /// traces; see [who may ask](self#who-may-ask).
    pub fn allow_remote(mut self) -> Builder {
        self.rules.remote = true;
        self
    }

    /// Answers requests that name this host, without a port, in their header `Host`.
    ///
    /// ```
    /// let server = runtime::debug::Server::builder().allow_host("app.internal").serve("127.0.0.1:0")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn allow_host(mut self, host: impl Into<String>) -> Builder {
        self.rules.access.hosts.push(host.into());
        self
    }

    /// Answers only requests that have this token: as the password of a browser's log-in with any name of a
    /// user, or in the header `Authorization: Bearer TOKEN`. Other requests get the status 401.
    ///
    /// Without it each user of this machine can read the page. The token goes over the network as it is, and
    /// others can guess a short one.
    ///
    /// # Panics
    ///
    /// Panics if the token is empty.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// let server = runtime::debug::Server::builder().token("a long secret").serve("127.0.0.1:0")?;
    /// let ask = |header: &str| {
    ///     let mut client = std::net::TcpStream::connect(server.local_addr())?;
    ///     write!(client, "GET /dump HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")?;
    ///     let mut answer = String::new();
    ///     client.read_to_string(&mut answer)?;
    ///     std::io::Result::Ok(answer)
    /// };
    /// assert!(ask("")?.starts_with("HTTP/1.1 401 "));
    /// assert!(ask("Authorization: Bearer a long secret\r\n")?.starts_with("HTTP/1.1 200 "));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.rules.access.token = Some(Token::new(token.into()).expect("the token is empty"));
        self
    }

    /// Starts the server. See [`serve`].
    ///
    /// # Errors
    ///
    /// Those of [`serve`].
    ///
    /// # Panics
    ///
    /// Where [`serve`] panics.
    ///
    /// ```
    /// use runtime::debug::Server;
    /// let error = Server::builder().serve("0.0.0.0:0").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn serve(self, address: impl ToSocketAddrs) -> io::Result<Server> {
        let serving = self.rules.serve(address, crate::metrics::current)?;
        Ok(Server { serving })
    }
}

/// A server of the debug page. The drop ends it, and breaks its connections.
#[must_use = "the server ends when this is dropped"]
pub struct Server {
    serving: Serving,
}

impl Server {
    /// Returns a builder, for a server with other rules.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the address on which the page is served.
    ///
    /// ```
    /// let server = runtime::debug::serve("127.0.0.1:0")?;
    /// println!("http://{}/", server.local_addr());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn local_addr(&self) -> SocketAddr {
        self.serving.local_addr()
    }
}

/// The answers of the page without its server: for a path of the program's own server, behind its log-in.
///
/// What [who may ask](self#who-may-ask) lists are checks of [`serve`]. With a handler they are the program's:
/// answer only those who have logged in, and refuse requests that pages of other sites make. The links of the
/// page are relative, so its own path must end with `/`, as `/debug/`.
///
/// Locks record their holders while a handler lives, as with [`serve`]. Two dumps, traces or heap profiles of
/// a handler exist at once.
///
/// ```
/// use runtime::debug::{Answer, Handler};
///
/// /// The part of a server that answers `/debug/..`.
/// fn inside(page: &Handler, method: &str, target: &str) -> std::io::Result<Option<Answer>> {
///     let Some(target) = target.strip_prefix("/debug") else { return Ok(None) };
///     page.answer(method, target).map(Some)
/// }
///
/// let page = Handler::new();
/// let dump = inside(&page, "GET", "/debug/dump?format=json")?.unwrap();
/// assert_eq!(dump.status(), 200);
/// assert!(inside(&page, "GET", "/orders")?.is_none());
/// # std::io::Result::Ok(())
/// ```
pub struct Handler {
    answering: Answering,
}

impl Handler {
    /// Returns a handler. The metrics are those of the caller's runtime. On a plain OS thread it is the
    /// default runtime. May be called on any thread.
    ///
    /// # Panics
    ///
    /// Panics on a plain OS thread if the default runtime cannot be started.
    ///
    /// ```
    /// let page = runtime::debug::Handler::new();
    /// assert_eq!(page.answer("GET", "/metrics")?.status(), 200);
    /// # std::io::Result::Ok(())
    /// ```
    #[allow(clippy::new_without_default, reason = "it may start the default runtime")]
    pub fn new() -> Handler {
        Handler { answering: Answering::new(&crate::metrics::current()) }
    }

    /// Answers a request. `target` is the path, as in the table [above](self), with the query. Other methods
    /// than `GET` and `HEAD` give the status 405.
    ///
    /// Waits as in [`blocking`](crate::blocking()) until the answer is made, by an OS thread of its own. That
    /// takes up to the `seconds` of the target, and 30 more for the room of a large answer. Async code calls it
    /// in [`spawn`](crate::spawn()), and awaits the handle. May be called on any thread.
    ///
    /// # Errors
    ///
    /// Returns the system's error if no thread can be started, and `Unsupported` in a [forked
    /// child](crate::docs::fork).
    ///
    /// # Cancellation
    ///
    /// A cancellation does not end it.
    ///
    /// ```
    /// # runtime::block_on(|| {
    /// let page = runtime::debug::Handler::new();
    /// let answer = page.answer("GET", "/dump?format=grouped")?;
    /// println!("{} {:?}\n{}", answer.status(), answer.headers(), String::from_utf8_lossy(answer.body()));
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn answer(&self, method: &str, target: &str) -> io::Result<Answer> {
        self.answering.answer(method, target)
    }
}

impl UnwindSafe for Handler {}
impl RefUnwindSafe for Handler {}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.answering.fmt(f)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serving.fmt(f)
    }
}

/// Serves the page on `address` until the returned [`Server`] is dropped. Port 0 takes any free port.
///
/// Locks record their holders while a server lives, as [`Builder::track_locks`](crate::Builder::track_locks)
/// says, so serve before locks are taken that matter. The metrics are those of the caller's runtime. On a
/// plain OS thread it is the default runtime. The green threads are those of all runtimes.
///
/// # Errors
///
/// Returns `InvalidInput` if `address` is not a loopback address: see [`Builder::allow_remote`]. Returns the
/// system's error if the address cannot be bound, or no thread can be started.
///
/// # Panics
///
/// Panics on a plain OS thread if the default runtime cannot be started.
///
/// ```
/// use std::io::{Read, Write};
/// let server = runtime::debug::serve("127.0.0.1:0")?;
/// let mut browser = std::net::TcpStream::connect(server.local_addr())?;
/// write!(browser, "GET /dump HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// let mut answer = String::new();
/// browser.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
/// # std::io::Result::Ok(())
/// ```
pub fn serve(address: impl ToSocketAddrs) -> io::Result<Server> {
    Server::builder().serve(address)
}
