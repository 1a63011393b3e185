//! What the loom models share: bounds, and a way to make loom see every order.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Explores the interleavings with at most so many involuntary switches: where all of them are too many.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

/// What each step of a model begins with. loom remembers one access to each atomic: a thread that loads a word and then
/// writes it hides from loom that another had loaded it before, and that order is never turned round. The order of two
/// turns always is; and then the other's load meets the write, and all orders between the two follow.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicUsize);

impl Turns {
    /// Any thread's turn.
    pub(crate) fn take(&self) {
        // Relaxed: it shall order nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a model ever comes to what it is about: one that does not shows nothing. A static of the test's.
#[derive(Debug)]
pub(crate) struct Reached(std::sync::atomic::AtomicBool);

impl Reached {
    pub(crate) const fn new() -> Self {
        Reached(std::sync::atomic::AtomicBool::new(false))
    }

    /// This run of the model did, if `happened`.
    pub(crate) fn note(&self, happened: bool) {
        self.0.fetch_or(happened, Ordering::Relaxed);
    }

    /// After all runs.
    pub(crate) fn assert(&self) {
        assert!(self.0.load(Ordering::Relaxed), "the model never comes to what it is about");
    }
}
