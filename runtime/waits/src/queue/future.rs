//! `WaitFuture`: a wait in one queue as a future; its node lies in the pinned future. If the future is
//! dropped with a grant that it has not taken, `PassOn` gives the grant to another waiter, or back. If it is
//! dropped without a grant, `PassOn` corrects the state that counted the future as a waiter.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Guard, Lock, Node, Queue};

/// What is done when a future that waits is dropped. (A trait of its own: with a closure over guards the
/// compiler could not prove that a future is `Send`.)
pub trait PassOn<S, T> {
    /// Gives the grant to another waiter, or back. *Runs on: the thread that drops the future, with the lock
    /// held.*
    fn regrant(&mut self, guard: Guard<'_, S>, granted: T);

    /// Corrects the state after the future has left the queue with nothing. *Runs on: the thread that drops
    /// the future, with the lock held.*
    fn left(&mut self, _guard: Guard<'_, S>, _payload: T) {}
}

/// For grants that need not be passed on.
impl<S, T> PassOn<S, T> for () {
    fn regrant(&mut self, _guard: Guard<'_, S>, _granted: T) {}
}

impl<S, T> PassOn<S, T> for fn(Guard<'_, S>, T) {
    fn regrant(&mut self, guard: Guard<'_, S>, granted: T) {
        self(guard, granted);
    }
}

/// A wait in one queue of a primitive, for the primitive's own futures. A future that is dropped while queued
/// leaves the queue, and calls `left` under the same lock. If it is dropped with a grant that was not taken,
/// it calls `regrant` with the grant, under the lock.
#[must_use = "futures do nothing unless polled"]
pub struct WaitFuture<'l, S, T, P: PassOn<S, T>> {
    lock: &'l Lock<S>,
    queue: fn(&mut S) -> &mut Queue<T>,
    regrant: P,
    /// `Some` while the future waits or has a grant. Pinned with the future.
    node: Option<Node<T>>,
}

// SAFETY: all threads reach the node under the lock alone, the future included. What moves from thread to
// thread is the state, the payload and `regrant`, which are `Send`.
unsafe impl<'l, S: Send, T: Send, P: PassOn<S, T> + Send> Send for WaitFuture<'l, S, T, P> {}
// SAFETY: through a shared reference the future only gives its lock and whether it waits.
unsafe impl<'l, S: Send, T: Send, P: PassOn<S, T>> Sync for WaitFuture<'l, S, T, P> {}

impl<'l, S, T, P: PassOn<S, T>> WaitFuture<'l, S, T, P> {
    /// Makes a future that does not wait yet. `regrant` gets a grant that was not taken.
    pub fn new(lock: &'l Lock<S>, queue: fn(&mut S) -> &mut Queue<T>, regrant: P) -> Self {
        WaitFuture { lock, queue, regrant, node: None }
    }

    /// Returns the lock that guards the queue.
    pub fn lock(&self) -> &'l Lock<S> {
        self.lock
    }

    /// Returns `true` if the future is queued, or has a grant: then call `poll_granted`.
    pub fn is_waiting(&self) -> bool {
        self.node.is_some()
    }

    /// Enters the queue and releases the lock. Clone the waker before taking the lock: its `clone` is user
    /// code.
    ///
    /// # Panics
    /// Panics if the future waits already, or if the guard belongs to another lock.
    pub fn enter(self: Pin<&mut Self>, guard: Guard<'l, S>, waker: Waker, payload: T) {
        self.enter_at(guard, waker, payload, false);
    }

    /// Enters the queue as `enter` does; `first` as in [`WaitOptions`](super::WaitOptions).
    ///
    /// # Panics
    /// Panics if the future waits already, or if the guard belongs to another lock.
    pub(crate) fn enter_at(
        self: Pin<&mut Self>,
        mut guard: Guard<'l, S>,
        waker: Waker,
        payload: T,
        first: bool,
    ) {
        assert!(std::ptr::eq(Guard::lock(&guard), self.lock), "the guard of another lock");
        assert!(self.node.is_none(), "the future waits already");
        // SAFETY: nothing is moved out of the future; the node is taken only when it is in no queue.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node.insert(Node::of_future(waker, payload));
        // SAFETY: the queue is under its lock, and the node is new and pinned with this future.
        // `poll_granted` takes the node only after a grant unlinked it; `leave_queue`, which `leave` and
        // `drop` call, removes it first.
        unsafe {
            if first {
                (this.queue)(&mut guard).push_front(node);
            } else {
                (this.queue)(&mut guard).push_back(node);
            }
        }
    }

    /// Returns the payload once the grant is there; the future then waits no more.
    ///
    /// # Panics
    /// Panics if the future does not wait.
    pub fn poll_granted(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let waker = cx.waker().clone();
        // SAFETY: nothing is moved out of the future; the node is taken only when it is in no queue.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node.as_ref().expect("poll_granted follows enter");
        let guard = this.lock.lock();
        if !node.is_granted() {
            let old = node.set_waker(waker);
            drop(guard);
            // Dropping a waker is user code, so not under the lock.
            drop(old);
            return Poll::Pending;
        }
        drop(guard);
        Poll::Ready(this.node.take().expect("poll_granted follows enter").into_payload())
    }

    /// Leaves the queue. Returns the payload if nothing was granted.
    ///
    /// # Errors
    /// Returns the payload with its grant if there was a grant. Returns `None` if the future did not wait.
    pub fn leave(self: Pin<&mut Self>) -> Result<T, Option<T>> {
        let Some(Left { guard, payload, granted, waker }) = self.leave_queue() else { return Err(None) };
        drop(guard);
        drop(waker);
        if granted { Err(Some(payload)) } else { Ok(payload) }
    }

    /// Leaves the queue. Returns `None` if the future did not wait.
    fn leave_queue(self: Pin<&mut Self>) -> Option<Left<'l, S, T>> {
        // SAFETY: nothing is moved out of the future; the node is taken only when it is in no queue.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node.as_ref()?;
        let mut guard = this.lock.lock();
        // SAFETY: `enter` pushed the node into this queue, which is under its lock.
        unsafe { (this.queue)(&mut guard).remove(node) };
        let (granted, waker) = (node.is_granted(), node.take_waker());
        let payload = this.node.take().expect("the node was there").into_payload();
        Some(Left { guard, payload, granted, waker })
    }
}

/// A wait of a future that has left its queue, with the lock held.
struct Left<'l, S, T> {
    guard: Guard<'l, S>,
    payload: T,
    granted: bool,
    /// Dropping a waker is user code, so drop it after the guard.
    waker: Option<Waker>,
}

impl<'l, S, T, P: PassOn<S, T>> Drop for WaitFuture<'l, S, T, P> {
    fn drop(&mut self) {
        // SAFETY: the future is dropped where it was pinned, and `leave_queue` moves only the node's payload,
        // after the removal.
        let this = unsafe { Pin::new_unchecked(&mut *self) };
        let Some(Left { guard, payload, granted, waker }) = this.leave_queue() else { return };
        if granted {
            self.regrant.regrant(guard, payload);
        } else {
            self.regrant.left(guard, payload);
        }
        drop(waker);
    }
}

impl<'l, S, T, P: PassOn<S, T>> fmt::Debug for WaitFuture<'l, S, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFuture").field("is_waiting", &self.is_waiting()).finish()
    }
}
