//! The stacks of spawners: one spawn in so many is kept with the stack on which it happened.
//!
//! Where this is asked for, the spawner looks at each spawn (`p/sampler.rs`), so it costs nothing elsewhere.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// Of which spawns the stack is taken, and how.
#[derive(Clone, Copy, Debug)]
pub struct SpawnStacks {
    /// One spawn in so many.
    pub every: NonZeroU32,
    /// Returns the return addresses on the stack of the caller, the innermost first. It runs inside of the
    /// runtime, so it must not park.
    pub take: fn() -> Box<[usize]>,
}

/// Counts the spawns of one runtime.
#[derive(Debug)]
pub(crate) struct Spawns {
    stacks: SpawnStacks,
    done: AtomicU32,
}

impl Spawns {
    pub(crate) fn new(stacks: SpawnStacks) -> Spawns {
        Spawns { stacks, done: AtomicU32::new(0) }
    }

    /// Counts a spawn. Returns the stack of the caller, the spawner, if it is to be kept. The first one is.
    pub(crate) fn stack(&self) -> Option<Box<[usize]>> {
        // Relaxed: a count.
        let n = self.done.fetch_add(1, Ordering::Relaxed);
        n.is_multiple_of(self.stacks.every.get()).then(self.stacks.take)
    }
}
