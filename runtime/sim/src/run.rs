//! `run`: one run of a program in a simulation: a runtime with one P, whose choices a `World` makes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use sched::Remains;
use sched::simulation::Simulation;

use super::host::Ran;
use super::world::{Outcome, World};

/// How long the end of a run may take. Its green threads are cancelled, and their destructors run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a simulation says in a program without the line.
const NO_LINE: &str = "this program has no line `runtime::sim!();`, so its clocks and random bytes would be \
    real: add the line outside of functions (a program with `runtime::interpose!()` has `runtime::interpose!(sim)` instead)";

/// How a run has ended.
pub(super) struct Ended<T> {
    pub(super) outcome: Outcome,
    /// The value of the main function, or why there is none.
    pub(super) result: Result<T, Why>,
}

/// Why a run has failed.
pub(super) struct Why {
    pub(super) message: String,
    /// The payload, if the main function has panicked.
    pub(super) payload: Option<Box<dyn Any + Send>>,
}

/// Runs `main` in the simulation `world`, by what the runtime of an earlier run has left in `remains`. Blocks
/// the calling OS thread.
pub(super) fn run<T: Send>(
    world: &Arc<World>,
    remains: &mut Option<Remains>,
    main: impl FnOnce() -> T + Send,
) -> Ended<T> {
    let host = world.host();
    let (mut main, mut returned) = (Some(main), None);
    let mut simulated = || {
        let main = main.take().expect("the host calls the main function once");
        world.begin();
        sched::simulation::record_time();
        (host.seed_selects)(world.random());
        world.faults().start(world.network());
        let checked = || {
            assert!(super::clock::is_simulated(), "{NO_LINE}");
            main()
        };
        returned = Some(catch_unwind(AssertUnwindSafe(checked)));
        world.end();
    };
    let Ran { result, ended, left } = (host.run)(world.clone(), &mut simulated, remains);
    if left {
        super::network::descriptors::forget_all(world.network());
    }
    // A cancelled main function has a reason in `world`; a panic of the runtime's own has none.
    let result = match result {
        Ok(()) => returned.expect("the host has called the main function"),
        Err(panic) => {
            sched::drop_contained(returned);
            Err(panic)
        }
    };
    let outcome = world.outcome();
    let result = match (result, &outcome.failed) {
        (_, Some(reason)) => Err(Why { message: reason.to_string(), payload: None }),
        (Err(payload), None) => Err(Why { message: text_of(&*payload), payload: Some(payload) }),
        (Ok(_), None) if !ended => {
            let message = format!(
                "green threads have not ended within {PATIENCE:?} of real time after the main function"
            );
            Err(Why { message, payload: None })
        }
        (Ok(value), None) => Ok(value),
    };
    Ended { outcome, result }
}

impl Why {
    /// Panics as the run did.
    pub(super) fn resume(self, text: String) -> ! {
        match self.payload {
            // The panic was printed when it happened.
            Some(payload) => {
                eprintln!("{text}");
                resume_unwind(payload)
            }
            None => panic!("{text}"),
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    if payload.is::<sched::Cancelled>() {
        return "the main function was cancelled".into();
    }
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the main function has panicked with a value that is no text")
        .to_string()
}
