//! Waiting of a green or plain thread in one queue; the node lies in its stack frame. `wait` enters, parks
//! and leaves. `Spot` does the same as two calls, `enter` and `leave`, for callers that park in between.
//! `Ended` reports a time-out or a cancellation, with the lock held again.

use std::time::Instant;

use sched::Outcome;
use sched::park::Waiting;

use super::{Guard, Lock, Node, Queue};

/// A wait that timed out or was cancelled, with the lock held again.
#[derive(Debug)]
pub struct Ended<'l, S, T> {
    /// `TimedOut` or `Cancelled`.
    pub outcome: Outcome,
    /// The guard. After `Cancelled`, drop the guard and then call
    /// [`unwind_if_cancelled`](sched::park::unwind_if_cancelled).
    pub guard: Guard<'l, S>,
    /// The payload as it was given: nothing was granted.
    pub payload: T,
    /// True if the node was still queued; false if a granter had tried to wake it.
    pub was_queued: bool,
}

/// How to wait: the place in the queue, the deadline, and the wakes to deliver before parking.
#[derive(Debug, Default)]
pub struct WaitOptions {
    /// True to enter at the front: for a waiter that was first, was woken to look again, and must wait again.
    pub first: bool,
    /// The deadline of the wait, if there is one.
    pub deadline: Option<Instant>,
    /// Wakes that are delivered after the lock is released and before the caller parks. No futures: a waker
    /// is user code, and could begin another wait of the calling thread.
    pub wakes: Option<super::Wakes>,
}

impl From<Option<Instant>> for WaitOptions {
    #[inline]
    fn from(deadline: Option<Instant>) -> Self {
        WaitOptions { deadline, ..WaitOptions::default() }
    }
}

/// A waiter's place in a queue, in its own frame: `enter`, park, `leave`, as often as needed. `Spot` serves
/// callers that split their work into a function before the park and a function after it. Only the switch is
/// then inlined into their callers. Other callers use [`wait`].
pub struct Spot<'l, S, T, Q> {
    lock: &'l Lock<S>,
    queue: Q,
    /// `Some` from `enter` to `leave`.
    node: Option<Node<T>>,
}

impl<'l, S, T, Q: Fn(&mut S) -> &mut Queue<T>> Spot<'l, S, T, Q> {
    /// Makes a spot for `queue`, which `lock` guards.
    #[inline]
    pub fn new(lock: &'l Lock<S>, queue: Q) -> Self {
        Spot { lock, queue, node: None }
    }

    /// Returns the lock that guards the queue.
    #[inline]
    pub fn lock(&self) -> &'l Lock<S> {
        self.lock
    }

    /// Pushes a node with `payload` into the queue and releases the lock.
    ///
    /// # Safety
    /// The caller parks `waiting` and then always calls `leave` with the outcome. Until then the spot stays
    /// in place. Nothing in between unwinds.
    ///
    /// # Panics
    /// Panics if the guard belongs to another lock.
    #[inline]
    pub unsafe fn enter(&mut self, mut guard: Guard<'l, S>, waiting: &Waiting, how: WaitOptions, payload: T) {
        assert!(std::ptr::eq(Guard::lock(&guard), self.lock), "the guard of another lock");
        // In a child of `fork` the waker may not exist. An endless park there would unwind, so refuse it
        // here, before the push.
        #[cfg(not(loom))]
        if sched::fork::is_forked() && is_endless(how.deadline) {
            sched::fork::check_or_panic();
        }
        let node = self.node.insert(Node::of_thread(waiting.ticket(), 0, payload));
        // SAFETY: the queue is under its lock, and the node is new. The spot stays in place until `leave`, by
        // this contract. `leave` removes the node unless the wait was decided as woken.
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

    /// Returns the payload, with the grant in it.
    ///
    /// # Errors
    /// Returns `Ended` if the wait timed out or was cancelled. The waiter has left the queue and was granted
    /// nothing.
    ///
    /// # Safety
    /// `enter` was called, and the wait that it was given has ended with `outcome`.
    #[inline]
    pub unsafe fn leave(&mut self, outcome: Outcome) -> Result<T, Ended<'l, S, T>> {
        if outcome == Outcome::Woken {
            return Ok(self.node.take().expect("leave follows enter").into_payload());
        }
        let mut guard = self.lock.lock();
        let node = self.node.as_ref().expect("leave follows enter");
        // SAFETY: `enter` pushed the node into this queue, which is under its lock.
        let was_queued = unsafe { (self.queue)(&mut guard).remove(node) };
        let payload = self.node.take().expect("leave follows enter").into_payload();
        Err(Ended { outcome, guard, payload, was_queued })
    }
}

impl<S, T, Q> std::fmt::Debug for Spot<'_, S, T, Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spot").finish_non_exhaustive()
    }
}

/// Returns `true` if a wait with `deadline` has no end.
#[cfg(not(loom))]
pub(crate) fn is_endless(deadline: Option<Instant>) -> bool {
    deadline.is_none_or(|deadline| timers::clock::at(deadline) == timers::clock::NEVER)
}

/// Parks, until `deadline` if there is one. Returns how the wait ended.
#[inline(always)]
pub fn park(waiting: Waiting, deadline: Option<Instant>) -> Outcome {
    match deadline {
        None => waiting.park(),
        Some(deadline) => waiting.park_until(deadline),
    }
}

/// Releases the lock and waits in one of its queues, with `payload`, until a wake, a cancellation, or the
/// deadline. Returns the payload, with the grant in it. The caller begins `waiting` first.
///
/// Does not unwind. A waiter that timed out or was cancelled has left the queue and was granted nothing.
///
/// # Errors
/// Returns `Ended` if the wait timed out or was cancelled.
#[inline(always)]
pub fn wait<'l, S, T>(
    guard: Guard<'l, S>,
    queue: impl Fn(&mut S) -> &mut Queue<T>,
    waiting: Waiting,
    how: impl Into<WaitOptions>,
    payload: T,
) -> Result<T, Ended<'l, S, T>> {
    let how = how.into();
    let deadline = how.deadline;
    let mut spot = Spot::new(Guard::lock(&guard), queue);
    // SAFETY: the spot stays in this frame, and the line after `enter` leaves it; nothing in between unwinds.
    unsafe {
        spot.enter(guard, &waiting, how, payload);
        spot.leave(park(waiting, deadline))
    }
}
