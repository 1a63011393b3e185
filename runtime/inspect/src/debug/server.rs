//! The server: an OS thread that accepts, and one for each connection.
//!
//! The head of a request is read by `httparse`. The rest of a server for such requests is short: one request
//! a connection, no body, no chunks. hyper would need an executor that works while all Ps are kept, and
//! tiny_http waits without a time limit for the head of a request.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sched::{Sched, starting};
use waits::locks::Tracking;

use super::answer::{Answer, answer};
use super::client::Client;
use super::connections::Connections;
use super::handler::Source;
use super::token::Token;

/// How long the drop of a server tries to reach its thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server may do.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Whether the server may bind to addresses that other machines can reach.
    pub remote: bool,
    /// Which requests the server answers.
    pub access: Access,
}

/// Which requests a server answers.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The hosts that a request may name, beside `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// What a request must have.
    pub token: Option<Token>,
}

impl Rules {
    /// Starts a server on `address`. `sched` returns the runtime that gives the metrics.
    ///
    /// # Errors
    /// Returns `InvalidInput` if `address` needs `remote`, and the system's error if the address cannot be
    /// bound, or no thread can be started.
    pub fn serve(
        self,
        address: impl ToSocketAddrs,
        sched: impl FnOnce() -> Arc<Sched>,
    ) -> io::Result<Server> {
        sched::fork::check()?;
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        if let Some(address) = addresses.iter().find(|address| !self.remote && !address.ip().is_loopback()) {
            let text = format!(
                "the debug page on {address}: other machines could read it; use 127.0.0.1, or Builder::allow_remote"
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(&*addresses)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            access: self.access,
            source: Source::new(&sched()),
            connections: Connections::default(),
        });
        let (accepts, its_shared) = (listener.try_clone()?, shared.clone());
        let thread = starting::start(thread::Builder::new().name("debug".into()), move || {
            accept(&accepts, &its_shared)
        })?;
        // The page shows who holds which lock.
        Ok(Server { address, listener, shared, thread: Some(thread), _tracking: Tracking::begin() })
    }
}

/// What the threads of a server have in common.
pub(super) struct Shared {
    access: Access,
    source: Source,
    pub(super) connections: Connections,
}

/// A server of the debug page. The drop ends it, and breaks its connections.
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    _tracking: Tracking,
}

// A panic of the holder changes nothing in the server: its OS threads alone do.
impl UnwindSafe for Server {}
impl RefUnwindSafe for Server {}

impl Server {
    /// Returns the address on which the page is served.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if sched::fork::is_forked() {
            // The thread is not in this process.
            std::mem::forget(self.thread.take());
            return;
        }
        sched::park::blocking(|| {
            self.shared.connections.end();
            // Wakes the thread in `accept`: on Linux this does, elsewhere a connection.
            let _ = socket2::SockRef::from(&self.listener).shutdown(Shutdown::Both);
            let _ = TcpStream::connect_timeout(&reachable(self.address), PATIENCE);
            // A panic of the thread was printed when it happened.
            let _ = self.thread.take().map(thread::JoinHandle::join);
            self.shared.connections.wait_for_all();
        });
    }
}

/// Returns the address by which this machine reaches a server on `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = sched::at_rest(|| listener.accept());
        if shared.connections.has_ended() {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                let shared = shared.clone();
                // If there is no thread, the connection is closed unanswered.
                let _ = thread::Builder::new()
                    .name("debug-answers".into())
                    .spawn(move || connected(stream, &shared));
            }
            // No descriptors, for example: do not spin.
            Err(_) => _ = sched::at_rest(|| shared.connections.wait(Duration::from_millis(100))),
        }
    }
}

/// Answers one request and closes the connection. A client that goes away is no error here.
fn connected(stream: TcpStream, shared: &Shared) {
    let Some(_open) = shared.connections.open(&stream) else { return };
    let mut client = Client::new(stream, &shared.connections);
    let (answer, is_head) = match sched::at_rest(|| client.request(&shared.access)) {
        Ok(Ok(request)) => {
            let wait = |time| sched::at_rest(|| client.wait(time));
            (answer(&request, &shared.source, &wait), request.is_head)
        }
        Ok(Err(refusal)) => (Answer::from(refusal), false),
        Err(_) => return,
    };
    let _ = sched::at_rest(|| client.send(&answer, is_head));
}
