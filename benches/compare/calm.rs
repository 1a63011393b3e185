//! Runs on a quiet machine: waits for one, and leaves out what was disturbed.

use std::time::Duration;

use driver::quiet::{Stretch, wait_until_quiet};

/// A run that is disturbed so often is given up.
const TRIES: usize = 5;

/// How long to wait still, and what became of the runs so far.
pub(crate) struct Calm {
    /// All runs count, disturbed or not.
    takes_all: bool,
    patience: Duration,
    runs: usize,
    left_out: usize,
    disturbed: usize,
}

impl Calm {
    /// Waits no longer than `patience`, in all. With none, all runs count.
    pub(crate) fn new(patience: Duration) -> Calm {
        Calm { takes_all: patience.is_zero(), patience, runs: 0, left_out: 0, disturbed: 0 }
    }

    /// Does `run` until no other program has disturbed it. `None`: each try was disturbed.
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
            println!("  disturbed by other programs: left out");
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

    /// What became of the runs, for the page.
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
