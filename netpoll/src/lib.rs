//! The netpoller: reports the readiness of descriptors, by mio. The crate knows nothing of green threads.
//!
//! A *source* is a descriptor that the system can report on. Its [`PollDesc`] has a *semaphore* for each
//! [`Direction`]. A [`Waiter`] is an opaque word that names a wait. One thread at a time polls the
//! sources that are near no place (`near.rs`): the *poller*. It turns the system's events back into waiters
//! and hands them to its caller. A *break* makes a blocked poller return early.
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
//! A source is registered for both directions, edge-triggered: the system reports each *change* once.
//! So a caller makes the attempt first and waits only after `WouldBlock`. A wake-up is a hint to try again,
//! never a promise.
//!
//! # Protocol 1: no readiness is lost (`semaphore.rs`)
//!
//! ```text
//!   the waiter                                      the poller
//!   1  prepare: read the count of events            1  the system reports a change
//!   2  attempt -> WouldBlock                        2  add one to the count
//!   3  put the waiter into the slot                 3  empty the slot, wake its waiter
//!   4  read the count: unchanged -> park            4  the crowd flag was up in 2: wake the crowd
//!      changed -> take the waiter out, try again
//! ```
//!
//! Both steps 3 are read-modify-writes of one word, so the later one sees the earlier one. A second waiter of
//! the same direction joins the *crowd*, a list under a lock, and raises a flag in the count's word. So one
//! word decides here, too. Every event wakes all waiters. Closing is an event that leaves a mark.
//!
//! # Protocol 2: no break is lost (`blocker.rs`)
//!
//! ```text
//!   the poller                                      a thread that has new work or a new timer
//!   1  publish the time at which the wait will end  1  make the work or the timer visible
//!   2  fence                                        2  fence
//!   3  look at timers and queues                    3  read the published time: soon enough -> done
//!   4  wait                                         4  raise the flag; it was down -> write to the waker
//!   5  lower the flag, withdraw the time
//!   6  fence, then look at timers and queues
//! ```
//!
//! A hundred breaks before step 5 cost one write. The poller may notice a break before the write of that
//! break. Then a later wait returns early, which is harmless. A break between steps 1 and 4 makes step 4
//! return at once: the waker keeps a write until the next wait.
//!
//! # Protocol 3: an event reaches only the owner of its descriptor (`arena.rs`)
//!
//! ```text
//!   the owner gives a descriptor back               the poller
//!   1  change its generation                        1  make the round's number odd
//!   2  fence                                        2  fence
//!   3  read the round; keep the slot out of use     3  for each event: the generation matches -> deliver
//!      while that is odd and unchanged              4  make the round's number even
//! ```
//!
//! A source may move to another poller (`near.rs`). Each poller has its own rounds, and the slot waits for
//! those of all pollers that its source was registered with.
//!
//! # Rejected
//!
//! - *A remembered "ready" bit in the slot*, as in Go. Two acceptors fail to accept; two connections come in
//!   one event. The first waiter consumes the bit and takes one connection. The second waiter parks for ever
//!   beside the other connection. (Go admits one reader at a time, so this cannot happen there.) With a
//!   count, each waiter compares with the count that it saw, and a stale "ready" causes no useless attempt.
//! - *A lock in each descriptor around every event*: simpler, but a thread that is preempted under such a
//!   lock would stop the poller.
//! - *mio's time-out on Linux and Windows*: whole milliseconds, rounded up. See [`Turn::block`].
//!
//! # Locks
//!
//! The poller's lock comes before that of a near poller. Both come before the lock of a descriptor's crowd,
//! and before the list of a foreign descriptor. Only the thread with the right to block waits for the
//! poller's lock; all other threads try it, and all threads try that of a near poller.
//! A holder of a crowd's lock, of such a list's lock, of the lock of the arena's free slots, or of a pipe's
//! lock on Windows, takes no other lock.
//!
//! # Where things are
//!
//! `waiter.rs`, `semaphore.rs`, `arena.rs` and `blocker.rs` state the protocols and name no system, so
//! loom can run them. `poller.rs` and `desc.rs` put mio under them. `near.rs` (Linux; `no_near.rs`
//! elsewhere) has a poller for each of the caller's places beside the one that all threads share.
//! `foreign.rs` (feature `foreign`) waits for descriptors of code that does not know the netpoller;
//! `standing.rs` is its protocol. `sys/` has what each system needs for precise time-outs, and the events
//! that Windows does not report. `sys/windows/` has its pipes and its exits of processes: their events
//! come from threads of the system. `raw.rs` makes system calls without libc, also for `sched` and
//! `runtime`.

#![deny(unsafe_code)]
// The models need only the protocols. Functions that only the poller calls are unused there.
#![cfg_attr(loom, allow(dead_code))]

mod arena;
mod blocker;
mod semaphore;
#[cfg(any(loom, all(feature = "foreign", target_os = "linux")))]
mod standing;
mod sync;
mod waiter;

#[cfg(not(loom))]
mod desc;
#[cfg(all(feature = "foreign", target_os = "linux", not(loom)))]
mod foreign;
#[cfg(not(loom))]
#[cfg_attr(any(not(target_os = "linux"), portable), path = "no_near.rs")]
mod near;
#[cfg(not(loom))]
mod poller;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom)))]
pub mod raw;
#[cfg(not(loom))]
mod sys;

pub use blocker::WakeBy;
pub use semaphore::{Closed, Wait};
pub use waiter::{Direction, Waiter};

#[cfg(not(loom))]
pub use desc::{Attempt, PollDesc};
#[cfg(all(feature = "foreign", target_os = "linux", not(loom)))]
pub use foreign::{Foreign, Seen, Station};
#[cfg(not(loom))]
pub use poller::{Counters, Netpoll, Polled, Report, Turn};
#[cfg(all(windows, not(loom)))]
pub use sys::Reporter;

/// The sockets that can be registered: non-blocking, and otherwise as in `std`.
#[cfg(not(loom))]
pub mod net {
    pub use mio::net::{TcpListener, TcpStream, UdpSocket};
    #[cfg(unix)]
    pub use mio::net::{UnixDatagram, UnixListener, UnixStream};
}

/// The ends of pipes: non-blocking if their maker has set that, and always on Windows.
#[cfg(not(loom))]
pub mod pipe {
    #[cfg(unix)]
    pub use mio::unix::pipe::{Receiver, Sender};

    #[cfg(windows)]
    pub use crate::sys::pipe::{Receiver, Sender, blocking_reader, blocking_writer, pair};
}

/// The exits of processes.
#[cfg(all(windows, not(loom)))]
pub mod process {
    pub use crate::sys::exit::Exit;
}

/// What can be registered.
#[cfg(not(loom))]
pub mod source {
    pub use mio::event::Source;
    #[cfg(unix)]
    pub use mio::unix::SourceFd;
    /// What a source of the user's own is registered with. Its events come by
    /// [`Netpoll::report`](crate::Netpoll::report).
    pub use mio::{Interest, Registry, Token};

    pub use crate::sys::connect_goes_on;
    #[cfg(unix)]
    pub use crate::sys::{Look, is_ready, look};
}
