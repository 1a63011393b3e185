//! The blocking primitives of the crate `monochrome`, without what users see of them. They stand on the
//! public face of the scheduler (`sched`), which knows none of them.
//!
//! ```text
//!   locks      due       std_word      the locks; points in time that are awaited; waits of std's locks
//!       \       |       /
//!             queue                    waiters in a row, and the lock around them
//!               |
//!             sched                    Waiting, Ticket, Wake: one wait, who ends it, who makes it runnable
//! ```
//!
//! Channels, semaphores and the like stand on [`queue`] as well; they are in `runtime`.
//!
//! # The protocols, each with loom models
//!
//! - `queue.rs`: the wait queue under all blocking primitives. What is granted to a waiter is never lost.
//! - `locks.rs` and `locks/`: the raw locks. A lock has as many holders as it allows, and no waiter is left
//!   behind.
//! - `due.rs`: a deadline that a channel waits for is either taken once or stopped.
//! - `futex.rs`: a wait for a word of memory sees the changed word or is woken (feature `interpose`).
//!
//! The models run this code on loom's threads. `sched::modelled` then has the place of the scheduler.
//!
//! # Locks
//!
//! The lock of a primitive with a wait queue (`queue/lock.rs`) is taken before every lock of `sched`. A wait
//! may begin under it, which may allocate the proxy G of a plain OS thread. No G is made runnable under it,
//! no G is switched, and no code of the user runs. `notify` of a condition variable takes two of them: first
//! that of the condition, then that of the mutex.

// The models access raw cells by unsafe code; loom checks these accesses.
#![cfg_attr(not(loom), deny(unsafe_code))]
#![cfg_attr(loom, allow(unreachable_pub))]

pub mod due;
#[cfg(any(loom, all(feature = "interpose", target_os = "linux")))]
#[cfg_attr(loom, allow(dead_code))]
mod futex;
pub mod locks;
#[cfg_attr(loom, allow(dead_code))]
pub mod queue;

#[cfg(all(feature = "interpose", target_os = "linux", not(loom)))]
pub use futex::std_word;
