//! What a P has done: counted by its holder alone, read by anyone.

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

/// One count. Only the holder of the P adds, so adding is a load and a store.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: a count orders nothing.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Likewise, by one; whoever reads it with `get_acquire` then sees all that was counted before.
    #[inline]
    pub(crate) fn one_release(&self) {
        // Release: pairs with `get_acquire`.
        let order = if broken!("closing_end_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(self.0.load(Ordering::Relaxed) + 1, order);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn get_acquire(&self) -> u64 {
        // Acquire: pairs with `one_release`.
        self.0.load(Ordering::Acquire)
    }
}

/// Counts a green thread by `count`, and then queues it by `queue`: no green thread ends that is not counted. The partner is
/// `Closing::live`. *Runs on: the maker of the green thread.*
#[inline]
pub(crate) fn count_and_queue(count: impl FnOnce(), queue: impl FnOnce()) {
    if broken!("closing_queued_before_counted") {
        queue();
        return count();
    }
    count();
    queue();
}

/// The counts of one P; `metrics` adds them up.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) spawned: Count,
    pub(crate) ended: Count,
    pub(crate) parks: Count,
    pub(crate) yields: Count,
    pub(crate) steals: Count,
    pub(crate) timers_stolen: Count,
    pub(crate) timers_fired: Count,
    pub(crate) net_wakes: Count,
}

impl Counters {
    /// Counts a green thread that the holder makes, and then queues it by `queue`. *Runs on: the holder.*
    #[inline]
    pub(crate) fn spawn(&self, queue: impl FnOnce()) {
        count_and_queue(|| self.spawned.one(), queue);
    }
}
