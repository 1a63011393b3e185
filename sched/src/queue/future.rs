//! Waiting in a queue as a future: the node lies in the future, which is pinned.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Guard, Lock, Node, Queue};

/// What becomes of a grant that its future did not live to see. (A trait of its own: a closure over guards would keep the
/// compiler from seeing that a future with it is `Send`.)
pub trait PassOn<S, T> {
    /// Gives it to another. *Runs on: whoever drops the future, with the lock held.*
    fn pass_on(&mut self, guard: Guard<'_, S>, granted: T);
}

/// It is nothing that could be lost.
impl<S, T> PassOn<S, T> for () {
    fn pass_on(&mut self, _guard: Guard<'_, S>, _granted: T) {}
}

impl<S, T> PassOn<S, T> for fn(Guard<'_, S>, T) {
    fn pass_on(&mut self, guard: Guard<'_, S>, granted: T) {
        self(guard, granted);
    }
}

/// A wait in one queue of a primitive, to be used by the primitive's own futures.
///
/// Dropped while it is queued, it leaves; dropped when it has been granted something that nobody saw, it gives that to
/// `pass_on`, with the lock held.
#[must_use = "futures do nothing unless polled"]
pub struct WaitFuture<'l, S, T, P: PassOn<S, T>> {
    lock: &'l Lock<S>,
    queue: fn(&mut S) -> &mut Queue<T>,
    pass_on: P,
    /// There while it waits. Pinned with the future.
    node: Option<Node<T>>,
}

// SAFETY: the node is reached by others under the lock, and by its owner under the lock; the payload is what goes from
// thread to thread.
unsafe impl<'l, S: Send, T: Send, P: PassOn<S, T> + Send> Send for WaitFuture<'l, S, T, P> {}
// SAFETY: nothing can be done with a shared reference but to ask whether it waits.
unsafe impl<'l, S: Send, T: Send, P: PassOn<S, T>> Sync for WaitFuture<'l, S, T, P> {}

impl<'l, S, T, P: PassOn<S, T>> WaitFuture<'l, S, T, P> {
    /// One that does not wait yet. `pass_on` gets what was granted and not fetched.
    pub fn new(lock: &'l Lock<S>, queue: fn(&mut S) -> &mut Queue<T>, pass_on: P) -> Self {
        WaitFuture { lock, queue, pass_on, node: None }
    }

    /// The lock that its queue is under.
    pub fn lock(&self) -> &'l Lock<S> {
        self.lock
    }

    /// Whether it is in the queue, or has been granted what it waits for: then `poll_granted` is what to call.
    pub fn is_waiting(&self) -> bool {
        self.node.is_some()
    }

    /// Enters the queue, and releases the lock. Clone the waker before taking the lock: that is user code.
    ///
    /// # Panics
    /// If it waits already, or the guard is that of another lock.
    pub fn enter(self: Pin<&mut Self>, mut guard: Guard<'l, S>, waker: std::task::Waker, payload: T) {
        assert!(std::ptr::eq(Guard::lock(&guard), self.lock), "the guard of another lock");
        assert!(self.node.is_none(), "it waits already");
        // SAFETY: nothing is moved out of it; the node stays in its place until it is in no queue.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node.insert(Node::of_future(waker, payload));
        // SAFETY: the queue is under its lock; the node is new, is pinned with this future, and `poll_granted` and `drop`
        // take it away only when it has been granted, or removed.
        unsafe { (this.queue)(&mut guard).push_back(node) };
    }

    /// Gives the payload when it has been granted what it waits for; then it does not wait any more.
    ///
    /// # Panics
    /// If it does not wait.
    pub fn poll_granted(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let waker = cx.waker().clone();
        // SAFETY: as in `enter`.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node.as_ref().expect("it waits");
        let guard = this.lock.lock();
        if !node.is_granted() {
            let old = node.set_waker(waker);
            drop(guard);
            // User code, so not under the lock.
            drop(old);
            return Poll::Pending;
        }
        drop(guard);
        Poll::Ready(this.node.take().expect("it waits").into_payload())
    }

    /// Leaves the queue: the payload if it had not been granted anything.
    ///
    /// # Errors
    /// It has been granted what it waits for, or did not wait; the payload, if any, comes with that.
    pub fn leave(self: Pin<&mut Self>) -> Result<T, Option<T>> {
        // SAFETY: as in `enter`.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(node) = this.node.as_ref() else { return Err(None) };
        let mut guard = this.lock.lock();
        // SAFETY: it is the queue that the node was pushed into.
        unsafe { (this.queue)(&mut guard).remove(node) };
        let granted = node.is_granted();
        drop(guard);
        let payload = this.node.take().expect("it was there").into_payload();
        if granted { Err(Some(payload)) } else { Ok(payload) }
    }
}

impl<'l, S, T, P: PassOn<S, T>> Drop for WaitFuture<'l, S, T, P> {
    fn drop(&mut self) {
        // SAFETY: it is being dropped where it was pinned.
        let this = unsafe { Pin::new_unchecked(&mut *self) };
        if let Err(Some(granted)) = this.leave() {
            let guard = self.lock.lock();
            self.pass_on.pass_on(guard, granted);
        }
    }
}

impl<'l, S, T, P: PassOn<S, T>> fmt::Debug for WaitFuture<'l, S, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFuture").field("is_waiting", &self.is_waiting()).finish()
    }
}
