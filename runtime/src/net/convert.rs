//! Conversions between sockets of this crate and std's types or descriptors.
//!
//! A socket that comes in keeps its mode: a non-blocking one returns `WouldBlock` here too, and time-outs
//! stay. A socket that goes out is in the mode that its user has set, or blocking. (The system rounds
//! time-outs up to some milliseconds.)

// `FromRawFd` and `FromRawSocket` are unsafe traits: their callers promise that they own the descriptor.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};

use socket2::SockRef;

use super::socket::{Mode, Socket, call};
use super::source as sources;
#[cfg(unix)]
use super::unix::{UnixDatagram, UnixListener, UnixStream};
use super::{TcpListener, TcpStream, UdpSocket};

/// Implements the conversions of one type of socket.
macro_rules! conversions {
    ($($ours:ident = $std:ty, $made:literal;)*) => { $(
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
                self.try_source().unwrap_or_else(|error| panic!("{error}"))
            }

            fn try_source(self) -> io::Result<sources::$ours> {
                let given = self.0.into_source(
                    |source| duplicate(source).map(sources::$ours::from),
                    |source, mode| mode.restore(&SockRef::from(source)),
                );
                given.map_err(no_descriptor)
            }

            /// Returns the socket as a socket of std, in the mode that was set, or blocking.
            ///
            /// While clones exist the returned socket gets a descriptor of its own. What is set for one then
            /// holds for the other, and calls on the clones block their OS threads.
            ///
            /// # Errors
            ///
            /// Returns the system's error if clones exist and the process has no descriptors left, and
            /// `Unsupported` if the socket is simulated. This handle is then dropped; the clones go on.
            ///
            /// ```
            #[doc = $made]
            #[doc = concat!("let socket: ", stringify!($std), " = socket.into_std()?;")]
            /// # std::io::Result::Ok(())
            /// ```
            pub fn into_std(self) -> io::Result<$std> {
                self.try_source().map(Into::into)
            }
        }

        /// Registers the socket with the caller's runtime. If the system refuses that, calls that have to
        /// wait return the error.
        impl From<$std> for $ours {
            fn from(socket: $std) -> Self {
                $ours::adopt(socket)
            }
        }

        /// Returns the socket in the mode that was set, or blocking. While clones exist it gets a descriptor
        /// of its own. What is set for one then holds for the other, and calls on the clones block their OS
        /// threads.
        ///
        /// # Panics
        ///
        /// Panics if clones exist and the process has no descriptors left. `into_std` returns an error
        /// instead.
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
                // SAFETY: the caller of this function promises the same: the descriptor is open and owned by
                // the caller.
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

fn no_descriptor(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::Unsupported {
        return error;
    }
    let text = "a socket that has clones cannot be given away, for there is no descriptor for it";
    io::Error::new(error.kind(), format!("{text}: {error}"))
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
    TcpListener = std::net::TcpListener, "let socket = runtime::net::TcpListener::bind(\"127.0.0.1:0\")?;";
    TcpStream = std::net::TcpStream,
        "# let listener = std::net::TcpListener::bind(\"127.0.0.1:0\")?;\n\
         let socket = runtime::net::TcpStream::connect(listener.local_addr()?)?;";
    UdpSocket = std::net::UdpSocket, "let socket = runtime::net::UdpSocket::bind(\"127.0.0.1:0\")?;";
}

#[cfg(unix)]
conversions! {
    UnixDatagram = std::os::unix::net::UnixDatagram,
        "let (socket, _other) = runtime::net::unix::UnixDatagram::pair()?;";
    UnixListener = std::os::unix::net::UnixListener,
        "# let path = std::env::temp_dir().join(format!(\"runtime-doc-{}-{}\", line!(), std::process::id()));\n\
         # std::fs::remove_file(&path).ok();\n\
         let socket = runtime::net::unix::UnixListener::bind(&path)?;\n\
         # std::fs::remove_file(&path)?;";
    UnixStream = std::os::unix::net::UnixStream,
        "let (socket, _other) = runtime::net::unix::UnixStream::pair()?;";
}
