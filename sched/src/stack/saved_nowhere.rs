//! On systems for which `saved.rs` does not know the saved registers: dumps show no stacks.

use super::coro::Coro;

/// The registers and the stack of a parked green thread; here never filled.
#[derive(Debug, Default)]
pub struct StackCopy {
    /// The address at which the green thread goes on.
    pub pc: usize,
    /// Its stack pointer and its frame pointer there.
    pub sp: usize,
    /// See `sp`.
    pub fp: usize,
}

impl StackCopy {
    /// Returns `None`.
    pub fn read(&self, _address: usize) -> Option<usize> {
        None
    }

    /// Returns `false`: there is nothing to copy.
    ///
    /// # Safety
    /// None is needed here.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn fill(&mut self, _coro: *const Coro) -> bool {
        false
    }
}
