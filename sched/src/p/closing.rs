//! The protocol that ends a runtime: every G is counted and cancelled, new Gs are refused, and every M gets
//! the order to end.
//!
//! A G is counted before it can run: by the counters of its spawner's P, or here if the spawner has no P. The
//! end of a G is counted in the same way. While the runtime closes, the closer cancels all Gs again and again
//! until none lives. The closer then seals the runtime against spawns from outside, and orders the Ms to end:
//!
//! ```text
//!   a spawn from outside, or by a timer           the closer
//!   count the G                                   seal
//!   full fence                                    full fence
//!   sealed? take the count back, refuse           look at the counts: a G lives? break the seal, and again
//!
//!   a G of the runtime                            the closer, when it counts the living Gs
//!   spawn   count the new G, then queue it        look at the ends     (Acquire)
//!   end     count it        (Release)             look at the spawns: all spawns by the ended Gs are included
//!
//!   an M or sysmon that goes to sleep             the closer
//!   announce the sleep (in a list, by a flag)     exiting
//!   full fence                                    full fence
//!   exiting? then do not sleep                    wake all announced sleepers, break the netpoller's wait
//! ```
//!
//! This file and `p/counters.rs` fix the order of these steps: `then_check_exit`, `exit` and
//! `count_and_queue` call the steps of their callers.
//!
//! A G that is spawned while the runtime closes is born cancelled. A spawn may just miss the flag. The
//! closer's next look at the table of Gs finds that G, because the count says that a G lives.

use crossbeam_utils::CachePadded;

use crate::p::counters::{Counters, count_and_queue};
use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken, full_fence,
};

/// The phase of a runtime's end, and the counts of its Gs.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// Set when the closer begins to cancel Gs. From then on new Gs are born cancelled.
    closing: AtomicBool,
    /// Set when no G lives; spawns from outside are then refused.
    sealed: AtomicBool,
    /// Set when Ms are to end.
    exiting: AtomicBool,
    /// Apart from the flags, which each M reads whenever it looks for work.
    counts: CachePadded<Counts>,
}

/// How many Gs were spawned by threads without a P, and how many ended on such threads.
#[derive(Debug, Default)]
struct Counts {
    spawned: AtomicU64,
    ended: AtomicU64,
}

/// Proves that a spawn from outside was counted before the seal. The drop takes the count back, unless
/// `commit` consumed the value.
#[must_use]
#[derive(Debug)]
pub(crate) struct Admitted<'c> {
    closing: &'c Closing,
    /// The counters of the spawner's P, if it has one.
    counters: Option<&'c Counters>,
}

impl Admitted<'_> {
    /// Keeps the count, because the G exists now: its end will be counted.
    pub(crate) fn commit(self) {
        std::mem::forget(self);
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        match self.counters {
            Some(counters) => counters.ended.one_release(),
            None => self.closing.ended_without_p(),
        }
    }
}

impl Closing {
    /// Begins the end of the runtime. Returns `true` to the first caller only, which is the closer. *Runs on:
    /// any thread.*
    pub(crate) fn begin(&self) -> bool {
        // AcqRel: pairs with the Acquire in `is_closing`.
        !self.closing.swap(true, Ordering::AcqRel)
    }

    /// Returns `true` once the runtime is closing. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with `begin`. A spawn that races with `begin` may read `false`; see the file's head.
        self.closing.load(Ordering::Acquire) && !broken!("closing_born_uncancelled")
    }

    /// Counts a spawn by a thread that is no G of the runtime. Returns `None` if the runtime is sealed. *Runs
    /// on: any thread.*
    pub(crate) fn enter_from_outside(&self) -> Option<Admitted<'_>> {
        self.enter(None)
    }

    /// As `enter_from_outside`, by an M that holds the P with these `counters` and runs no G. *Runs on: that
    /// M.*
    pub(crate) fn enter_from_p<'c>(&'c self, counters: &'c Counters) -> Option<Admitted<'c>> {
        self.enter(Some(counters))
    }

    fn enter<'c>(&'c self, counters: Option<&'c Counters>) -> Option<Admitted<'c>> {
        if broken!("closing_outside_looks_first") && self.sealed.load(Ordering::Relaxed) {
            return None;
        }
        match counters {
            Some(counters) => counters.spawned.one(),
            None => self.count_without_p(),
        }
        // First the count, then the look at the seal. Pairs with the fence in `seal_if_empty`.
        if !broken!("closing_outside_no_fence") {
            full_fence();
        }
        let admitted = Admitted { closing: self, counters };
        if broken!("closing_outside_looks_first") {
            return Some(admitted);
        }
        // Relaxed: the fence above orders it.
        (!self.sealed.load(Ordering::Relaxed)).then_some(admitted)
    }

    /// Counts a G that a thread without a P spawns, and then queues it by `queue`. *Runs on: any thread.*
    pub(crate) fn spawn_without_p(&self, queue: impl FnOnce()) {
        count_and_queue(|| self.count_without_p(), queue);
    }

    fn count_without_p(&self) {
        // Relaxed: if the spawner is a G of this runtime, it ends later, and `live` acquires that end first.
        self.counts.spawned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a G on a thread without a P. *Runs on: any thread.*
    pub(crate) fn ended_without_p(&self) {
        // Release: pairs with the Acquire in `live`. The spawns of this G are counted before its end.
        self.counts.ended.fetch_add(1, Ordering::Release);
    }

    /// Returns how many Gs were spawned and how many have ended without a P, for the metrics.
    #[cfg(not(loom))]
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.spawned.load(Ordering::Relaxed), self.counts.ended.load(Ordering::Relaxed))
    }

    /// Returns how many Gs were spawned and have not ended. Returns 0 only if there was a moment without a
    /// living G. `of_ps` returns the counters of all Ps. *Runs on: any thread.*
    pub(crate) fn live<'c, I>(&self, of_ps: impl Fn() -> I) -> u64
    where
        I: Iterator<Item = &'c Counters>,
    {
        let spawned =
            || self.counts.spawned.load(Ordering::Relaxed) + of_ps().map(|p| p.spawned.get()).sum::<u64>();
        let too_early = broken!("closing_live_spawned_first").then(spawned);
        // Ends are read before spawns: a G that lives in between makes the result too high, never too low.
        // Acquire: pairs with the Release of each end; the spawns by the ended Gs are then in the counts
        // below.
        let ended =
            self.counts.ended.load(Ordering::Acquire) + of_ps().map(|p| p.ended.get_acquire()).sum::<u64>();
        let spawned = too_early.unwrap_or_else(spawned);
        spawned.saturating_sub(ended)
    }

    /// Seals the runtime if no G lives; returns `true` if so, and no G will ever live again. *Runs on: the
    /// closer.*
    pub(crate) fn seal_if_empty<'c, I>(&self, of_ps: impl Fn() -> I) -> bool
    where
        I: Iterator<Item = &'c Counters>,
    {
        if broken!("closing_counts_before_seal") {
            let empty = self.live(of_ps) == 0;
            self.sealed.store(empty, Ordering::Relaxed);
            return empty;
        }
        // Relaxed: the fence below orders it.
        self.sealed.store(true, Ordering::Relaxed);
        // First the seal, then the look at the counts. Pairs with the fence in `enter_from_outside`.
        full_fence();
        let empty = self.live(of_ps) == 0;
        if !empty {
            self.sealed.store(false, Ordering::Relaxed);
        }
        empty
    }

    /// Orders all Ms to end, and then wakes the sleeping ones by `wake`. *Runs on: the closer.*
    pub(crate) fn exit(&self, wake: impl FnOnce()) {
        if broken!("closing_wakes_before_exit") {
            wake();
            return self.exiting.store(true, Ordering::Relaxed);
        }
        // Relaxed: the fence below orders it.
        self.exiting.store(true, Ordering::Relaxed);
        // Pairs with the fences in `Plan::sleep` and `then_check_exit`. (An M that parks is found in its
        // list, or reads this flag after the lock of the list. The netpoller keeps a break for an M that is
        // about to block.)
        if !broken!("closing_exit_no_fence") {
            full_fence();
        }
        wake();
    }

    /// Announces a sleeper to the closer by `enter`, for instance in a list under its lock, and then looks at
    /// the flag. If the returned `bool` is `true`, Ms are to end and the caller must not sleep. *Runs on: any
    /// thread.*
    pub(crate) fn then_check_exit<T>(&self, enter: impl FnOnce() -> T) -> (T, bool) {
        let early = broken!("closing_looks_first").then(|| self.is_exiting());
        let entered = enter();
        // Pairs with the fence in `exit`.
        full_fence();
        (entered, early.unwrap_or_else(|| self.is_exiting()))
    }

    /// Returns `true` when Ms are to end. A caller that is about to sleep uses `then_check_exit` instead.
    /// *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_exiting(&self) -> bool {
        // Relaxed: the fence in `then_check_exit` orders it where the order matters.
        self.exiting.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{apart, lines};

    #[test]
    fn the_counts_lie_apart_from_the_flags_that_each_m_reads() {
        let counts = lines!(Closing, counts);
        for flag in [lines!(Closing, closing), lines!(Closing, sealed), lines!(Closing, exiting)] {
            assert!(apart(&counts, &flag), "{counts:?}, {flag:?}");
        }
    }
}
