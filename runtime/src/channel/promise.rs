//! `Promise`: a message that a select has promised to a receiver before the message was evaluated.
//!
//! A select that chose to send on a channel without a buffer evaluates its message only then. The receiver
//! that it met waits here for the message. Either side may end the promise first. A sender that unwinds
//! breaks it. A receiver leaves it if the receiver is a future that is dropped, or a select that is not
//! completed.

use std::sync::Arc;

use sched::Cancel;
use sched::park::Waiting;
use waits::queue::{self, Guard, Lock, Queue};

use super::model::broken;

/// One side of a promise. Both sides share the state.
pub(super) struct Promise<T>(Arc<Lock<PromiseState<T>>>);

struct PromiseState<T> {
    step: Step<T>,
    /// The receiver, if it waits.
    receiver: Queue<()>,
}

enum Step<T> {
    Open,
    Kept(T),
    /// The sender will send nothing.
    Broken,
    /// The receiver has left.
    Left,
}

fn receiver<T>(state: &mut PromiseState<T>) -> &mut Queue<()> {
    &mut state.receiver
}

impl<T> Promise<T> {
    pub(super) fn new() -> Self {
        Promise(Arc::new(Lock::new(PromiseState { step: Step::Open, receiver: Queue::new() })))
    }

    /// Returns the other side of this promise.
    pub(super) fn other(&self) -> Self {
        Promise(Arc::clone(&self.0))
    }

    /// Sends the message. *Runs on: the sender.*
    ///
    /// # Errors
    /// Returns the message if the receiver has left.
    pub(super) fn fulfil(self, message: T) -> Result<(), T> {
        let state = self.0.lock();
        if matches!(state.step, Step::Left) && !broken!("channel_promise_kept_to_nobody") {
            return Err(message);
        }
        self.settle(state, Step::Kept(message));
        Ok(())
    }

    /// Ends the promise without a message. *Runs on: the sender.*
    pub(super) fn break_promise(self) {
        let state = self.0.lock();
        if matches!(state.step, Step::Open) {
            self.settle(state, Step::Broken);
        }
    }

    fn settle(&self, mut state: Guard<'_, PromiseState<T>>, step: Step<T>) {
        state.step = step;
        if broken!("channel_promise_kept_silently") {
            return;
        }
        let wake = state.receiver.wake_first(|()| ());
        drop(state);
        drop(wake);
    }

    /// Ends the receiver's side. Returns the message if it has come. *Runs on: the receiver.*
    pub(super) fn leave(&self) -> Option<T> {
        let step = std::mem::replace(&mut self.0.lock().step, Step::Left);
        if let Step::Kept(message) = step { Some(message) } else { None }
    }

    /// Waits for the message. Returns `None` if the sender broke the promise. *Runs on: the receiver.*
    ///
    /// A cancellation does not end this wait. The sender has chosen its case. If its receiver left, the
    /// sender would have to wait for another one, whatever its deadline.
    pub(super) fn wait(self) -> Option<T> {
        loop {
            let state = self.0.lock();
            if !matches!(state.step, Step::Open) {
                drop(state);
                return self.leave();
            }
            // Only the sender ends this wait.
            let waiting = Waiting::begin_for(sched::Why::Receive, Cancel::Waits);
            drop(queue::wait(state, receiver, waiting, None, ()));
        }
    }
}

#[cfg(not(loom))]
mod futures {
    //! The receiver's side in futures.

    use std::pin::pin;
    use std::task::Poll;

    use waits::queue::WaitFuture;

    use super::{Promise, Step, receiver};

    impl<T> Promise<T> {
        /// Waits as [`wait`](Promise::wait) does, in a future. If that is dropped early, a message that has
        /// come goes to `regrant`.
        pub(in super::super) async fn wait_async(self, regrant: impl Fn(T)) -> Option<T> {
            let leaving = Leaving { promise: &self, regrant };
            let mut wait = pin!(WaitFuture::new(&self.0, receiver, ()));
            std::future::poll_fn(|cx| {
                if wait.is_waiting() {
                    return wait.as_mut().poll_granted(cx);
                }
                let waker = cx.waker().clone();
                let state = self.0.lock();
                if !matches!(state.step, Step::Open) {
                    return Poll::Ready(());
                }
                wait.as_mut().enter(state, waker, ());
                Poll::Pending
            })
            .await;
            std::mem::forget(leaving);
            self.leave()
        }
    }

    struct Leaving<'p, T, P: Fn(T)> {
        promise: &'p Promise<T>,
        regrant: P,
    }

    impl<T, P: Fn(T)> Drop for Leaving<'_, T, P> {
        fn drop(&mut self) {
            if let Some(message) = self.promise.leave() {
                (self.regrant)(message);
            }
        }
    }
}
