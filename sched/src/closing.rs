//! The end of a runtime: who may still come in, when nobody is left, and that nobody sleeps through it.
//!
//! A green thread is counted before it can run, on the P of whoever makes it, or here when no P is at hand; its end is
//! counted likewise. While the runtime closes it is cancelled again and again until none lives, then sealed against
//! those that come from outside, and then its Ms are told to end:
//!
//! ```text
//!   a spawn from outside                          whoever shuts down
//!   count it                                      seal
//!   full fence                                    full fence
//!   sealed? take the count back, refuse           look at the counts: somebody? break the seal, and again
//!
//!   a green thread of the runtime                 whoever counts the living
//!   spawn   count it, then queue it               look at the ends     (Acquire)
//!   end     count it        (Release)             look at the beginnings: whatever those had begun is in them
//!
//!   an M or sysmon that goes to sleep             whoever shuts down
//!   say so (in a list, by a flag)                 exiting
//!   full fence                                    full fence
//!   exiting? then do not sleep                    wake all who said so, break the netpoller's wait
//! ```
//!
//! The order of these steps stands here and in `p/counters.rs`: `look_after`, `exit` and `count_and_queue` run the steps of
//! their callers.
//!
//! One that begins while the runtime closes is born cancelled. One that just missed that is found by the next look at
//! the table of Gs, for the count says that there must be one.

use crate::p::counters::{Counters, count_and_queue};
use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken, full_fence,
};

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// Green threads are being cancelled: new ones are born cancelled.
    closing: AtomicBool,
    /// No green thread is left, and none may come from outside.
    sealed: AtomicBool,
    /// Ms are to end.
    exiting: AtomicBool,
    /// Spawned and ended without a P at hand.
    spawned: AtomicU64,
    ended: AtomicU64,
}

/// Evidence that a spawn from outside was counted before the seal. The count is taken back when this is dropped, but not
/// if it has `come`.
#[must_use]
#[derive(Debug)]
pub(crate) struct Admitted<'c>(&'c Closing);

impl Admitted<'_> {
    /// There is a green thread now: its end takes the count back.
    pub(crate) fn come(self) {
        std::mem::forget(self);
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.ended_without_p();
    }
}

impl Closing {
    /// True for the one caller that is to shut the runtime down. *Runs on: any thread.*
    pub(crate) fn begin(&self) -> bool {
        // Release: pairs with `is_closing`.
        !self.closing.swap(true, Ordering::AcqRel)
    }

    /// True once the runtime is being shut down. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with `begin`. A spawn that races with that may miss it; see the file's head.
        self.closing.load(Ordering::Acquire) && !broken!("closing_born_uncancelled")
    }

    /// Counts a spawn that no green thread of the runtime answers for; `None`: it comes too late.
    /// *Runs on: any thread.*
    pub(crate) fn enter_from_outside(&self) -> Option<Admitted<'_>> {
        if broken!("closing_outside_looks_first") && self.sealed.load(Ordering::Relaxed) {
            return None;
        }
        self.count_without_p();
        // Counted first, then the look; the partner is the fence in `seal_if_empty`.
        if !broken!("closing_outside_no_fence") {
            full_fence();
        }
        let admitted = Admitted(self);
        if broken!("closing_outside_looks_first") {
            return Some(admitted);
        }
        // Relaxed: the fence does it.
        (!self.sealed.load(Ordering::Relaxed)).then_some(admitted)
    }

    /// Counts a green thread that is made without a P at hand, and then queues it by `queue`. *Runs on: any thread.*
    pub(crate) fn spawn_without_p(&self, queue: impl FnOnce()) {
        count_and_queue(|| self.count_without_p(), queue);
    }

    fn count_without_p(&self) {
        // Relaxed: its spawner, if it is one of this runtime, ends later, which is what `live` sees first.
        self.spawned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that ends without a P at hand. *Runs on: any thread.*
    pub(crate) fn ended_without_p(&self) {
        // Release: those that it has made are counted before it; pairs with `live`.
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// How many were spawned, and how many have ended, without a P at hand: for the metrics.
    #[cfg(not(loom))]
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.spawned.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }

    /// How many green threads have begun and not ended; zero only if there was such a moment. `of_ps` gives the counters
    /// of all Ps. *Runs on: any thread.*
    pub(crate) fn live<'c, I>(&self, of_ps: impl Fn() -> I) -> u64
    where
        I: Iterator<Item = &'c Counters>,
    {
        let spawned = || self.spawned.load(Ordering::Relaxed) + of_ps().map(|p| p.spawned.get()).sum::<u64>();
        let too_early = broken!("closing_live_spawned_first").then(spawned);
        // The ended first: one that begins and ends in between is then counted too high, never too low.
        // Acquire: pairs with the Release of each end; those whom the ended ones had made are then counted below.
        let ended = self.ended.load(Ordering::Acquire) + of_ps().map(|p| p.ended.get_acquire()).sum::<u64>();
        let spawned = too_early.unwrap_or_else(spawned);
        spawned.saturating_sub(ended)
    }

    /// Lets nobody in any more, if no green thread lives: `true`, and none ever will. *Runs on: whoever shuts down.*
    pub(crate) fn seal_if_empty<'c, I>(&self, of_ps: impl Fn() -> I) -> bool
    where
        I: Iterator<Item = &'c Counters>,
    {
        if broken!("closing_counts_before_seal") {
            let empty = self.live(of_ps) == 0;
            self.sealed.store(empty, Ordering::Relaxed);
            return empty;
        }
        // Relaxed: the fence does it.
        self.sealed.store(true, Ordering::Relaxed);
        // Sealed first, then the look at the counts; the partner is the fence in `enter_from_outside`.
        full_fence();
        let empty = self.live(of_ps) == 0;
        if !empty {
            self.sealed.store(false, Ordering::Relaxed);
        }
        empty
    }

    /// Tells all Ms to end, and then wakes those that sleep, by `wake`. *Runs on: the thread that shuts down.*
    pub(crate) fn exit(&self, wake: impl FnOnce()) {
        if broken!("closing_wakes_before_exit") {
            wake();
            return self.exiting.store(true, Ordering::Relaxed);
        }
        // Relaxed: the fence orders it.
        self.exiting.store(true, Ordering::Relaxed);
        // The partners are the fences in `Plan::sleep` and `look_after`. (An M that parks is found in its list, or sees this, by
        // the list's lock; the netpoller keeps a break for the M that is about to block.)
        if !broken!("closing_exit_no_fence") {
            full_fence();
        }
        wake();
    }

    /// Makes the caller known to the thread that shuts down, by `enter`: in a list of sleepers, by a lock. Then looks: the
    /// `bool` is true when Ms are to end, and the caller does not sleep. *Runs on: any thread.*
    pub(crate) fn look_after<T>(&self, enter: impl FnOnce() -> T) -> (T, bool) {
        let early = broken!("closing_looks_first").then(|| self.is_exiting());
        let entered = enter();
        // The partner is the fence in `exit`.
        full_fence();
        (entered, early.unwrap_or_else(|| self.is_exiting()))
    }

    /// True when Ms are to end. A caller that is about to sleep calls `look_after` instead. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_exiting(&self) -> bool {
        // Relaxed: the fence does it.
        self.exiting.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod models;
