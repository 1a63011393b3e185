//! `Polled`: a receive that goes on from poll to poll, for `Receiver::poll_recv`.
//!
//! The future that waits has a clone of the receiver. So the channel counts one receiver more while it waits,
//! and a message that it was given goes back to the channel if it is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use waits::queue::Lock;

use super::error::RecvError;

/// The receive of the last `poll_recv` that was pending.
// In a lock that is never taken: the future is not `Sync`, and a receiver is.
pub(super) struct Polled<T>(Lock<Option<Receive<T>>>);

/// A receive by a clone of the receiver.
pub(super) type Receive<T> = Pin<Box<dyn Future<Output = Result<T, RecvError>> + Send>>;

impl<T> Polled<T> {
    pub(super) const fn new() -> Self {
        Polled(Lock::new(None))
    }

    /// Returns the receive that was pending at the last poll.
    pub(super) fn take(&mut self) -> Option<Receive<T>> {
        self.0.get_mut().take()
    }

    /// Polls `receive`, and keeps it for the next poll if it is pending.
    pub(super) fn poll(
        &mut self,
        mut receive: Receive<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, RecvError>> {
        let received = receive.as_mut().poll(cx);
        if received.is_pending() {
            *self.0.get_mut() = Some(receive);
        }
        received
    }
}
