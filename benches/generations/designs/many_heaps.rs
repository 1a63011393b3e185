//! 64 heaps with a timerproc each, chosen by the P that adds the timer: Go 1.10 to 1.13.
//!
//! A green thread cannot ask for the number of its P; that of its processor, modulo the number of Ps, stands for it. So no more
//! buckets are in use than there are Ps, and two Ps that run at the same moment use different ones, if there are no more
//! processors than Ps.

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

/// It stays in the bucket where it was added.
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
