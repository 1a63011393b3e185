//! `std::net` for green threads: the same types and methods; what would block parks the caller instead.
//!
//! A socket belongs to the runtime in which it was made, and may be used in any other and on plain OS threads. When that runtime
//! has ended it works as long as it need not wait; where it would have to, it gives an error of kind `NotConnected`. In a
//! [forked child](crate#after-fork) likewise, of kind `Unsupported`, and no new ones can be made there.
//!
//! Reading and writing by reference (`&TcpStream: Read + Write`) is as in std, so libraries for blocking streams (TLS, WebSocket,
//! database drivers) run unchanged; `examples/` has some. For async ones, the features `futures-io`, `tokio-io` and `hyper` give
//! [`TcpStream`] and `UnixStream` the traits of those crates, and `hyper` the module `runtime::hyper` with an executor and a
//! timer. Several tasks may use one socket; those that wait in the same direction use a clone each.
//!
//! What can be done at once is done even if the calling green thread has been cancelled; what must wait unwinds it.

mod addrs;
mod backoff;
mod convert;
mod incoming;
mod macros;
mod place;
#[cfg(feature = "poll-io")]
mod poll;
#[cfg(unix)]
mod readiness;
mod socket;
mod sys;
mod tcp;
mod udp;
#[cfg(unix)]
pub mod unix;

pub use addrs::lookup_host;
#[cfg(unix)]
pub use readiness::{Async, Readiness};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

#[cfg(unix)]
pub(crate) use {convert::duplicate, place::Place, socket::call};

/// How many connections may wait to be accepted, if the system allows as many.
const BACKLOG: i32 = 4096;
