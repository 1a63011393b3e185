//! `report`: what an exploration returns.

use std::fmt;

use super::schedule::Schedule;

/// What an exploration without a failure has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub(super) runs: u64,
    pub(super) steps: u64,
    pub(super) schedules: Option<u64>,
}

impl Report {
    /// Returns the number of runs.
    ///
    /// ```
    /// # runtime::sim!();
    /// assert_eq!(runtime::sim::explore(3, || ()).runs(), 3);
    /// ```
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the number of steps of all runs.
    ///
    /// ```
    /// # runtime::sim!();
    /// assert!(runtime::sim::explore(3, runtime::yield_now).steps() >= 3);
    /// ```
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl Report {
    /// Returns how many different schedules the runs had: the order in which their green threads ran.
    /// Returns `None` if the exploration had no [`until_quiet`], which counts them. Also returns `None` for
    /// `Strategy::Exhaustive`: each of its runs has another schedule.
    ///
    /// [`until_quiet`]: https://docs.rs/monochrome/latest/runtime/sim/struct.Builder.html#method.until_quiet
    ///
    /// ```
    /// # runtime::sim!();
    /// let report = runtime::sim::Builder::new().until_quiet(10).explore(100, || ());
    /// assert_eq!((report.runs(), report.schedules()), (11, Some(1)));
    /// ```
    #[must_use]
    pub fn schedules(&self) -> Option<u64> {
        self.schedules
    }
}

/// A run that has failed. Its text has the lines that replay the run.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(super) seed: u64,
    pub(super) runs: u64,
    pub(super) steps: u64,
    pub(super) choices: u64,
    pub(super) schedule: Schedule,
    pub(super) message: String,
}

impl Failure {
    /// Returns the seed of the run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns how many runs were made to find the failure: for seeds that are tried in order, one more than
    /// those that did not fail.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the schedule with which the run fails, made shorter if that was asked for.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns what went wrong: the text of the panic, or a report.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, runs, steps, choices, schedule, message } = self;
        let plural = if *runs == 1 { "" } else { "s" };
        writeln!(f, "a simulation with seed {seed} has failed, after {runs} run{plural}: {message}")?;
        writeln!(f, "steps: {steps}, choices: {choices}, of these not the first option: {}", schedule.len())?;
        writeln!(f, "to replay it, set RUNTIME_SIM_SEED={seed}")?;
        write!(
            f,
            "to replay the shortest failing schedule, set RUNTIME_SIM_SEED={seed} RUNTIME_SIM_SCHEDULE={schedule}"
        )
    }
}

impl std::error::Error for Failure {}
