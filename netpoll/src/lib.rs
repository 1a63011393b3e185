//! The netpoller: readiness of descriptors on mio, knowing nothing of green threads.
//!
//! A *source* is a descriptor that the system can report on. Its [`PollDesc`] has one *semaphore* for each
//! [`Direction`], and a [`Waiter`] is one opaque word saying who waits there. One thread at a time polls; it
//! turns the system's events back into the waiters they are for and hands them to its caller.
//!
//! # The life of a wait
//!
//! ```text
//!    prepare ──► attempt: the system call ──► done
//!       ▲                 │ WouldBlock
//!       │                 ▼
//!       │               wait ──Err(Closed)──► an error
//!       │                 ├─Ready──┐
//!       │                 ├─Park ──┼── park ──┬─ woken ───────────────┐
//!       │                 │        │          └─ time-out ─► withdraw │
//!       └─────────────────┴────────┴──────────────────────────────────┘
//! ```
//!
//! Sources are registered once, for both directions, edge-triggered: the system reports a *change*, once. So
//! callers always make the attempt first, wait only after `WouldBlock`, and take a wake-up as a hint to try
//! again, never as a promise.
//!
//! # Protocol 1: no readiness is lost (`semaphore.rs`)
//!
//! ```text
//!   who waits                                       who polls
//!   1  prepare: read the count of events            1  the system reports a change
//!   2  attempt -> WouldBlock                        2  add one to the count
//!   3  put the waiter into the slot                 3  empty the slot, wake whom it held
//!   4  read the count: unchanged -> park            4  was the crowd flag up in 2? wake the crowd
//!      changed -> take the waiter out, try again
//! ```
//!
//! Whichever of the two 3s comes first, one side sees the other: they are read-modify-writes of one word. A
//! second waiter of the same direction joins the *crowd*, a list under a lock, and raises a flag that lives
//! in the count's own word, so that here too one word decides. Every event wakes all who wait. Closing is an
//! event that leaves a mark.
//!
//! # Protocol 2: no break is lost (`blocker.rs`)
//!
//! ```text
//!   who blocks                                      who has work or a timer for it
//!   1  publish until when                           1  make the work or the timer visible
//!   2  fence                                        2  fence
//!   3  look at timers and queues                    3  read until when: soon enough -> done
//!   4  wait                                         4  raise the flag; it was down -> write to the waker
//!   5  lower the flag, withdraw the time
//!   6  fence, then look at anything at all
//! ```
//!
//! A hundred breaks before 5 are one write. A write whose break was noticed otherwise makes some later wait
//! return for nothing: harmless. A break between 1 and 4 makes 4 return at once, for the waker keeps what was
//! written until it is waited for.
//!
//! # Protocol 3: no stranger is woken (`arena.rs`)
//!
//! ```text
//!   who gives a descriptor back                     who polls
//!   1  change its generation                        1  make the round's number odd
//!   2  fence                                        2  fence
//!   3  read the round; keep the slot out of use     3  for each event: the generation matches -> deliver
//!      while that is odd and unchanged              4  make the round's number even
//! ```
//!
//! # Rejected
//!
//! - *A remembered "ready" in the slot*, as in Go: one bit for all who wait. Two acceptors fail to accept,
//!   two connections come in one event, the first to wait eats the bit and takes one connection, the second
//!   parks beside the other connection for ever. (Go admits one reader at a time, so it cannot happen there.)
//!   With a count each waiter compares with what *it* saw, and a stale "ready" costs nobody a useless
//!   attempt.
//! - *A lock in each descriptor around every event*: simpler, but the one thread that polls would stand still
//!   for any thread that was preempted while it held one.
//! - *mio's time-out on Linux*: whole milliseconds, rounded up. See [`Turn::block`].
//! - *Several pollers*: a poller per P spreads the load but strands the events of a P whose thread computes.
//!
//! # Locks
//!
//! The poller (waited for only by whoever may block anyway; all others try), then a descriptor's crowd. The
//! arena's list of free slots is a leaf, and no other lock is taken under either of the last two.
//!
//! # Where things are
//!
//! `waiter.rs`, `semaphore.rs`, `arena.rs`, `blocker.rs` state the protocols and know no system: loom runs
//! them. `poller.rs` and `desc.rs` put mio under them; `sys/` has what each system needs for precise
//! time-outs.

#![deny(unsafe_code)]
// The models need only the protocols: much of what the poller calls is not called then.
#![cfg_attr(loom, allow(dead_code))]

mod arena;
mod blocker;
mod semaphore;
mod sync;
mod waiter;

#[cfg(not(loom))]
mod desc;
#[cfg(not(loom))]
mod poller;
#[cfg(not(loom))]
mod sys;

pub use blocker::WakeBy;
pub use semaphore::{Closed, Wait};
pub use waiter::{Direction, Waiter};

#[cfg(not(loom))]
pub use desc::{Attempt, PollDesc};
#[cfg(not(loom))]
pub use poller::{Counters, Netpoll, Turn};

/// The sockets that can be registered: non-blocking, and otherwise as in `std`.
#[cfg(not(loom))]
pub mod net {
    pub use mio::net::{TcpListener, TcpStream, UdpSocket};
    #[cfg(unix)]
    pub use mio::net::{UnixDatagram, UnixListener, UnixStream};
}

/// What can be registered.
#[cfg(not(loom))]
pub mod source {
    pub use mio::event::Source;
    #[cfg(unix)]
    pub use mio::unix::SourceFd;

    #[cfg(unix)]
    pub use crate::sys::is_ready;
}
