//! What the loom models share: a small world of heaps that logs what fires, and the law of conservation they all obey.
//!
//! Each time a timer is armed, that ends in exactly one of three ways: it fires, a `delete` returns true, or a `modify`
//! finds it pending. A timer lost, fired twice, or fired after it was deleted upsets the sum.

use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::{Checked, Heaps, Modified, Timer};

/// Explores the interleavings with at most `preemptions` involuntary switches: each model in seconds.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

#[derive(Default)]
struct Log {
    armed: usize,
    ended: usize,
    fired: Vec<u64>,
}

pub(crate) struct World {
    pub(crate) heaps: Heaps<Arc<Timer>>,
    ps: usize,
    /// What every operation begins with. loom remembers one access to each atomic: a thread that loads a word and then
    /// exchanges it hides from loom that another had loaded it before, and that order is never turned round. Here it
    /// always is; and then the other's load meets the exchange, and all orders between the two follow.
    gate: AtomicUsize,
    // std's, not loom's: the log is no part of the protocol, and adds no interleavings.
    log: Mutex<Log>,
}

impl World {
    pub(crate) fn new(ps: usize) -> Arc<Self> {
        let heaps = Heaps::new(ps);
        (0..ps).for_each(|p| heaps.open(p));
        Arc::new(Self { heaps, ps, gate: AtomicUsize::new(0), log: Mutex::default() })
    }

    /// Any thread's turn.
    pub(crate) fn turn(&self) {
        // Relaxed: it shall order nothing.
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

    pub(crate) fn modify(&self, p: usize, timer: &Arc<Timer>, when: u64, seq: u64) -> Modified {
        self.turn();
        let modified = self.heaps.modify(p, timer, when, 0, seq);
        let mut log = self.log.lock().unwrap();
        log.armed += 1;
        log.ended += usize::from(modified.was_pending);
        modified
    }

    pub(crate) fn check(&self, p: usize, now: u64, own: bool) -> Checked {
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

    /// The seqs that have fired, sorted.
    pub(crate) fn fired(&self) -> Vec<u64> {
        let mut fired = self.log.lock().unwrap().fired.clone();
        fired.sort_unstable();
        fired
    }

    /// When all threads are done: everything counted right, and everything that is still armed fires by `end`.
    pub(crate) fn finish(&self, end: u64) {
        (0..self.ps).for_each(|p| self.heaps.verify_idle(p));
        for p in 0..self.ps {
            self.check(p, end, true);
        }
        (0..self.ps).for_each(|p| self.heaps.verify_idle(p));
        assert_eq!(self.heaps.time_sleep_until(), crate::clock::NEVER, "left over");
        let log = self.log.lock().unwrap();
        assert_eq!(log.armed, log.ended + log.fired.len(), "lost, or fired twice: {:?}", log.fired);
    }
}
