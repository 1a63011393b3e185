//! Waiting in one queue: the node lies in the frame of the one who waits.

use std::time::Instant;

use super::{Guard, Lock, Node, Queue};
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

/// Where one waits in a queue, in its own frame: `enter`, park, `leave`, as often as it likes. For those who do their work in
/// two functions before and after the park, so that only the switch is inlined into whoever calls them; the others
/// [`wait`].
pub struct Spot<'l, S, T, Q> {
    lock: &'l Lock<S>,
    queue: Q,
    /// There from `enter` to `leave`.
    node: Option<Node<T>>,
}

impl<'l, S, T, Q: Fn(&mut S) -> &mut Queue<T>> Spot<'l, S, T, Q> {
    /// One in that queue, which is under that lock.
    #[inline]
    pub fn new(lock: &'l Lock<S>, queue: Q) -> Self {
        Spot { lock, queue, node: None }
    }

    /// The lock that its queue is under.
    #[inline]
    pub fn lock(&self) -> &'l Lock<S> {
        self.lock
    }

    /// Enters the queue, with `payload`, and releases the lock.
    ///
    /// # Safety
    /// The caller parks `waiting` and then calls `leave` with how that ended, whatever happens; until then the spot stays
    /// where it is. Nothing in between unwinds.
    ///
    /// # Panics
    /// If the guard is that of another lock.
    #[inline]
    pub unsafe fn enter(&mut self, mut guard: Guard<'l, S>, waiting: &Waiting, how: How, payload: T) {
        assert!(std::ptr::eq(Guard::lock(&guard), self.lock), "the guard of another lock");
        // In a child of `fork`, who would wake it may not be there; parking there unwinds, which it must not do later.
        #[cfg(not(loom))]
        if how.deadline.is_none() {
            crate::fork::check_or_panic();
        }
        let node = self.node.insert(Node::of_thread(waiting.ticket(), 0, payload));
        // SAFETY: the queue is under its lock; the node is new, and by this contract stays until `leave`, which is called
        // when the wait was decided as woken, and else removes it.
        unsafe {
            if how.first {
                (self.queue)(&mut guard).push_front(node);
            } else {
                (self.queue)(&mut guard).push_back(node);
            }
        }
        drop(guard);
        drop(how.wakes);
    }

    /// Gives the payload, with what was granted in it.
    ///
    /// # Errors
    /// It ended otherwise than as woken; it has left the queue and got nothing.
    ///
    /// # Safety
    /// It has entered, and the wait that it entered with has ended so.
    #[inline]
    pub unsafe fn leave(&mut self, outcome: Outcome) -> Result<T, Ended<'l, S, T>> {
        if outcome == Outcome::Woken {
            return Ok(self.node.take().expect("it has entered").into_payload());
        }
        let mut guard = self.lock.lock();
        let node = self.node.as_ref().expect("it has entered");
        // SAFETY: it is the queue that the node was pushed into.
        let was_queued = unsafe { (self.queue)(&mut guard).remove(node) };
        let payload = self.node.take().expect("it has entered").into_payload();
        Err(Ended { outcome, guard, payload, was_queued })
    }
}

impl<S, T, Q> std::fmt::Debug for Spot<'_, S, T, Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spot").finish_non_exhaustive()
    }
}

/// Parks, until then if there is a deadline.
#[inline(always)]
pub fn park(waiting: Waiting, deadline: Option<Instant>) -> Outcome {
    match deadline {
        None => waiting.park(),
        Some(deadline) => waiting.park_until(deadline),
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
    guard: Guard<'l, S>,
    queue: impl Fn(&mut S) -> &mut Queue<T>,
    waiting: Waiting,
    how: impl Into<How>,
    payload: T,
) -> Result<T, Ended<'l, S, T>> {
    let how = how.into();
    let deadline = how.deadline;
    let mut spot = Spot::new(Guard::lock(&guard), queue);
    // SAFETY: the spot stays in this frame, and the next line leaves it; nothing in between unwinds.
    unsafe {
        spot.enter(guard, &waiting, how, payload);
        spot.leave(park(waiting, deadline))
    }
}
