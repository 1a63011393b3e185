//! Child processes with the API of `std::process`. A wait for a child, or for its pipes, parks the green
//! thread.
//!
//! ```
//! # if cfg!(windows) { return Ok(()) }
//! use runtime::process::{Command, Stdio};
//! use runtime::time::{Duration, timeout};
//! use std::io::{Read, Write};
//!
//! runtime::block_on(|| {
//!     let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//!     cat.stdin.take().unwrap().write_all(b"hello")?;
//!     let mut text = String::new();
//!     cat.stdout.take().unwrap().read_to_string(&mut text)?;
//!     assert_eq!(text, "hello");
//!     assert!(cat.wait()?.success());
//!
//!     let late = timeout(Duration::from_millis(5), || Command::new("sleep").arg("60").kill_on_drop(true).status());
//!     assert!(late.is_err());
//!     std::io::Result::Ok(())
//! })?;
//! # std::io::Result::Ok(())
//! ```
//!
//! Differences from std:
//!
//! - [`Command::kill_on_drop`] kills a child whose [`Child`] is dropped, for example by a time-out.
//! - A [`Child`] that is dropped before its exit status was taken is not left as a zombie: its runtime takes
//!   the status in the background.
//!
//! On Linux a wait uses a pidfd and takes no OS thread. On other Unixes, and on a Linux before 5.3, `SIGCHLD`
//! ends the wait.
//!
//! On Windows threads of the system wait for the children, one for some dozens of them. The pipes are named
//! pipes, and no OS thread waits for them. What differs there:
//!
//! - A write to a pipe may go on in the background after it has returned: see
//!   [`io::pipe`](crate::io::pipe()).
//! - A pipe that is given on to another child cannot be used by it as it is. A green thread of the caller's
//!   runtime copies between the pipe and one of that child's.
//! - A killed process has the exit code 1. No process remains a zombie.
//!
//! That part has run under wine, not on Windows. The examples start programs of Unix.
//!
//! # Cancellation
//!
//! A call that has to wait unwinds a cancelled green thread. The child process goes on, unless
//! [`kill_on_drop`](Command::kill_on_drop) is set.

mod child;
mod command;
mod exit;
mod pipes;

pub use std::process::{ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id};

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
