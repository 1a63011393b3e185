//! Runs a program deterministically: every choice of the scheduler comes from a seed, time is simulated, and
//! deadlocks are found at once. (Feature `sim`, on Linux with glibc.)
//!
//! The program is an unchanged one. Its green threads, channels, locks, timers, contexts and futures are
//! those of this crate. They run in a runtime with one P. Its scheduler asks the simulation what to do next:
//!
//! - **Choices.** Before each operation of a channel or a lock, and at each spawn, wait, sleep or yield, the
//!   simulation may let another green thread run. [`Strategy`] says how it chooses. [`atomic`] has atomics
//!   whose accesses are such points too.
//! - **Time** stands still while a green thread can run, and jumps to the next timer when all wait. An hour
//!   of sleeps takes no time. `std::time::Instant` and `SystemTime` read the simulated clock; a simulation
//!   begins on the first of January 2030. The clock of a node may be [wrong](Faults::clock_skew), and
//!   [fast or slow](Faults::clock_drift).
//! - **Deadlocks** are found when all green threads wait and no timer is armed. The simulation fails with a
//!   [dump](mod@crate::dump) of them all. It has the stack of each, and says which of them wait for each
//!   other. A program that runs for ever fails after [`Builder::max_steps`].
//! - **The network** is one of [nodes](node()) within the process. TCP and UDP of
//!   [`runtime::net`](crate::net) work there, with names, latency, [partitions](mod@net) and nodes that are
//!   killed and restarted. So does `std::net` with `runtime::interpose!(sim)`. [`Faults`] happen by
//!   themselves. Unix sockets work within a node.
//! - **HTTP.** hyper runs with `runtime::hyper`. tokio's own runtime is not
//!   supported: two runs of it with the same seed can differ.
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
//! What would get out of the simulation is refused: it does nothing, returns an error, and fails the run by
//! its name, with the stack. [`real`](real()) makes the calls of a closure all the same, such as a read
//! of a file of the test.
//!
//!
#![doc = include_str!("docs/simulation_refuses.md")]
//!
//! A system call that is made without libc, or by libc itself (such as for the time zone), is real.
//!
//! The locks of std and of parking_lot work as long as they are not held across a call that parks. If a green
//! thread has waited for one for 15 s of real time, the process ends with a message, because the green thread
//! cannot unwind. (With [`interpose!(sim)`](macro@crate::interpose) these locks are simulated, too: the page
//! ends with how.)
//!
//! Memory orders weaker than sequential consistency are not explored: loom does that for small pieces of
//! code. Code that spins without a call of this crate is not interrupted.
//!
//! A channel with room that was made outside of the simulation is a point of choice only where a try fails or
//! a call waits. A loop of calls on it that always succeed hangs the simulation: no other green thread runs,
//! and the limit of steps does not end it. So make channels inside.
//!
//! All green threads of a simulation run on one OS thread, pinned ones too. Their
//! [ids](crate::thread::ThreadId) count from 1 in each simulation, so that they are the same in each run.
//! Addresses of memory and the ids of std's threads are not: [`Builder::check_determinism`] finds a program
//! that depends on them.
//!
#![cfg_attr(
    all(feature = "interpose", target_arch = "x86_64"),
    doc = include_str!("docs/simulated_threads.md")
)]
#![allow(unsafe_code)]

use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use ::sim::host::{Host, Ran};
use ::sim::{PATIENCE, Settings};
use sched::simulation::{self, Ended, Simulation};
use sched::{Cancelled, Remains, Sched};

use crate::runtime::{Runtime, ThreadLocals};
use crate::spawn::start::{self, NoValue};

#[doc(inline)]
pub use ::sim::{
    Failure, Faults, Node, ParseScheduleError, Report, Schedule, Strategy, atomic, fault, fs, heal,
    is_simulated, linear, net, node, point, random, real, settle,
};

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
    settings: Settings,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
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
        Builder { settings: Settings::default() }
    }

    /// Sets how choices are made.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::{Builder, Strategy};
    /// let builder = Builder::new().strategy(Strategy::Pct { depth: 3 });
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.strategy = strategy;
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
        self.settings.max_steps = steps;
        self
    }

    /// Sets how many OS threads explore at a time.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().threads(1);
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = threads;
        self
    }

    /// Sets the seed of the first run of an exploration. Default: 0. So an exploration goes on where an
    /// earlier one has ended, and several machines share the seeds.
    ///
    /// [`Strategy::Exhaustive`] takes it as its one seed.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().first_seed(5000);
    /// let failure = builder.try_explore(1, || panic!("always")).unwrap_err();
    /// assert_eq!(failure.seed(), 5000);
    /// ```
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.settings.first_seed = seed;
        self
    }

    /// Ends an exploration before its last seed if so many runs in a row had no new schedule: most likely all
    /// schedules of the program that this strategy finds were seen. [`Report::runs`] says how many runs were
    /// made, and [`Report::schedules`] how many schedules they had. The result is the same for any number of
    /// threads.
    ///
    /// A schedule is the order in which green threads run, and how many could run at each step. Simulated
    /// times and random numbers are no part of it. A large program has so many schedules that almost each run
    /// has a new one. [`Strategy::Exhaustive`] needs no such bound, and takes none.
    ///
    /// ```
    /// # runtime::sim!();
    /// let report = runtime::sim::Builder::new().until_quiet(1000).explore(1_000_000, || {
    ///     let thread = runtime::spawn(runtime::yield_now);
    ///     runtime::yield_now();
    ///     thread.join().unwrap();
    /// });
    /// println!("{} schedules in {} runs", report.schedules().unwrap(), report.runs());
    /// assert!(report.runs() < 1_000_000);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `runs` is 0.
    pub fn until_quiet(mut self, runs: u64) -> Self {
        assert!(runs > 0, "an exploration without a run would be quiet");
        self.settings.until_quiet = Some(runs);
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
        self.settings.check_determinism = check;
        self
    }

    /// Sets whether the schedule of a failure is made shorter, by some hundred further runs. Each fails too.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().shrink(false);
    /// ```
    pub fn shrink(mut self, shrink: bool) -> Self {
        self.settings.shrink = shrink;
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
        self.settings.faults = faults;
        self
    }

    /// Sets whether each node has a clock of its own: [`Node::set_clock_rate`] sets the rate. Default: false,
    /// unless there is [`Faults::clock_drift`]. A seed may then give another run than without such clocks,
    /// because timers of one moment fire node by node.
    ///
    /// ```
    /// # runtime::sim!();
    /// let builder = runtime::sim::Builder::new().node_clocks(true);
    /// ```
    pub fn node_clocks(mut self, own: bool) -> Self {
        self.settings.node_clocks = own;
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
        self.settings.run(&HOST, seed, main)
    }

    /// Runs `main` in a simulation with each of the seeds 0 to `seeds` - 1, or from
    /// [`first_seed`](Builder::first_seed) on. [`Strategy::Exhaustive`] makes all its runs with the first
    /// seed.
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
        self.settings.try_explore(&HOST, seeds, main)
    }
}

/// What the crate `monochrome-sim` asks of this one.
static HOST: Host =
    Host { run: run_on_runtime, seed_selects: crate::channel::set_seed, dump: inspect::dump::report };

/// Runs `main` in a runtime with one P and without sysmon, which asks `simulation` for its choices. Takes
/// what the runtime of an earlier run has left from `remains`, and leaves its own there.
fn run_on_runtime(
    simulation: Arc<dyn Simulation>,
    main: &mut (dyn FnMut() + Send),
    remains: &mut Option<Remains>,
) -> Ran {
    let runtime = build(&simulation, remains.take())
        .unwrap_or_else(|error| panic!("cannot start a simulation: {error}"));
    let ran = run_on(&runtime, main);
    if ran.ended && !ran.left {
        *remains = runtime.into_remains();
    }
    ran
}

/// Runs `main` in the runtime and ends the runtime.
fn run_on(runtime: &Runtime, main: &mut (dyn FnMut() + Send)) -> Ran {
    let handle = runtime.handle();
    let sched = handle.sched();
    // Of a green thread it gives the P away.
    let await_main = || crate::blocking(|| simulation::await_main(sched));
    let run = || {
        // SAFETY: a simulation that was given up runs no green thread any more.
        unsafe { start::block_on_unless(sched, Location::caller(), main, await_main) }
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Err(NoValue::Left)) => {
            sched.begin_closing();
            crate::blocking(|| sched.leave());
            Ran { result: Err(Box::new(Cancelled)), ended: false, left: true }
        }
        result => {
            let (ended, left) = end(runtime, sched);
            // The simulation itself has the reason why it has failed.
            let result = result.and_then(|value| value.or(Err(Box::new(Cancelled))));
            Ran { result, ended, left }
        }
    }
}

/// Ends a runtime. Returns whether its green threads have ended, and whether some were left behind. A thread
/// of std that waits for a lock cannot unwind: the end of the main function ends it, as it ends a process.
fn end(runtime: &Runtime, sched: &Arc<Sched>) -> (bool, bool) {
    if !simulation::threads_are_caught(std::thread::yield_now) {
        return (runtime.end(Some(PATIENCE)), false);
    }
    sched.begin_closing();
    match sched.cancel_simulated(PATIENCE) {
        Ended::All => {
            crate::blocking(|| sched.end_threads());
            (true, false)
        }
        Ended::ButLeft => {
            crate::blocking(|| sched.leave());
            (true, true)
        }
        // What runs on keeps the runtime.
        Ended::No => (false, false),
    }
}

/// In a program with `runtime::interpose!(sim)` threads of std are green threads of the simulation. So these
/// have thread-locals of their own, where such exist.
fn build(simulation: &Arc<dyn Simulation>, remains: Option<Remains>) -> io::Result<Runtime> {
    // std yields by a function of libc.
    if simulation::threads_are_caught(std::thread::yield_now) {
        let with_locals = builder().thread_locals(ThreadLocals::OfGreenThread);
        let built = with_locals.build_simulated(simulation.clone(), remains);
        if !matches!(&built, Err(error) if error.kind() == io::ErrorKind::Unsupported) {
            return built;
        }
        return builder().build_simulated(simulation.clone(), None);
    }
    builder().build_simulated(simulation.clone(), remains)
}

fn builder() -> crate::runtime::Builder {
    crate::runtime::Builder::new().procs(1).sysmon(false).track_locks(true).thread_name("sim")
}
