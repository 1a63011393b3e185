//! Unix sockets with the API of `std::os::unix::net`: at a path, at an abstract name (Linux), or without an
//! address.

mod datagram;
#[cfg(target_os = "linux")]
mod fds;
mod listener;
mod pauses;
mod stream;
#[cfg(target_os = "linux")]
mod ucred;

pub use std::os::unix::net::SocketAddr;

pub use datagram::UnixDatagram;
#[cfg(target_os = "linux")]
pub use fds::ReceivedFds;
pub use listener::{Incoming, UnixListener};
pub use stream::UnixStream;
#[cfg(target_os = "linux")]
pub use ucred::UCred;
