//! The raw locks under `runtime::sync`: mutex, reader-writer lock, condition variable, once. Also here is
//! what the locks share (`locks/locker.rs`).
//!
//! A mutex or reader-writer lock is one atomic word and a wait queue. While no waiter is queued, the word is
//! the whole state. Locking a free lock is one compare-and-swap of the word. Unlocking is one subtraction.
//! Neither enters the runtime. A locker that finds the lock taken sets `WAITING` in the word and queues up
//! under the small lock of the wait queue (`wait/queue.rs`). The unlocker sees `WAITING` and serves the
//! queue:
//!
//! ```text
//!   unlock                                       lock, when the lock is taken
//!   word -= LOCKED                               take the queue's lock
//!   WAITING set, and WOKEN clear or STARVING set?  lock still taken: word |= WAITING; else try again
//!     take the queue's lock                      push the node, release the queue's lock, park
//!     word |= WOKEN, wake the first waiter       woken: clear WOKEN, try again; taken: queue up at the front
//!     STARVING: hand over to the first waiter    handed over: the waiter owns the lock already
//! ```
//!
//! - *A woken waiter normally owns nothing.* The woken waiter retries beside newcomers. The newcomers run
//!   already and may lock and unlock many times before the woken waiter runs. That keeps a contended lock
//!   fast. No second waiter is woken while `WOKEN` is set; the woken waiter clears `WOKEN` when it retries.
//! - *Starvation.* A woken waiter that finds the lock taken again after 1 ms of waiting sets `STARVING`.
//!   While `STARVING` is set, no newcomer takes the lock: each unlocker hands the lock over to the first
//!   waiter. The unlocker clears `STARVING` after it served a waiter that had waited for less than 1 ms.
//!   (Go's mutex does the same.)
//! - *Leaving.* A waiter that timed out or was cancelled leaves the queue under the queue's lock. A lock that
//!   is handed over to such a waiter goes to the next waiter. Without a next waiter the lock becomes free.
//! - *Futures* queue up beside threads and are served in the same order (`locks/futures.rs`).
//!
//! The other bits of a word name the holders; each lock's file defines them. Two rules hold for every word.
//! `WAITING` is set if the queue is not empty, and changes under the queue's lock only. `STARVING` is set
//! only while the lock is taken, and only together with `WAITING`.
//!
//! Rejected: handing the lock over at every unlock. Each use of a contended lock would be a switch, and two
//! green threads that alternate on a lock would stay in step for ever.
//!
//! Rejected: keeping the word under the queue's lock. That costs two more writes for each use of a free lock.

#![allow(unsafe_code)]

mod condvar;
mod futures;
#[cfg_attr(loom, path = "locks/no_holder.rs")]
mod holder;
mod locker;
mod mutex;
mod once;
mod rwlock;

pub use condvar::{Condvar, OtherMutex};
pub use futures::{MutexFuture, RwLockFuture};
#[cfg(not(loom))]
pub use holder::{Tracking, UPGRADABLE_SHARE, are_tracked, guards_travel, track};
pub use locker::Patience;
pub use mutex::Mutex;
pub use once::{Once, Stage};
pub use rwlock::{RwLock, Wants};

#[cfg(all(test, loom))]
mod models;
