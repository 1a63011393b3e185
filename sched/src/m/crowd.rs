//! The crowd: the Ms with Gs that compute although sysmon has taken their Ps. While there are many, they run
//! by turns.
//!
//! A hog, a G that computes for long, keeps its OS thread after the rescue of its P. The kernel shares the
//! processors among all such threads, the Ms that have a P, and sysmon. Among hundreds of hogs the share of
//! an M or of sysmon is some microseconds per millisecond. Then timers fire late and new Gs start late. So a
//! large crowd is paused, except for a few hogs:
//!
//! ```text
//!   rescue ──────────────> running ──its turn is over──> stopping ──it has paused──> line
//!      │                      ^                          (gets the signal)  ^          │
//!      └──large crowd─────────│─────────────────────────────────────────────┘          │
//!                             └──────────────────── let go, in order ──────────────────┘
//! ```
//!
//! - Up to `FREE_PER_P` hogs per P all run, and nothing is paused. The crowd stays large until all hogs may
//!   run again.
//! - In a large crowd one hog per two Ps runs at a time, and one more for each idle P. The others are paused
//!   in a signal handler (`m/pause.rs`).
//! - A hog leaves the crowd when it enters the runtime. There it waits in place for a P, as after each
//!   rescue.
//! - A hog that has a lock of the runtime refuses to pause (`sync/hold.rs`). The spin locks under channels do
//!   not record their holder. So a locker that has waited for a while lets all hogs go for a turn
//!   (`let_all_go`). A hog also refuses if the signal interrupts the C library, or the library of `malloc`,
//!   because it may have a lock of the allocator. It gets the signal again soon. Where these libraries are
//!   part of the program's own code, as in a static program, nothing is paused.
//! - A hog that is blocked in the kernel gets no signal, because that would interrupt its system call.
//! - A paused hog may have a lock of the user, as a thread may that the kernel does not run. Each hog has its
//!   turn, so the lock is released in the end.
//! - Sysmon does all this. It may wait for a lock that a paused hog has, for instance that of an allocator
//!   which is part of the program. The paused hogs notice that no turn begins any more, and go on.
//!
//! # Rejected
//!
//! - *No pauses*: beside 1,000 hogs a ticker of 1 ms is then some hundred milliseconds late, because each
//!   thread has its share.
//! - *Longer slices for rescued hogs* (`sched_setattr`): woken threads then go first, but no thread gets more
//!   than its share.
//! - *A nice value for rescued hogs*: processes that a hog starts would inherit it, and a thread may not
//!   lower it again.
//! - *Switching to another G in the handler*: that G could need a lock that the hog has, and would wait for
//!   its own OS thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use timers::clock;

use crate::m::pause::{PAUSED, Paused};
use crate::m::{M, MRef, OwnM};
use crate::p::lease::Seen;
use crate::sync::{Mutex, hold};
use crate::sys::{self, Doing, fork, preempt};

/// How many hogs per P the kernel alone handles.
const FREE_PER_P: usize = 8;
/// How long a hog runs before it is paused again.
const TURN_NS: u64 = 10_000_000;
/// A paused hog goes on by itself if no turn has begun for this long.
const STUCK: Duration = Duration::from_secs(1);

/// The crowds that run by turns. A sysmon adds that of its runtime, and takes it out before it ends.
static BY_TURNS: Mutex<Vec<Arc<Crowd>>> = Mutex::new(Vec::new());
/// The length of `BY_TURNS`, for lockers that look without the lock.
static MANY: AtomicUsize = AtomicUsize::new(0);

/// Lets all paused hogs of this process go, for a turn: one of them may have the lock for which the caller
/// waits. The caller calls this again while it waits, because the holder may be paused later. *Runs on: any
/// thread that waits for a spin lock.*
#[cold]
pub(crate) fn let_all_go() {
    // Relaxed: a locker that reads an old value reads again after its sleep.
    if MANY.load(Ordering::Relaxed) == 0 || fork::is_forked() {
        return;
    }
    let now = clock::now();
    // Tries only: the caller may have another spin lock, so it must not sleep on a mutex. It comes again.
    let Some(all) = BY_TURNS.try_lock() else { return };
    for crowd in all.iter() {
        if let Some(mut state) = crowd.state.try_lock() {
            state.let_all_go(now);
        }
    }
}

/// The crowd of one runtime: the paused and the running hogs.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Locked by sysmon, and by lockers that have waited for long.
    state: Mutex<CrowdState>,
    /// A copy of `CrowdState::by_turns`, for hogs that leave.
    by_turns: AtomicBool,
    /// True if the crowd is in `BY_TURNS`. Only sysmon uses it.
    is_shown: AtomicBool,
    /// Counts the calls of `turn` while hogs are paused. Paused hogs read it.
    beat: AtomicU32,
}

#[derive(Default)]
struct CrowdState {
    /// True while the hogs run by turns.
    by_turns: bool,
    /// The hogs that may run.
    running: Vec<Hog>,
    /// The hogs that got the signal and have not paused yet.
    stopping: Vec<Hog>,
    /// The hogs that wait for their turn. Hogs that were blocked in the kernel at the end of their last turn
    /// are not paused.
    line: VecDeque<Hog>,
    turn_ends: u64,
}

/// An M in the crowd.
struct Hog {
    m: MRef,
    /// The word by which the M had lent its P. The M's copy of it changes when the M enters the runtime.
    lent: Seen,
}

impl Hog {
    /// Returns `true` if the M has not entered the runtime since its P was taken.
    fn is_here(&self) -> bool {
        self.m.m().lender.has_lent(self.lent)
    }

    /// Sends the M the signal that pauses it.
    fn interrupt(&self) {
        self.m.m().pause.ask();
        preempt::interrupt(self.m.m().tid());
    }

    fn let_go(&self) {
        self.m.m().pause.let_go(preempt::wake);
    }

    /// Lets the hog go if it has left the crowd, and returns `false` then. It may have been asked to pause
    /// since: no later signal may find that.
    fn stays(&self) -> bool {
        let is_here = self.is_here();
        if !is_here {
            self.let_go();
        }
        is_here
    }

    fn computes(&self) -> bool {
        let tid = self.m.m().tid();
        tid != 0 && sys::doing(tid) == Doing::Computing
    }
}

impl Crowd {
    /// Adds the M that has just lost its P because its G computes. *Runs on: sysmon.*
    pub(crate) fn add(&self, m: &M, lent: Seen) {
        let state = &mut *self.state.lock();
        let hog = Hog { m: MRef::new(m), lent };
        if state.by_turns {
            hog.interrupt();
            state.stopping.push(hog);
        } else {
            hog.let_go();
            state.running.push(hog);
        }
    }

    /// Pauses the hogs at the end of their turn, and lets the next ones go. There are `procs` Ps, and `idle`
    /// of them are idle. `can_pause` returns `true` if the handler of the signal is installed and knows all
    /// locks. Returns when to call again; NEVER if the crowd is small. *Runs on: sysmon.*
    pub(crate) fn turn(
        self: &Arc<Self>,
        now: u64,
        procs: usize,
        idle: usize,
        can_pause: fn() -> bool,
    ) -> u64 {
        let next = {
            let state = &mut *self.state.lock();
            let next = state.turn(now, FREE_PER_P * procs, procs.div_ceil(2) + idle, can_pause);
            // Relaxed: a hog that leaves and reads an old value does not wake sysmon, which looks at the end
            // of the turn anyway.
            self.by_turns.store(state.by_turns, Ordering::Relaxed);
            if state.by_turns {
                self.beat.fetch_add(1, Ordering::Relaxed);
            }
            next
        };
        self.show();
        next
    }

    /// Returns `true` while hogs run by turns: sysmon then waits for hogs that leave. *Runs on: any thread.*
    pub(crate) fn runs_by_turns(&self) -> bool {
        self.by_turns.load(Ordering::Relaxed)
    }

    /// Pauses `m` if sysmon has asked for that and its G computes without a P. `locked` says that the G may
    /// have a lock of the C library. *Runs on: `m`, in the handler of the signal: it allocates nothing and
    /// takes no lock.*
    pub(crate) fn pause(&self, m: OwnM<'_>, locked: bool) {
        if !m.has_lost_p() {
            return;
        }
        if locked {
            return m.pause.refuse();
        }
        hold::of_this_thread(|holds| {
            m.pause.pause(holds, |word| {
                let beat = self.beat.load(Ordering::Relaxed);
                preempt::sleep_while(word, PAUSED, STUCK);
                beat != self.beat.load(Ordering::Relaxed)
            });
        });
    }

    /// Lets all hogs go. *Runs on: sysmon, before it ends.*
    pub(crate) fn release(self: &Arc<Self>) {
        self.state.lock().release();
        self.by_turns.store(false, Ordering::Relaxed);
        self.show();
    }

    /// Shows lockers whether hogs run by turns. *Runs on: sysmon.*
    fn show(self: &Arc<Self>) {
        let (shows, by_turns) = (self.is_shown.load(Ordering::Relaxed), self.runs_by_turns());
        if shows != by_turns {
            self.is_shown.store(by_turns, Ordering::Relaxed);
            let mut all = BY_TURNS.lock();
            if by_turns {
                all.push(self.clone());
            } else {
                all.retain(|crowd| !Arc::ptr_eq(crowd, self));
            }
            MANY.store(all.len(), Ordering::Relaxed);
        }
    }
}

impl CrowdState {
    /// See `Crowd::turn`. Up to `free` hogs all run; of more, `most` run at a time.
    fn turn(&mut self, now: u64, free: usize, most: usize, can_pause: fn() -> bool) -> u64 {
        self.running.retain(Hog::is_here);
        if !self.by_turns {
            if self.running.len() <= free || !can_pause() {
                return clock::NEVER;
            }
            // After `let_all_go` the turn of all has not ended yet.
            (self.by_turns, self.turn_ends) = (true, now.max(self.turn_ends));
        }
        self.look_at_stopping();
        if now >= self.turn_ends {
            if !can_pause() {
                self.release();
                return clock::NEVER;
            }
            self.turn_ends = now + TURN_NS;
            self.end_turns();
        }
        self.fill(most);
        self.by_turns = !(self.stopping.is_empty() && self.line.is_empty());
        if self.by_turns { self.turn_ends } else { clock::NEVER }
    }

    /// Moves the hogs that have paused into the line, and interrupts those again that could not pause.
    fn look_at_stopping(&mut self) {
        for hog in std::mem::take(&mut self.stopping).into_iter().filter(Hog::stays) {
            match hog.m.m().pause.state() {
                Paused::Is => self.line.push_back(hog),
                Paused::WillBe => self.stopping.push(hog),
                Paused::Not => {
                    hog.interrupt();
                    self.stopping.push(hog);
                }
            }
        }
    }

    fn end_turns(&mut self) {
        for hog in std::mem::take(&mut self.running) {
            if hog.computes() {
                hog.interrupt();
                self.stopping.push(hog);
            } else {
                self.line.push_back(hog);
            }
        }
    }

    /// Lets hogs go until `most` run.
    fn fill(&mut self, most: usize) {
        while self.running.len() < most
            && let Some(hog) = self.line.pop_front()
        {
            if hog.is_here() {
                hog.let_go();
                self.running.push(hog);
            }
        }
    }

    fn release(&mut self) {
        self.running.append(&mut self.stopping);
        self.running.extend(self.line.drain(..));
        self.running.iter().for_each(Hog::let_go);
        self.by_turns = false;
    }

    /// Begins a turn of all hogs, unless all run.
    fn let_all_go(&mut self, now: u64) {
        if !(self.stopping.is_empty() && self.line.is_empty()) {
            self.release();
            self.turn_ends = now + TURN_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::time::Instant;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::api::backoff::Backoff;
    use crate::p::lease::State as Look;
    #[cfg(target_os = "linux")]
    use crate::run::sched::Sched;
    #[cfg(target_os = "linux")]
    use crate::supply::threads::tests::{scheduler, spawn_in};

    /// The hog enters the runtime after it was asked to pause, and before the signal comes. A later signal,
    /// of a dump say, must not pause it.
    #[test]
    fn a_hog_that_leaves_is_asked_no_more() {
        let m = M::new(std::ptr::null(), 0);
        let hog = Hog { m: MRef::new(&m), lent: Seen::example(Look::Lent) };
        assert!(!hog.is_here());
        let mut state = CrowdState { by_turns: true, ..CrowdState::default() };
        m.pause.ask();
        state.stopping.push(hog);
        state.look_at_stopping();
        assert_eq!(m.pause.state(), Paused::Not);
        assert!(state.stopping.is_empty());
    }

    /// A green thread on a runtime without sysmon. It has lost its P, and goes on from step to step as the
    /// test lets it.
    #[cfg(target_os = "linux")]
    struct Stepping {
        sched: Arc<Sched>,
        at: Arc<AtomicU32>,
        hog: crate::api::join::Join<()>,
        m: MRef,
        lent: Seen,
    }

    #[cfg(target_os = "linux")]
    impl Stepping {
        /// Starts the thread, which computes inside of `with_lock` first, as step 1, and then in step 3.
        fn new(with_lock: fn(&dyn Fn())) -> Self {
            let (sched, at) = (scheduler(1), Arc::new(AtomicU32::new(0)));
            let hog = spawn_in(&sched, {
                let at = at.clone();
                let reach = move |to| {
                    at.store(to, Ordering::Relaxed);
                    while at.load(Ordering::Relaxed) == to {}
                };
                move || {
                    with_lock(&|| reach(1));
                    reach(3);
                }
            });
            let wait = |to| while at.load(Ordering::Relaxed) != to {};
            wait(1);
            let p = sched.p(0);
            let (lent, m) = (p.look(), MRef::new(p.holder().unwrap()));
            assert!(p.retake(lent), "the green thread computes in user code");
            sched.hand_off(p);
            assert!(crate::run::signal::install());
            Stepping { sched, at, hog, m, lent }
        }

        fn wait_for(&self, step: u32) {
            while self.at.load(Ordering::Relaxed) != step {
                std::thread::yield_now();
            }
        }

        /// Waits for what becomes of the request to pause.
        fn answer(&self) -> Paused {
            loop {
                match self.m.m().pause.state() {
                    Paused::WillBe => std::thread::yield_now(),
                    state => return state,
                }
            }
        }

        fn end(self) {
            self.at.store(4, Ordering::Relaxed);
            self.hog.join().unwrap();
            assert!(self.sched.begin_closing() && self.sched.cancel_all(None));
            self.sched.end_threads();
        }
    }

    /// A green thread without its P may hold a mutex of the runtime, or a lock of another crate. It is paused
    /// only after it has released the lock.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    #[cfg_attr(portable, ignore = "the system has no signal for hogs")]
    fn a_hog_with_a_lock_of_the_runtime_is_not_paused() {
        static MUTEX: Mutex<()> = Mutex::new(());
        let holders: [fn(&dyn Fn()); 2] = [|f| (MUTEX.lock(), f()).1, |f| crate::sync::unpaused(f)];
        for with_lock in holders {
            let stepping = Stepping::new(with_lock);
            let hog = Hog { m: stepping.m, lent: stepping.lent };
            for _ in 0..20 {
                hog.interrupt();
                assert_eq!(stepping.answer(), Paused::Not);
            }
            stepping.at.store(2, Ordering::Relaxed);
            stepping.wait_for(3);
            hog.interrupt();
            assert_eq!(stepping.answer(), Paused::Is);
            hog.let_go();
            stepping.end();
        }
    }

    /// If the holder of a spin lock is paused, a locker lets the holder go. Nothing else does: the test
    /// counts turns, as a sysmon that works would, so that the holder does not go on by itself after `STUCK`.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    #[cfg_attr(portable, ignore = "the system has no signal for hogs")]
    fn a_locker_lets_the_paused_holder_go() {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let stepping = Stepping::new(|f| {
            TAKEN.store(true, Ordering::Relaxed);
            f();
            TAKEN.store(false, Ordering::Relaxed);
        });
        let crowd = &stepping.sched.crowd;
        crowd.state.lock().by_turns = true;
        crowd.by_turns.store(true, Ordering::Relaxed);
        crowd.show();
        crowd.add(stepping.m.m(), stepping.lent);
        assert_eq!(stepping.answer(), Paused::Is, "the spin lock is not counted");
        stepping.at.store(2, Ordering::Relaxed);
        let start = Instant::now();
        let mut backoff = Backoff::new();
        while TAKEN.load(Ordering::Relaxed) {
            crowd.beat.fetch_add(1, Ordering::Relaxed);
            backoff.wait();
            assert!(start.elapsed() < 20 * STUCK, "the holder is still paused");
        }
        stepping.wait_for(3);
        crowd.release();
        stepping.end();
    }
}
