//! `Budget`: how many awaited operations one poll of a task may still complete.
//!
//! If all operations of a future are always ready, the future would never return from its poll. Its task's
//! time-out, and the other branches of the task, would never get a turn. So the thread that drives a future
//! gives each poll a new budget, and each awaited operation that is ready spends one unit of it. An operation
//! that finds no unit takes nothing, wakes its task and is pending. The figures are tokio's, with one
//! addition:
//!
//! ```text
//!   units      128 operations are completed
//!   turns      then each refusal lets one more operation be completed, 64 times
//!   refusals   then all are refused
//!   renewed    after 250 refusals the budget is that of a new poll
//! ```
//!
//! *Turns*: a combinator may poll its branches in a fixed order. All branches behind the one that used the
//! budget up would meet an empty budget. One more operation for each refusal lets each branch go on a little.
//! (Tokio's `join!` begins with another branch each time instead. Combinators of other crates do not.)
//!
//! *Renewed*: an executor of another crate may block within the poll. That executor would ask again for ever,
//! because only the end of that poll gives a new budget.

use std::sync::atomic::{AtomicU16, Ordering};

/// Tokio has the same number.
const UNITS: u8 = 128;
/// The number of refusals that each let one more operation be completed.
const TURNS: u8 = 64;
/// The number of refusals after which the budget is that of a new poll.
const PATIENCE: u8 = 250;
/// In `left`: operations are not counted.
const UNCOUNTED: u8 = u8::MAX;

/// What is left of the budget of one poll. Two bytes, for which a G has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    left: u8,
    refusals: u8,
}

impl Budget {
    /// The budget of code that no driver polls: operations are not limited.
    pub(crate) const NONE: Budget = Budget { left: UNCOUNTED, refusals: 0 };
    /// The budget of a new poll.
    pub(crate) const FULL: Budget = Budget { left: UNITS, refusals: 0 };

    const fn word(self) -> u16 {
        u16::from_ne_bytes([self.left, self.refusals])
    }

    /// Returns `true` if an operation may be completed.
    #[inline]
    pub(crate) fn is_left(self) -> bool {
        self.left != 0
    }

    /// Returns the budget after an operation was completed.
    #[inline]
    pub(crate) fn spent(self) -> Budget {
        // An operation that is made of others finds the unit that it asked for spent.
        let unit = u8::from(self.left != 0 && self.left != UNCOUNTED);
        Budget { left: self.left - unit, ..self }
    }

    /// Returns the budget after an operation was refused.
    pub(crate) fn refused(self) -> Budget {
        debug_assert!(!self.is_left());
        match self.refusals + 1 {
            PATIENCE => Budget::FULL,
            refusals => Budget { left: u8::from(refusals <= TURNS), refusals },
        }
    }
}

/// A budget in a G. Only the thread itself uses the word, so all accesses are relaxed.
#[derive(Debug)]
pub(crate) struct BudgetWord(AtomicU16);

impl BudgetWord {
    pub(crate) const fn new() -> Self {
        BudgetWord(AtomicU16::new(Budget::NONE.word()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Budget {
        let [left, refusals] = self.0.load(Ordering::Relaxed).to_ne_bytes();
        Budget { left, refusals }
    }

    #[inline]
    pub(crate) fn set(&self, budget: Budget) {
        self.0.store(budget.word(), Ordering::Relaxed);
    }

    /// Sets the budget. Returns the one before.
    pub(crate) fn replace(&self, budget: Budget) -> Budget {
        let before = self.get();
        self.set(budget);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes operations until one is refused. Returns their number, and the budget after the refusal.
    fn until_refused(mut budget: Budget) -> (u32, Budget) {
        let mut completed = 0;
        while budget.is_left() {
            budget = budget.spent();
            completed += 1;
        }
        (completed, budget.refused())
    }

    #[test]
    fn the_branch_behind_gets_one_operation_and_a_poll_is_bounded() {
        let (completed, mut budget) = until_refused(Budget::FULL);
        assert_eq!(completed, u32::from(UNITS));
        let mut turns = 0;
        loop {
            let (completed, next) = until_refused(budget);
            assert!(completed <= 1);
            turns += completed;
            budget = next;
            if budget == Budget::FULL {
                break;
            }
        }
        assert_eq!(turns, u32::from(TURNS));
    }

    #[test]
    fn without_a_budget_nothing_is_counted() {
        assert!(Budget::NONE.is_left());
        assert_eq!(Budget::NONE.spent(), Budget::NONE);
    }

    #[test]
    fn an_operation_made_of_others_spends_no_unit_that_is_not_there() {
        let empty = Budget { left: 1, refusals: 0 }.spent();
        assert_eq!(empty.spent(), empty);
    }
}
