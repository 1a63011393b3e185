//! `simulation`: who makes the choices of a simulated scheduler, and where that is known. `run/simulated.rs` asks for the choices.
//! (Feature `sim`.)

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::g::GRef;
use crate::m::Loan;
use crate::m::current::{current_g, on_m};

/// Makes the choices of a simulated scheduler. Every M may call `phase` and `now`; all other calls come from the one M that runs Gs.
pub trait Simulation: Send + Sync + UnwindSafe + RefUnwindSafe + fmt::Debug {
    /// Returns how far the simulation is.
    fn phase(&self) -> Phase;

    /// Chooses among the G `running`, which could go on, and the Gs of `ready`, in the order in which they became ready. Returns `None`
    /// for `running`, else an index into `ready`. At least one of both is there.
    ///
    /// # Errors
    /// Returns the reason why the simulation has to end.
    fn choose(&self, running: Option<u64>, ready: &[u64]) -> Result<Option<usize>, Arc<str>>;

    /// Notes that the G `running` gives way to all others.
    fn yields(&self, running: u64);

    /// All Gs wait: moves the clock to `until`, when the next timer is due. `watched` says that descriptors of the system are watched.
    ///
    /// # Errors
    /// Returns the reason why the simulation has to end: nothing will happen any more.
    fn all_wait(&self, until: Option<u64>, watched: bool) -> Result<(), Arc<str>>;

    /// Returns the simulated time in nanoseconds, on the clock that `Instant` reads.
    fn now(&self) -> u64;

    /// Returns a random number of the simulation.
    fn random(&self) -> u64;

    /// Notes that a G has ended by a panic, and that its result was dropped unseen.
    fn lost_panic(&self, text: &str);

    /// Notes that the code of a G uses what no simulation controls.
    fn escape(&self, what: &str);
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its main function has not begun.
    Before,
    /// The simulation makes the choices.
    On,
    /// Its main function is told to end.
    Failed,
    /// Its main function has ended.
    Over,
}

/// What a simulated scheduler keeps.
pub(crate) struct Simulated {
    pub(crate) by: Arc<dyn Simulation>,
    pub(crate) ready: Mutex<Ready>,
}

/// The Gs that could run, in the order in which they became ready.
#[derive(Default)]
pub(crate) struct Ready {
    pub(crate) gs: Vec<GRef>,
    /// The ids of `gs`.
    pub(crate) ids: Vec<u64>,
    /// The G that was chosen when another gave way to it.
    pub(crate) chosen: Option<GRef>,
}

/// Returns `true` on an M of a simulated scheduler.
#[inline]
pub fn is_here() -> bool {
    on_m(|m| m.sched().simulated.is_some()).unwrap_or(false)
}

/// Returns `true` if the code of a G of a simulation runs here, outside of the runtime.
#[must_use]
pub fn is_user_code() -> bool {
    is_here() && on_m(|m| !matches!(m.loan.get(), Loan::InRuntime) && m.running().is_some()).unwrap_or(false)
}

/// Calls `f` with the simulation of this M, if there is one.
#[inline]
pub fn with<T>(f: impl FnOnce(&dyn Simulation) -> T) -> Option<T> {
    on_m(|m| m.sched().simulated.as_ref().map(|simulated| f(&*simulated.by))).flatten()
}

impl Simulated {
    pub(crate) fn new(by: Arc<dyn Simulation>) -> Self {
        Simulated { by, ready: Mutex::default() }
    }
}

/// Notes that the caller yields, in a simulation. Returns `true` if the caller has to end if it is cancelled, because the simulation
/// does. *Runs on: any thread.*
#[inline(always)]
pub(crate) fn yields() -> bool {
    is_here() && note_yield()
}

#[cold]
#[inline(never)]
fn note_yield() -> bool {
    let note = |by: &dyn Simulation| match by.phase() {
        Phase::Before => false,
        Phase::On => {
            current_g().into_iter().for_each(|g| by.yields(g.id()));
            false
        }
        Phase::Failed | Phase::Over => true,
    };
    with(note).unwrap_or(false)
}

/// Tells the simulation of this M, if there is one, of a panic that no other thread will see. What another panic drops does not count.
#[cold]
pub(crate) fn lost_panic(payload: &(dyn std::any::Any + Send)) {
    if std::thread::panicking() {
        return;
    }
    with(|by| {
        let text = payload.downcast_ref::<&str>().copied();
        by.lost_panic(
            text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("Box<dyn Any>"),
        );
    });
}
