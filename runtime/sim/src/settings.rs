//! `settings`: how to simulate. The builder of the crate `monochrome` holds these settings and documents
//! them. Variables of the environment replace some.

use std::fmt;
use std::thread::available_parallelism;

use super::faults::Faults;
use super::strategy::Strategy;
use super::world::Limits;

/// The strategy and the limits of simulations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How choices are made.
    pub strategy: Strategy,
    /// After how many steps a run fails.
    pub max_steps: u64,
    /// How many OS threads explore at a time.
    pub threads: usize,
    /// The seed of the first run of an exploration.
    pub first_seed: u64,
    /// After how many runs without a new schedule an exploration ends.
    pub until_quiet: Option<u64>,
    /// Makes each run twice and compares the steps.
    pub check_determinism: bool,
    /// Makes the schedule of a failure shorter.
    pub shrink: bool,
    /// Which faults happen by themselves.
    pub faults: Faults,
    /// Gives each node a clock of its own.
    pub node_clocks: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            strategy: Strategy::Random,
            max_steps: 1_000_000,
            threads: available_parallelism().map_or(1, usize::from),
            first_seed: 0,
            until_quiet: None,
            check_determinism: false,
            shrink: true,
            faults: Faults::new(),
            node_clocks: false,
        }
    }
}

impl Settings {
    /// Returns what a run with this strategy and seed is bound to.
    pub(super) fn limits(&self, strategy: &Strategy, seed: u64) -> Limits {
        let replay = match strategy {
            Strategy::Replay(schedule) => Some(schedule.faults().clone()),
            _ => None,
        };
        Limits {
            steps: self.max_steps,
            faults: self.faults.of_seed(seed),
            node_clocks: self.node_clocks || self.faults.most_drift() > 0,
            replay,
        }
    }

    /// Replays the schedule of the environment, if there is one.
    pub(super) fn or_replay(mut self) -> Self {
        if let Some(schedule) = of_environment("RUNTIME_SIM_SCHEDULE") {
            self.strategy = Strategy::Replay(schedule);
        }
        self
    }
}

/// Returns the seed of the environment, if there is one.
pub(super) fn seed_of_environment() -> Option<u64> {
    of_environment("RUNTIME_SIM_SEED")
}

/// Returns the value of a variable. Panics if it is not of its form.
fn of_environment<T: std::str::FromStr<Err: fmt::Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}
