//! Standard input, output and error as streams that park their callers, [`copy()`] and
//! [`copy_bidirectional()`], and streams without a socket: [`pipe()`] and [`duplex`].
//!
//! Windows cannot wait for its standard streams. There a read or write of them blocks its OS thread, and
//! other green threads run on. Neither a cancellation nor a time-out ends it.
//!
//! The rest of `std::io` works as it is: its traits, for this crate's sockets, pipes and files.
//!
//! `std::io::stdout().lock()` must not be kept across a call that parks: its lock belongs to the OS thread
//! (see [moving](crate::docs::moving)). The locks of this module belong to the green thread.

mod copy;
mod copy_bidirectional;
mod descriptor;
mod output;
mod pipe;
mod stdin;

pub use copy::copy;
pub use copy_bidirectional::copy_bidirectional;
pub use output::{Stderr, StderrLock, Stdout, StdoutLock, stderr, stdout};
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use stdin::{Stdin, StdinLock, stdin};

pub use crate::net::duplex::{DuplexStream, duplex};
