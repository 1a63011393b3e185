//! Helpers of the models.

use std::sync::atomic::{AtomicBool, Ordering};

use super::atomic::with_turns;

/// Explores the interleavings that have at most `preemptions` involuntary switches.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    with_turns(false, || check(preemptions, model));
}

/// As [`explore`], for a model in which words go.
pub(crate) fn explore_lives(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    with_turns(true, || check(preemptions, model));
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // It has `LOOM_MAX_PREEMPTIONS`, by which ci/models.sh may allow fewer.
    let allowed = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(allowed.min(preemptions));
    builder.max_branches = 100_000;
    builder.check(model);
}

/// Proves that a model reaches the case that it is about. A test keeps it in a static.
#[derive(Debug)]
pub(crate) struct Reached(AtomicBool);

impl Reached {
    pub(crate) const fn new() -> Self {
        Reached(AtomicBool::new(false))
    }

    /// Records that this run of the model reached the case, if `happened`.
    pub(crate) fn note(&self, happened: bool) {
        self.0.fetch_or(happened, Ordering::Relaxed);
    }

    /// Panics if no run of the model reached the case. The test calls it after all runs.
    pub(crate) fn assert(&self) {
        assert!(self.0.load(Ordering::Relaxed), "no run of the model reached its case");
    }
}

/// Data that a lock guards, by loom's cell: an access that the lock does not order fails the model.
#[derive(Debug, Default)]
pub(crate) struct Guarded(loom::cell::UnsafeCell<usize>);

// SAFETY: loom checks each access.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Adds 1. *Runs on: the holder of the lock.*
    pub(crate) fn add(&self) {
        // SAFETY: the caller has the lock; loom checks that.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    /// Returns the number of additions. *Runs on: a holder of the lock.*
    pub(crate) fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}
