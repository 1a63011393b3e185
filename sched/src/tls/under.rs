//! Under which thread-locals an M runs, and in which order it leaves a block and lets others enter it.
//!
//! ```text
//!   the M that leaves the block               another M
//!   g has stopped
//!   goes out of g's block
//!   publishes the stop ────────────────────>  wakes g, or takes it from a queue
//!                                             enters g's block
//! ```

#![allow(unsafe_code)]

use crate::sync::broken;

/// A block of thread-locals that an M enters and leaves.
pub(crate) trait Enter: Copy {
    /// Enters the block as `m`, from the M's own. Returns the base of the M's own.
    ///
    /// # Safety
    /// No other thread is in the block. Until `leave` with the result, this thread runs the coroutine with
    /// this block, and the code that gets it there touches no thread-local.
    unsafe fn enter(self, m: usize) -> usize;

    /// Leaves the block for the M's own.
    ///
    /// # Safety
    /// `home` is what `enter` has returned on this thread, and nothing has touched a thread-local since the
    /// switch of stacks.
    unsafe fn leave(self, home: usize);

    /// Leaves the block for the block `to`.
    ///
    /// # Safety
    /// As for `leave` and `enter`: `home` is what `enter` has returned on this thread, which is in this
    /// block.
    unsafe fn pass(self, to: Self, m: usize, home: usize);
}

/// The thread-locals under which an M runs.
pub(crate) struct Under<B> {
    m: usize,
    home: usize,
    block: Option<B>,
}

impl<B: Enter> Under<B> {
    /// Returns that `m` is under its own.
    pub(crate) fn home(m: usize) -> Self {
        Under { m, home: 0, block: None }
    }

    /// Goes to the block `to`, or to the M's own.
    ///
    /// # Safety
    /// This runs on the M, and no other thread is in `to`. The calling function and what is inlined into it
    /// touch no thread-local. Another thread may enter the block that was left only after this call.
    #[inline(always)]
    pub(crate) unsafe fn go(&mut self, to: Option<B>) {
        // SAFETY: this contract.
        unsafe {
            match (self.block, to) {
                (None, None) => {}
                (None, Some(to)) => self.home = to.enter(self.m),
                (Some(from), None) => from.leave(self.home),
                (Some(from), Some(to)) => from.pass(to, self.m, self.home),
            }
        }
        self.block = to;
    }

    /// Goes to the block `to`, or to the M's own, and then calls `publish`, from which on other threads may
    /// enter the block that was left.
    ///
    /// # Safety
    /// As for `go`. `publish` may touch thread-locals in functions that are never inlined.
    #[inline(always)]
    pub(crate) unsafe fn go_then<R>(&mut self, to: Option<B>, publish: impl FnOnce() -> R) -> R {
        if broken!("block_left_late") {
            let result = publish();
            // SAFETY: it is not: the model must notice.
            unsafe { self.go(to) };
            return result;
        }
        // SAFETY: this contract.
        unsafe { self.go(to) };
        publish()
    }

    /// Goes to the M's own.
    ///
    /// # Safety
    /// As for `go`.
    #[inline(always)]
    pub(crate) unsafe fn leave(&mut self) {
        // SAFETY: this contract.
        unsafe { self.go(None) };
    }
}

#[cfg(all(test, loom))]
mod models;
