//! What simulations ask of the crate that has the runtimes, which lies above this one.

use std::sync::Arc;
use std::thread;

use sched::Remains;
use sched::simulation::Simulation;

/// Runs a main function in a simulation: see `Host::run`.
pub type RunMain = fn(Arc<dyn Simulation>, &mut (dyn FnMut() + Send), &mut Option<Remains>) -> Ran;

/// The functions of that crate.
#[derive(Debug)]
pub struct Host {
    /// Runs a function as the main function of a new runtime with one P, which asks the simulation for its
    /// choices. Then ends that runtime. Takes over what the runtime of an earlier run has left, and leaves
    /// its own there. Blocks the calling OS thread. Panics if the runtime cannot be started.
    pub run: RunMain,
    /// Makes the order in which a select tries its cases depend on a number. *Runs on: the main function.*
    pub seed_selects: fn(u64),
    /// Returns a dump of the green threads, for the report of a deadlock.
    pub dump: fn() -> String,
}

/// How the runtime of a run has ended.
#[derive(Debug)]
pub struct Ran {
    /// The panic of the main function or of the runtime, if there was one.
    pub result: thread::Result<()>,
    /// False if green threads ran when [`PATIENCE`](super::PATIENCE) was over, or if the simulation was given
    /// up.
    pub ended: bool,
    /// True if green threads were left behind, which never run again.
    pub left: bool,
}
