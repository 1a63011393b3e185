//! `send_async` and `recv_async` of a buffered channel. If a future is dropped after it was granted
//! something, the grant goes on. `WakeSender` wakes the next sender, and `TakeBack` returns the message to
//! the channel.

use std::pin::pin;
use std::task::{Poll, ready};

use sched::budget::poll_fn;
use waits::queue::{PassOn, WaitFuture};

use super::super::waiters::{Grant, WaiterKind, Wanted};
use super::{
    Buffer, Buffered, Head, HeadGuard, RecvError, Refused, SendError, Tail, TailGuard, receivers, senders,
};

impl<T, B: Buffer<T>> Buffered<T, B> {
    pub(in super::super) async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        let mut has_been_told = false;
        let mut wait = pin!(WaitFuture::new(&self.head.lock, senders, WakeSender));
        poll_fn(|cx| {
            loop {
                if wait.is_waiting() {
                    ready!(wait.as_mut().poll_granted(cx));
                    has_been_told = true;
                }
                let waker = cx.waker().clone();
                let message_now = message.take().expect("the future is polled until the message is sent");
                match self.offer_with(has_been_told, message_now) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(Refused::Disconnected(message)) => return Poll::Ready(Err(SendError(message))),
                    Err(Refused::Full(tail, back)) => {
                        message = Some(back);
                        if let Some(head) = self.lock_full_head(tail) {
                            wait.as_mut().enter(head, waker, WaiterKind::default());
                            return Poll::Pending;
                        }
                    }
                }
            }
        })
        .await
    }

    pub(in super::super) async fn recv_async(&self) -> Result<T, RecvError> {
        let mut wait = pin!(WaitFuture::new(&self.tail.lock, receivers, TakeBack(self)));
        poll_fn(|cx| {
            loop {
                if wait.is_waiting()
                    && let Some(Grant::Message(message)) = ready!(wait.as_mut().poll_granted(cx)).got
                {
                    return Poll::Ready(Ok(message));
                }
                let waker = cx.waker().clone();
                if let Some(received) = self.begin_recv() {
                    return Poll::Ready(received);
                }
                if let Some(tail) = self.lock_empty_tail() {
                    wait.as_mut().enter(tail, waker, Wanted::message());
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// For a sending future that is dropped after it was woken for room: wakes the next sender.
pub(super) struct WakeSender;

impl<T, B: Buffer<T>> PassOn<Head<T, B>, WaiterKind> for WakeSender {
    fn regrant(&mut self, head: HeadGuard<'_, T, B>, _kind: WaiterKind) {
        Buffered::<T, B>::wake_sender(head);
    }
}

/// For a receiving future that is dropped after it was given a message: the message goes to the next
/// receiver.
struct TakeBack<'c, T, B: Buffer<T>>(&'c Buffered<T, B>);

impl<T, B: Buffer<T>> PassOn<Tail<T, B>, Wanted<T>> for TakeBack<'_, T, B> {
    fn regrant(&mut self, tail: TailGuard<'_, T, B>, wanted: Wanted<T>) {
        if let Some(Grant::Message(message)) = wanted.got {
            self.0.take_back(tail, message);
        }
    }
}
