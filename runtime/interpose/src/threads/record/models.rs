//! Models of the records.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{NAME, Record, Reference, own, set_own};
use crate::GHandle;

/// What a thread unwinds with that was cancelled.
struct Cancelled;

/// Unwinds the calling thread, which was cancelled.
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// Returns `true` if the next cancellation point of the caller unwinds.
pub(crate) fn is_cancelled() -> bool {
    own().is_some_and(Record::is_to_unwind)
}

/// A green thread of pthread, for models of what its cancellation does.
#[derive(Clone)]
pub(crate) struct Thread(Reference);

impl Thread {
    pub(crate) fn new() -> Thread {
        Thread(Reference::new(false, [0; NAME], 0))
    }

    /// Runs `does` as this thread. Returns `None` if a cancellation has ended it.
    pub(crate) fn run<R>(&self, does: impl FnOnce() -> R) -> Option<R> {
        set_own(&raw const *self.0);
        self.0.set_handle(GHandle::current());
        self.0.begin_cancellable();
        match catch_unwind(AssertUnwindSafe(does)) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Cancelled>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.cancel();
    }
}
