//! One heap and one timerproc for all Ps: Go until 1.9.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::bucket::Bucket;
use super::heap::Id;
use super::{Clock, Timers};

pub(crate) struct OneHeap(Arc<Bucket>);

impl OneHeap {
    pub(crate) fn new() -> Self {
        OneHeap(Bucket::new(Clock::start()))
    }
}

impl Timers for OneHeap {
    type Timer = Id;

    fn add(&self, after: Duration, callback: &Waker) -> Id {
        self.0.add(after, callback)
    }

    fn cancel(&self, timer: Id) {
        self.0.cancel(timer);
    }

    fn reset(&self, timer: &mut Id, after: Duration, callback: &Waker) {
        self.0.reset(timer, after, callback);
    }

    fn end(&self) {
        self.0.end();
    }
}
