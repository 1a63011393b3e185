//! From std's types and the system's descriptors, and into them.
//!
//! What comes in keeps its mode: one that was non-blocking gives `WouldBlock` here too, and std's time-outs stay. What goes
//! out is in the mode that its user has set, blocking if none. (The system rounds time-outs up to some milliseconds.)

// `FromRawFd` and `FromRawSocket` are unsafe by themselves: their callers promise that the descriptor is theirs.
#![allow(unsafe_code)]

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use netpoll::net as sources;
use socket2::SockRef;

use super::socket::{Mode, Socket, call};
#[cfg(unix)]
use super::unix::{UnixDatagram, UnixListener, UnixStream};
use super::{TcpListener, TcpStream, UdpSocket};

/// Everything that one type of socket turns into.
macro_rules! conversions {
    ($($ours:ident = $std:ty;)*) => { $(
        // As std's.
        impl UnwindSafe for $ours {}
        impl RefUnwindSafe for $ours {}

        /// As std's.
        impl fmt::Debug for $ours {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Written down first: the formatter is the user's, and may park between two system calls.
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
                    // An open socket does not refuse.
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

        /// The runtime of the caller waits for it from now on. If the system refuses that, calls that would have to wait
        /// give the error.
        impl From<$std> for $ours {
            fn from(socket: $std) -> Self {
                $ours::adopt(socket)
            }
        }

        /// In the mode that was set, blocking if none was. While there are clones it gets a descriptor of its own, and
        /// what is set for one counts for the other: calls on the clones then block their OS threads.
        ///
        /// # Panics
        ///
        /// There are clones, and no descriptors left.
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
                // SAFETY: the caller promises what this asks for: it is open, and nobody else's.
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
