//! Runs a program deterministically: every choice of the scheduler comes from a seed, time is simulated, and
//! deadlocks are found at once. (Feature `sim`, on Linux with glibc.)
//!
//! The program is an unchanged one. Its green threads, channels, locks, timers, contexts and futures are
//! those of this crate, and run in a runtime with one P whose scheduler asks the simulation what to do next:
//!
//! - **Choices.** Before each operation of a channel or a lock, and at each spawn, wait, sleep or yield, the
//!   simulation may let another green thread run. [`Strategy`] says how it chooses. [`atomic`] has atomics
//!   whose accesses are such points too.
//! - **Time** stands still while a green thread can run, and jumps to the next timer when all wait. An hour
//!   of sleeps takes no time. `std::time::Instant` and `SystemTime` read the simulated clock; a simulation
//!   begins on the first of January 2030.
//! - **Deadlocks** are found when all green threads wait and no timer is armed. The simulation fails with a
//!   [dump](mod@crate::dump) of them all. It has the stack of each, and says which of them wait for each
//!   other. A program that runs for ever fails after [`Builder::max_steps`].
//! - **The network** is one of [nodes](node()) within the process. TCP and UDP of
//!   [`runtime::net`](crate::net) work there, with names, latency, [partitions](mod@net) and nodes that are
//!   killed and restarted. [`Faults`] happen by themselves. Unix sockets work within a node.
//! - **Files.** Each node has a [disk](mod@fs), on which [`runtime::fs`](crate::fs) works. Its calls take
//!   simulated time. It outlives kills; a power cut loses what is not synced.
//! - **Randomness** of the system is simulated: the keys of `HashMap`s and the crate `getrandom` depend on
//!   the seed.
//!
//! A program or test file with simulations has the line [`runtime::sim!()`](macro@crate::sim), outside of
//! functions. The feature alone changes nothing.
//!
//! ```
//! use runtime::sync::Mutex;
//! use std::sync::Arc;
//!
//! runtime::sim!();
//!
//! // Each of two green threads reads, and then writes: an increment may be lost.
//! let failure = runtime::sim::Builder::new()
//!     .try_explore(1000, || {
//!         let count = Arc::new(Mutex::new(0));
//!         let other = count.clone();
//!         let add = |count: &Mutex<i32>| {
//!             let read = *count.lock();
//!             *count.lock() = read + 1;
//!         };
//!         let thread = runtime::spawn(move || add(&other));
//!         add(&count);
//!         thread.join().unwrap();
//!         assert_eq!(*count.lock(), 2);
//!     })
//!     .unwrap_err();
//! assert!(failure.message().contains("left: 1"));
//! println!("{failure}");
//! ```
//!
//! A test that runs with each of some seeds has the attribute [`#[runtime::test(sim, seeds =
//! 1000)]`](macro@crate::test).
//!
//! `examples/raft`, a replicated key-value store, runs on real sockets and files, and unchanged in
//! simulations with power cuts and partitions (`examples/tests/raft_sim.rs`). `benches/README.md` compares
//! simulations with those of shuttle, madsim and turmoil.
//!
//! # What is not simulated
//!
//! `std::fs`, child processes and signals of the system are real: a green thread that waits for a real socket
//! ends the simulation with a failure. Memory orders weaker than sequential consistency are not explored:
//! loom does that for small pieces of code. Code that spins without a call of this crate is not interrupted.
//!
//! What would get out of the simulation fails the run, with its stack: a thread of the system, a sleep of the
//! OS thread (`std::thread::sleep`), a device with random bytes. The locks of std and of parking_lot work as
//! long as they are not held across a call that parks. If a green thread has waited for one for 15 s of real
//! time, the process ends with a message, because the green thread cannot unwind. (With
//! [`runtime::interpose!(sim)`](macro@crate::interpose), these sleeps and locks of std are simulated.) Clocks
//! that are read without libc, such as the counter of the processor, are real, and so is the time of the
//! processor.
//!
//! A channel with room that was made outside of the simulation is a point of choice only where a try fails or
//! a call waits. A loop of calls on it that always succeed hangs the simulation: no other green thread runs,
//! and the limit of steps does not end it. So make channels inside.
//!
//! All green threads of a simulation run on one OS thread, pinned ones too. Their
//! [ids](crate::thread::ThreadId) count from 1 in each simulation, so that they are the same in each run.
//! Addresses of memory and the ids of std's threads are not: [`Builder::check_determinism`] finds a program
//! that depends on them.

pub mod atomic;
pub(crate) mod by_number;
pub(crate) mod clock;
pub(crate) mod disk;
mod errors;
pub(crate) mod escapes;
mod explore;
mod faults;
pub mod fs;
pub(crate) mod futex;
pub mod net;
pub(crate) mod network;
mod node;
mod quality;
mod random;
mod run;
mod schedule;
mod strategy;
mod world;

use std::fmt;
use std::thread::available_parallelism;

use schedule::Fault;

pub use faults::Faults;
pub use node::{Node, node};
pub use schedule::{ParseScheduleError, Schedule};
pub use strategy::Strategy;

use explore::Exploration;
use world::{Limits, Steps, World};

/// Runs `main` in a simulation with the given seed, and returns its value.
///
/// With the variable `RUNTIME_SIM_SEED` in the environment, that seed is used instead; with
/// `RUNTIME_SIM_SCHEDULE`, that [`Schedule`].
///
/// # Panics
///
/// Panics if `main` panics, or another green thread does and its result is dropped unseen; on a deadlock; and
/// after too many steps. Also panics if the program uses what cannot be simulated, or has no line
/// [`runtime::sim!()`](macro@crate::sim). The message has the line that replays the run.
///
/// ```
/// # runtime::sim!();
/// use std::time::{Duration, Instant};
/// let slept = runtime::sim::run(7, || {
///     let start = Instant::now();
///     runtime::sleep(Duration::from_secs(3600));
///     start.elapsed()
/// });
/// assert_eq!(slept, Duration::from_secs(3600));
/// ```
#[track_caller]
pub fn run<T: Send>(seed: u64, main: impl FnOnce() -> T + Send) -> T {
    Builder::new().run(seed, main)
}

/// Runs `main` in a simulation with each of the seeds 0 to `seeds` - 1, on several OS threads, until one
/// fails.
///
/// With the variable `RUNTIME_SIM_SEED` in the environment, only that seed is used.
///
/// # Panics
///
/// Panics if a run fails, with the text of the [`Failure`].
///
/// ```
/// # runtime::sim!();
/// let report = runtime::sim::explore(100, || {
///     let (s, r) = runtime::channel::bounded(1);
///     runtime::spawn(move || s.send(1).unwrap());
///     assert_eq!(r.recv(), Ok(1));
/// });
/// assert_eq!(report.runs(), 100);
/// ```
#[track_caller]
pub fn explore(seeds: u64, main: impl Fn() + Send + Sync) -> Report {
    Builder::new().explore(seeds, main)
}

/// Returns `true` on a green thread of a simulation.
///
/// ```
/// # runtime::sim!();
/// assert!(!runtime::sim::is_simulated());
/// assert!(runtime::sim::run(0, runtime::sim::is_simulated));
/// ```
#[must_use]
pub fn is_simulated() -> bool {
    sched::simulation::is_here()
}

/// Returns a random number that depends on the seed of the simulation around the caller.
///
/// # Panics
///
/// Panics outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// let two = || (runtime::sim::random(), runtime::sim::random());
/// assert_eq!(runtime::sim::run(3, two), runtime::sim::run(3, two));
/// ```
#[must_use]
#[track_caller]
pub fn random() -> u64 {
    sched::simulation::with(|by| by.random())
        .expect("sim::random must be called by the code of a simulation: see runtime::sim::run")
}

/// A point of choice, as every operation of this crate is one: the simulation may let another green thread
/// run here. It does nothing outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::point();
/// ```
pub fn point() {
    sched::simulation::point();
}

/// Returns `true` with the given probability, as the seed decides: something goes wrong here that the
/// simulation does not know of, such as a call of a service that is refused. Such a fault is part of the
/// [`Schedule`]: a replay makes it again, and a schedule is made shorter by leaving out the faults that a
/// failure does not need. Returns `false` outside of a simulation, so that a program may keep the call.
///
/// ```
/// # runtime::sim!();
/// fn charge() -> Result<(), &'static str> {
///     if runtime::sim::fault(0.2) { Err("the bank is closed") } else { Ok(()) }
/// }
/// let failure = runtime::sim::Builder::new().try_explore(10, || {
///     let refused = (0..10).filter(|_| charge().is_err()).count();
///     assert!(refused == 0, "{refused} calls were refused");
/// });
/// let failure = failure.unwrap_err();
/// assert!(failure.message().contains("1 calls"));
/// assert_eq!(failure.schedule().len(), 1);
/// assert_eq!(charge(), Ok(()));
/// ```
#[must_use]
pub fn fault(probability: f64) -> bool {
    network::here().is_some_and(|network| {
        network.with(|state| state.decisions.decide(Fault::Program, &[probability]).0 > 0)
    })
}

/// How to simulate: the strategy and the limits.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::{Builder, Strategy};
/// let report = Builder::new().strategy(Strategy::Exhaustive { preemptions: 2 }).explore(1, || {
///     let thread = runtime::spawn(|| 1);
///     runtime::yield_now();
///     assert_eq!(thread.join().unwrap(), 1);
/// });
/// assert!(report.runs() > 1);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it runs or explores"]
pub struct Builder {
    strategy: Strategy,
    max_steps: u64,
    threads: usize,
    check_determinism: bool,
    shrink: bool,
    faults: Faults,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            strategy: Strategy::Random,
            max_steps: 1_000_000,
            threads: available_parallelism().map_or(1, usize::from),
            check_determinism: false,
            shrink: true,
            faults: Faults::new(),
        }
    }
}

impl Builder {
    /// Returns the default settings: random choices, at most 1,000,000 steps a run, an OS thread for each
    /// processor, failures made shorter.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how choices are made.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::{Builder, Strategy};
    /// let builder = Builder::new().strategy(Strategy::Pct { depth: 3 });
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets after how many steps a run fails. A step is a choice, or a place where there was nothing to
    /// choose.
    ///
    /// ```
    /// # runtime::sim!();
    /// let failure = runtime::sim::Builder::new().max_steps(100).try_explore(1, || loop {
    ///     runtime::yield_now();
    /// });
    /// assert!(failure.unwrap_err().message().contains("100 steps"));
    /// ```
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// Sets how many OS threads explore at a time.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().threads(1);
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Makes each run twice and compares the steps. The exploration fails where they differ: the program
    /// depends on something that is not simulated, such as an address of memory.
    ///
    /// ```
    /// # runtime::sim!();
    /// runtime::sim::Builder::new().check_determinism(true).explore(10, || runtime::yield_now());
    /// ```
    pub fn check_determinism(mut self, check: bool) -> Self {
        self.check_determinism = check;
        self
    }

    /// Sets whether the schedule of a failure is made shorter, by some hundred further runs. Each fails too.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().shrink(false);
    /// ```
    pub fn shrink(mut self, shrink: bool) -> Self {
        self.shrink = shrink;
        self
    }

    /// Sets which faults happen by themselves. Default: none.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::{Builder, Faults};
    /// let builder = Builder::new().faults(Faults::new().partition(0.1));
    /// ```
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Runs `main` in a simulation with these settings, and returns its value.
    ///
    /// # Panics
    ///
    /// Panics as [`run`](run()) does.
    ///
    /// ```
    /// # runtime::sim!();
    /// assert_eq!(runtime::sim::Builder::new().run(1, || 7), 7);
    /// ```
    #[track_caller]
    pub fn run<T: Send>(&self, seed: u64, main: impl FnOnce() -> T + Send) -> T {
        let builder = self.clone().or_replay();
        let seed = seed_of_environment().unwrap_or(seed);
        let chooser = strategy::Chooser::new(&builder.strategy, seed, 1000, &Default::default());
        let world = World::new(seed, chooser, builder.limits(&builder.strategy), Steps::Count);
        let ended = run::run(&world, &builder.faults, main);
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

    /// Runs `main` in a simulation with each of the seeds 0 to `seeds` - 1. [`Strategy::Exhaustive`] makes
    /// all its runs with seed 0.
    ///
    /// # Panics
    ///
    /// Panics as [`explore`] does.
    ///
    /// ```
    /// # runtime::sim!();
    /// let report = runtime::sim::Builder::new().explore(10, || ());
    /// assert_eq!(report.runs(), 10);
    /// ```
    #[track_caller]
    pub fn explore(&self, seeds: u64, main: impl Fn() + Send + Sync) -> Report {
        self.try_explore(seeds, main).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs `main` as [`explore`](Builder::explore) does.
    ///
    /// # Errors
    ///
    /// Returns the failure with the lowest seed.
    ///
    /// ```
    /// # runtime::sim!();
    /// let failure = runtime::sim::Builder::new().try_explore(10, || panic!("always")).unwrap_err();
    /// assert_eq!((failure.seed(), failure.message()), (0, "always"));
    /// ```
    pub fn try_explore(&self, seeds: u64, main: impl Fn() + Send + Sync) -> Result<Report, Box<Failure>> {
        let builder = self.clone().or_replay();
        let (first, count) = seed_of_environment().map_or((0, seeds), |seed| (seed, 1));
        Exploration::new(&builder, main).all(first, count)
    }

    /// Returns what a run with this strategy is bound to.
    fn limits(&self, strategy: &Strategy) -> Limits {
        let replay = match strategy {
            Strategy::Replay(schedule) => Some(schedule.faults().clone()),
            _ => None,
        };
        Limits { steps: self.max_steps, faults: self.faults.clone(), replay }
    }

    fn or_replay(mut self) -> Self {
        if let Some(schedule) = of_environment("RUNTIME_SIM_SCHEDULE") {
            self.strategy = Strategy::Replay(schedule);
        }
        self
    }
}

fn seed_of_environment() -> Option<u64> {
    of_environment("RUNTIME_SIM_SEED")
}

/// Returns the value of a variable. Panics if it is not of its form.
fn of_environment<T: std::str::FromStr<Err: fmt::Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// What an exploration without a failure has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    runs: u64,
    steps: u64,
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

/// A run that has failed. Its text has the lines that replay the run.
#[derive(Clone, Debug)]
pub struct Failure {
    seed: u64,
    runs: u64,
    steps: u64,
    choices: u64,
    schedule: Schedule,
    message: String,
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
