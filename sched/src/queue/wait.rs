//! Waiting in one queue: the node lies in the frame of the one who waits.

use std::time::Instant;

use super::{Guard, Node, Queue};
use crate::g::wait::Outcome;

#[cfg(loom)]
use super::modelled::Waiting;
#[cfg(not(loom))]
use crate::park::Waiting;

/// A wait that ended otherwise than as woken; the lock is held again.
#[derive(Debug)]
pub struct Ended<'l, S, T> {
    /// `TimedOut` or `Cancelled`.
    pub outcome: Outcome,
    /// The lock. After `Cancelled`, release it and then call [`unwind_if_cancelled`](crate::park::unwind_if_cancelled).
    pub guard: Guard<'l, S>,
    /// What it waited with, as it was: nothing was granted.
    pub payload: T,
    /// It was in the queue until then; else somebody had tried to wake it.
    pub was_queued: bool,
}

/// How to wait: where in the queue, how long, and whom to wake before.
#[derive(Debug, Default)]
pub struct How {
    /// Before all others, instead of behind them: for one who had been the first, was woken to look again, and must wait on.
    pub first: bool,
    /// The end of patience.
    pub deadline: Option<Instant>,
    /// Who is woken when the lock is released, before parking: threads that look for somebody to wait here. (No futures:
    /// a waker is user code, and could begin another wait of this thread.)
    pub wakes: Option<super::Wakes>,
}

impl From<Option<Instant>> for How {
    #[inline]
    fn from(deadline: Option<Instant>) -> Self {
        How { deadline, ..How::default() }
    }
}

/// Releases the lock and waits in one of its queues, with `payload`, until somebody wakes it or (with a deadline) until
/// then. Gives the payload, with what was granted in it. Begin the wait first: [`Waiting::begin`].
///
/// It does not unwind. A cancelled or timed-out waiter has left the queue and got nothing.
///
/// # Errors
/// It ended otherwise than as woken.
#[inline(always)]
pub fn wait<'l, S, T>(
    mut guard: Guard<'l, S>,
    queue: impl Fn(&mut S) -> &mut Queue<T>,
    waiting: Waiting,
    how: impl Into<How>,
    payload: T,
) -> Result<T, Ended<'l, S, T>> {
    let how = how.into();
    // In a child of `fork`, who would wake it may not be there; parking there unwinds, which it must not do below.
    #[cfg(not(loom))]
    if how.deadline.is_none() {
        crate::fork::check_or_panic();
    }
    let node = Node::of_thread(waiting.ticket(), 0, payload);
    // SAFETY: the queue is under its lock; the node is new and stays in this frame, which is left only below: after the
    // wait was decided as woken, or after `remove`. Nothing in between unwinds.
    unsafe {
        if how.first {
            queue(&mut guard).push_front(&node);
        } else {
            queue(&mut guard).push_back(&node);
        }
    }
    let lock = Guard::lock(&guard);
    drop(guard);
    drop(how.wakes);
    let outcome = match how.deadline {
        None => waiting.park(),
        Some(deadline) => waiting.park_until(deadline),
    };
    if outcome == Outcome::Woken {
        return Ok(node.into_payload());
    }
    let mut guard = lock.lock();
    // SAFETY: it is the queue that the node was pushed into.
    let was_queued = unsafe { queue(&mut guard).remove(&node) };
    Err(Ended { outcome, guard, payload: node.into_payload(), was_queued })
}
