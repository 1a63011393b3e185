//! On systems for which `saved.rs` does not know the saved registers: dumps show no stacks.

use super::coro::Coro;
use crate::sys::preempt::Registers;

/// The registers and the stack of a parked green thread; here never filled.
#[derive(Clone, Debug, Default)]
pub struct StackCopy {
    /// The address at which the green thread goes on.
    pub pc: usize,
    /// Its stack pointer and its frame pointer there.
    pub sp: usize,
    /// See `sp`.
    pub fp: usize,
    /// On Arm the link register there; elsewhere `pc`.
    pub link: usize,
    /// The whole stack.
    pub stack: std::ops::Range<usize>,
}

impl StackCopy {
    /// Returns a copy without room.
    pub(crate) const fn empty() -> Self {
        StackCopy { pc: 0, sp: 0, fp: 0, link: 0, stack: 0..0 }
    }

    /// Has no effect here.
    pub(crate) fn make_room(&mut self) {}

    /// Returns `false`: there is nothing to copy.
    ///
    /// # Safety
    /// None is needed here.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn fill_running(&mut self, _coro: *const Coro, _registers: &Registers) -> bool {
        false
    }

    /// Returns `false`: there is nothing to copy.
    pub(crate) fn fill_ready(&mut self, _g: &crate::g::G) -> bool {
        false
    }

    /// Returns `false`: there is nothing to copy.
    pub(crate) fn fill_blocked(&mut self, _g: &crate::g::G, _pc: usize, _sp: usize) -> bool {
        false
    }

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
