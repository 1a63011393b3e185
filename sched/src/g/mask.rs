//! `Mask`: a stretch of a thread's code. Nothing from outside ends the waits in it. What would end them takes
//! effect at the next wait after the mask.
//!
//! What can end a wait early, and how a mask keeps it away:
//!
//! - *A cancellation* may come at any moment. A wait in a mask is armed as `Cancel::Masked`, from which the
//!   canceller keeps away.
//! - *The deadline of a time-out* belongs to the thread. The mask takes it away and puts it back.
//! - *A revocable stretch* (`g/revocable.rs`) is hidden.
//!
//! Time-outs and stretches that begin inside of the mask end waits there: they unwind to where they began,
//! which is inside.
//!
//! A G is masked for good once its task is over.

use timers::clock;

use super::own::OwnG;

/// A mask of the thread `g`. Its drop ends the mask.
pub(crate) struct Mask {
    g: OwnG,
    /// What the mask has found and restores at its end.
    was_masked: bool,
    deadline: u64,
    hidden: usize,
}

impl Mask {
    /// Begins a mask. Masks nest.
    pub(crate) fn begin(g: OwnG) -> Mask {
        let was_masked = g.set_masked(true);
        // Without rare fields there is neither a deadline nor a stretch.
        let (deadline, hidden) = g.rare().map_or((clock::NEVER, 0), |rare| {
            (rare.deadline.replace(clock::NEVER), rare.revocables.hide(&g.wait))
        });
        Mask { g, was_masked, deadline, hidden }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        self.g.set_masked(self.was_masked);
        if let Some(rare) = self.g.rare() {
            rare.deadline.set(self.deadline);
            rare.revocables.show(&self.g.wait, self.hidden);
        }
    }
}
