//! Interposition: `read`, `recv`, `poll`, `nanosleep` and others, in the place of libc's. A program with the
//! line `runtime::interpose!()` names these functions (`hooks.rs` of the crate `monochrome`). That crate's
//! page `docs::interpose` says what users see. On other systems than Linux with glibc, on x86-64 and
//! 64-bit Arm, and without the feature `catch`, this crate is empty.
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
//!   `finish`.
//! - `fd.rs`: what is known of a descriptor: what it is, and whether a green thread waits for it.
//! - `wait.rs`: the loop of attempts and waits; `mode.rs`: the descriptor's mode and its time limits,
//!   which are remembered (`fd/remembered.rs`).
//! - `message.rs`: lists of buffers of which a part is done, and descriptors in messages.
//! - `process.rs`: children of `vfork`, which do not park, and the calls that make them.
//! - `futex.rs`: `futex`, by which std's locks wait. (`syscall`, which makes it, is in `syscall.rs` of
//!   `monochrome`.)
//! - `host.rs`: what the hooks ask of `monochrome`.
//! - `sync.rs`: atomics, or loom's in a model; `models.rs`: the root of the crate of the models.
//! - `threads.rs` and `threads/`: threads of pthread that are green threads.
//! - `read.rs`, `write.rs`, `accept.rs`, `connect.rs`, `poll.rs`, `sleep.rs`, `names.rs`, `close.rs`: the
//!   hooks. `checked.rs`: those that C calls with the size of its buffer.
//!
//! The runtime's own code makes system calls by `netpoll::raw`, and calls no hook: not in signal handlers,
//! and not where an M is woken (`ci/raw-calls.sh` checks that). What std and other crates call on the
//! runtime's behalf does not park: in the runtime a P is not lent, which `may_park` sees. Descriptors of
//! the runtime are non-blocking.

#![cfg(all(
    feature = "catch",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(unsafe_code)]

pub mod accept;
pub mod checked;
pub mod close;
pub mod connect;
mod fd;
pub mod futex;
pub mod host;
mod message;
pub mod mode;
pub mod names;
pub mod poll;
pub mod process;
mod raw;
pub mod read;
pub mod select;
pub mod sleep;
mod sync;
pub mod threads;
mod wait;
pub mod write;

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

use netpoll::raw::fail;

/// Returns `true` if the caller was cancelled, or unwinds if `unwinds` says so (`threads/cancel.rs`).
type AtPoint = fn(unwinds: bool) -> bool;

/// An `AtPoint`; null as long as no green thread was cancelled by pthread.
static AT_POINT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Lets cancellation points call `at_point`.
fn set_cancellation_point(at_point: AtPoint) {
    // Release: pairs with the Acquire in `is_cancelled`.
    AT_POINT.store(at_point as *mut (), Ordering::Release);
}

fn at_point(unwinds: bool, order: Ordering) -> bool {
    let at_point = AT_POINT.load(order);
    // SAFETY: `set_cancellation_point` has stored a function of this type.
    !at_point.is_null() && unsafe { std::mem::transmute::<*mut (), AtPoint>(at_point)(unwinds) }
}

/// A cancellation point of pthread: unwinds if the caller was cancelled. *Runs on: any thread, in a call of
/// libc's.*
#[inline]
fn cancellation_point() {
    // Relaxed: the pointer leads to code, which is always there. A canceller ends the wait of its thread,
    // too, which orders the two.
    at_point(true, Ordering::Relaxed);
}

/// Returns `true` if the next cancellation point of the caller unwinds. *Runs on: any thread.*
fn is_cancelled() -> bool {
    at_point(false, Ordering::Acquire)
}

/// Begins a call on `fd`. A cancellation of pthread takes effect here. Returns `true` if the call may park:
/// the code of a green thread runs here. Standard input, output and error belong to libc: std holds locks of
/// the OS thread around them.
#[inline]
fn begin_call(fd: c_int) -> bool {
    cancellation_point();
    sched::foreign::is_user_code() && fd > libc::STDERR_FILENO
}

/// Converts the result of a system call into that of a function of libc: an error becomes -1 and `errno`. A
/// cancellation of pthread that has ended a wait takes effect here.
#[inline]
fn finish(result: isize) -> isize {
    if result < 0 { finish_failed(result) } else { result }
}

#[cold]
fn finish_failed(result: isize) -> isize {
    if result == error(libc::ECANCELED) {
        cancellation_point();
    }
    fail(result)
}

/// The result of an attempt that would wait.
const AGAIN: isize = error(libc::EAGAIN);

/// An error as system calls return it.
const fn error(errno: c_int) -> isize {
    -(errno as isize)
}

/// Records what hooks need to know of the process, and of the crate that has the runtimes. *Runs on: the
/// maker of a runtime.*
pub fn note(of: &'static host::Host) {
    host::set(of);
    process::note();
}
