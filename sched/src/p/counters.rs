//! The event counters of one P. The holder of the P counts; any thread reads.

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

/// One counter. Only the holder of the P adds, so adding is a load and a store.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: the counter orders nothing.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Adds one. A thread that reads the new value with `get_acquire` also sees all that was counted before.
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

/// Counts a new G by `count` and then queues it by `queue`. In this order no G ends before it is counted;
/// `Closing::live` relies on that. *Runs on: the spawner.*
#[inline]
pub(crate) fn count_and_queue(count: impl FnOnce(), queue: impl FnOnce()) {
    if broken!("closing_queued_before_counted") {
        queue();
        return count();
    }
    count();
    queue();
}

/// The counters of one P; `metrics` adds up those of all Ps.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) spawned: Count,
    pub(crate) ended: Count,
    pub(crate) parks: Count,
    /// Parks inside polls. `parks` counts these, too, unless they are in place.
    pub(crate) parks_in_polls: Count,
    pub(crate) yields: Count,
    pub(crate) steals: Count,
    pub(crate) timers_stolen: Count,
    pub(crate) polls: Count,
    pub(crate) stolen: Count,
    pub(crate) net_wakes: Count,
}

impl Counters {
    /// Counts a G that the holder spawns and then queues it by `queue`. *Runs on: the holder.*
    #[inline]
    pub(crate) fn spawn(&self, queue: impl FnOnce()) {
        count_and_queue(|| self.spawned.one(), queue);
    }
}
