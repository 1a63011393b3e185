//! Helpers of the loom models: a bounded exploration, a way to make loom try every order, and proof of
//! reaching a case.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Explores the interleavings that have at most `preemptions` involuntary switches, for models with too many
/// interleavings. `ci/models.sh` may allow fewer.
pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    explore_at_least(0, preemptions, model);
}

/// As [`explore`], for a model that reaches its case only with `least` preemptions: fewer are not allowed.
pub fn explore_at_least(least: usize, most: usize, model: impl Fn() + Send + Sync + 'static) {
    // It reads `LOOM_MAX_PREEMPTIONS`.
    let mut builder = loom::model::Builder::new();
    let allowed = builder.preemption_bound.unwrap_or(most);
    builder.preemption_bound = Some(allowed.clamp(least, most));
    builder.max_branches = 100_000;
    builder.check(model);
}

/// A counter that each step of a model increments first, so that loom tries every order of the steps.
///
/// loom remembers one access to each atomic. If a thread loads a word and then writes it, loom forgets that
/// another thread loaded the word before. loom then never tries the reverse order. loom always tries both
/// orders of two increments. The other thread's load then meets the write, and loom explores all orders
/// between the two.
#[derive(Debug, Default)]
pub struct Turns(AtomicUsize);

impl Turns {
    /// Starts a step. *Runs on: any thread of the model.*
    pub fn take(&self) {
        // Relaxed: the increment must order nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Proves that a model reaches the case it is about; a model that never does shows nothing. A test keeps it
/// in a static.
#[derive(Debug)]
pub struct Reached(std::sync::atomic::AtomicBool);

impl Reached {
    /// Makes the proof of a case that no run has reached yet.
    pub const fn new() -> Self {
        Reached(std::sync::atomic::AtomicBool::new(false))
    }

    /// Records that this run of the model reached the case, if `happened`.
    pub fn note(&self, happened: bool) {
        self.0.fetch_or(happened, Ordering::Relaxed);
    }

    /// Panics if no run of the model reached the case. The test calls it after all runs.
    pub fn assert(&self) {
        assert!(self.0.load(Ordering::Relaxed), "no run of the model reached its case");
    }
}
