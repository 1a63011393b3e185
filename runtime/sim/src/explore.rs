//! `explore`: many runs of one program, on several OS threads, until one fails; and making the schedule of
//! that one shorter.

mod coverage;

use std::ops::ControlFlow;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::thread;

use sched::Remains;
use sched::sync::Mutex;

use super::host::Host;
use super::report::{Failure, Report};
use super::run::{Ended, Why, run};
use super::schedule::Schedule;
use super::settings::Settings;
use super::strategy::{Chooser, Path, Strategy};
use super::world::{Outcome, Steps, World};
use coverage::Coverage;

/// The most runs that are spent on leaving out choices, and again on leaving out faults.
const SHORTENING_RUNS: usize = 200;
/// How many runs find out how long the program is, for `Strategy::Pct`.
const PROBES: u64 = 3;

/// An exploration under way.
pub(super) struct Exploration<'s, F> {
    settings: &'s Settings,
    host: &'static Host,
    main: F,
    path: Arc<Mutex<Path>>,
    /// How many steps a run has, for `Strategy::Pct`. It depends on the program only, so that each seed
    /// stands for one run.
    length: u64,
    steps: AtomicU64,
}

impl<'s, F: Fn() + Send + Sync> Exploration<'s, F> {
    pub(super) fn new(settings: &'s Settings, host: &'static Host, main: F) -> Self {
        let mut exploration =
            Exploration { settings, host, main, path: Arc::default(), length: 1, steps: AtomicU64::new(0) };
        if matches!(settings.strategy, Strategy::Pct { .. }) {
            exploration.length = exploration.longest_probe();
        }
        exploration
    }

    /// Returns the most steps of some random runs. If one fails, it is not reported: another seed finds its
    /// failure.
    fn longest_probe(&self) -> u64 {
        let _silent = Silent::begin();
        let mut remains = None;
        let steps = |seed| self.with(seed, &Strategy::Random, Steps::Count, &mut remains).outcome.steps;
        (0..PROBES).map(steps).max().unwrap_or(1)
    }

    /// Makes a run for each seed from `first` on, up to `count`. Returns the failure with the lowest seed.
    pub(super) fn all(&self, first: u64, count: u64) -> Result<Report, Box<Failure>> {
        if matches!(self.settings.strategy, Strategy::Exhaustive { .. }) {
            return self.exhaustive(first);
        }
        let (next, ended) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let coverage = self.settings.until_quiet.map(|quiet| Mutex::new(Coverage::new(quiet)));
        let failures = Mutex::new(Vec::new());
        let work = || {
            let mut remains = None;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                // Lower seeds than that of a failure go on, so that the result is the same for any number of
                // threads.
                if at >= count || at > ended.load(Ordering::Relaxed) {
                    return;
                }
                match (self.one(first.wrapping_add(at), &mut remains), &coverage) {
                    (ControlFlow::Break(failed), _) => {
                        ended.fetch_min(at, Ordering::Relaxed);
                        failures.lock().push((at, failed));
                    }
                    (ControlFlow::Continue(outcome), Some(coverage)) => {
                        let mut coverage = coverage.lock();
                        if coverage.add(at, outcome.order, outcome.steps) {
                            ended.fetch_min(coverage.runs(), Ordering::Relaxed);
                        }
                    }
                    (ControlFlow::Continue(_), None) => {}
                }
            }
        };
        let threads = self.settings.threads.max(1).min(usize::try_from(count).unwrap_or(usize::MAX));
        thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let coverage = coverage.map(Mutex::into_inner);
        // A failure after the end of a quiet exploration is none of it, whichever thread has found it.
        let end = coverage.as_ref().filter(|coverage| coverage.is_over()).map_or(count, Coverage::runs);
        let failures = failures.into_inner().into_iter().filter(|(at, _)| *at < end);
        if let Some((at, (seed, ended))) = failures.min_by_key(|(at, _)| *at) {
            return Err(self.failure(seed, at + 1, ended));
        }
        Ok(match coverage {
            Some(coverage) => Report {
                runs: coverage.runs(),
                steps: coverage.steps(),
                schedules: Some(coverage.schedules()),
            },
            None => Report { runs: count, steps: self.steps.load(Ordering::Relaxed), schedules: None },
        })
    }

    fn exhaustive(&self, seed: u64) -> Result<Report, Box<Failure>> {
        let (mut runs, mut remains) = (0, None);
        loop {
            runs += 1;
            if let ControlFlow::Break((seed, ended)) = self.one(seed, &mut remains) {
                return Err(self.failure(seed, runs, ended));
            }
            if !self.path.lock().advance() {
                return Ok(Report { runs, steps: self.steps.load(Ordering::Relaxed), schedules: None });
            }
        }
    }

    /// Makes one run, and a second one if determinism is to be checked.
    fn one(&self, seed: u64, remains: &mut Option<Remains>) -> ControlFlow<(u64, Ended<()>), Outcome> {
        let checks = self.settings.check_determinism;
        let steps = match self.settings.until_quiet {
            _ if checks => Steps::Keep,
            Some(_) => Steps::Order,
            None => Steps::Count,
        };
        let first = self.with(seed, &self.settings.strategy, steps, remains);
        self.steps.fetch_add(first.outcome.steps, Ordering::Relaxed);
        if first.result.is_err() {
            return ControlFlow::Break((seed, first));
        }
        if !checks {
            return ControlFlow::Continue(first.outcome);
        }
        let replay = Strategy::Replay(first.outcome.schedule.clone());
        let mut second = self.with(seed, &replay, Steps::Compare(first.outcome.trace), remains);
        match second.outcome.diverged.take() {
            None => ControlFlow::Continue(second.outcome),
            Some(where_) => {
                let message = format!("two runs with the same seed differ: {where_}");
                second.result = Err(Why { message, payload: None });
                ControlFlow::Break((seed, second))
            }
        }
    }

    fn with(&self, seed: u64, strategy: &Strategy, steps: Steps, remains: &mut Option<Remains>) -> Ended<()> {
        let chooser = Chooser::new(strategy, seed, self.length, &self.path);
        let world = World::new(seed, chooser, self.settings.limits(strategy, seed), steps, self.host);
        run(&world, remains, &self.main)
    }

    fn failure(&self, seed: u64, runs: u64, ended: Ended<()>) -> Box<Failure> {
        let Err(why) = ended.result else { unreachable!("a run without a failure") };
        let (schedule, message) = if self.settings.shrink {
            self.shorten(seed, ended.outcome.schedule, why.message)
        } else {
            (ended.outcome.schedule, why.message)
        };
        Box::new(Failure {
            seed,
            runs,
            steps: ended.outcome.steps,
            choices: ended.outcome.choices,
            schedule,
            message,
        })
    }

    /// Leaves choices and then faults out of `schedule` while the run goes on failing. Returns the shortest
    /// schedule found, and its message.
    fn shorten(&self, seed: u64, schedule: Schedule, message: String) -> (Schedule, String) {
        let _silent = Silent::begin();
        let mut shortest = (schedule, message);
        self.leave_out(seed, &mut shortest, |_| 0, Schedule::choices);
        self.leave_out(seed, &mut shortest, Schedule::choices, Schedule::len);
        shortest
    }

    /// Leaves out parts of the entries from `first` to `end`: larger ones first.
    fn leave_out(
        &self,
        seed: u64,
        (schedule, message): &mut (Schedule, String),
        first: impl Fn(&Schedule) -> usize,
        end: impl Fn(&Schedule) -> usize,
    ) {
        let (mut part, mut left) = (end(schedule) - first(schedule), SHORTENING_RUNS);
        let mut remains = None;
        while part > 0 {
            let mut at = first(schedule);
            while at < end(schedule) && left > 0 {
                left -= 1;
                let shorter = schedule.without(at, (at + part).min(end(schedule)));
                let ended = self.with(seed, &Strategy::Replay(shorter), Steps::Count, &mut remains);
                match ended.result {
                    // What the run noted, not what it was told: a choice that was never reached is left out
                    // as well.
                    Err(why) if ended.outcome.schedule.len() < schedule.len() => {
                        (*schedule, *message) = (ended.outcome.schedule, why.message);
                    }
                    _ => at += part,
                }
            }
            part = if part == 1 || left == 0 { 0 } else { part.div_ceil(2) };
        }
    }
}

/// While a value of this lives, panics in simulations are not printed.
struct Silent;

static SILENT: AtomicU64 = AtomicU64::new(0);

impl Silent {
    fn begin() -> Silent {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if SILENT.load(Ordering::Relaxed) == 0 || !sched::simulation::is_here() {
                    usual(info);
                }
            }));
        });
        SILENT.fetch_add(1, Ordering::Relaxed);
        Silent
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        SILENT.fetch_sub(1, Ordering::Relaxed);
    }
}
