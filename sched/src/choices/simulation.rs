//! `simulation`: what makes the choices of a simulated scheduler, and what such a scheduler keeps.
//! `run/simulated.rs` asks for the choices, and `api/simulation.rs` has what code of a simulation calls.
//! (Feature `sim`.)

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, OnceLock, PoisonError};

use crate::choices::outside_words::Outside;
use crate::g::own::{OwnG, SIMULATED};
use crate::g::{GRef, contexts, ids};
use crate::m::current::current_g;
use crate::sync::Mutex;

/// Makes the choices of a simulated scheduler. Every M may call `phase` and `now`; all other calls come from
/// the one M that runs Gs.
pub trait Simulation: Send + Sync + UnwindSafe + RefUnwindSafe + fmt::Debug {
    /// Returns how far the simulation is.
    fn phase(&self) -> Phase;

    /// Chooses among the G `running`, which could go on, and the Gs of `ready`, in the order in which they
    /// became ready. Returns `None` for `running`, else an index into `ready`. At least one of both is there.
    ///
    /// # Errors
    /// Returns the reason why the simulation has to end.
    fn choose(&self, running: Option<u64>, ready: &[u64]) -> Result<Option<usize>, Arc<str>>;

    /// Notes that the G `running` gives way to all others.
    fn yields(&self, running: u64);

    /// All Gs wait: moves the clock to what happens next. That is a timer at the simulated time `until`, or
    /// an event of the simulation, which this call then [delivers](crate::simulation::deliver). `sources` is
    /// the number of registered descriptors, simulated descriptors included.
    ///
    /// # Errors
    /// Returns the reason why the simulation has to end: nothing will happen any more.
    fn all_wait(&self, until: Option<u64>, sources: usize) -> Result<(), Arc<str>>;

    /// Makes `call`, which blocks, and lets its simulated time pass. *Runs on: a G.*
    fn block(&self, call: &mut dyn FnMut());

    /// Returns `true` if the code of the node has to end.
    fn is_down(&self, node: u32) -> bool;

    /// Returns the simulation as its own type knows it.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Returns the simulated time in nanoseconds, on the clock that `Instant` reads in Gs of no node: clock
    /// 0.
    fn now(&self) -> u64;

    /// Returns how many clocks there are, at least 1. It is at most
    /// [`MAX_CLOCKS`](crate::simulation::MAX_CLOCKS).
    fn clocks(&self) -> usize {
        1
    }

    /// Returns the clock of a node. The answer is the same for as long as the node lives.
    fn clock_of(&self, _node: u32) -> usize {
        0
    }

    /// Returns what a clock shows. It never goes back.
    fn shown_by(&self, _clock: usize) -> u64 {
        self.now()
    }

    /// Returns the simulated time at which a clock shows `time`, or first shows a later time, at its present
    /// rate.
    fn reaches(&self, _clock: usize, time: u64) -> u64 {
        time
    }

    /// Returns a random number of the simulation.
    fn random(&self) -> u64;

    /// Notes that a G has ended by a panic, and that its result was dropped unseen.
    fn lost_panic(&self, text: &str);

    /// Notes that the code of a G uses what no simulation controls. Returns `false` if the code may use it.
    fn escape(&self, what: &str) -> bool;
}

/// True with the feature `sim`. Without it there is no simulated scheduler, and the compiler leaves out all
/// that asks for one.
pub(crate) const IS_BUILT: bool = cfg!(feature = "sim");

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its main function has not begun.
    Before,
    /// The simulation makes the choices.
    On,
    /// Its main function has got the order to end.
    Failed,
    /// Its main function has ended.
    Over,
}

/// What a simulated scheduler keeps.
pub(crate) struct Simulated {
    pub(crate) by: Arc<dyn Simulation>,
    pub(crate) ready: Mutex<Ready>,
    /// The ids of its Gs.
    pub(crate) ids: ids::OfSimulation,
    /// How far the simulated clock is ahead of that of the timers.
    pub(crate) ahead: OnceLock<u64>,
    pub(crate) outside: Outside,
    /// How the main function ends.
    pub(crate) main: MainEnd,
}

/// How the main function of a simulation ends: the thread that has started the simulation waits for that.
///
/// A wait of std's cannot unwind. If the main function, or what it waits for, is in one that nothing ends,
/// the simulation is given up: its M runs no G any more, and their stacks stay for ever.
///
/// The M alone says how it ends. A G would wait for the lock as user code does.
#[derive(Debug, Default)]
pub(crate) struct MainEnd {
    how: std::sync::Mutex<Option<How>>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Ended,
    GivenUp,
}

impl MainEnd {
    /// The main function has ended, or is about to. *Runs on: the M.*
    pub(crate) fn has_ended(&self) {
        self.set(How::Ended);
    }

    /// Gives the simulation up. *Runs on: the M.*
    pub(crate) fn give_up(&self) {
        self.set(How::GivenUp);
    }

    /// Waits for the end. Returns `false` if the simulation was given up. Blocks the caller. *Runs on: a
    /// thread that is no M of the simulation.*
    pub(crate) fn wait(&self) -> bool {
        let mut how = self.lock();
        loop {
            match *how {
                None => how = self.changed.wait(how).unwrap_or_else(PoisonError::into_inner),
                Some(how) => return how == How::Ended,
            }
        }
    }

    fn set(&self, how: How) {
        self.lock().get_or_insert(how);
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<How>> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

/// Returns `true` if there is a simulated scheduler. Without one this is all that a point of choice costs.
#[inline(always)]
pub(crate) fn is_anywhere() -> bool {
    // Relaxed: a thread of a simulated scheduler sees the count, because it was started later.
    IS_BUILT && LIVING.load(Ordering::Relaxed) > 0
}

/// Returns the node to which the calling G belongs; 0 if it belongs to none. A G belongs to the node of the G
/// that spawned it.
#[must_use]
pub fn node() -> u32 {
    current_g().map_or(0, |g| g.node.load(Ordering::Relaxed))
}

/// The node of Gs that were left behind: none of them runs any more. See `api/node.rs`.
pub(crate) const LEFT: u32 = u32::MAX;

/// Returns `true` if `g` was left behind.
pub(crate) fn is_left_behind(g: GRef) -> bool {
    g.node.load(Ordering::Relaxed) == LEFT
}

/// Leaves `g` behind if it is parked, and ends its wait. An open wait would take a wake that is meant for
/// another waiter, in another simulation or outside of all. Returns `false` if `g` is not parked: a waker has
/// made it runnable, or is about to. *Runs on: any thread.*
pub(crate) fn leave_parked(g: GRef) -> bool {
    let has_ended = is_left_behind(g) || g.wait.end_parked();
    if has_ended {
        // Relaxed: the G runs no more, so its M does not ask.
        g.node.store(LEFT, Ordering::Relaxed);
    }
    has_ended
}

/// Makes the calling G a G of `node`.
pub fn set_node(node: u32) {
    // Relaxed, here and in the other accesses: one M runs all Gs of a simulation, and reads the nodes of
    // these only.
    current_g().into_iter().for_each(|g| g.node.store(node, Ordering::Relaxed));
}

/// Makes `child`, a new G of a simulated scheduler, a G of the node of `parent`, if there is a parent.
///
/// Each G of a simulation has rare fields, because a spawner with rare fields takes a way of its own
/// (`api/spawn.rs`). So other spawners pay nothing for simulations.
pub(crate) fn begin_g(parent: Option<GRef>, child: OwnG) {
    begin_g_on(parent.map_or(0, |parent| parent.node.load(Ordering::Relaxed)), child);
}

/// Makes `child`, a new G of a simulated scheduler, a G of `node`.
pub(crate) fn begin_g_on(node: u32, child: OwnG) {
    child.rare_or_new();
    child.node.store(node, Ordering::Relaxed);
}

/// The answers to `threads_are_caught`.
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

static THREADS: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Returns `true` if threads that code of a simulation starts become Gs of it. `call` calls a function that
/// is harmless in libc's form, and in the other form calls `note_threads_are_caught`.
pub fn threads_are_caught(call: impl FnOnce()) -> bool {
    // Relaxed, here and there: the same thread asks and answers, and another thread answers the same.
    if THREADS.load(Ordering::Relaxed) == UNKNOWN {
        call();
        _ = THREADS.compare_exchange(UNKNOWN, NO, Ordering::Relaxed, Ordering::Relaxed);
    }
    are_threads_caught()
}

/// Returns the answer of `threads_are_caught` to an earlier call.
///
/// Without the names of threads, std's waits on the M of a simulation are the kernel's, until a time of the
/// simulated clock.
pub(crate) fn are_threads_caught() -> bool {
    // Relaxed: see there.
    THREADS.load(Ordering::Relaxed) == YES
}

/// Answers `threads_are_caught`. *Runs on: any thread.*
#[inline]
pub fn note_threads_are_caught() {
    if THREADS.load(Ordering::Relaxed) != YES {
        THREADS.store(YES, Ordering::Relaxed);
    }
}

/// How many simulated schedulers there are.
static LIVING: AtomicUsize = AtomicUsize::new(0);
/// Taken for each change of `LIVING`, so that new Gs are marked while there is a simulated scheduler.
static CHANGES: Mutex<()> = Mutex::new(());

impl Simulated {
    pub(crate) fn new(by: Arc<dyn Simulation>) -> Self {
        let _changes = CHANGES.lock();
        // Relaxed: a thread that has a reference to a G of this scheduler sees the count, because the G is
        // spawned later.
        LIVING.fetch_add(1, Ordering::Relaxed);
        contexts::mark_new(SIMULATED);
        Simulated {
            by,
            ready: Mutex::default(),
            ids: ids::OfSimulation::new(),
            ahead: OnceLock::new(),
            outside: Outside::default(),
            main: MainEnd::default(),
        }
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
