//! The raw locks under `runtime::sync`: mutex, reader-writer lock, condition variable, once. Also here is
//! what the locks share: what may end a wait (`Patience`), how long a locker has waited (`Line`), `spin`, and
//! queueing up (`stay`).
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
//! `WAITING` tells whether the queue is empty, and changes under the queue's lock only. `STARVING` is set
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
mod mutex;
mod once;
mod rwlock;

use std::time::Instant;

use crate::g::wait::Cancel;
use crate::g::why::{Awaited, On, Why};
#[cfg(not(loom))]
use crate::wait::queue::is_endless;
use crate::wait::queue::{Ended, Guard, Queue, WaitOptions, wait};

pub use condvar::{Condvar, OtherMutex};
pub use futures::{MutexFuture, RwLockFuture};
#[cfg(not(loom))]
pub use holder::{Tracking, UPGRADABLE_SHARE, are_tracked, guards_travel, track};
pub use mutex::Mutex;
pub use once::{Once, Stage};
pub use rwlock::{RwLock, Wants};

#[cfg(not(loom))]
use crate::api::park::{Waiting, spinning_pays};
use crate::wait::queue::Wakes;
#[cfg(loom)]
use crate::wait::queue::modelled::Waiting;

/// What may end a wait for a lock before the waiter is woken.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tells whether a cancellation ends the wait.
    pub cancel: Cancel,
    /// The time at which the wait times out, if there is one.
    pub deadline: Option<Instant>,
}

impl Patience {
    /// No deadline; a cancellation ends the wait.
    pub const LONG: Patience = Patience { cancel: Cancel::Ends, deadline: None };
    /// No deadline; a cancellation does not end the wait.
    pub const ENDLESS: Patience = Patience { cancel: Cancel::Waits, deadline: None };

    /// Returns the patience that ends at `deadline` or at a cancellation.
    pub fn until(deadline: Instant) -> Patience {
        Patience { deadline: Some(deadline), ..Patience::LONG }
    }
}

/// What a locker knows about its own waiting: since when, and whether it has been woken yet.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    since: Option<u64>,
    woken: bool,
}

impl Line {
    /// The state of a waiter that was woken and whose waiting time starts with its next wait.
    fn woken() -> Self {
        Line { since: None, woken: true }
    }

    /// Returns the time at which the waiting began. Sets it to now at the first call.
    fn since(&mut self) -> u64 {
        *self.since.get_or_insert_with(now)
    }

    /// Returns `true` if the locker was woken before and has waited for `PATIENCE_NS` since its first wait.
    fn starves(&self) -> bool {
        self.woken && self.since.is_some_and(is_long_ago)
    }
}

/// A woken waiter that has waited for this long and finds the lock taken sets `STARVING`.
#[cfg(not(loom))]
const PATIENCE_NS: u64 = 1_000_000;
/// In the models each woken waiter that finds the lock taken sets `STARVING`.
#[cfg(loom)]
const PATIENCE_NS: u64 = 0;

fn is_long_ago(since: u64) -> bool {
    now().saturating_sub(since) >= PATIENCE_NS
}

#[cfg(not(loom))]
fn now() -> u64 {
    timers::clock::now()
}

#[cfg(loom)]
fn now() -> u64 {
    0
}

/// Polls `free` a few times before the caller queues up. Returns the first answer of `free`, or `false` if
/// `free` gave none.
#[cfg(not(loom))]
fn spin(mut free: impl FnMut() -> Option<bool>) -> bool {
    const ROUNDS: u32 = 4;
    const PAUSES: u32 = 30;
    // The lock may be free while waiters are queued. A newcomer may take such a lock.
    if let Some(end) = free() {
        return end;
    }
    if !spinning_pays() {
        return false;
    }
    for _ in 0..ROUNDS {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        if let Some(end) = free() {
            return end;
        }
    }
    false
}

/// The models do not spin: spinning would only add interleavings.
#[cfg(loom)]
fn spin(_free: impl FnMut() -> Option<bool>) -> bool {
    false
}

/// Pushes a waiter into the queue, releases the guard and parks. Returns the payload, with the grant in it.
///
/// A locker that was woken before goes to the front of the queue. Dumps show what `look` finds at `object`,
/// which the caller borrows until this returns.
///
/// # Errors
/// Returns `Ended` if the wait timed out or was cancelled.
fn stay<'l, S, T, O>(
    why: Why,
    (object, look): (&O, fn(&O) -> Option<Awaited>),
    guard: Guard<'l, S>,
    queue: impl Fn(&mut S) -> &mut Queue<T>,
    line: Line,
    patience: Patience,
    payload: T,
) -> Result<T, Ended<'l, S, T>> {
    check_fork(patience);
    let how = WaitOptions { first: line.woken, deadline: patience.deadline, ..WaitOptions::default() };
    let on = On::new(object, look);
    // SAFETY: `on` and the borrow of `object` last until this function returns, after the wait.
    let waiting = unsafe { Waiting::begin_on(why, &on, patience.cancel) };
    wait(guard, queue, waiting, how, payload)
}

/// Refuses an endless wait in a child of `fork`, where the holder of the lock may not exist. Panics if the
/// wait is cancellable, else aborts.
#[cfg(not(loom))]
fn check_fork(patience: Patience) {
    if !crate::sys::fork::is_forked() || !is_endless(patience.deadline) {
        return;
    }
    match patience.cancel {
        Cancel::Ends | Cancel::Masked => crate::sys::fork::check_or_panic(),
        Cancel::Waits => crate::sys::fork::check_or_abort(),
    }
}

#[cfg(loom)]
fn check_fork(_patience: Patience) {}

#[cfg(all(test, loom))]
mod models;
