//! Locking as a future: `MutexFuture` and `RwLockFuture`. A future queues up beside the threads, and is
//! served in turn.
//!
//! ```text
//!   poll                                         drop, by a future that is not ready
//!   the lock is free: take it, ready             take the queue's lock
//!   else push the node, pending                  still queued: unlink the node; then as a waiter that times out
//!     woken: clear WOKEN, try again; taken:        woken: clear WOKEN, wake the next waiter
//!            push the node at the front            handed over: unlock, by handing over to the next waiter
//!     handed over: ready
//! ```
//!
//! *A woken thread always retries; a woken future may never be polled again.* The drop of such a future does
//! what its retry would have done. Until that poll or drop no second waiter is woken, because `WOKEN` is set.
//! Newcomers may take the lock in that time.

#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::locker::Line;
use super::mutex::{Mutex, Waiter};
use super::rwlock::{Queues, RwLock, Waiter as RwWaiter, Wants};
use crate::queue::{Guard, PassOn, Queue, WaitFuture};
use sched::sync::broken;

/// Locks a mutex. When it is ready, the caller has the mutex.
#[must_use = "futures do nothing unless polled"]
pub struct MutexFuture<'m> {
    mutex: &'m Mutex,
    line: Line,
    /// Pinned with the future.
    waits: WaitFuture<'m, Queue<Waiter>, Waiter, MutexLeaver<'m>>,
}

/// The drop of a `MutexFuture` that waits.
struct MutexLeaver<'m>(&'m Mutex);

impl PassOn<Queue<Waiter>, Waiter> for MutexLeaver<'_> {
    fn regrant(&mut self, queue: Guard<'_, Queue<Waiter>>, waiter: Waiter) {
        if broken!("mutex_future_keeps_its_grant") {
            return;
        }
        if waiter.owns {
            drop(queue);
            // SAFETY: the mutex was handed over to the dropped future, which had not taken notice of that.
            unsafe { self.0.unlock_fair() };
        } else if !broken!("mutex_future_keeps_its_wake") {
            self.0.woken_left(queue);
        }
    }

    fn left(&mut self, queue: Guard<'_, Queue<Waiter>>, _waiter: Waiter) {
        if !broken!("mutex_future_leaves_its_bit") {
            self.0.left(queue);
        }
    }
}

impl<'m> MutexFuture<'m> {
    /// Makes a future that locks `mutex`.
    pub fn new(mutex: &'m Mutex) -> Self {
        let waits = WaitFuture::new(&mutex.queue, |queue| queue, MutexLeaver(mutex));
        MutexFuture { mutex, line: Line::default(), waits }
    }
}

impl Future for MutexFuture<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: no field is moved out of the future, and `waits` is used pinned only.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `waits` is pinned because this future is.
        let mut waits = unsafe { Pin::new_unchecked(&mut this.waits) };
        if !waits.is_waiting() && this.mutex.try_lock() {
            return Poll::Ready(());
        }
        // Cloning a waker is user code. An unwind after `poll_granted` would lose the wake-up.
        let waker = cx.waker().clone();
        if waits.is_waiting() {
            if ready!(waits.as_mut().poll_granted(cx)).owns {
                this.mutex.holder.took();
                return Poll::Ready(());
            }
            this.line.woken = true;
        } else {
            this.line = Line::default();
        }
        let Some(queue) = this.mutex.take_or_enter(this.line) else { return Poll::Ready(()) };
        waits.enter_at(queue, waker, Waiter::new(this.line.since()), this.line.woken);
        Poll::Pending
    }
}

impl fmt::Debug for MutexFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexFuture").finish_non_exhaustive()
    }
}

/// Takes a reader-writer lock in one mode. When it is ready, the caller has the lock in that mode.
#[must_use = "futures do nothing unless polled"]
pub struct RwLockFuture<'l, const RECURSIVE: bool> {
    lock: &'l RwLock<RECURSIVE>,
    wants: Wants,
    line: Line,
    /// Pinned with the future.
    waits: WaitFuture<'l, Queues, RwWaiter, RwLockLeaver<'l, RECURSIVE>>,
}

/// The drop of a `RwLockFuture` that waits.
struct RwLockLeaver<'l, const RECURSIVE: bool>(&'l RwLock<RECURSIVE>);

impl<const RECURSIVE: bool> PassOn<Queues, RwWaiter> for RwLockLeaver<'_, RECURSIVE> {
    fn regrant(&mut self, queues: Guard<'_, Queues>, waiter: RwWaiter) {
        if broken!("rwlock_future_keeps_its_grant") {
            return;
        }
        if waiter.has {
            drop(queues);
            self.0.record(waiter.wants);
            // SAFETY: the dropped future was given the lock in this mode, and had not taken notice of that.
            unsafe { self.0.unlock_fair(waiter.wants) };
        } else if !broken!("rwlock_future_keeps_its_wake") {
            self.0.woken_left(queues);
        }
    }

    fn left(&mut self, queues: Guard<'_, Queues>, waiter: RwWaiter) {
        if !broken!("rwlock_future_stays_counted") {
            self.0.left(queues, waiter.wants == Wants::Alone);
        }
    }
}

impl<'l, const RECURSIVE: bool> RwLockFuture<'l, RECURSIVE> {
    /// Makes a future that takes `lock` in the mode `wants`.
    pub fn new(lock: &'l RwLock<RECURSIVE>, wants: Wants) -> Self {
        let waits = WaitFuture::new(&lock.queues, |queues| &mut queues.line, RwLockLeaver(lock));
        RwLockFuture { lock, wants, line: Line::default(), waits }
    }
}

impl<const RECURSIVE: bool> Future for RwLockFuture<'_, RECURSIVE> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: no field is moved out of the future, and `waits` is used pinned only.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `waits` is pinned because this future is.
        let mut waits = unsafe { Pin::new_unchecked(&mut this.waits) };
        // Cloning a waker is user code. An unwind after `poll_granted` would lose the wake-up.
        let waker = cx.waker().clone();
        if waits.is_waiting() {
            if ready!(waits.as_mut().poll_granted(cx)).has {
                this.lock.record(this.wants);
                return Poll::Ready(());
            }
            this.line.woken = true;
        } else {
            this.line = Line::default();
        }
        let Some(queues) = this.lock.take_or_enter(this.wants, this.line) else { return Poll::Ready(()) };
        let waiter = RwWaiter { wants: this.wants, since: this.line.since(), has: false };
        waits.enter_at(queues, waker, waiter, this.line.woken);
        Poll::Pending
    }
}

impl<const RECURSIVE: bool> fmt::Debug for RwLockFuture<'_, RECURSIVE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLockFuture").field("wants", &self.wants).finish_non_exhaustive()
    }
}
