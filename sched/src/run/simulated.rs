//! `simulated`: how a simulated scheduler runs. A [`Simulation`](super::simulation::Simulation) chooses which G runs next and whether the
//! running G goes on, and says what time it is. (Feature `sim`.)
//!
//! A simulated scheduler has one P and no sysmon, and every G that must keep its OS thread waits at home. So all its Gs run on one M, and
//! the order in which they run depends on the choices alone:
//!
//! ```text
//!   the M between two Gs (next_simulated)          a running G, at a point of choice (point)
//!   fire the due timers                            take all Gs out of the run queues into `ready`
//!   take all Gs out of the run queues into `ready` ask the simulation
//!   none? ask the simulation to move the clock       go on
//!   ask the simulation; run the chosen G             or leave the chosen G in `chosen`, and yield
//! ```
//!
//! Before the simulation is on, and after it is over, Gs run in the order in which they became ready.

use std::mem;

use timers::clock;

use crate::g::GRef;
use crate::m::M;
use crate::p::Held;
use crate::run::sched::Sched;
use crate::run::simulation::{Phase, Ready, Simulated};

impl Ready {
    /// Takes all Gs out of the run queues. *Runs on: `m`, the holder of the P.*
    fn fill(&mut self, sched: &Sched, m: &M, held: Held<'_>) {
        let next = || held.queue.pop(1, &mut 0).or_else(|| m.home.pop()).or_else(|| sched.global.pop());
        while let Some(g) = next() {
            self.ids.push(g.id());
            self.gs.push(g);
        }
    }

    fn take(&mut self, at: usize) -> GRef {
        self.ids.remove(at);
        self.gs.remove(at)
    }
}

impl Sched {
    /// Asks whether another G is to run before `g`, the caller, goes on. Returns `true` if so.
    pub(crate) fn is_another_chosen(&self, simulated: &Simulated, m: &M, held: Held<'_>, g: GRef) -> bool {
        let mut ready = simulated.ready.lock();
        ready.fill(self, m, held);
        match simulated.by.choose(Some(g.id()), &ready.ids) {
            Ok(None) => false,
            Ok(Some(at)) => {
                let next = ready.take(at);
                ready.chosen = Some(next);
                true
            }
            Err(reason) => {
                drop(ready);
                self.end_main(&reason);
                false
            }
        }
    }

    /// In a simulation, puts the next G into the run-next slot of the P, which is empty, unless the M is to rest. Makes the next round
    /// have the number of this one. Returns `false` if this is no simulated scheduler. *Runs on: `m`, the holder of the P.*
    // The slot, not the value, so that the loop of other schedulers is compiled as without simulations.
    #[cold]
    #[inline(never)]
    pub(crate) fn choose_if_simulated(&self, m: &M, held: Held<'_>) -> bool {
        let Some(simulated) = &self.simulated else { return false };
        held.repeat_round();
        if let Some(g) = self.next_simulated(simulated, m, held) {
            held.queue.put_next(g);
        }
        true
    }

    /// Returns the next G of a simulated scheduler; `None` if the M is to rest. *Runs on: `m`, the holder of the P.*
    fn next_simulated(&self, simulated: &Simulated, m: &M, held: Held<'_>) -> Option<GRef> {
        loop {
            self.run_own_timers(held);
            if self.coros.shortage.anyone_waits() {
                self.share_stacks(held);
            }
            let mut ready = simulated.ready.lock();
            ready.fill(self, m, held);
            if let Some(g) = mem::take(&mut ready.chosen) {
                return Some(g);
            }
            let phase = simulated.by.phase();
            if phase == Phase::Over && !self.is_closing() {
                // The thread that waited for the main function is about to end this runtime.
                drop(ready);
                std::thread::yield_now();
                continue;
            }
            let reason = if !ready.gs.is_empty() {
                match if phase == Phase::On { simulated.by.choose(None, &ready.ids) } else { Ok(Some(0)) } {
                    Ok(at) => return Some(ready.take(at.unwrap_or(0))),
                    Err(reason) => {
                        drop(ready);
                        reason
                    }
                }
            } else {
                drop(mem::take(&mut *ready));
                let due = self.heaps.time_sleep_until();
                let due = (due != clock::NEVER).then_some(due);
                if phase == Phase::Before || (due.is_none() && phase == Phase::Over) {
                    return None;
                }
                // What happens next may make Gs ready.
                drop(ready);
                match simulated.by.all_wait(due, self.netpoll.sources()) {
                    Ok(()) => continue,
                    Err(reason) => reason,
                }
            };
            self.end_main(&reason);
        }
    }

    /// Cancels the main function, which has to end because of `reason`. The thread that waits for it may not have recorded that yet.
    fn end_main(&self, reason: &std::sync::Arc<str>) {
        while !self.mains.are_recorded() {
            std::thread::yield_now();
        }
        self.cancel_mains(reason);
    }

    /// Wakes the waiters of simulated sources. *Runs on: the M of a simulated scheduler.*
    pub(crate) fn deliver(&self, events: &[netpoll::Report]) {
        let mut ready = Vec::new();
        self.netpoll.report(events, &mut ready);
        // `Ready::fill` takes them from there. No other M has to be woken.
        self.global.append(self.woken_gs(&mut ready));
    }

    /// Returns `true` if this is a simulated scheduler.
    #[inline]
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }
}
