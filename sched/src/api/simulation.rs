//! `simulation`: what code of a simulation may call. (Feature `sim`.)

use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::choices::outside_words::{self, Outside};
use crate::choices::simulation::{Phase, Simulation, is_anywhere, node};
use crate::g::GRef;
use crate::m::Loan;
use crate::m::current::{current_g, on_m};
use crate::run::sched::MAX_PROCS;
use crate::run::simulated::with;

/// How many clocks the nodes of a simulation may have: the timers by each clock are in a heap of their own.
pub const MAX_CLOCKS: usize = MAX_PROCS;

/// Returns `true` on an M of a simulated scheduler.
#[inline(always)]
pub fn is_here() -> bool {
    is_anywhere() && is_on_this_thread()
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

/// Returns `true` if the code of a G of a simulation runs here, and must not use `what`: the simulation then
/// fails with that name.
#[must_use]
pub fn refuses(what: impl FnOnce() -> String) -> bool {
    is_user_code() && with(|by| by.escape(&what())).unwrap_or(false)
}

/// Makes `call`, which blocks its OS thread, and lets its simulated time pass. *Runs on: a G of a
/// simulation.*
pub fn block<T>(call: impl FnOnce() -> T) -> T {
    let by = on_m(|m| m.sched().simulated().map(|simulated| simulated.by.clone())).flatten();
    let (mut call, mut result) = (Some(call), None);
    by.expect("the caller is in a simulation").block(&mut || result = call.take().map(|call| call()));
    result.expect("the simulation makes the call")
}

/// Returns the time in nanoseconds that the clock of the caller's node shows; `None` outside of a simulation.
#[must_use]
pub fn now() -> Option<u64> {
    with(|by| by.shown_by(by.clock_of(node())))
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

/// The wait of a G of a simulation for a word that a thread outside of it may change. The drop ends it.
#[derive(Debug)]
pub struct OutsideWait {
    /// Whether the waiting G panics.
    panics: bool,
}

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
            let panics = std::thread::panicking();
            count_outside(|outside| outside.begin(panics));
            OutsideWait { panics }
        })
    }
}

impl Drop for OutsideWait {
    fn drop(&mut self) {
        count_outside(|outside| outside.end(self.panics));
    }
}

/// Returns `true` if a G of the simulation panics, and waits for a word that a thread outside may change. It
/// may be in the panic hook, and would keep std's lock of the hook if it was left behind. *Runs on: a G of
/// the simulation.*
#[must_use]
pub fn panics_outside() -> bool {
    on_m(|m| m.sched().simulated().is_some_and(|simulated| simulated.outside.panics())).unwrap_or(false)
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

#[cfg(all(test, feature = "sim"))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::api::park;
    use crate::choices::simulation::Simulated;
    use crate::run::boundary::is_free;
    use crate::run::sched::Sched;
    use crate::supply::threads::tests::{config, scheduler, spawn_in, started};
    use crate::sync::Mutex;

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

        fn escape(&self, _what: &str) -> bool {
            true
        }
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
