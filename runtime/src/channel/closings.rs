//! Waiting until a channel is closed: what senders do in `Sender::closed`.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::pin::pin;
#[cfg(not(loom))]
use std::task::{Poll, ready};

#[cfg(not(loom))]
use sched::budget::poll_fn;
use sched::park::{self, Waiting};
use sched::{Cancel, On};
#[cfg(not(loom))]
use waits::queue::WaitFuture;
use waits::queue::{self, Lock, Queue};

/// The state of a channel, under the lock at which senders wait for its end.
pub(super) trait Closing {
    fn is_closed(&self) -> bool;
    /// Returns the queue of the senders that wait for the end. The close of the channel wakes all of them.
    fn closings(&mut self) -> &mut Queue<()>;
}

/// Waits until the channel is closed. `on` lies in the channel of `lock`.
pub(super) fn wait_closed<S: Closing>(lock: &Lock<S>, on: &On) {
    loop {
        let state = lock.lock();
        if state.is_closed() {
            return;
        }
        // SAFETY: `on` and `lock` lie in one channel, which lasts until this function returns.
        let waiting = unsafe { Waiting::begin_on(sched::Why::Notification, on, Cancel::Ends) };
        if let Err(ended) = queue::wait(state, S::closings, waiting, None, ()) {
            drop(ended);
            park::unwind_if_cancelled();
        }
    }
}

/// Waits until the channel is closed, in a future.
#[cfg(not(loom))]
pub(super) async fn wait_closed_async<S: Closing>(lock: &Lock<S>) {
    let mut wait = pin!(WaitFuture::new(lock, S::closings, ()));
    poll_fn(|cx| {
        if wait.is_waiting() {
            ready!(wait.as_mut().poll_granted(cx));
        }
        let waker = cx.waker().clone();
        let state = lock.lock();
        if state.is_closed() {
            return Poll::Ready(());
        }
        wait.as_mut().enter(state, waker, ());
        Poll::Pending
    })
    .await;
}
