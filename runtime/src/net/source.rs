//! `source`: the sockets under those of this module. They are those of the system. With the feature `sim`
//! they may be simulated.

#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod either;
#[cfg(not(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod system;

#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) use either::*;
#[cfg(not(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub(crate) use system::*;

use std::io;

#[cfg(unix)]
use netpoll::Direction;
use netpoll::source::Source;

#[cfg(unix)]
use super::interest::{Interest, Ready};

/// What a [`Socket`](super::socket::Socket) asks of its source.
pub(crate) trait Sourced: Source {
    /// Returns the number of the descriptor, which dumps look up; -1 where there is none, and less for a
    /// simulated socket.
    fn number(&self) -> i64;

    /// Returns `true` if an attempt in that direction would not block.
    #[cfg(unix)]
    fn is_ready(&self, direction: Direction) -> io::Result<bool>;

    /// Returns what is ready of `interest`.
    #[cfg(unix)]
    fn look(&self, interest: Interest) -> io::Result<Ready>;

    /// Returns `true` if an event tells that another socket has room again for a datagram of this one. The
    /// system tells it of the peer only.
    #[cfg(unix)]
    fn reports_room(&self) -> bool {
        false
    }

    /// Ends reading by a system call.
    #[cfg(windows)]
    fn shut_input(&self) -> io::Result<()>;

    /// Lets the events of a source that has just been registered come by `reporter`. It is for sources that
    /// the system does not report to the poller.
    #[cfg(windows)]
    fn attach(&mut self, _reporter: netpoll::Reporter) -> io::Result<()> {
        Ok(())
    }

    /// Returns an error if there is no descriptor.
    fn check_descriptor(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Implements the trait for sources of the system.
macro_rules! sourced {
    ($($source:ty)*) => { $(
        impl Sourced for $source {
            #[cfg(unix)]
            fn number(&self) -> i64 {
                std::os::fd::AsRawFd::as_raw_fd(self).into()
            }

            #[cfg(not(unix))]
            fn number(&self) -> i64 {
                -1
            }

            #[cfg(windows)]
            fn shut_input(&self) -> io::Result<()> {
                socket2::SockRef::from(self).shutdown(std::net::Shutdown::Read)
            }

            #[cfg(unix)]
            fn is_ready(&self, direction: Direction) -> io::Result<bool> {
                netpoll::source::is_ready(std::os::fd::AsFd::as_fd(self), direction)
            }

            #[cfg(unix)]
            fn look(&self, interest: Interest) -> io::Result<Ready> {
                let fd = std::os::fd::AsFd::as_fd(self);
                netpoll::source::look(fd, interest.is_readable(), interest.is_writable()).map(Ready::found)
            }
        }
    )* };
}

sourced! { netpoll::net::TcpListener netpoll::net::TcpStream netpoll::net::UdpSocket }
#[cfg(unix)]
sourced! {
    netpoll::net::UnixDatagram netpoll::net::UnixListener netpoll::net::UnixStream
    netpoll::pipe::Receiver netpoll::pipe::Sender
}
