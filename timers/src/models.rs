//! The world of the loom models: some heaps, and a log of the timers that were armed and that fired.
//!
//! Each arming ends in exactly one way: the timer fires, a `delete` returns true, or a `modify` finds the
//! timer pending. So the number of armings is the number of ends. The sum is wrong if a timer is lost, fires
//! twice, or fires after its `delete`.

use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::{Checked, Heaps, Modified, Timer};

/// Explores the interleavings with at most `preemptions` involuntary switches, so that a model takes only
/// seconds.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // It has `LOOM_MAX_PREEMPTIONS`, by which ci/models.sh may allow fewer.
    let allowed = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(allowed.min(preemptions));
    builder.max_branches = 100_000;
    builder.check(model);
}

#[derive(Default)]
struct Log {
    armed: usize,
    ended: usize,
    fired: Vec<u64>,
}

/// `World::modify` or `World::modify_unlocked`.
pub(crate) type Modify = fn(&World, usize, &Arc<Timer>, u64, u64) -> Modified;

pub(crate) struct World {
    pub(crate) heaps: Heaps<Arc<Timer>>,
    ps: usize,
    /// Every operation begins with a read-modify-write of this word. loom remembers only the last access to
    /// each atomic. If thread A loads a word, and then thread B loads and exchanges that word, B's load hides
    /// A's load. So loom never tries B's exchange before A's load. Because of the gate, loom tries B's
    /// operation before A's, and then all orders of both.
    gate: AtomicUsize,
    // std's mutex, not loom's: the log is no part of the protocol and must add no interleavings.
    log: Mutex<Log>,
}

impl World {
    pub(crate) fn new(ps: usize) -> Arc<Self> {
        let heaps = Heaps::new(ps);
        (0..ps).for_each(|p| heaps.open(p));
        Arc::new(Self { heaps, ps, gate: AtomicUsize::new(0), log: Mutex::default() })
    }

    /// Lets loom choose the thread that goes on: see `gate`.
    pub(crate) fn turn(&self) {
        // Relaxed: the gate must not synchronize the threads.
        self.gate.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, p: usize, when: u64, period: u64, seq: u64) -> Arc<Timer> {
        self.turn();
        let timer = Arc::new(Timer::new());
        self.heaps.add(p, timer.clone(), when, period, seq);
        self.log.lock().unwrap().armed += 1;
        timer
    }

    pub(crate) fn delete(&self, timer: &Timer) -> bool {
        self.turn();
        let deleted = self.heaps.delete(timer);
        self.log.lock().unwrap().ended += usize::from(deleted);
        deleted
    }

    pub(crate) fn remove(&self, timer: &Timer) {
        self.turn();
        let removed = self.heaps.remove(timer);
        self.log.lock().unwrap().ended += usize::from(removed);
    }

    pub(crate) fn modify(&self, p: usize, timer: &Arc<Timer>, when: u64, seq: u64) -> Modified {
        self.turn();
        let modified = self.heaps.modify(p, timer, when, 0, seq);
        self.log_modified(modified)
    }

    /// As `modify`, while another thread has the lock of the timer's heap: an entry in the heap stays where
    /// it is.
    pub(crate) fn modify_unlocked(&self, p: usize, timer: &Arc<Timer>, when: u64, seq: u64) -> Modified {
        self.turn();
        let modified = self.heaps.modify_unlocked(p, timer, when, seq);
        self.log_modified(modified)
    }

    fn log_modified(&self, modified: Modified) -> Modified {
        let mut log = self.log.lock().unwrap();
        log.armed += 1;
        log.ended += usize::from(modified.was_pending);
        modified
    }

    /// Checks P `p` until no timer is due any more. Returns the result of the last check, but `ran` is true
    /// if a timer fired in any of these checks.
    pub(crate) fn check(&self, p: usize, now: u64, own: bool) -> Checked {
        let mut ran = false;
        loop {
            let checked = self.check_once(p, now, own);
            ran |= checked.ran;
            if !checked.more {
                return Checked { ran, ..checked };
            }
        }
    }

    pub(crate) fn check_once(&self, p: usize, now: u64, own: bool) -> Checked {
        self.turn();
        self.heaps.check(p, now, own, &mut |_, seq, _| {
            self.log.lock().unwrap().fired.push(seq);
        })
    }

    pub(crate) fn move_all(&self, from: usize, to: usize) {
        self.turn();
        self.heaps.move_all(from, to);
    }

    pub(crate) fn earliest(&self, p: usize) -> u64 {
        self.turn();
        self.heaps.earliest(p)
    }

    /// Returns the `seq`s that have fired, sorted.
    pub(crate) fn fired(&self) -> Vec<u64> {
        let mut fired = self.log.lock().unwrap().fired.clone();
        fired.sort_unstable();
        fired
    }

    /// Fires all timers that are due by `end`, and panics if a count is wrong, a timer is left, or armings
    /// and ends differ. Precondition: all other threads are done.
    pub(crate) fn finish(&self, end: u64) {
        (0..self.ps).for_each(|p| self.heaps.verify_idle(p));
        for p in 0..self.ps {
            self.check(p, end, true);
        }
        (0..self.ps).for_each(|p| self.heaps.verify_idle(p));
        assert_eq!(self.heaps.time_sleep_until(), crate::clock::NEVER, "a timer is left");
        let log = self.log.lock().unwrap();
        assert_eq!(
            log.armed,
            log.ended + log.fired.len(),
            "a timer was lost or fired twice: {:?}",
            log.fired
        );
    }
}
