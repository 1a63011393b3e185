//! Runs on a quiet machine: waits until the machine is quiet, and leaves out disturbed runs.

use std::time::Duration;

use driver::quiet::{Stretch, wait_until_quiet};

/// The most tries of one run. After so many disturbed tries the run is given up.
const TRIES: usize = 5;

/// The remaining patience for a quiet machine, and the number of runs by result.
pub(crate) struct Calm {
    /// True if disturbed runs count, too.
    takes_all: bool,
    patience: Duration,
    runs: usize,
    left_out: usize,
    disturbed: usize,
}

impl Calm {
    /// All waits together last `patience` at most. If `patience` is zero, all runs count.
    pub(crate) fn new(patience: Duration) -> Calm {
        Calm { takes_all: patience.is_zero(), patience, runs: 0, left_out: 0, disturbed: 0 }
    }

    /// Calls `run` until a call was not disturbed. Returns `None` if each try was disturbed.
    pub(crate) fn run<T>(&mut self, mut run: impl FnMut() -> T) -> Option<T> {
        for _ in 0..TRIES {
            self.wait();
            let stretch = Stretch::begin();
            let result = run();
            self.runs += 1;
            if !stretch.is_some_and(|stretch| stretch.was_disturbed()) {
                return Some(result);
            }
            if self.takes_all {
                self.disturbed += 1;
                return Some(result);
            }
            println!("  the run was disturbed by other programs, and is left out");
            self.left_out += 1;
            if self.patience.is_zero() {
                break;
            }
        }
        None
    }

    fn wait(&mut self) {
        let waited = wait_until_quiet(self.patience);
        self.patience = self.patience.saturating_sub(waited);
        if waited > Duration::from_secs(1) {
            println!("  waited {:.1} s for a quiet machine", waited.as_secs_f64());
        }
    }

    /// True if a run that counts was disturbed.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.disturbed > 0
    }

    /// Returns the number of runs by result, as a sentence for the page.
    pub(crate) fn report(&self) -> String {
        let Calm { runs, left_out, disturbed, .. } = self;
        format!("{runs} runs; {left_out} disturbed and left out, {disturbed} disturbed and counted")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Calm;

    #[test]
    fn without_patience_all_runs_count() {
        let mut calm = Calm::new(Duration::ZERO);
        assert_eq!([1, 2].map(|n| calm.run(|| n)), [Some(1), Some(2)]);
        assert!(calm.report().starts_with("2 runs; 0 disturbed and left out"), "{}", calm.report());
    }
}
