//! TCP, UDP and Unix sockets with the types and methods of `std::net`. A call that has to wait parks the
//! green thread.
//!
//! | | |
//! | --- | --- |
//! | [`TcpListener`], [`TcpStream`], [`UdpSocket`] | as in `std::net` |
//! | [`TcpSocket`] | a socket of TCP with options and an address, before it listens or connects |
//! | `net::unix` | as in `std::os::unix::net` |
//! | `Async` | waits for any descriptor: a pipe, a terminal, a socket of a C library |
//! | `Interest`, `Ready` | what to wait for at a socket (`ready`), and what it is ready for |
//! | [`Server`] | accepts connections, serves each on a green thread, and ends without breaking a reply |
//! | [`lookup_host`], [`lookup_host_async`], [`ToSocketAddrs`] | resolve a name; a time-out or a cancellation ends the look-up |
//!
//! # Awaited
//!
//! Each call that may wait has a variant whose name ends in `_async`: [`TcpListener::accept_async`],
//! [`TcpStream::connect_async`], [`UdpSocket::recv_from_async`], [`lookup_host_async`] and so on. It returns
//! a future. While the future waits, the other branches of its task go on, for example in `join!`. A call
//! without that ending parks the whole task.
//!
//! - The futures work in any executor.
//! - Several futures and threads may wait for one socket, in the same direction too. An event wakes all of
//!   them.
//! - Dropping a future ends its wait. A read, a receive and an accept then have taken nothing, a connect
//!   closes its half-made connection. What a dropped `write_all_async` has written is not known.
//! - The time-outs and the non-blocking mode of a socket hold for calls that park only. For futures there is
//!   [`timeout_async`](crate::time::timeout_async).
//!
//! ```
//! use runtime::net::{TcpListener, UdpSocket};
//! use runtime::time::{sleep_async, timeout_async, Duration};
//!
//! let (listener, socket) = (TcpListener::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! let (tcp, udp) = (listener.local_addr()?, socket.local_addr()?);
//! runtime::block_on(async {
//!     let mut buf = [0; 100];
//!     let client = async {
//!         sleep_async(Duration::from_millis(1)).await;
//!         let _stream = runtime::net::TcpStream::connect_async(tcp).await?;
//!         UdpSocket::bind("127.0.0.1:0")?.send_to_async(b"hello", udp).await
//!     };
//!     // Three waits in one task.
//!     let (accepted, received, sent) = futures::join!(listener.accept_async(), socket.recv_from_async(&mut buf), client);
//!     assert_eq!((accepted.is_ok(), received?.0, sent?), (true, 5, 5));
//!     std::io::Result::Ok(())
//! })?;
//! # std::io::Result::Ok(())
//! ```
//!
//! # Runtimes
//!
//! A socket belongs to the runtime in which it was made. It may be used in other runtimes and on plain OS
//! threads. After the end of its runtime a call that has to wait returns an error of kind `NotConnected`. In
//! a [forked child](crate::docs::fork) such a call, and making a socket, return an error of kind
//! `Unsupported`.
//!
//! `&TcpStream` implements `Read` and `Write` as in std, so libraries for blocking streams (TLS, WebSocket,
//! database drivers) run unchanged. For async libraries, the features `futures-io`, `tokio-io` and `hyper`
//! give [`TcpStream`] and `UnixStream` the traits of those crates. A clone, or a reference with `futures-io`
//! and `tokio-io`, implements them too. By these traits one task waits in each direction of a clone: further
//! tasks use a clone each. `into_split` makes a half that reads and a half that writes.
//!
//! # Cancellation
//!
//! A call that has to wait unwinds a cancelled green thread. What need not wait is done, also by a cancelled
//! green thread.

mod addrs;
mod awaited;
mod backlog;
mod backoff;
mod convert;
pub(crate) mod duplex;
mod halves;
pub(crate) mod incoming;
#[cfg(unix)]
mod interest;
mod look_up;
mod macros;
pub(crate) mod pipes;
mod poll;
#[cfg(unix)]
mod readiness;
mod registration;
mod server;
mod socket;
pub(crate) mod source;
mod sys;
mod tcp;
mod udp;
#[cfg(unix)]
pub mod unix;

pub use addrs::ToSocketAddrs;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReuniteError, Split};
pub(crate) use halves::{share, shut};
#[cfg(unix)]
pub use interest::{Interest, Ready};
pub use look_up::{lookup_host, lookup_host_async};
#[cfg(unix)]
pub use readiness::{Async, Readiness};
pub use server::{Listener, Server, ServerBuilder};
pub use tcp::{Incoming, TcpListener, TcpSocket, TcpStream};
pub use udp::UdpSocket;

/// Those of std, so that a program moves by changing `std::net` to `runtime::net`.
#[doc(no_inline)]
pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub(crate) use backoff::Backoff;
pub(crate) use socket::{Socket, call};
#[cfg(unix)]
pub(crate) use {convert::duplicate, registration::Registration};
