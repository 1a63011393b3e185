//! What a locker does in any lock: it waits until something ends its patience, spins, queues up, and starves.

use std::time::Instant;

#[cfg(not(loom))]
use crate::queue::is_endless;
use crate::queue::{Ended, Guard, Queue, WaitOptions, wait};
pub(super) use sched::park::Waiting;
#[cfg(not(loom))]
use sched::park::spinning_pays;
use sched::{Awaited, Cancel, On, Why};

/// What may end a wait for a lock before the waiter is woken.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Whether a cancellation ends the wait.
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
pub(super) struct Line {
    pub(super) since: Option<u64>,
    pub(super) woken: bool,
}

impl Line {
    /// The state of a woken waiter. Its waiting time starts with its next wait.
    pub(super) fn woken() -> Self {
        Line { since: None, woken: true }
    }

    /// Returns the time at which the waiting began. Sets it to now at the first call.
    pub(super) fn since(&mut self) -> u64 {
        *self.since.get_or_insert_with(now)
    }

    /// Returns `true` if the locker was woken before and has waited for `PATIENCE_NS` since its first wait.
    pub(super) fn starves(&self) -> bool {
        self.woken && self.since.is_some_and(is_long_ago)
    }
}

/// A woken waiter that has waited for this long and finds the lock taken sets `STARVING`.
#[cfg(not(loom))]
const PATIENCE_NS: u64 = 1_000_000;
/// In the models each woken waiter that finds the lock taken sets `STARVING`.
#[cfg(loom)]
const PATIENCE_NS: u64 = 0;

pub(super) fn is_long_ago(since: u64) -> bool {
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
pub(super) fn spin(mut free: impl FnMut() -> Option<bool>) -> bool {
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
pub(super) fn spin(_free: impl FnMut() -> Option<bool>) -> bool {
    false
}

/// Pushes a waiter into the queue, releases the guard and parks. Returns the payload, with the grant in it.
///
/// A locker that was woken before goes to the front of the queue. Dumps show what `look` finds at `object`,
/// which the caller borrows until this returns.
///
/// # Errors
/// Returns `Ended` if the wait timed out or was cancelled.
pub(super) fn stay<'l, S, T, O>(
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
pub(super) fn check_fork(patience: Patience) {
    if !sched::fork::is_forked() || !is_endless(patience.deadline) {
        return;
    }
    match patience.cancel {
        Cancel::Ends | Cancel::Masked => sched::fork::check_or_panic(),
        Cancel::Waits => sched::fork::check_or_abort(),
    }
}

#[cfg(loom)]
pub(super) fn check_fork(_patience: Patience) {}
