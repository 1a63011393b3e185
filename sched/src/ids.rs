//! Ids of threads, green and other: unique for ever, given out in batches so that spawns share no counter.

use std::sync::atomic::{AtomicU64, Ordering};

const BATCH: u64 = 256;
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Ids that one M has to itself.
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

/// One id, for a thread that is no M.
pub(crate) fn single() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
