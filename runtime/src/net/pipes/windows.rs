//! The ends of pipes on Windows: handles for overlapped calls. A child process cannot use such a handle, so
//! it gets an end of another pipe, and a green thread copies between the two.

use std::io::{self, Read, Write};
use std::os::windows::io::OwnedHandle;

use netpoll::pipe::{Receiver, Sender, blocking_reader, blocking_writer};
pub(crate) use netpoll::process::Exit;
use netpoll::{Direction, Reporter};

use crate::net::source::Sourced;
use crate::net::{Socket, call};

/// The size of the buffer of a copy: what a pipe holds.
const BUFFER: usize = 64 << 10;

/// Implements the trait for sources with events from the system's pool.
macro_rules! sourced {
    ($($source:ty)*) => { $(
        impl Sourced for $source {
            fn number(&self) -> i64 {
                -1
            }

            fn shut_input(&self) -> io::Result<()> {
                unreachable!("pipes and processes cannot be shut for reading")
            }

            fn attach(&mut self, reporter: Reporter) -> io::Result<()> {
                <$source>::attach(self, reporter)
            }
        }
    )* };
}

sourced! { Receiver Sender Exit }

/// Writes what all ends share: making one, its handle, and giving it to a child process. `$made` is an
/// example of that.
macro_rules! pipe {
    ($name:ident, $source:ident, $made:literal) => {
        impl std::panic::UnwindSafe for $name {}
        impl std::panic::RefUnwindSafe for $name {}

        impl $name {
            /// Registers the end of a pipe, which is for overlapped calls, with the caller's runtime.
            ///
            /// # Errors
            /// Returns the system's error.
            #[allow(dead_code, reason = "only children have pipes that were made elsewhere")]
            pub(super) fn of(pipe: impl Into<std::os::windows::io::OwnedHandle>) -> std::io::Result<Self> {
                let source = crate::net::call(|| netpoll::pipe::$source::new(pipe.into()))?;
                Ok($name(crate::net::Socket::new(source)?))
            }
        }

        /// The handle is for overlapped calls, and this end begins such calls. For blocking calls by other
        /// code convert the end into an `OwnedHandle`.
        impl std::os::windows::io::AsHandle for $name {
            fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
                self.0.source().as_handle()
            }
        }

        impl std::os::windows::io::AsRawHandle for $name {
            fn as_raw_handle(&self) -> std::os::windows::io::RawHandle {
                self.0.source().as_raw_handle()
            }
        }

        /// Returns a handle for blocking calls. It is an end of another pipe. A green thread copies between
        /// the two, until one of them ends or the caller's runtime ends.
        ///
        /// # Panics
        ///
        /// Panics if the system refuses another pipe, or a green thread cannot be started.
        impl From<$name> for std::os::windows::io::OwnedHandle {
            fn from(pipe: $name) -> std::os::windows::io::OwnedHandle {
                crate::net::pipes::relay(pipe.0).unwrap_or_else(|error| {
                    panic!("a pipe cannot be given away, for there is no other pipe for it: {error}")
                })
            }
        }

        impl std::os::windows::io::IntoRawHandle for $name {
            fn into_raw_handle(self) -> std::os::windows::io::RawHandle {
                std::os::windows::io::OwnedHandle::from(self).into_raw_handle()
            }
        }

        /// Gives the pipe to a child process, by way of a green thread that copies between this pipe and one
        /// of the child's.
        ///
        /// ```
        #[doc = $made]
        /// # std::io::Result::Ok(())
        /// ```
        impl From<$name> for std::process::Stdio {
            fn from(pipe: $name) -> std::process::Stdio {
                std::os::windows::io::OwnedHandle::from(pipe).into()
            }
        }
    };
}

/// Returns the ends of a new pipe, registered with the caller's runtime.
pub(crate) fn pair() -> io::Result<(Socket<Receiver>, Socket<Sender>)> {
    let (reader, writer) = call(netpoll::pipe::pair)?;
    Ok((Socket::new(reader)?, Socket::new(writer)?))
}

/// The end of a pipe that can be given away.
pub(crate) trait Relayed: Sourced {
    /// Returns a handle for blocking calls that takes the place of `pipe`.
    fn relay(pipe: Socket<Self>) -> io::Result<OwnedHandle>
    where
        Self: Sized;
}

impl Relayed for Receiver {
    fn relay(pipe: Socket<Self>) -> io::Result<OwnedHandle> {
        let (reader, writer) = call(blocking_reader)?;
        copy_aside(pipe, Socket::new(writer)?)?;
        Ok(reader)
    }
}

impl Relayed for Sender {
    fn relay(pipe: Socket<Self>) -> io::Result<OwnedHandle> {
        let (reader, writer) = call(blocking_writer)?;
        copy_aside(Socket::new(reader)?, pipe)?;
        Ok(writer)
    }
}

/// Returns a handle for blocking calls that takes the place of `pipe`.
pub(crate) fn relay<S: Relayed>(pipe: Socket<S>) -> io::Result<OwnedHandle> {
    S::relay(pipe)
}

/// Starts a green thread that copies to the end of one of the pipes, and closes both.
fn copy_aside(from: Socket<Receiver>, to: Socket<Sender>) -> io::Result<()> {
    let copies = crate::thread::Builder::new().name("pipe of a child".into());
    copies.spawn(move || copy(&from, &to)).map(drop)
}

fn copy(from: &Socket<Receiver>, to: &Socket<Sender>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = from.run(Direction::Read, |mut pipe| pipe.read(&mut buffer))?;
        if n == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            let written = to.run(Direction::Write, |mut pipe| pipe.write(rest))?;
            rest = &rest[written..];
        }
    }
}

pub(crate) use pipe;
