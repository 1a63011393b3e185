//! TCP, UDP and Unix sockets with the types and methods of `std::net`. A call that has to wait parks the green
//! thread.
//!
//! | | |
//! | --- | --- |
//! | [`TcpListener`], [`TcpStream`], [`UdpSocket`] | as in `std::net` |
//! | `net::unix` | as in `std::os::unix::net` |
//! | `Async` | waits for any descriptor: a pipe, a terminal, a socket of a C library |
//! | [`Server`] | accepts connections, serves each on a green thread, and ends without breaking a reply |
//! | [`lookup_host`], [`ToSocketAddrs`] | resolve a name; a time-out or a cancellation ends the look-up |
//!
//! A socket belongs to the runtime in which it was made. It may be used in other runtimes and on plain OS threads.
//! After the end of its runtime a call that has to wait returns an error of kind `NotConnected`. In a [forked
//! child](crate::docs::fork) such a call, and making a socket, return an error of kind `Unsupported`.
//!
//! `&TcpStream` implements `Read` and `Write` as in std, so libraries for blocking streams (TLS, WebSocket, database
//! drivers) run unchanged. For async libraries, the features `futures-io`, `tokio-io` and `hyper` give [`TcpStream`]
//! and `UnixStream` the traits of those crates. Several tasks may use one socket; tasks that wait in the same
//! direction use a clone each.
//!
//! # Cancellation
//!
//! A call that has to wait unwinds a cancelled green thread. What need not wait is done, also by a cancelled green
//! thread.

mod addrs;
mod backoff;
mod convert;
mod incoming;
mod look_up;
mod macros;
#[cfg(feature = "poll-io")]
mod poll;
#[cfg(unix)]
mod readiness;
mod registration;
mod server;
mod socket;
mod sys;
mod tcp;
mod udp;
#[cfg(unix)]
pub mod unix;

pub use addrs::ToSocketAddrs;
pub use look_up::lookup_host;
#[cfg(unix)]
pub use readiness::{Async, Readiness};
pub use server::{Listener, Server, ServerBuilder};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

pub(crate) use backoff::Backoff;
#[cfg(unix)]
pub(crate) use {convert::duplicate, registration::Registration, socket::Socket, socket::call};

/// The number of connections that may wait to be accepted, if the system allows as many.
const BACKLOG: i32 = 4096;
