//! `simulation`: who makes the choices of a simulated scheduler, and where that is known. `run/simulated.rs`
//! asks for the choices. (Feature `sim`.)

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, OnceLock, PoisonError};

use crate::choices::outside_words::{self, Outside};
use crate::g::own::{OwnG, SIMULATED};
use crate::g::{GRef, contexts, ids};
use crate::m::Loan;
use crate::m::current::{current_g, on_m};
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
    /// an event of the simulation, which this call then [delivers](deliver). `sources` is the number of
    /// registered descriptors, simulated descriptors included.
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

    /// Returns the simulated time in nanoseconds, on the clock that `Instant` reads.
    fn now(&self) -> u64;

    /// Returns a random number of the simulation.
    fn random(&self) -> u64;

    /// Notes that a G has ended by a panic, and that its result was dropped unseen.
    fn lost_panic(&self, text: &str);

    /// Notes that the code of a G uses what no simulation controls.
    fn escape(&self, what: &str);
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

/// Returns `true` on an M of a simulated scheduler.
#[inline(always)]
pub fn is_here() -> bool {
    is_anywhere() && is_on_this_thread()
}

/// Returns `true` if there is a simulated scheduler. Without one this is all that a point of choice costs.
#[inline(always)]
pub(crate) fn is_anywhere() -> bool {
    // Relaxed: a thread of a simulated scheduler sees the count, because it was started later.
    IS_BUILT && LIVING.load(Ordering::Relaxed) > 0
}

/// Returns `true` on an M of a simulated scheduler.
#[cold]
#[inline(never)]
pub(crate) fn is_on_this_thread() -> bool {
    on_m(|m| m.sched().is_simulated()).unwrap_or(false)
}

/// Returns `true` if the code of a G of a simulation runs here, outside of the runtime.
#[must_use]
pub fn is_user_code() -> bool {
    is_here()
        && on_m(|m| !matches!(m.own().loan.get(), Loan::InRuntime) && m.running().is_some()).unwrap_or(false)
}

/// Calls `f` with the simulation of this M, if there is one.
#[inline]
pub fn with<T>(f: impl FnOnce(&dyn Simulation) -> T) -> Option<T> {
    if !is_anywhere() {
        return None;
    }
    on_m(|m| m.sched().simulated().map(|simulated| f(&*simulated.by))).flatten()
}

/// Makes `call`, which blocks its OS thread, and lets its simulated time pass. *Runs on: a G of a
/// simulation.*
pub fn block<T>(call: impl FnOnce() -> T) -> T {
    let by = on_m(|m| m.sched().simulated().map(|simulated| simulated.by.clone())).flatten();
    let (mut call, mut result) = (Some(call), None);
    by.expect("the caller is in a simulation").block(&mut || result = call.take().map(|call| call()));
    result.expect("the simulation makes the call")
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
    child.rare_or_new();
    // `G::begin` has made it a G of no node.
    if let Some(parent) = parent {
        child.node.store(parent.node.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Begins to count the waits of Gs in simulated time. *Runs on: the main function of a simulation, at its
/// beginning.*
pub fn record_time() {
    on_m(|m| {
        let sched = m.sched();
        sched.simulated().iter().for_each(|simulated| sched.record_simulated_time(simulated));
    });
}

/// Wakes the waiters of simulated sources. *Runs on: the M of a simulation, with no lock held.*
pub fn deliver(events: &[netpoll::Report]) {
    on_m(|m| m.sched().deliver(events));
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

/// The wait of a G of a simulation for a word that a thread outside of it may change. The drop ends it.
#[derive(Debug)]
pub struct OutsideWait(());

impl OutsideWait {
    /// Returns `true` if a thread outside of the simulation changes `word` from `expected` within a moment of
    /// real time. Then the caller need not wait, and the run has the same steps as one without that thread.
    /// *Runs on: any G.*
    #[must_use]
    pub fn is_over_soon(word: &AtomicU32, expected: u32) -> bool {
        is_here()
            && outside_words::is_static(ptr::from_ref(word).addr())
            && outside_words::changes_soon(word, expected)
    }

    /// Begins to count the caller's wait for `word`, if it counts. *Runs on: any G.*
    #[inline]
    #[must_use]
    pub fn begin(word: &AtomicU32) -> Option<OutsideWait> {
        (is_here() && outside_words::is_static(ptr::from_ref(word).addr())).then(|| {
            count_outside(Outside::begin);
            OutsideWait(())
        })
    }
}

impl Drop for OutsideWait {
    fn drop(&mut self) {
        count_outside(Outside::end);
    }
}

fn count_outside(change: impl FnOnce(&Outside)) {
    on_m(|m| m.sched().simulated().map(|simulated| change(&simulated.outside)));
}

/// Returns `true` if a dump by this thread includes `g`. A dump in a simulation includes the Gs of that
/// simulation only.
pub(crate) fn dump_includes(g: GRef) -> bool {
    !is_here() || is_of_this_scheduler(g)
}

/// Returns `true` if a dump by this thread may hold `g`, so that a waker leaves it to this thread to make `g`
/// ready. The M of a simulation would miss such a G, and take all for asleep. While there is a simulation,
/// only Gs of the caller's own scheduler may be held. *Runs on: a holder of a reference.*
pub(crate) fn may_hold(g: GRef) -> bool {
    !is_anywhere() || is_of_this_scheduler(g)
}

fn is_of_this_scheduler(g: GRef) -> bool {
    on_m(|m| ptr::eq(m.runtime, g.runtime())).unwrap_or(false)
}

/// Notes that the caller yields, in a simulation. Returns `true` if the caller has to end if it is cancelled,
/// because the simulation does. *Runs on: any thread.*
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

/// Reports a panic that no other thread will see to the simulation of this M, if there is one. What another
/// panic drops does not count.
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

#[cfg(all(test, feature = "sim"))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use super::*;
    use crate::api::park;
    use crate::run::boundary::is_free;
    use crate::run::sched::Sched;
    use crate::supply::threads::tests::{config, scheduler, spawn_in, started};

    /// Taken by each test that has simulations: the mark of new Gs belongs to the process.
    static ALONE: Mutex<()> = Mutex::new(());

    /// A simulation that chooses the first G, and counts the yields.
    #[derive(Debug, Default)]
    struct First {
        on: AtomicBool,
        yields: AtomicUsize,
    }

    impl Simulation for First {
        fn phase(&self) -> Phase {
            if self.on.load(Ordering::Relaxed) { Phase::On } else { Phase::Before }
        }

        fn choose(&self, running: Option<u64>, _ready: &[u64]) -> Result<Option<usize>, Arc<str>> {
            Ok(if running.is_some() { None } else { Some(0) })
        }

        fn yields(&self, _running: u64) {
            self.yields.fetch_add(1, Ordering::Relaxed);
        }

        fn all_wait(&self, _until: Option<u64>, _sources: usize) -> Result<(), Arc<str>> {
            Err("no G of these tests waits".into())
        }

        fn block(&self, call: &mut dyn FnMut()) {
            call();
        }

        fn is_down(&self, _node: u32) -> bool {
            false
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }

        fn now(&self) -> u64 {
            timers::clock::now()
        }

        fn random(&self) -> u64 {
            4
        }

        fn lost_panic(&self, _text: &str) {}

        fn escape(&self, _what: &str) {}
    }

    /// Returns `true` if a new G of `sched` is marked, before and after it was pinned.
    fn is_new_one_marked(sched: &Arc<Sched>) -> bool {
        let (tell, told) = mpsc::channel();
        let look = move || {
            let is_marked = || !is_free(current_g().unwrap());
            let before = is_marked();
            park::unpin(park::pin());
            tell.send([before, is_marked()]).unwrap();
        };
        spawn_in(sched, look).join().unwrap();
        let [before, after] = told.recv().unwrap();
        assert_eq!(before, after, "the end of a pin leaves the mark as it was");
        before
    }

    #[test]
    fn every_new_g_is_marked_while_there_is_a_simulated_scheduler_and_keeps_its_mark() {
        let _alone = ALONE.lock();
        let sched = scheduler(1);
        assert!(!is_new_one_marked(&sched));
        let first = Simulated::new(Arc::new(First::default()));
        assert!(is_anywhere() && is_new_one_marked(&sched));
        let second = Simulated::new(Arc::new(First::default()));
        drop(first);
        assert!(is_anywhere() && is_new_one_marked(&sched), "the second one is left");
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        let old = spawn_in(&sched, move || {
            while !until.load(Ordering::Relaxed) {
                park::yield_now();
            }
            assert!(!is_free(current_g().unwrap()), "the mark stays as long as the G");
        });
        drop(second);
        assert!(!is_anywhere() && !is_new_one_marked(&sched));
        ends.store(true, Ordering::Relaxed);
        old.join().unwrap();
        // An M gives its next spawns the places of the Gs that have ended there.
        let inside = sched.clone();
        let spawner =
            move || (0..100).for_each(|_| assert!(!is_new_one_marked(&inside), "a mark was left over"));
        spawn_in(&sched, spawner).join().unwrap();
    }

    #[test]
    fn the_simulation_is_told_of_each_yield_of_its_gs_only() {
        let _alone = ALONE.lock();
        let simulation = Arc::new(First::default());
        let simulated =
            started(crate::run::sched::Config { simulation: Some(simulation.clone()), ..config(1) });
        let yields = |sched: &Arc<Sched>| {
            let by = simulation.clone();
            let work = move || {
                by.on.store(true, Ordering::Relaxed);
                (0..7).for_each(|_| park::yield_now());
                by.on.store(false, Ordering::Relaxed);
            };
            spawn_in(sched, work).join().unwrap();
            simulation.yields.swap(0, Ordering::Relaxed)
        };
        assert_eq!(yields(&simulated), 7);
        assert_eq!(yields(&scheduler(1)), 0);
        simulated.begin_closing();
        assert!(simulated.cancel_all(None));
        simulated.end_threads();
    }
}
