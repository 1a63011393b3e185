//! Conversions between sockets of this crate and std's types or descriptors.
//!
//! A socket that comes in keeps its mode: a non-blocking one returns `WouldBlock` here too, and time-outs stay. A
//! socket that goes out is in the mode that its user has set, or blocking. (The system rounds time-outs up to some
//! milliseconds.)

// `FromRawFd` and `FromRawSocket` are unsafe traits: their callers promise that they own the descriptor.
#![allow(unsafe_code)]

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use netpoll::net as sources;
use socket2::SockRef;

use super::socket::{Mode, Socket, call};
#[cfg(unix)]
use super::unix::{UnixDatagram, UnixListener, UnixStream};
use super::{TcpListener, TcpStream, UdpSocket};

/// Implements the conversions of one type of socket.
macro_rules! conversions {
    ($($ours:ident = $std:ty;)*) => { $(
        // As std's type is.
        impl UnwindSafe for $ours {}
        impl RefUnwindSafe for $ours {}

        /// As std's type prints.
        impl fmt::Debug for $ours {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Formatted into a string first: the user's formatter may park between two system calls.
                let text = call(|| {
                    let source = self.0.source();
                    if f.alternate() { format!("{source:#?}") } else { format!("{source:?}") }
                });
                f.write_str(&text)
            }
        }

        impl $ours {
            fn adopt(source: $std) -> Self {
                let mode = call(|| {
                    let mode = Mode::of(&SockRef::from(&source));
                    // The system does not refuse this for an open socket.
                    let _ = source.set_nonblocking(true);
                    mode
                });
                $ours(Socket::adopt(sources::$ours::from_std(source), mode))
            }

            fn source(self) -> sources::$ours {
                let given = self.0.into_source(
                    |source| duplicate(source).map(sources::$ours::from),
                    |source, mode| mode.restore(&SockRef::from(source)),
                );
                given.unwrap_or_else(|error| panic!(
                    "a socket that has clones cannot be given away, for there is no descriptor for it: {error}"
                ))
            }
        }

        /// Registers the socket with the caller's runtime. If the system refuses that, calls that have to wait return
        /// the error.
        impl From<$std> for $ours {
            fn from(socket: $std) -> Self {
                $ours::adopt(socket)
            }
        }

        /// Returns the socket in the mode that was set, or blocking. While clones exist it gets a descriptor of its
        /// own. What is set for one then holds for the other, and calls on the clones block their OS threads.
        ///
        /// # Panics
        ///
        /// Panics if clones exist and the process has no descriptors left.
        impl From<$ours> for $std {
            fn from(socket: $ours) -> Self {
                socket.source().into()
            }
        }

        #[cfg(unix)]
        conversions!(os $ours = $std, std::os::fd,
            AsFd as_fd BorrowedFd OwnedFd, AsRawFd as_raw_fd FromRawFd from_raw_fd IntoRawFd into_raw_fd RawFd);
        #[cfg(windows)]
        conversions!(os $ours = $std, std::os::windows::io,
            AsSocket as_socket BorrowedSocket OwnedSocket,
            AsRawSocket as_raw_socket FromRawSocket from_raw_socket IntoRawSocket into_raw_socket RawSocket);
    )* };

    (os $ours:ident = $std:ty, $($os:ident)::+,
        $as:ident $as_fn:ident $borrowed:ident $owned:ident,
        $as_raw:ident $as_raw_fn:ident $from_raw:ident $from_raw_fn:ident $into_raw:ident $into_raw_fn:ident $raw:ident
    ) => {
        impl $($os)::+::$as for $ours {
            fn $as_fn(&self) -> $($os)::+::$borrowed<'_> {
                self.0.source().$as_fn()
            }
        }

        impl $($os)::+::$as_raw for $ours {
            fn $as_raw_fn(&self) -> $($os)::+::$raw {
                self.0.source().$as_raw_fn()
            }
        }

        impl From<$($os)::+::$owned> for $ours {
            fn from(socket: $($os)::+::$owned) -> Self {
                $ours::adopt(socket.into())
            }
        }

        impl From<$ours> for $($os)::+::$owned {
            fn from(socket: $ours) -> Self {
                socket.source().into()
            }
        }

        impl $($os)::+::$from_raw for $ours {
            unsafe fn $from_raw_fn(raw: $($os)::+::$raw) -> Self {
                // SAFETY: the caller of this function promises the same: the descriptor is open and owned by the
                // caller.
                $ours::adopt(unsafe { <$std as $($os)::+::$from_raw>::$from_raw_fn(raw) })
            }
        }

        impl $($os)::+::$into_raw for $ours {
            fn $into_raw_fn(self) -> $($os)::+::$raw {
                $($os)::+::$into_raw::$into_raw_fn(self.source())
            }
        }
    };
}

#[cfg(unix)]
pub(crate) fn duplicate(source: &impl std::os::fd::AsFd) -> std::io::Result<std::os::fd::OwnedFd> {
    source.as_fd().try_clone_to_owned()
}

#[cfg(windows)]
fn duplicate(
    source: &impl std::os::windows::io::AsSocket,
) -> std::io::Result<std::os::windows::io::OwnedSocket> {
    source.as_socket().try_clone_to_owned()
}

conversions! {
    TcpListener = std::net::TcpListener;
    TcpStream = std::net::TcpStream;
    UdpSocket = std::net::UdpSocket;
}

#[cfg(unix)]
conversions! {
    UnixDatagram = std::os::unix::net::UnixDatagram;
    UnixListener = std::os::unix::net::UnixListener;
    UnixStream = std::os::unix::net::UnixStream;
}
