//! `explore`: many runs of one program, on several OS threads, until one fails; and making the schedule of
//! that one shorter.

use std::ops::ControlFlow;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::thread;

use sched::sync::Mutex;

use super::host::Host;
use super::report::{Failure, Report};
use super::run::{Ended, Why, run};
use super::schedule::Schedule;
use super::settings::Settings;
use super::strategy::{Chooser, Path, Strategy};
use super::world::{Steps, World};

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
        let steps = |seed| self.with(seed, &Strategy::Random, Steps::Count).outcome.steps;
        (0..PROBES).map(steps).max().unwrap_or(1)
    }

    /// Makes a run for each seed from `first` on, up to `count`. Returns the failure with the lowest seed.
    pub(super) fn all(&self, first: u64, count: u64) -> Result<Report, Box<Failure>> {
        if matches!(self.settings.strategy, Strategy::Exhaustive { .. }) {
            return self.exhaustive(first);
        }
        let (next, ended) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let failures = Mutex::new(Vec::new());
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                // Lower seeds than that of a failure go on, so that the result is the same for any number of
                // threads.
                if at >= count || at > ended.load(Ordering::Relaxed) {
                    return;
                }
                if let ControlFlow::Break(failed) = self.one(first.wrapping_add(at)) {
                    ended.fetch_min(at, Ordering::Relaxed);
                    failures.lock().push((at, failed));
                }
            }
        };
        let threads = self.settings.threads.max(1).min(usize::try_from(count).unwrap_or(usize::MAX));
        thread::scope(|scope| {
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        let lowest = failures.into_inner().into_iter().min_by_key(|(at, _)| *at);
        match lowest {
            Some((at, (seed, ended))) => Err(self.failure(seed, at + 1, ended)),
            None => Ok(Report { runs: count, steps: self.steps.load(Ordering::Relaxed) }),
        }
    }

    fn exhaustive(&self, seed: u64) -> Result<Report, Box<Failure>> {
        let mut runs = 0;
        loop {
            runs += 1;
            if let ControlFlow::Break((seed, ended)) = self.one(seed) {
                return Err(self.failure(seed, runs, ended));
            }
            if !self.path.lock().advance() {
                return Ok(Report { runs, steps: self.steps.load(Ordering::Relaxed) });
            }
        }
    }

    /// Makes one run, and a second one if determinism is to be checked.
    fn one(&self, seed: u64) -> ControlFlow<(u64, Ended<()>)> {
        let checks = self.settings.check_determinism;
        let first = self.with(seed, &self.settings.strategy, if checks { Steps::Keep } else { Steps::Count });
        self.steps.fetch_add(first.outcome.steps, Ordering::Relaxed);
        if first.result.is_err() {
            return ControlFlow::Break((seed, first));
        }
        if !checks {
            return ControlFlow::Continue(());
        }
        let replay = Strategy::Replay(first.outcome.schedule.clone());
        let mut second = self.with(seed, &replay, Steps::Compare(first.outcome.trace));
        match second.outcome.diverged.take() {
            None => ControlFlow::Continue(()),
            Some(where_) => {
                let message = format!("two runs with the same seed differ: {where_}");
                second.result = Err(Why { message, payload: None });
                ControlFlow::Break((seed, second))
            }
        }
    }

    fn with(&self, seed: u64, strategy: &Strategy, steps: Steps) -> Ended<()> {
        let chooser = Chooser::new(strategy, seed, self.length, &self.path);
        let world = World::new(seed, chooser, self.settings.limits(strategy, seed), steps, self.host);
        run(&world, &self.main)
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
        while part > 0 {
            let mut at = first(schedule);
            while at < end(schedule) && left > 0 {
                left -= 1;
                let shorter = schedule.without(at, (at + part).min(end(schedule)));
                let ended = self.with(seed, &Strategy::Replay(shorter), Steps::Count);
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
