//! A message that is promised: a select chose to send on a channel without a buffer, and its message comes only then.
//!
//! The receiver that it met has been woken, or never slept, and waits here for the message. Whoever goes first tells the
//! other one: a sender that unwinds breaks the promise; a receiver leaves, if it is a future that is dropped or a select
//! that is not completed.

use std::sync::Arc;

use sched::Cancel;
use sched::park::Waiting;
use sched::queue::{self, Guard, Lock, Queue};

use super::model::broken;

/// One side of it.
pub(super) struct Promise<T>(Arc<Lock<State<T>>>);

struct State<T> {
    step: Step<T>,
    /// The receiver, if it waits.
    receiver: Queue<()>,
}

enum Step<T> {
    Open,
    Kept(T),
    /// The sender will send nothing.
    Broken,
    /// The receiver has gone.
    Left,
}

fn receiver<T>(state: &mut State<T>) -> &mut Queue<()> {
    &mut state.receiver
}

impl<T> Promise<T> {
    pub(super) fn new() -> Self {
        Promise(Arc::new(Lock::new(State { step: Step::Open, receiver: Queue::new() })))
    }

    /// The other side's.
    pub(super) fn other(&self) -> Self {
        Promise(Arc::clone(&self.0))
    }

    /// Sends the message. *Runs on: the sender.*
    ///
    /// # Errors
    /// The receiver has gone.
    pub(super) fn keep(self, message: T) -> Result<(), T> {
        let state = self.0.lock();
        if matches!(state.step, Step::Left) && !broken!("channel_promise_kept_to_nobody") {
            return Err(message);
        }
        self.settle(state, Step::Kept(message));
        Ok(())
    }

    /// Sends nothing. *Runs on: the sender.*
    pub(super) fn break_it(self) {
        let state = self.0.lock();
        if matches!(state.step, Step::Open) {
            self.settle(state, Step::Broken);
        }
    }

    fn settle(&self, mut state: Guard<'_, State<T>>, step: Step<T>) {
        state.step = step;
        if broken!("channel_promise_kept_silently") {
            return;
        }
        let wake = state.receiver.wake_first(|()| ());
        drop(state);
        drop(wake);
    }

    /// Goes away; gives the message if it has come. *Runs on: the receiver.*
    pub(super) fn leave(&self) -> Option<T> {
        let step = std::mem::replace(&mut self.0.lock().step, Step::Left);
        if let Step::Kept(message) = step { Some(message) } else { None }
    }

    /// Waits for the message; `None` if it does not come. *Runs on: the receiver.*
    ///
    /// It is not cancelled meanwhile. The sender has chosen: if its receiver went away it would have to wait for another
    /// one, however little patience it had.
    pub(super) fn wait(self) -> Option<T> {
        loop {
            let state = self.0.lock();
            if !matches!(state.step, Step::Open) {
                drop(state);
                return self.leave();
            }
            // Nothing but the sender ends it.
            let waiting = Waiting::begin_for(sched::Why::Receive, Cancel::Waits);
            drop(queue::wait(state, receiver, waiting, None, ()));
        }
    }
}

#[cfg(not(loom))]
mod futures {
    //! Futures that wait for it.

    use std::pin::pin;
    use std::task::Poll;

    use sched::queue::WaitFuture;

    use super::{Promise, Step, receiver};

    impl<T> Promise<T> {
        /// [`wait`](Promise::wait) for futures; dropped early, it gives a message that has come to `pass_on`.
        pub(in super::super) async fn wait_async(self, pass_on: impl Fn(T)) -> Option<T> {
            let leaving = Leaving { promise: &self, pass_on };
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
        pass_on: P,
    }

    impl<T, P: Fn(T)> Drop for Leaving<'_, T, P> {
        fn drop(&mut self) {
            if let Some(message) = self.promise.leave() {
                (self.pass_on)(message);
            }
        }
    }
}
