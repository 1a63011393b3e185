//! Something that is done once: who does it, who waits for that, and that it may fail and be done again.

use super::{Line, Patience, Wakes, stay};
use crate::g::wait::Outcome;
use crate::g::why::Why;
use crate::queue::{Lock, Queue};
use crate::sync::{
    atomic::{AtomicU8, Ordering},
    broken,
};

/// What has become of it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Nobody has begun.
    New,
    /// Who had begun has unwound.
    Failed,
    /// Somebody does it.
    Running,
    /// It is done.
    Done,
}

/// The word is written under the lock of the queue, in which those are who wait for another stage.
pub struct Once {
    stage: AtomicU8,
    queue: Lock<Queue<()>>,
}

impl Once {
    /// One that is new, or done already.
    #[cfg(not(loom))]
    pub const fn new(stage: Stage) -> Self {
        Once { stage: AtomicU8::new(stage as u8), queue: Lock::new(Queue::new()) }
    }

    /// Likewise.
    #[cfg(loom)]
    pub fn new(stage: Stage) -> Self {
        Once { stage: AtomicU8::new(stage as u8), queue: Lock::new(Queue::new()) }
    }

    /// How far it is.
    #[inline]
    pub fn stage(&self) -> Stage {
        // Acquire: what the one who did it did; pairs with the Release of `end`.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::New,
            1 => Stage::Failed,
            2 => Stage::Running,
            _ => Stage::Done,
        }
    }

    /// Begins, unless it is running or done, waiting for whoever does it now as long as patience lasts. Gives the stage
    /// that was found: `New` or `Failed` mean that the caller does it, and then calls `end`. With `if_failed` unset it does
    /// not begin one that has failed. It does not unwind.
    ///
    /// # Errors
    /// How the wait ended otherwise.
    pub fn begin(&self, if_failed: bool, patience: Patience) -> Result<Stage, Outcome> {
        loop {
            let queue = self.queue.lock();
            let stage = self.stage();
            if stage == Stage::Running && !broken!("once_begins_twice") {
                stay(Why::Once, queue, |queue| queue, Line::default(), patience, ())
                    .map_err(|ended| ended.outcome)?;
                continue;
            }
            if stage == Stage::New || stage == Stage::Failed && if_failed || broken!("once_begins_twice") {
                // Relaxed: nothing was done yet.
                self.stage.store(Stage::Running as u8, Ordering::Relaxed);
            }
            return Ok(stage);
        }
    }

    /// Waits until it is done, or has failed if that is asked for.
    ///
    /// # Errors
    /// How the wait ended otherwise.
    pub fn wait(&self, or_failed: bool, patience: Patience) -> Result<Stage, Outcome> {
        loop {
            let queue = self.queue.lock();
            let stage = self.stage();
            if stage == Stage::Done || stage == Stage::Failed && or_failed {
                return Ok(stage);
            }
            stay(Why::Once, queue, |queue| queue, Line::default(), patience, ())
                .map_err(|ended| ended.outcome)?;
        }
    }

    /// Sets the stage to `Failed` or `Done`, and wakes all waiters. *Runs on: the caller that `begin` let begin.*
    pub fn end(&self, stage: Stage) {
        debug_assert!(matches!(stage, Stage::Failed | Stage::Done), "{stage:?} is no end");
        let mut queue = self.queue.lock();
        debug_assert_eq!(self.stage(), Stage::Running, "only the caller that began may end");
        let order = if broken!("once_ended_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: what was done; pairs with the Acquire of `stage`.
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
