//! `simulate`: the two ways to simulate: one run, or an exploration.

use std::mem;

use sched::Remains;
use sched::sync::Mutex;

use super::explore::Exploration;
use super::host::Host;
use super::report::{Failure, Report};
use super::run::run;
use super::settings::{Settings, seed_of_environment};
use super::strategy::Chooser;
use super::world::{Steps, World};

/// What the runtime of the last call of [`Settings::run`] has left: a program may call it for many seeds.
static REMAINS: Mutex<Option<Remains>> = Mutex::new(None);

impl Settings {
    /// Runs `main` in a simulation with the runtimes of `host`, and returns its value.
    ///
    /// # Panics
    /// Panics if the run fails.
    #[track_caller]
    pub fn run<T: Send>(&self, host: &'static Host, seed: u64, main: impl FnOnce() -> T + Send) -> T {
        let settings = self.clone().or_replay();
        let seed = seed_of_environment().unwrap_or(seed);
        let chooser = Chooser::new(&settings.strategy, seed, 1000, &Default::default());
        let limits = settings.limits(&settings.strategy, seed);
        let world = World::new(seed, chooser, limits, Steps::Count, host);
        let mut remains = REMAINS.lock().take();
        let ended = run(&world, &mut remains, main);
        if remains.is_some() {
            let others = mem::replace(&mut *REMAINS.lock(), remains);
            // After the unlock: this gives stacks back to the system.
            drop(others);
        }
        let (outcome, why) = match ended.result {
            Ok(value) => return value,
            Err(why) => (ended.outcome, why),
        };
        let failure = Failure {
            seed,
            runs: 1,
            steps: outcome.steps,
            choices: outcome.choices,
            schedule: outcome.schedule,
            message: why.message.clone(),
        };
        why.resume(failure.to_string())
    }

    /// Runs `main` in a simulation with each of `seeds` seeds from the first one on, with the runtimes of
    /// `host`.
    ///
    /// # Errors
    /// Returns the failure with the lowest seed.
    pub fn try_explore(
        &self,
        host: &'static Host,
        seeds: u64,
        main: impl Fn() + Send + Sync,
    ) -> Result<Report, Box<Failure>> {
        let settings = self.clone().or_replay();
        let (first, count) = seed_of_environment().map_or((settings.first_seed, seeds), |seed| (seed, 1));
        Exploration::new(&settings, host, main).all(first, count)
    }
}
