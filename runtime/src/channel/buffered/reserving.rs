//! Waiting for room that is reserved. A permit holds what a select's send has begun with (`cases.rs`): the
//! room is counted in `reserved`. So a send that reserves nothing does not know of permits.

#[cfg(not(loom))]
use std::pin::pin;
#[cfg(not(loom))]
use std::task::{Poll, ready};

#[cfg(not(loom))]
use sched::budget::poll_fn;
#[cfg(not(loom))]
use waits::queue::WaitFuture;

#[cfg(not(loom))]
use super::super::waiters::WaiterKind;
#[cfg(not(loom))]
use super::futures::WakeSender;
#[cfg(not(loom))]
use super::senders;
use super::{BegunSend, Buffer, Buffered, HeadGuard, TimedOut};

impl<T, B: Buffer<T>> Buffered<T, B> {
    /// Reserves room, or returns the lock under which a sender enters the queue. A woken sender uses its room
    /// here, so it has none to pass on.
    fn begin_send_or_lock(&self) -> Result<BegunSend, HeadGuard<'_, T, B>> {
        loop {
            if let Some(begun_send) = self.begin_send() {
                return Ok(begun_send);
            }
            let tail = self.tail.lock.lock();
            if tail.closed {
                return Ok(BegunSend::Disconnected);
            }
            if let Some(head) = self.lock_full_head(tail) {
                return Err(head);
            }
        }
    }

    /// Reserves room. Waits until there is some, or until no receiver is left.
    pub(in super::super) fn reserve(&self) -> BegunSend {
        let mut first = false;
        loop {
            let head = match self.begin_send_or_lock() {
                Ok(begun_send) => return begun_send,
                Err(head) => head,
            };
            match self.wait_for_room(head, first, None) {
                Ok(woken) => first = woken,
                Err(TimedOut) => unreachable!("the wait has no deadline"),
            }
        }
    }

    /// Reserves room as [`reserve`](Buffered::reserve) does, in a future.
    #[cfg(not(loom))]
    pub(in super::super) async fn reserve_async(&self) -> BegunSend {
        let mut wait = pin!(WaitFuture::new(&self.head.lock, senders, WakeSender));
        poll_fn(|cx| {
            if wait.is_waiting() {
                ready!(wait.as_mut().poll_granted(cx));
            }
            let waker = cx.waker().clone();
            match self.begin_send_or_lock() {
                Ok(begun_send) => Poll::Ready(begun_send),
                Err(head) => {
                    wait.as_mut().enter(head, waker, WaiterKind::default());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
