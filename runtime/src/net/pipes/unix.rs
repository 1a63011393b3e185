//! The ends of pipes on Unix: descriptors.

use std::io;
use std::os::fd::OwnedFd;

use netpoll::pipe::{Receiver, Sender};

use crate::net::{Socket, call};

/// Writes what all ends share: making one, its descriptor, and giving it to a child process. `$made` is an
/// example of that.
macro_rules! pipe {
    ($name:ident, $source:ident, $made:literal) => {
        impl std::panic::UnwindSafe for $name {}
        impl std::panic::RefUnwindSafe for $name {}

        impl $name {
            /// Registers the end of a pipe with the caller's runtime.
            ///
            /// # Errors
            /// Returns the system's error.
            pub(super) fn of(pipe: impl Into<std::os::fd::OwnedFd>) -> std::io::Result<Self> {
                let source = netpoll::pipe::$source::from(pipe.into());
                crate::net::call(|| source.set_nonblocking(true))?;
                Ok($name(crate::net::Socket::new(source)?))
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.source().as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.source().as_raw_fd()
            }
        }

        /// Returns the descriptor, in blocking mode.
        impl From<$name> for std::os::fd::OwnedFd {
            fn from(pipe: $name) -> std::os::fd::OwnedFd {
                let restore = |source: &netpoll::pipe::$source, _: &_| {
                    // The system does not refuse this for an open pipe.
                    let _ = source.set_nonblocking(false);
                };
                let source = pipe.0.into_source(|_| unreachable!("a pipe has no clones"), restore);
                source.expect("the pipe is not duplicated").into()
            }
        }

        /// Gives the pipe to a child process.
        ///
        /// ```
        #[doc = $made]
        /// # std::io::Result::Ok(())
        /// ```
        impl From<$name> for std::process::Stdio {
            fn from(pipe: $name) -> std::process::Stdio {
                std::os::fd::OwnedFd::from(pipe).into()
            }
        }
    };
}

/// Returns the ends of a new pipe, registered with the caller's runtime.
pub(crate) fn pair() -> io::Result<(Socket<Receiver>, Socket<Sender>)> {
    let (reader, writer) = call(io::pipe)?;
    let (reader, writer) = (Receiver::from(OwnedFd::from(reader)), Sender::from(OwnedFd::from(writer)));
    call(|| reader.set_nonblocking(true).and_then(|()| writer.set_nonblocking(true)))?;
    Ok((Socket::new(reader)?, Socket::new(writer)?))
}

pub(crate) use pipe;
