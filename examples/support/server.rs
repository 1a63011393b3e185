//! A server for several examples: each connection has a green thread of its own, and SIGTERM or SIGINT ends
//! the server.

use std::fmt::Display;
use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use runtime::net::{Server, ServerBuilder, TcpListener, TcpStream};
use runtime::time::timeout;

/// The most connections that are open at a time. Further clients wait in the system's queue.
const CONNECTIONS: usize = 10_000;
/// How long the connections may go on after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take for one request, or to read the reply. Clients that send nothing, or a byte now
/// and then, would otherwise have all connections soon. The variable `EXAMPLE_REQUEST_MS` sets another time,
/// for tests.
pub(crate) fn request_time() -> Duration {
    let ms = std::env::var("EXAMPLE_REQUEST_MS").ok().and_then(|ms| ms.parse().ok());
    ms.map_or(Duration::from_secs(60), Duration::from_millis)
}

/// Runs a step of a connection, such as the reading of a whole request. Its waits end when it has taken
/// [`request_time`].
pub(crate) fn within<T, E: From<io::Error>>(step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes too long").into());
    timeout(request_time(), step).unwrap_or_else(late)
}

/// With an address, serves there until a signal. Without an address, serves at a free port until `client`
/// returns.
pub(crate) fn run<E: Display>(
    addr: Option<&str>,
    serve: impl Fn(TcpStream) -> Result<(), E> + Send + Sync + 'static,
    client: impl FnOnce(SocketAddr) -> io::Result<()> + Send,
) -> ExitCode {
    let serve = move |stream: TcpStream| {
        // Of each single call, also of what a destructor flushes. These fail for a time of zero only.
        let _ = stream.set_read_timeout(Some(request_time()));
        let _ = stream.set_write_timeout(Some(request_time()));
        serve(stream)
    };
    run_with(addr, Server::builder(), || (), serve, client)
}

/// As [`run`], for a protocol in which the server says goodbye: calls `tell`, which informs the connections,
/// before the end of the server.
pub(crate) fn run_with<E: Display>(
    addr: Option<&str>,
    settings: ServerBuilder,
    tell: impl FnOnce() + Send,
    serve: impl Fn(TcpStream) -> Result<(), E> + Send + Sync + 'static,
    client: impl FnOnce(SocketAddr) -> io::Result<()> + Send,
) -> ExitCode {
    let done = runtime::block_on(|| {
        let listener = TcpListener::bind(addr.unwrap_or("127.0.0.1:0"))?;
        let here = listener.local_addr()?;
        let end = Signals::new()?;
        let server = settings.max_connections(CONNECTIONS).start(listener, move |stream| {
            if let Err(error) = serve(stream) {
                eprintln!("connection ended with an error: {error}");
            }
        })?;
        println!("serving on {here}");
        match addr {
            Some(_) => end.wait(),
            None => client(here)?,
        }
        tell();
        // Idle connections end at once, and busy ones finish their replies.
        let cancelled = server.shutdown(PATIENCE);
        if cancelled > 0 {
            println!("{cancelled} connections were cancelled");
        }
        io::Result::Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The signals that end a server.
#[cfg(unix)]
pub(crate) struct Signals(runtime::signal::Signals);

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use runtime::signal::{SIGINT, SIGTERM, notify};
        notify(&[SIGINT, SIGTERM]).map(Signals)
    }

    pub(crate) fn wait(&self) {
        // An error would mean that the runtime ends.
        let _ = self.0.recv();
    }
}

/// Elsewhere the server runs until it is killed.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    pub(crate) fn wait(&self) {
        loop {
            runtime::thread::park();
        }
    }
}

/// Reads a line of at most `most` bytes, and returns it without its end: LF, or CR and LF. Returns `None` at
/// the end of the stream. A line with control characters is refused, because it may be shown on a terminal.
pub(crate) fn line(input: &mut impl BufRead, most: usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    input.take(most as u64).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) if bytes.len() + 1 == most => {
            return Err(wrong(format_args!("a line is longer than {most} bytes")));
        }
        Some(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    bytes.pop_if(|last| *last == b'\r');
    let text = String::from_utf8(bytes).map_err(|_| wrong("a line is not UTF-8"))?;
    if text.contains(|letter: char| letter.is_control() && letter != '\t') {
        return Err(wrong("a line has a control character"));
    }
    Ok(Some(text))
}

/// Returns an error for bytes that break the protocol.
pub(crate) fn wrong(what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
