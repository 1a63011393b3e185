//! `PipeReader` and `PipeWriter`: the ends of a pipe of the system. The names are those of std.

use std::io;

use netpoll::pipe::{Receiver, Sender};

use crate::net::Socket;
use crate::net::pipes::{pair, pipe, readable_pipe, writable_pipe};

/// Returns the ends of a new pipe of the system, with the API of [`std::io::pipe`].
///
/// The pipe is for other processes, and for code that takes a descriptor. Within a program a
/// [`channel`](crate::channel) or [`duplex`](super::duplex()) costs less. In a simulation the pipe is real,
/// and a read or write that has to wait fails the run.
///
/// On Windows it is a named pipe, with a random name. A write may return before the pipe has room: the bytes,
/// 64 KiB at most, are then written in the background. The next write waits for that, and returns its error.
/// A process that ends earlier loses them.
///
/// # Errors
///
/// Returns the system's error if it has no descriptors left.
///
/// ```
/// use std::io::{Read, Write};
/// let (mut reader, mut writer) = runtime::io::pipe()?;
/// let writes = runtime::spawn(move || writer.write_all(b"hello"));
/// let mut text = String::new();
/// // It ends, because the green thread has dropped the only writer.
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// writes.join().unwrap()?;
/// # std::io::Result::Ok(())
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = pair()?;
    Ok((PipeReader(reader), PipeWriter(writer)))
}

/// The end of a pipe that reads. [`pipe`](pipe()) makes it.
///
/// `&PipeReader` reads, too. A read returns 0 after all writers are closed, also in other
/// processes.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a read that has to wait.
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::{Command, Stdio};
/// let (reader, writer) = runtime::io::pipe()?;
/// let mut child = Command::new("echo").arg("hello").stdout(writer).spawn()?;
/// let mut first = [0; 5];
/// std::io::Read::read_exact(&mut &reader, &mut first)?;
/// assert_eq!(&first, b"hello");
/// # child.wait()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct PipeReader(pub(crate) Socket<Receiver>);

/// The end of a pipe that writes. [`pipe`](pipe()) makes it.
///
/// `&PipeWriter` writes, too. A write returns `BrokenPipe` after all readers are closed.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a write that has to wait.
///
/// ```
/// use std::io::Write;
/// let (reader, mut writer) = runtime::io::pipe()?;
/// drop(reader);
/// assert_eq!(writer.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct PipeWriter(pub(crate) Socket<Sender>);

pipe!(
    PipeReader,
    Receiver,
    "# if cfg!(windows) { return Ok(()) }\n\
     use std::io::Write;\n\
     let (reader, mut writer) = runtime::io::pipe()?;\n\
     writer.write_all(b\"hello\")?;\n\
     drop(writer);\n\
     let cat = runtime::process::Command::new(\"cat\").stdin(reader).output()?;\n\
     assert_eq!(cat.stdout, b\"hello\");"
);
pipe!(
    PipeWriter,
    Sender,
    "# if cfg!(windows) { return Ok(()) }\n\
     let (mut reader, writer) = runtime::io::pipe()?;\n\
     assert!(runtime::process::Command::new(\"echo\").arg(\"hello\").stdout(writer).status()?.success());\n\
     let mut line = [0; 6];\n\
     std::io::Read::read_exact(&mut reader, &mut line)?;\n\
     assert_eq!(&line, b\"hello\\n\");"
);
readable_pipe!(
    PipeReader,
    "let (reader, mut writer) = runtime::io::pipe()?;\n\
     std::io::Write::write_all(&mut writer, b\"hello\\n\")?;"
);
writable_pipe!(PipeWriter, "let (_reader, writer) = runtime::io::pipe()?;");

/// Takes over the end of a pipe, and registers it with the caller's runtime.
#[cfg(unix)]
macro_rules! try_from_std {
    ($($name:ident, $made:literal;)*) => { $(
        /// Registers std's end of a pipe with the caller's runtime. The error is the system's. Unix only,
        /// because std's pipes of Windows are for blocking calls.
        ///
        /// ```
        #[doc = $made]
        /// # std::io::Result::Ok(())
        /// ```
        impl TryFrom<io::$name> for $name {
            type Error = io::Error;

            fn try_from(pipe: io::$name) -> io::Result<$name> {
                $name::of(pipe)
            }
        }
    )* };
}

#[cfg(unix)]
try_from_std! {
    PipeReader, "let reader = runtime::io::PipeReader::try_from(std::io::pipe()?.0)?;";
    PipeWriter, "let writer = runtime::io::PipeWriter::try_from(std::io::pipe()?.1)?;";
}
