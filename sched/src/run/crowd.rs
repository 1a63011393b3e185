//! The crowd: the Ms whose Gs compute although sysmon has taken their Ps. While there are many, they run by turns.
//!
//! A hog, a G that computes for long, keeps its OS thread after the rescue of its P. The kernel shares the processors among all
//! such threads, the Ms that have a P, and sysmon. Among hundreds of hogs the share of an M or of sysmon is some microseconds per
//! millisecond. Then timers fire late and new Gs start late. So a large crowd is paused, except for a few hogs:
//!
//! ```text
//!   rescue ──────────────> running ──its turn is over──> stopping ──it has paused──> line
//!      │                      ^                          (gets the signal)  ^          │
//!      └──large crowd─────────│─────────────────────────────────────────────┘          │
//!                             └──────────────────── let go, in order ──────────────────┘
//! ```
//!
//! - Up to `FREE_PER_P` hogs per P all run, and nothing is paused. The crowd stays large until all hogs may run again.
//! - In a large crowd one hog per two Ps runs at a time, and one more for each idle P. The others are paused in a signal handler
//!   (`m/pause.rs`).
//! - A hog leaves the crowd when it enters the runtime. There it waits in place for a P, as after each rescue.
//! - A hog that is interrupted inside the C library refuses to pause, because it may have the lock of the allocator. It gets the
//!   signal again soon. A hog that is blocked in the kernel gets no signal, because that would interrupt its system call.
//! - A paused hog may have a lock of the user, as a thread may that the kernel does not run. Each hog has its turn, so the
//!   lock is released in the end.
//! - Sysmon does all this. It may wait for a lock that a paused hog has, for instance that of an allocator outside the C library.
//!   The paused hogs notice that no turn begins any more, and go on.
//!
//! # Rejected
//!
//! - *Longer slices for rescued hogs* (`sched_setattr`): woken threads then go first, but no thread gets more than its share.
//! - *A nice value for rescued hogs*: processes that a hog starts would inherit it, and a thread may not lower it again.
//! - *Switching to another G in the handler*: that G could need a lock that the hog has, and would wait for its own OS thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use timers::clock;

use crate::m::current::on_m;
use crate::m::pause::{PAUSED, Paused};
use crate::m::{M, MRef};
use crate::p::lease::Seen;
use crate::run::sched::Sched;
use crate::sys::{self, Doing, preempt};

/// How many hogs per P the kernel alone handles.
const FREE_PER_P: usize = 8;
/// How long a hog runs before it is paused again.
const TURN_NS: u64 = 10_000_000;
/// A paused hog goes on by itself if no turn has begun for this long.
const STUCK: Duration = Duration::from_secs(1);

/// See the file's head.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Locked by sysmon alone.
    state: Mutex<State>,
    /// A copy of `State::by_turns`, for hogs that leave.
    by_turns: AtomicBool,
    /// Counts the calls of `turn` while hogs are paused. Paused hogs read it.
    beat: AtomicU32,
}

#[derive(Default)]
struct State {
    /// True while the hogs run by turns.
    by_turns: bool,
    /// The hogs that may run.
    running: Vec<Hog>,
    /// The hogs that got the signal and have not paused yet.
    stopping: Vec<Hog>,
    /// The hogs that wait for their turn. Those that were blocked in the kernel at the end of their last turn are not paused.
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

    /// Lets the hog go if it has left the crowd, and returns `false` then. It may have been asked to pause since: no later signal may
    /// find that.
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
    /// Adds the M whose P was just taken because its G computes. *Runs on: sysmon.*
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

    /// Pauses the hogs whose turn is over, and lets the next ones go: `most` run at a time. Up to `free` hogs all run. Returns when to
    /// call again; NEVER if the crowd is small. *Runs on: sysmon.*
    pub(crate) fn turn(&self, now: u64, free: usize, most: usize) -> u64 {
        let state = &mut *self.state.lock();
        let next = state.turn(now, free, most);
        // Relaxed: a hog that leaves and reads an old value does not wake sysmon, which looks at the end of the turn anyway.
        self.by_turns.store(state.by_turns, Ordering::Relaxed);
        if state.by_turns {
            self.beat.fetch_add(1, Ordering::Relaxed);
        }
        next
    }

    /// Returns `true` while hogs run by turns: sysmon then waits for hogs that leave. *Runs on: any thread.*
    pub(crate) fn runs_by_turns(&self) -> bool {
        self.by_turns.load(Ordering::Relaxed)
    }

    /// Lets all hogs go. *Runs on: sysmon, before it ends.*
    pub(crate) fn release(&self) {
        self.state.lock().release();
        self.by_turns.store(false, Ordering::Relaxed);
    }
}

impl State {
    /// See `Crowd::turn`.
    fn turn(&mut self, now: u64, free: usize, most: usize) -> u64 {
        self.running.retain(Hog::is_here);
        if !self.by_turns {
            if self.running.len() <= free || !preempt::is_installed(on_signal) {
                return clock::NEVER;
            }
            (self.by_turns, self.turn_ends) = (true, now);
        }
        self.look_at_stopping();
        if now >= self.turn_ends {
            if !preempt::is_installed(on_signal) {
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
}

/// Pauses the M of this thread, if sysmon has asked for that and its G computes without a P. `locked` says that the G may have a lock
/// of the C library. First copies the stack of the G if a reader has asked for it (`run/hogs.rs`). *Runs on: any thread, in the handler of
/// the signal: it allocates nothing and takes no lock.*
fn on_signal(locked: bool, registers: &preempt::Registers) {
    on_m(|m| {
        m.sched().hogs.fill(m, registers);
        if !m.has_lost_p() {
            return;
        }
        if locked {
            return m.pause.refuse();
        }
        let crowd = &m.sched().crowd;
        m.pause.pause(|word| {
            let beat = crowd.beat.load(Ordering::Relaxed);
            preempt::sleep_while(word, PAUSED, STUCK);
            beat != crowd.beat.load(Ordering::Relaxed)
        });
    });
}

/// Installs the handler of the signal, unless the program has an action of its own. Returns `true` if it is installed. *Runs on: any
/// thread.*
pub(crate) fn watches_signal() -> bool {
    preempt::is_installed(on_signal)
}

impl Sched {
    /// See `Crowd::turn`. *Runs on: sysmon.*
    pub(crate) fn turn_crowd(&self, now: u64) -> u64 {
        let procs = self.procs();
        let most = procs.div_ceil(2) + self.idle.idle_ps();
        self.crowd.turn(now, FREE_PER_P * procs, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p::lease::State as Look;

    /// The hog enters the runtime after it was asked to pause, and before the signal comes. A later signal, of a dump say, must not
    /// pause it.
    #[test]
    fn a_hog_that_leaves_is_asked_no_more() {
        let m = M::new(std::ptr::null(), 0);
        let hog = Hog { m: MRef::new(&m), lent: Seen::example(Look::Lent) };
        assert!(!hog.is_here());
        let mut state = State { by_turns: true, ..State::default() };
        m.pause.ask();
        state.stopping.push(hog);
        state.look_at_stopping();
        assert_eq!(m.pause.state(), Paused::Not);
        assert!(state.stopping.is_empty());
    }
}
