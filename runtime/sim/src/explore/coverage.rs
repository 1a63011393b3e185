//! `coverage`: which schedules an exploration has seen, and when it has seen no new one for long.

use std::collections::{BTreeMap, HashSet};

/// The schedules of an exploration, in the order of its runs. Its OS threads end runs in any order, but the
/// result is that of one thread.
#[derive(Debug)]
pub(super) struct Coverage {
    /// After how many runs without a new schedule the exploration ends.
    quiet: u64,
    /// What each schedule is known by.
    seen: HashSet<u64>,
    /// How many runs are counted: all before that one have ended.
    counted: u64,
    /// The runs that have ended before an earlier one has, with their schedules and their steps.
    early: BTreeMap<u64, (u64, u64)>,
    /// The run after the last one with a new schedule.
    after_new: u64,
    /// The steps of the counted runs.
    steps: u64,
}

impl Coverage {
    pub(super) fn new(quiet: u64) -> Self {
        Coverage { quiet, seen: HashSet::new(), counted: 0, early: BTreeMap::new(), after_new: 0, steps: 0 }
    }

    /// Adds the run `at`, which has ended. Returns `true` if no further run is needed.
    pub(super) fn add(&mut self, at: u64, schedule: u64, steps: u64) -> bool {
        self.early.insert(at, (schedule, steps));
        while !self.is_over()
            && let Some((schedule, steps)) = self.early.remove(&self.counted)
        {
            self.counted += 1;
            self.steps += steps;
            if self.seen.insert(schedule) {
                self.after_new = self.counted;
            }
        }
        self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.counted - self.after_new >= self.quiet
    }

    pub(super) fn runs(&self) -> u64 {
        self.counted
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns how many different schedules the runs had.
    pub(super) fn schedules(&self) -> u64 {
        self.seen.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_in_which_runs_end_changes_nothing() {
        let schedules = [7, 8, 7, 9, 7, 8, 9, 10];
        let mut in_order = Coverage::new(3);
        let end = schedules.iter().zip(0..).position(|(&schedule, at)| in_order.add(at, schedule, 1));
        assert_eq!((end, in_order.schedules(), in_order.runs()), (Some(6), 3, 7));
        let mut backwards = Coverage::new(3);
        for (at, &schedule) in schedules.iter().enumerate().rev() {
            assert_eq!(backwards.add(at as u64, schedule, 1), at == 0);
        }
        assert_eq!((backwards.schedules(), backwards.runs(), backwards.steps()), (3, 7, 7));
    }
}
