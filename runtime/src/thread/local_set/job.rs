//! `Job`: the future of a local task, with the place for its result.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use sched::park::Elapsed;
use sched::{Cancelled, drop_contained};

use crate::sync::oneshot;

/// What a poll of a job has led to.
pub(super) enum Polled {
    Pending,
    /// The job has given its result away, and its future is dropped.
    Ended,
    /// As `Ended`, by a panic. A context around the poll may be over.
    Panicked,
    /// As `Ended`, because the thread that polls has to unwind with this payload.
    Unwinds(Box<dyn Any + Send>),
}

/// A job with a future of any type.
pub(super) trait Job {
    /// Polls the future once. Never unwinds. Not called again once the job has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled;

    /// Drops the future. Its result is that it was cancelled. Does nothing if the job has ended. Never
    /// unwinds.
    fn cancel(&mut self);
}

struct Typed<F: Future> {
    future: Option<Pin<Box<F>>>,
    result: Option<oneshot::Sender<std::thread::Result<F::Output>>>,
}

/// Returns the job of `future`, and the receiver of its result. The job drops the sender without a result if
/// it is dropped before its end.
pub(super) fn new<F: Future + 'static>(
    future: F,
) -> (Box<dyn Job>, oneshot::Receiver<std::thread::Result<F::Output>>) {
    let (sender, receiver) = oneshot::channel();
    (Box::new(Typed { future: Some(Box::pin(future)), result: Some(sender) }), receiver)
}

impl<F: Future> Typed<F> {
    /// Drops the future, and then sends the result. What the user's destructors do is contained.
    fn end(&mut self, result: std::thread::Result<F::Output>) {
        drop_contained(self.future.take());
        if let Some(sender) = self.result.take()
            && let Err(unwanted) = sender.send(result)
        {
            drop_contained(unwanted);
        }
    }
}

impl<F: Future> Job for Typed<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        let future = self.future.as_mut().expect("a job that has ended is not polled").as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Polled::Pending,
            Ok(Poll::Ready(value)) => self.end(Ok(value)),
            Err(payload) if ends_the_poller(&*payload) => {
                self.end(Err(Box::new(Cancelled)));
                return Polled::Unwinds(payload);
            }
            Err(payload) => {
                self.end(Err(payload));
                return Polled::Panicked;
            }
        }
        Polled::Ended
    }

    fn cancel(&mut self) {
        self.end(Err(Box::new(Cancelled)));
    }
}

/// Returns `true` if a call that parks has unwound with `payload` to end more than the task that called it:
/// the thread that polls was cancelled, or a time-out around the poll is over. (The task itself catches those
/// of its own.)
fn ends_the_poller(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Elapsed>() || payload.is::<Cancelled>() && sched::park::is_cancelled()
}
