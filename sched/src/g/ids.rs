//! Ids of green and OS threads, never used twice. Each M takes them in batches, so that spawns do not contend for a
//! counter.

use std::sync::atomic::{AtomicU64, Ordering};

const BATCH: u64 = 256;
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A batch of ids that belongs to one M.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    next: u64,
    end: u64,
}

impl Batch {
    pub(crate) const EMPTY: Batch = Batch { next: 0, end: 0 };

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        if self.next == self.end {
            // Relaxed: only uniqueness matters.
            self.next = NEXT.fetch_add(BATCH, Ordering::Relaxed);
            self.end = self.next + BATCH;
        }
        self.next += 1;
        self.next - 1
    }
}

/// Returns one id, for a thread that is no M.
pub(crate) fn single() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
