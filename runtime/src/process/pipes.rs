//! `ChildStdin`, `ChildStdout` and `ChildStderr`: the parent's ends of the pipes to a child process.
//!
//! They are non-blocking and registered with the netpoller, as sockets are. The child's ends are not
//! affected, because the two ends of a pipe have modes of their own.

// `Socket::run` gives a shared reference, through which mio's types read and write.
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::Stdio;

use netpoll::Direction;
use netpoll::pipe::{Receiver, Sender};

use crate::net::{Socket, call};

/// Writes what all pipes share: making one, its descriptor, and giving it to another child.
macro_rules! pipe {
    ($name:ident, $source:ident, $made:literal) => {
        impl UnwindSafe for $name {}
        impl RefUnwindSafe for $name {}

        impl $name {
            /// Registers the pipe with the caller's runtime.
            ///
            /// # Errors
            /// Returns the system's error.
            pub(super) fn of_child(pipe: std::process::$name) -> io::Result<Self> {
                let source = $source::from(pipe);
                call(|| source.set_nonblocking(true))?;
                Ok($name(Socket::new(source)?))
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.source().as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.0.source().as_raw_fd()
            }
        }

        /// Returns the descriptor, in blocking mode.
        impl From<$name> for OwnedFd {
            fn from(pipe: $name) -> OwnedFd {
                let restore = |source: &$source, _: &_| {
                    // The system does not refuse this for an open pipe.
                    let _ = source.set_nonblocking(false);
                };
                let source = pipe.0.into_source(|_| unreachable!("a pipe has no clones"), restore);
                source.expect("the pipe is not duplicated").into()
            }
        }

        /// Gives the pipe to another child process.
        ///
        /// ```
        #[doc = $made]
        /// # std::io::Result::Ok(())
        /// ```
        impl From<$name> for Stdio {
            fn from(pipe: $name) -> Stdio {
                OwnedFd::from(pipe).into()
            }
        }
    };
}

/// Writes a readable pipe.
macro_rules! readable {
    ($name:ident) => {
        impl $name {
            /// Reads into `buf` in a future, with any executor. Returns the number of bytes, which is 0 at
            /// the end.
            ///
            /// Dropping the future before it is ready loses no byte.
            ///
            /// # Errors
            ///
            /// Returns the system's error.
            ///
            /// ```
            /// use runtime::process::{Command, Stdio};
            /// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
            /// let stdout = child.stdout.take().unwrap();
            /// let mut buf = [0; 100];
            /// assert_eq!(runtime::block_on(async { stdout.read_async(&mut buf).await })?, 6);
            /// # child.wait()?;
            /// # std::io::Result::Ok(())
            /// ```
            pub async fn read_async(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.run_async(Direction::Read, |mut pipe| pipe.read(buf)).await
            }

            /// Reads to the end, in a future.
            pub(super) async fn read_all_async(&self) -> io::Result<Vec<u8>> {
                let (mut bytes, mut buf) = (Vec::new(), vec![0; 8192]);
                loop {
                    match self.read_async(&mut buf).await? {
                        0 => return Ok(bytes),
                        n => bytes.extend_from_slice(&buf[..n]),
                    }
                }
            }
        }

        impl Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.run(Direction::Read, |mut pipe| pipe.read(buf))
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.run(Direction::Read, |mut pipe| pipe.read_vectored(bufs))
            }
        }

        impl Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }
    };
}

/// The writing end of a child's standard input, from [`Child::stdin`](super::Child::stdin). Dropping it
/// closes the pipe, and the child reads the end of its input.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a write that has to wait.
///
/// ```
/// use runtime::process::{Command, Stdio};
/// use std::io::Write;
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
/// child.stdin.take().unwrap().write_all(b"hello")?;
/// assert!(child.wait()?.success());
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStdin(Socket<Sender>);

/// The reading end of a child's standard output, from [`Child::stdout`](super::Child::stdout).
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a read that has to wait.
///
/// ```
/// use runtime::process::{Command, Stdio};
/// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
/// let text = std::io::read_to_string(child.stdout.take().unwrap())?;
/// assert_eq!(text, "hello\n");
/// # child.wait()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStdout(Socket<Receiver>);

/// The reading end of a child's standard error, from [`Child::stderr`](super::Child::stderr).
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a read that has to wait.
///
/// ```
/// use runtime::process::{Command, Stdio};
/// let mut child = Command::new("sh").args(["-c", "echo oh >&2"]).stderr(Stdio::piped()).spawn()?;
/// assert_eq!(std::io::read_to_string(child.stderr.take().unwrap())?, "oh\n");
/// # child.wait()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStderr(Socket<Receiver>);

pipe!(
    ChildStdin,
    Sender,
    "use runtime::process::{Command, Stdio};\n\
     let mut cat = Command::new(\"cat\").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;\n\
     let into_cat = Stdio::from(cat.stdin.take().unwrap());\n\
     assert!(Command::new(\"echo\").arg(\"hello\").stdout(into_cat).status()?.success());\n\
     assert!(cat.wait()?.success());"
);
pipe!(
    ChildStdout,
    Receiver,
    "use runtime::process::{Command, Stdio};\n\
     let mut echo = Command::new(\"echo\").arg(\"hello\").stdout(Stdio::piped()).spawn()?;\n\
     let cat = Command::new(\"cat\").stdin(echo.stdout.take().unwrap()).output()?;\n\
     assert_eq!(cat.stdout, b\"hello\\n\");\n\
     echo.wait()?;"
);
pipe!(
    ChildStderr,
    Receiver,
    "use runtime::process::{Command, Stdio};\n\
     let mut sh = Command::new(\"sh\").args([\"-c\", \"echo oh >&2\"]).stderr(Stdio::piped()).spawn()?;\n\
     let cat = Command::new(\"cat\").stdin(sh.stderr.take().unwrap()).output()?;\n\
     assert_eq!(cat.stdout, b\"oh\\n\");\n\
     sh.wait()?;"
);
readable!(ChildStdout);
readable!(ChildStderr);

impl ChildStdin {
    /// Writes bytes of `buf` in a future, with any executor. Returns the number of bytes that were written.
    ///
    /// Dropping the future before it is ready writes nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// use runtime::process::{Command, Stdio};
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    /// let stdin = child.stdin.take().unwrap();
    /// assert_eq!(runtime::block_on(async { stdin.write_async(b"hello").await })?, 5);
    /// drop(stdin);
    /// # child.wait()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn write_async(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.run_async(Direction::Write, |mut pipe| pipe.write(buf)).await
    }
}

impl Write for &ChildStdin {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut pipe| pipe.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.run(Direction::Write, |mut pipe| pipe.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for ChildStdin {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
