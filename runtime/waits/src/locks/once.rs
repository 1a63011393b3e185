//! Once: a step that a single caller runs while the others wait. A run that failed may be repeated.
//!
//! The stage changes only under the lock of the wait queue. Callers that wait for a later stage are in this
//! queue. A caller that finds the stage `Done` reads only the stage and never takes the lock.

use super::locker::{Line, Patience, stay};
use crate::queue::Wakes;
use crate::queue::{Lock, Queue};
use sched::sync::{
    atomic::{AtomicU8, Ordering},
    broken,
};
use sched::{Outcome, Why};

/// How far the step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// No caller has begun.
    New,
    /// The caller that began has unwound.
    Failed,
    /// A caller runs the step.
    Running,
    /// The step is done.
    Done,
}

/// A step that is run once. The file's head explains its protocol.
pub struct Once {
    stage: AtomicU8,
    queue: Lock<Queue<()>>,
}

impl Once {
    /// Makes a step at `stage`: new, or done already.
    #[cfg(not(loom))]
    pub const fn new(stage: Stage) -> Self {
        Once { stage: AtomicU8::new(stage as u8), queue: Lock::new(Queue::new()) }
    }

    /// Makes a step at `stage`: new, or done already.
    #[cfg(loom)]
    pub fn new(stage: Stage) -> Self {
        Once { stage: AtomicU8::new(stage as u8), queue: Lock::new(Queue::new()) }
    }

    /// Returns the present stage. If `Done`, the caller sees all that the step did.
    #[inline]
    pub fn stage(&self) -> Stage {
        // Acquire: sees what the step did. Pairs with the Release of `end`.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::New,
            1 => Stage::Failed,
            2 => Stage::Running,
            _ => Stage::Done,
        }
    }

    /// Begins the step if it is new, or if it has failed and `if_failed` is set. Waits as `patience` allows
    /// while another caller runs it. Returns the stage that was found. If the caller has begun, that is `New`
    /// or `Failed`, and the caller must call `end`. Does not unwind.
    ///
    /// # Errors
    /// Returns how the wait ended if it timed out or was cancelled.
    pub fn begin(&self, if_failed: bool, patience: Patience) -> Result<Stage, Outcome> {
        loop {
            let queue = self.queue.lock();
            let stage = self.stage();
            if stage == Stage::Running && !broken!("once_begins_twice") {
                stay(Why::Once, (self, |_| None), queue, |queue| queue, Line::default(), patience, ())
                    .map_err(|ended| ended.outcome)?;
                continue;
            }
            if stage == Stage::New || stage == Stage::Failed && if_failed || broken!("once_begins_twice") {
                // Relaxed: there is nothing to publish yet.
                self.stage.store(Stage::Running as u8, Ordering::Relaxed);
            }
            return Ok(stage);
        }
    }

    /// Waits until the step is done, or has failed if `or_failed` is set. Returns the stage.
    ///
    /// # Errors
    /// Returns how the wait ended if it timed out or was cancelled.
    pub fn wait(&self, or_failed: bool, patience: Patience) -> Result<Stage, Outcome> {
        loop {
            let queue = self.queue.lock();
            let stage = self.stage();
            if stage == Stage::Done || stage == Stage::Failed && or_failed {
                return Ok(stage);
            }
            stay(Why::Once, (self, |_| None), queue, |queue| queue, Line::default(), patience, ())
                .map_err(|ended| ended.outcome)?;
        }
    }

    /// Sets the stage to `Failed` or `Done`, and wakes all waiters. *Runs on: the caller that `begin` let
    /// begin.*
    pub fn end(&self, stage: Stage) {
        debug_assert!(matches!(stage, Stage::Failed | Stage::Done), "{stage:?} does not end a step");
        let mut queue = self.queue.lock();
        debug_assert_eq!(self.stage(), Stage::Running, "only a step that runs can end");
        let order = if broken!("once_ended_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: publishes what the step did. Pairs with the Acquire of `stage`.
        self.stage.store(stage as u8, order);
        let mut wakes = Wakes::default();
        while let Some(wake) = queue.wake_first(|()| ()) {
            wakes.extend([wake]);
            if broken!("once_wakes_one") {
                break;
            }
        }
        drop(queue);
        drop(wakes);
    }
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("stage", &self.stage()).finish()
    }
}
