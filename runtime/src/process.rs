//! Child processes with the API of `std::process`. A wait for a child, or for its pipes, parks the green
//! thread. Unix only.
//!
//! ```
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
//! On Linux a wait uses a pidfd and takes no OS thread. On other systems, and on a Linux before 5.3,
//! `SIGCHLD` ends the wait.
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
