//! `ChildStdin`, `ChildStdout` and `ChildStderr`: the parent's ends of the pipes to a child process.

use netpoll::pipe::{Receiver, Sender};

use crate::net::Socket;
use crate::net::pipes::{pipe, readable_pipe, writable_pipe};

/// The writing end of a child's standard input, from [`Child::stdin`](super::Child::stdin). Dropping it
/// closes the pipe, and the child reads the end of its input. (The end of `AsyncWrite`, which it has with the
/// features `futures-io` and `tokio-io`, closes nothing, as tokio's.)
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a write that has to wait.
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::{Command, Stdio};
/// use std::io::Write;
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
/// child.stdin.take().unwrap().write_all(b"hello")?;
/// assert!(child.wait()?.success());
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStdin(pub(crate) Socket<Sender>);

/// The reading end of a child's standard output, from [`Child::stdout`](super::Child::stdout).
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a read that has to wait.
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::{Command, Stdio};
/// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
/// let text = std::io::read_to_string(child.stdout.take().unwrap())?;
/// assert_eq!(text, "hello\n");
/// # child.wait()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStdout(pub(crate) Socket<Receiver>);

/// The reading end of a child's standard error, from [`Child::stderr`](super::Child::stderr).
///
/// # Cancellation
///
/// A cancelled green thread unwinds from a read that has to wait.
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::{Command, Stdio};
/// let mut child = Command::new("sh").args(["-c", "echo oh >&2"]).stderr(Stdio::piped()).spawn()?;
/// assert_eq!(std::io::read_to_string(child.stderr.take().unwrap())?, "oh\n");
/// # child.wait()?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChildStderr(pub(crate) Socket<Receiver>);

pipe!(
    ChildStdin,
    Sender,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut cat = Command::new(\"cat\").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;\n\
     let into_cat = Stdio::from(cat.stdin.take().unwrap());\n\
     assert!(Command::new(\"echo\").arg(\"hello\").stdout(into_cat).status()?.success());\n\
     assert!(cat.wait()?.success());"
);
pipe!(
    ChildStdout,
    Receiver,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut echo = Command::new(\"echo\").arg(\"hello\").stdout(Stdio::piped()).spawn()?;\n\
     let cat = Command::new(\"cat\").stdin(echo.stdout.take().unwrap()).output()?;\n\
     assert_eq!(cat.stdout, b\"hello\\n\");\n\
     echo.wait()?;"
);
pipe!(
    ChildStderr,
    Receiver,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut sh = Command::new(\"sh\").args([\"-c\", \"echo oh >&2\"]).stderr(Stdio::piped()).spawn()?;\n\
     let cat = Command::new(\"cat\").stdin(sh.stderr.take().unwrap()).output()?;\n\
     assert_eq!(cat.stdout, b\"oh\\n\");\n\
     sh.wait()?;"
);
readable_pipe!(
    ChildStdout,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut child = Command::new(\"echo\").arg(\"hello\").stdout(Stdio::piped()).spawn()?;\n\
     let reader = child.stdout.take().unwrap();\n\
     # child.wait()?;"
);
readable_pipe!(
    ChildStderr,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut child = Command::new(\"sh\").args([\"-c\", \"echo hello >&2\"]).stderr(Stdio::piped()).spawn()?;\n\
     let reader = child.stderr.take().unwrap();\n\
     # child.wait()?;"
);
writable_pipe!(
    ChildStdin,
    "# if cfg!(windows) { return Ok(()) }\n\
     use runtime::process::{Command, Stdio};\n\
     let mut child = Command::new(\"cat\").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;\n\
     let writer = child.stdin.take().unwrap();"
);

/// Reads to the end, in a future.
macro_rules! read_all {
    ($($name:ident)*) => { $(
        impl $name {
            pub(super) async fn read_all_async(&self) -> std::io::Result<Vec<u8>> {
                let (mut bytes, mut buf) = (Vec::new(), vec![0; 8192]);
                loop {
                    match self.read_async(&mut buf).await? {
                        0 => return Ok(bytes),
                        n => bytes.extend_from_slice(&buf[..n]),
                    }
                }
            }
        }
    )* };
}

read_all! { ChildStdout ChildStderr }
