//! Thread-locals of its own for each closure: the block of thread-locals is switched together with the stack.
//!
//! The block of an OS thread has all its thread-locals. They come from `std::thread_local!`, from C's
//! `__thread`, and from libc. libc's own record of the thread has `errno` and the values of pthread's keys. A
//! register of the processor, the *base*, says where the block is. Here each coroutine has a block, made by
//! libc as for a new thread:
//!
//! ```text
//!   the M's base                          the base of the coroutine's block
//!   enter   the M, its base and malloc's words go to the block
//!           the base is set ───────────>  the switch to the stack of the closure
//!                                         the closure runs; what it parks on is the runtime's, which reads the M in the block
//!   leave   the base is set <───────────  the switch back
//!           malloc's words come back
//!   renew   after the end of a closure: the block is as new for the next one
//! ```
//!
//! From one G straight to the next the M goes from block to block (`tls/under.rs`, `run/with_locals.rs`).
//!
//! The closure may go on under another M: its block comes along, so everything that it knows of "its thread"
//! holds. Rust's argument for `std::thread::spawn` holds for it, too: no other code uses its block as long as
//! it runs.
//!
//! - Between the two settings of a base and the switch of stacks nothing touches a thread-local.
//! - Destructors run at the end of a closure, on its stack and under its block, before its join returns
//!   (`end`).
//! - Polls of futures keep the M's block, because a poll does not change its OS thread. While a poll is
//!   parked, the M's block belongs to it. Other polls on the M then have the blocks of their coroutines until
//!   they end. So no code finds a scope that another poll has begun.
//! - malloc keeps what a thread has freed in the block. A block takes over the two words of the M that runs
//!   it, or each would have a store of its own.
//! - glibc changes the user of a process by a signal to all threads, and marks each thread in its block. The
//!   handler therefore runs under the M's own base.
//!
//! What the blocks rely on is not in glibc's interface. So the first runtime with such blocks looks up each
//! name and offset, tries each use, and refuses if anything differs ([`check`]).

#![allow(unsafe_code)]

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, tsan, asan, portable))
))]
#[path = "tls/glibc.rs"]
mod block;
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, tsan, asan, portable))
)))]
#[path = "tls/absent.rs"]
mod block;

mod under;

pub(crate) use block::{Block, Way, check, come_back, go_home, is_own, under_home};

/// Under which block of thread-locals an M runs.
pub(crate) type Under = under::Under<Way>;
