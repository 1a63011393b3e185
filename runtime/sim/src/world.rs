//! `world`: the simulation of one run, as the scheduler sees it: its choices, its clock, its random numbers,
//! and how it ended.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sched::simulation::{Phase, Simulation};
use sched::sync::Mutex;

use super::clock::beginning;
use super::disk::{self, Disks};
use super::escapes::real::Reals;
use super::faults::Faults;
use super::host::Host;
use super::network::{Network, Setup};
use super::parts::Parts;
use super::random::Random;
use super::schedule::{Fault, Schedule};
use super::strategy::{Chooser, Options};

/// The simulation of one run.
pub(super) struct World {
    phase: AtomicU8,
    /// The network, which keeps the clock.
    network: Arc<Network>,
    /// The green threads that may make calls of the system.
    reals: Arc<Reals>,
    /// The network, the disks and `reals`, as they are found from the code of the simulation.
    parts: Parts,
    state: Mutex<WorldState>,
    limits: Limits,
    host: &'static Host,
}

/// What a run is bound to: what ends it if it does not end by itself, and what goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) steps: u64,
    pub(super) faults: Faults,
    /// True if each node has a clock of its own.
    pub(super) node_clocks: bool,
    /// The faults of an earlier run, which are made again.
    pub(super) replay: Option<BTreeMap<(Fault, u64), usize>>,
}

#[derive(Debug)]
struct WorldState {
    chooser: Chooser,
    /// The random numbers of the program. The chooser has a source of its own, so that a replay gives the
    /// program the same ones.
    random: Random,
    schedule: Schedule,
    choices: u64,
    steps: u64,
    trace: Trace,
    failed: Option<Arc<str>>,
}

/// What one run leaves.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) schedule: Schedule,
    pub(super) choices: u64,
    pub(super) steps: u64,
    pub(super) trace: Vec<u64>,
    pub(super) failed: Option<Arc<str>>,
    pub(super) diverged: Option<String>,
    /// A number that runs with the same schedule have in common, if its steps were wanted.
    pub(super) order: u64,
}

/// The steps of a run, if they are wanted: a number for each. A second run compares its steps with those of
/// the first.
#[derive(Debug, Default)]
struct Trace {
    /// A number for each green thread, in the order in which they were first seen: ids differ from run to
    /// run.
    numbers: HashMap<u64, u32, BuildHasherDefault<OfId>>,
    kept: Option<Vec<u64>>,
    expected: Option<Vec<u64>>,
    /// The number of the last step, which depends on all before.
    hash: u64,
    /// The same without the times of the steps.
    order: u64,
    /// True if only `order` is wanted.
    wants_order: bool,
    diverged: Option<String>,
}

/// What a run does with its steps.
#[derive(Debug)]
pub(super) enum Steps {
    /// Counts them.
    Count,
    /// Counts them, and finds a number for their order.
    Order,
    /// Keeps them.
    Keep,
    /// Compares them with these.
    Compare(Vec<u64>),
}

/// The hash of an id: ids are numbers that the process gives out in order, and need no more.
#[derive(Debug, Default)]
struct OfId(u64);

impl Hasher for OfId {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("an id is a u64");
    }

    fn write_u64(&mut self, id: u64) {
        // hashbrown takes the highest bits, too.
        self.0 = Random::new(id).next();
    }
}

impl World {
    pub(super) fn new(
        seed: u64,
        chooser: Chooser,
        limits: Limits,
        steps: Steps,
        host: &'static Host,
    ) -> Arc<World> {
        let wants_order = matches!(steps, Steps::Order);
        let (kept, expected) = match steps {
            Steps::Count | Steps::Order => (None, None),
            Steps::Keep => (Some(Vec::new()), None),
            Steps::Compare(expected) => (None, Some(expected)),
        };
        let setup = Setup {
            quality: limits.faults.usual_quality().clone(),
            every: limits.faults.tick_ns(),
            most_skew: limits.faults.most_skew(),
            node_clocks: limits.node_clocks,
            most_drift: limits.faults.most_drift(),
            replay: limits.replay.clone(),
        };
        let network = Network::new(beginning(), seed ^ 0x4E7, setup);
        let disks = Disks::new(network.clone(), limits.faults.usual_disk().clone(), seed ^ 0xD15C);
        let reals = Arc::<Reals>::default();
        Arc::new(World {
            phase: AtomicU8::new(Phase::Before as u8),
            parts: Parts([network.clone(), disks, reals.clone()]),
            reals,
            network,
            state: Mutex::new(WorldState {
                chooser,
                random: Random::new(seed ^ 0x5EED),
                schedule: Schedule::default(),
                choices: 0,
                steps: 0,
                trace: Trace { kept, expected, wants_order, ..Trace::default() },
                failed: None,
            }),
            limits,
            host,
        })
    }

    pub(super) fn host(&self) -> &'static Host {
        self.host
    }

    pub(super) fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Begins to make the choices. *Runs on: the main function.*
    pub(super) fn begin(&self) {
        self.set_phase(Phase::On);
    }

    /// Ends the simulation. *Runs on: the main function.*
    pub(super) fn end(&self) {
        self.set_phase(Phase::Over);
    }

    fn set_phase(&self, phase: Phase) {
        // Relaxed: one M runs all green threads. What other threads read after the end is ordered by the join
        // of the main function.
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Notes that the run has failed, for the first reason only. Its main function is then cancelled.
    fn fail(&self, state: &mut WorldState, reason: &Arc<str>) {
        state.failed.get_or_insert_with(|| reason.clone());
        self.set_phase(Phase::Failed);
    }

    /// Notes that the run has failed, and returns the reason, with a dump of all green threads.
    fn fail_with_dump(&self, why: &str) -> Arc<str> {
        let reason: Arc<str> = format!("{why}\n\n{}", (self.host.dump)()).into();
        self.fail(&mut self.state.lock(), &reason);
        reason
    }

    /// Returns the faults of this run.
    pub(super) fn faults(&self) -> &Faults {
        &self.limits.faults
    }

    /// Returns the reason if the code of a green thread has made the run fail.
    fn end_if_failed(&self, state: &mut WorldState) -> Result<(), Arc<str>> {
        match state.failed.clone() {
            None => Ok(()),
            Some(reason) => {
                self.set_phase(Phase::Failed);
                Err(reason)
            }
        }
    }

    /// Takes what the run has left.
    pub(super) fn outcome(&self) -> Outcome {
        let state = &mut *self.state.lock();
        if let Some(expected) = &state.trace.expected
            && state.trace.diverged.is_none()
            && expected.len() as u64 != state.steps
        {
            let text = format!("the first run has {} steps and the second {}", expected.len(), state.steps);
            state.trace.diverged = Some(text);
        }
        let mut schedule = std::mem::take(&mut state.schedule);
        schedule.set_faults(self.network.take_faults());
        Outcome {
            schedule,
            choices: state.choices,
            steps: state.steps,
            trace: state.trace.kept.take().unwrap_or_default(),
            failed: state.failed.take(),
            diverged: state.trace.diverged.take(),
            order: state.trace.order,
        }
    }
}

impl WorldState {
    /// Counts a step: the green thread `id` of `options` runs next, at the time `now`.
    #[inline]
    fn step(&mut self, id: u64, options: usize, now: u64) {
        if self.trace.is_wanted() {
            self.trace.add(self.steps, id, options, now);
        }
        self.steps += 1;
    }
}

impl Trace {
    fn is_wanted(&self) -> bool {
        self.kept.is_some() || self.expected.is_some() || self.wants_order
    }

    /// Adds the step `at`.
    fn add(&mut self, at: u64, id: u64, options: usize, now: u64) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(id).or_insert(next);
        let mix = |sum: u64, word: u64| Random::new(sum ^ word).next();
        self.order = mix(mix(self.order, u64::from(number)), options as u64);
        let event = mix(mix(self.hash, self.order), now);
        self.hash = event;
        if let Some(kept) = &mut self.kept {
            kept.push(event);
        }
        if let Some(expected) = &self.expected
            && self.diverged.is_none()
            && expected.get(at as usize) != Some(&event)
        {
            let stack = std::backtrace::Backtrace::force_capture();
            self.diverged = Some(format!(
                "step {at}: the first run did something else. Here the second run was, with green thread {number} of {options} to go on:\n{stack}"
            ));
        }
    }
}

impl Simulation for World {
    fn phase(&self) -> Phase {
        const PHASES: [Phase; 4] = [Phase::Before, Phase::On, Phase::Failed, Phase::Over];
        PHASES[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    fn choose(&self, running: Option<u64>, ready: &[u64]) -> Result<Option<usize>, Arc<str>> {
        let state = &mut *self.state.lock();
        let options = Options { running, ready };
        self.end_if_failed(state)?;
        if state.steps >= self.limits.steps {
            let reason: Arc<str> = format!(
                "the simulation has made {} steps: it may run for ever. `Builder::max_steps` allows more",
                state.steps
            )
            .into();
            self.fail(state, &reason);
            return Err(reason);
        }
        let n = options.count();
        let chosen = if n == 1 {
            0
        } else {
            let (number, step) = (state.choices, state.steps);
            let chosen = state.chooser.choose(number, step, &options);
            state.schedule.note(number, chosen);
            state.choices += 1;
            chosen
        };
        state.step(options.id(chosen), n, self.now());
        Ok(match running {
            Some(_) => chosen.checked_sub(1),
            None => Some(chosen),
        })
    }

    fn yields(&self, running: u64) {
        self.state.lock().chooser.yields(running);
    }

    fn block(&self, call: &mut dyn FnMut()) {
        disk::taking_time(call);
    }

    fn all_wait(&self, until: Option<u64>, sources: usize) -> Result<(), Arc<str>> {
        if self.phase() == Phase::On {
            self.end_if_failed(&mut self.state.lock())?;
        }
        if let Some(next) = until.into_iter().chain(self.network.next()).min() {
            let next = next.max(self.now());
            if let Some(limit) = self.network.over_limit(next).filter(|_| self.phase() == Phase::On) {
                return Err(self.fail_with_dump(&format!(
                    "the program has not ended within {limit:?} of simulated time after the faults"
                )));
            }
            // A tick of the faults comes only before something else, so that ticks alone keep nothing going.
            if self.phase() != Phase::On || !self.network.tick_before(next) {
                self.network.move_to(next);
            }
            return Ok(());
        }
        let why = if sources > self.network.sources() {
            "a green thread of the simulation waits for a socket of the system"
        } else {
            sched::DEADLOCK
        };
        Err(self.fail_with_dump(why))
    }

    fn is_down(&self, node: u32) -> bool {
        self.network.with(|state| !state.nodes.get(node).up)
    }

    fn as_any(&self) -> &dyn Any {
        &self.parts
    }

    fn now(&self) -> u64 {
        self.network.now()
    }

    fn clocks(&self) -> usize {
        self.network.clocks().count()
    }

    fn clock_of(&self, node: u32) -> usize {
        self.network.clocks().number(node)
    }

    fn shown_by(&self, clock: usize) -> u64 {
        self.network.clocks().shown(clock, self.now())
    }

    fn reaches(&self, clock: usize, time: u64) -> u64 {
        self.network.clocks().reached(clock, time)
    }

    fn random(&self) -> u64 {
        self.state.lock().random.next()
    }

    fn lost_panic(&self, text: &str) {
        if self.phase() == Phase::On {
            let reason =
                || format!("a green thread has panicked, and its result was dropped unseen: {text}").into();
            self.state.lock().failed.get_or_insert_with(reason);
        }
    }

    fn escape(&self, what: &str) -> bool {
        if self.reals.is_here() {
            return false;
        }
        if self.phase() == Phase::On && self.state.lock().failed.is_none() {
            // The stack reads files of the program, before the lock is taken.
            let _real = self.reals.clone().begin();
            let stack = std::backtrace::Backtrace::force_capture();
            let reason =
                format!("the simulation cannot control {what}, which was used here:\n{stack}").into();
            self.state.lock().failed.get_or_insert(reason);
        }
        true
    }
}

// A panic of the program under simulation leaves no half-done change: its code does not run under the lock.
impl UnwindSafe for World {}
impl RefUnwindSafe for World {}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("phase", &self.phase()).finish_non_exhaustive()
    }
}
