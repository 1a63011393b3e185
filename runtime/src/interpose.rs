//! Interposition: `read`, `recv`, `poll`, `nanosleep` and others, in the place of libc's in a program with
//! the line `runtime::interpose!()` (`crate::hooks`). The page [`docs::interpose`](crate::docs::interpose)
//! says what users see. (Feature `interpose`, Linux with glibc.)
//!
//! An executable's own definition of a function of libc is found first, by Rust code as well as by C
//! libraries. Each hook looks whether the code of a green thread runs here, and makes the system call itself
//! otherwise.
//!
//! ```text
//!   hook ──not in a green thread, or descriptor 0 to 2──> the system call
//!    └─green──> attempt that does not wait ──done───────────────> result
//!                       │ would block
//!                       ├─ O_NONBLOCK ─────────────────────────────> EAGAIN
//!                       └─ park until ready, attempt again ──────> result, on the same OS thread
//! ```
//!
//! - `raw.rs`: what hooks ask the system: hooks never call hooks, and nothing here writes `errno` but
//!   [`finish`].
//! - `fd.rs`: what is known of a descriptor: what it is, and whether a green thread waits for it.
//! - `wait.rs`: the loop of attempts and waits, and the descriptor's own time-outs.
//! - `message.rs`: lists of buffers of which a part is done.
//! - `process.rs`: children of `vfork`, which do not park.
//! - `futex.rs`: `futex`, by which std's locks wait. (`syscall`, which makes it, is in `crate::syscall`.)
//! - `read.rs`, `write.rs`, `accept.rs`, `connect.rs`, `poll.rs`, `asleep.rs`, `names.rs`, `close.rs`: the
//!   hooks. `checked.rs`: those that C calls with the size of its buffer.
//!
//! The runtime's own code makes system calls by `netpoll::raw`, and calls no hook: not in signal handlers,
//! and not where an M is woken (`ci/raw-calls.sh` checks that). What std and other crates call on the
//! runtime's behalf does not park: in the runtime a P is not lent, which [`may_park`] sees. Descriptors of
//! the runtime are non-blocking.

#![allow(unsafe_code)]

pub(crate) mod accept;
pub(crate) mod checked;
pub(crate) mod close;
pub(crate) mod connect;
mod fd;
pub(crate) mod futex;
mod message;
pub(crate) mod names;
pub(crate) mod poll;
mod process;
mod raw;
pub(crate) mod read;
pub(crate) mod sleep;
pub(crate) mod threads;
mod wait;
pub(crate) mod write;

use std::ffi::c_int;

use netpoll::raw::fail;

/// Returns `true` if a call on `fd` may park: the code of a green thread runs here. Standard input, output
/// and error belong to libc: std holds locks of the OS thread around them.
#[inline]
fn may_park(fd: c_int) -> bool {
    sched::foreign::is_user_code() && fd > libc::STDERR_FILENO
}

/// Converts the result of a system call into that of a function of libc: an error becomes -1 and `errno`.
#[inline]
fn finish(result: isize) -> isize {
    if result < 0 { fail(result) } else { result }
}

/// An error as system calls return it.
const fn error(errno: c_int) -> isize {
    -(errno as isize)
}

/// Records what hooks need to know of the process. *Runs on: the maker of a runtime.*
pub(crate) fn note() {
    process::note();
}
