//! 64 heaps with a timerproc each: Go 1.10 to 1.13. The P that adds a timer decides the heap.
//!
//! A green thread cannot read the number of its P. This design uses the number of the processor, modulo the
//! number of Ps. So the number of used buckets is at most the number of Ps. If there are no more processors
//! than Ps, two Ps that run at the same moment use different buckets.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::bucket::Bucket;
use super::heap::Id;
use super::{Clock, Timers};
use crate::processor;

const BUCKETS: usize = 64;

pub(crate) struct ManyHeaps {
    buckets: [Arc<Bucket>; BUCKETS],
    procs: usize,
}

/// A timer, with its bucket. A timer stays in the bucket to which it was added.
pub(crate) struct InBucket {
    bucket: usize,
    id: Id,
}

impl ManyHeaps {
    pub(crate) fn new(procs: usize) -> Self {
        let clock = Clock::start();
        ManyHeaps { buckets: std::array::from_fn(|_| Bucket::new(clock)), procs }
    }
}

impl Timers for ManyHeaps {
    type Timer = InBucket;

    fn add(&self, after: Duration, callback: &Waker) -> InBucket {
        let bucket = processor::current() % self.procs % BUCKETS;
        InBucket { bucket, id: self.buckets[bucket].add(after, callback) }
    }

    fn cancel(&self, timer: InBucket) {
        self.buckets[timer.bucket].cancel(timer.id);
    }

    fn reset(&self, timer: &mut InBucket, after: Duration, callback: &Waker) {
        self.buckets[timer.bucket].reset(&mut timer.id, after, callback);
    }

    fn end(&self) {
        self.buckets.iter().for_each(|bucket| bucket.end());
    }
}
