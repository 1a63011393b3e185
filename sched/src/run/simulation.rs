//! `simulation`: who makes the choices of a simulated scheduler, and where that is known. `run/simulated.rs` asks for the choices.
//! (Feature `sim`.)

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::g::{GRef, SIMULATED, contexts};
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

    /// All Gs wait: moves the clock to what happens next. That is a timer at the simulated time `until`, or an event of the simulation, which this call
    /// then [delivers](deliver). `sources` is the number of registered descriptors, with those that are simulated.
    ///
    /// # Errors
    /// Returns the reason why the simulation has to end: nothing will happen any more.
    fn all_wait(&self, until: Option<u64>, sources: usize) -> Result<(), Arc<str>>;

    /// Returns `true` if the code of the node has to end.
    fn is_down(&self, node: u32) -> bool;

    /// Returns the simulation as its own type knows it.
    fn as_any(&self) -> &dyn std::any::Any;

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
    /// How far the simulated clock is ahead of that of the timers.
    pub(crate) ahead: OnceLock<u64>,
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
#[inline(always)]
pub fn is_here() -> bool {
    is_anywhere() && is_on_this_thread()
}

/// Returns `true` if there is a simulated scheduler. Without one this is all that a point of choice costs.
#[inline(always)]
pub(crate) fn is_anywhere() -> bool {
    // Relaxed: a thread of a simulated scheduler sees the count, because it was started later.
    LIVING.load(Ordering::Relaxed) > 0
}

/// Returns `true` on an M of a simulated scheduler.
#[cold]
#[inline(never)]
pub(crate) fn is_on_this_thread() -> bool {
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
    if !is_anywhere() {
        return None;
    }
    on_m(|m| m.sched().simulated.as_ref().map(|simulated| f(&*simulated.by))).flatten()
}

/// Returns the node to which the calling G belongs; 0 if it belongs to none. A G belongs to the node of the G that spawned it.
#[must_use]
pub fn node() -> u32 {
    current_g().map_or(0, |g| g.node.load(Ordering::Relaxed))
}

/// Makes the calling G a G of `node`.
pub fn set_node(node: u32) {
    // Relaxed, here and in the other accesses: one M runs all Gs of a simulation, and reads the nodes of these only.
    current_g().into_iter().for_each(|g| g.node.store(node, Ordering::Relaxed));
}

/// Makes `child`, a new G of a simulated scheduler, a G of the node of `parent`, if there is a parent. *Runs on: the spawner.*
///
/// Each G of a simulation has rare fields, because a spawner with rare fields takes a way of its own (`api/spawn.rs`). So other spawners
/// pay nothing for simulations.
pub(crate) fn begin_g(parent: Option<GRef>, child: GRef) {
    child.rare_or_new();
    // `G::begin` has made it a G of no node.
    if let Some(parent) = parent {
        child.node.store(parent.node.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Wakes the waiters of simulated sources. *Runs on: the M of a simulation, with no lock held.*
pub fn deliver(events: &[netpoll::Report]) {
    on_m(|m| m.sched().deliver(events));
}

/// How many simulated schedulers there are.
static LIVING: AtomicUsize = AtomicUsize::new(0);
/// Taken for each change of `LIVING`, so that new Gs are marked while there is a simulated scheduler.
static CHANGES: Mutex<()> = Mutex::new(());

impl Simulated {
    pub(crate) fn new(by: Arc<dyn Simulation>) -> Self {
        let _changes = CHANGES.lock();
        // Relaxed: a thread that has a reference to a G of this scheduler sees the count, because the G is spawned later.
        LIVING.fetch_add(1, Ordering::Relaxed);
        contexts::mark_new(SIMULATED);
        Simulated { by, ready: Mutex::default(), ahead: OnceLock::new() }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        let _changes = CHANGES.lock();
        if LIVING.fetch_sub(1, Ordering::Relaxed) == 1 {
            contexts::unmark_new(SIMULATED);
        }
    }
}

/// Returns `true` if a dump by this thread tells of `g`. A dump in a simulation tells of the Gs of that simulation only.
pub(crate) fn is_told(g: GRef) -> bool {
    !is_here() || is_of_this_scheduler(g)
}

/// Returns `true` if a dump by this thread may hold `g`, so that a waker leaves it to this thread to make `g` ready. The M of a
/// simulation would miss such a G, and take all for asleep. While there is a simulation, only Gs of the caller's own scheduler
/// may be held. *Runs on: a holder of a reference.*
pub(crate) fn may_hold(g: GRef) -> bool {
    !is_anywhere() || is_of_this_scheduler(g)
}

fn is_of_this_scheduler(g: GRef) -> bool {
    on_m(|m| ptr::eq(m.runtime, g.runtime())).unwrap_or(false)
}

/// Notes that the caller yields, in a simulation. Returns `true` if the caller has to end if it is cancelled, because the simulation
/// does. *Runs on: any thread.*
#[cold]
pub(crate) fn yields() -> bool {
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
