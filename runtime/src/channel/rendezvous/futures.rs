//! `send_async` and `recv_async` of a channel without a buffer. A receiving future may be given a `Promise`,
//! and then waits for its message. If the future is dropped, its message is offered to another receiver.

use std::pin::pin;
use std::task::{Poll, ready};

use sched::budget::poll_fn;
use waits::queue::{PassOn, WaitFuture};

use super::super::waiters::{Grant, WaiterKind, Wanted};
use super::{Offer, RecvError, Rendezvous, RendezvousState, SendError, StateGuard, receivers, senders};

impl<T> Rendezvous<T> {
    pub(in super::super) async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        let mut wait = pin!(WaitFuture::new(&self.0, senders, ()));
        poll_fn(|cx| {
            if wait.is_waiting() {
                return match ready!(wait.as_mut().poll_granted(cx)) {
                    Offer::Message(message) => Poll::Ready(Err(SendError(message))),
                    _ => Poll::Ready(Ok(())),
                };
            }
            let waker = cx.waker().clone();
            let (mut state, message) = match super::offer(
                &self.0,
                message.take().expect("the future is polled until the message is sent"),
            ) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(refused) => refused,
            };
            if state.closed {
                return Poll::Ready(Err(SendError(message)));
            }
            let watchers = state.watching_receivers();
            wait.as_mut().enter(state, waker, Offer::Message(message));
            drop(watchers);
            Poll::Pending
        })
        .await
    }

    pub(in super::super) async fn recv_async(&self) -> Result<T, RecvError> {
        loop {
            let given = match self.given_async().await? {
                Grant::Message(message) => return Ok(message),
                Grant::Promise(promise) => promise,
            };
            let regrant = |message| self.take_back(self.0.lock(), message);
            if let Some(message) = given.wait_async(regrant).await {
                return Ok(message);
            }
        }
    }

    async fn given_async(&self) -> Result<Grant<T>, RecvError> {
        let mut wait = pin!(WaitFuture::new(&self.0, receivers, TakeBack(self)));
        poll_fn(|cx| {
            if wait.is_waiting() {
                let wanted = ready!(wait.as_mut().poll_granted(cx));
                return Poll::Ready(wanted.got.ok_or(RecvError));
            }
            let waker = cx.waker().clone();
            let mut state = self.0.lock();
            if let Some((given, wake)) = state.meet_sender(WaiterKind::default()) {
                drop(state);
                drop(wake);
                return Poll::Ready(Ok(given));
            }
            if state.closed {
                return Poll::Ready(Err(RecvError));
            }
            let watchers = state.watching_senders();
            wait.as_mut().enter(state, waker, Wanted::message());
            drop(watchers);
            Poll::Pending
        })
        .await
    }
}

/// For a receiving future that is dropped after it was given a message: the message goes to the next
/// receiver.
struct TakeBack<'c, T>(&'c Rendezvous<T>);

impl<T> PassOn<RendezvousState<T>, Wanted<T>> for TakeBack<'_, T> {
    fn regrant(&mut self, state: StateGuard<'_, T>, wanted: Wanted<T>) {
        match wanted.got {
            Some(Grant::Message(message)) => self.0.take_back(state, message),
            Some(Grant::Promise(promise)) => {
                drop(state);
                self.0.abandon_recv(Grant::Promise(promise));
            }
            None => {}
        }
    }
}
