//! `simulated`: how a simulated scheduler runs. A [`Simulation`]
//! chooses which G runs next and whether the running G goes on, and says what time it is. (Feature `sim`.)
//!
//! A simulated scheduler has one P and no sysmon, and every G that must keep its OS thread waits at home. So
//! all its Gs run on one M, and the order in which they run depends on the choices alone:
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
use std::sync::Arc;

use timers::{Handle as _, Modified, clock};

use crate::choices::simulation::{
    Phase, Ready, Simulated, Simulation, is_anywhere, is_left_behind, leave_parked, node,
};
use crate::g::list::GList;
use crate::g::{GRef, table};
use crate::m::OwnM;
use crate::m::current::on_m;
use crate::m::release::release;
use crate::p::Held;
use crate::p::event::By;
use crate::run::sched::Sched;
use crate::timer::entry::TimerRef;

/// How often the M of a simulation that is to be given up looks for a G that a waker outside has decided to
/// wake. A G that waits for memory is in no run queue, either, and must not keep the M.
const LOOKS_FOR_WAKES: u32 = 100_000;

impl Simulated {
    /// Returns what the clock of the timers shows where `clock` is read. *Runs on: an M of the simulation.*
    fn timers_now(&self, clock: usize) -> u64 {
        self.by.shown_by(clock) - self.ahead()
    }

    /// Returns the simulated time at which the clock of the timers shows `ns` where `clock` is read. *Runs
    /// on: an M of the simulation.*
    fn of_timers(&self, clock: usize, ns: u64) -> u64 {
        self.by.reaches(clock, ns.saturating_add(self.ahead()))
    }

    /// Returns how far the simulated clock is ahead of that of the timers, which counts from its first use.
    /// The first call comes from the main function, or from the M between two Gs.
    fn ahead(&self) -> u64 {
        // Both clocks are clock 0 here, so that the difference stays.
        *self.ahead.get_or_init(|| self.by.now() - clock::now())
    }

    /// Returns the heap for timers of the calling G: that of its node's clock.
    fn heap_here(&self) -> usize {
        self.by.clock_of(node())
    }
}

impl Ready {
    /// Takes all Gs out of the run queues.
    fn fill(&mut self, sched: &Sched, m: OwnM<'_>, held: Held<'_>) {
        let next = || held.queue.pop(1, &mut 0).or_else(|| m.home.pop()).or_else(|| sched.global.pop());
        while let Some(g) = next() {
            if !is_left_behind(g) {
                self.ids.push(g.id());
                self.gs.push(g);
            }
        }
    }

    fn take(&mut self, at: usize) -> GRef {
        self.ids.remove(at);
        self.gs.remove(at)
    }
}

/// Calls `f` with the simulation of this M, if there is one.
#[inline]
pub fn with<T>(f: impl FnOnce(&dyn Simulation) -> T) -> Option<T> {
    if !is_anywhere() {
        return None;
    }
    on_m(|m| m.sched().simulated().map(|simulated| f(&*simulated.by))).flatten()
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

/// Waits until the main function of a simulation of `sched` ends. Returns `false` if the simulation was given
/// up. Blocks the caller. *Runs on: a thread that is no M of `sched`.*
#[must_use]
pub fn await_main(sched: &Sched) -> bool {
    sched.simulated().is_none_or(|simulated| simulated.main.wait())
}

impl Sched {
    /// Asks whether another G is to run before `g`, the caller, goes on. Returns `true` if so.
    pub(crate) fn is_another_chosen(
        &self,
        simulated: &Simulated,
        m: OwnM<'_>,
        held: Held<'_>,
        g: GRef,
    ) -> bool {
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

    /// Returns the next G of a simulated scheduler. Returns `None` if there is no simulation, or if the M has
    /// to rest, to end, or to get its P first.
    #[inline(always)]
    pub(crate) fn chosen_g(&self, m: OwnM<'_>) -> Option<GRef> {
        self.simulated().and_then(|simulated| self.choose_for(simulated, m))
    }

    // Apart, so that the loop of other schedulers is compiled as without simulations.
    #[cold]
    #[inline(never)]
    fn choose_for(&self, simulated: &Simulated, m: OwnM<'_>) -> Option<GRef> {
        let held = m.held().filter(|_| !m.own().spinning.get() && !self.is_exiting())?;
        self.next_simulated(simulated, m, held)
    }

    /// Returns the next G of a simulated scheduler; `None` if the M is to rest.
    fn next_simulated(&self, simulated: &Simulated, m: OwnM<'_>, held: Held<'_>) -> Option<GRef> {
        let mut looks = 0;
        loop {
            self.run_due_timers(simulated, held);
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
                // The thread that waits for the main function is about to end this runtime.
                simulated.main.has_ended();
                drop(ready);
                crate::sys::yield_thread();
                continue;
            }
            let reason = if !ready.gs.is_empty() {
                simulated.outside.has_woken();
                match if phase == Phase::On { simulated.by.choose(None, &ready.ids) } else { Ok(Some(0)) } {
                    Ok(at) => return Some(ready.take(at.unwrap_or(0))),
                    Err(reason) => {
                        drop(ready);
                        reason
                    }
                }
            } else {
                let due = self.next_simulated_due(simulated);
                if phase == Phase::Before || (due.is_none() && phase == Phase::Over) {
                    return None;
                }
                // What happens next may make Gs ready.
                drop(ready);
                if simulated.outside.may_wake(due.is_some()) {
                    continue;
                }
                match simulated.by.all_wait(due, self.netpoll.sources()) {
                    Ok(()) => {
                        self.record_simulated_time(simulated);
                        continue;
                    }
                    // The main function was cancelled before, and still waits.
                    Err(_) if phase == Phase::Failed => {
                        if self.leave_all_parked() || looks == LOOKS_FOR_WAKES {
                            self.give_up(simulated);
                            return None;
                        }
                        looks += 1;
                        crate::sys::yield_thread();
                        continue;
                    }
                    Err(reason) => reason,
                }
            };
            self.end_main(&reason);
        }
    }

    /// Leaves all parked Gs behind. Returns `false` if a G is not parked: a waker outside may have taken its
    /// wait a moment before. That G has to run until it parks again, because the wake may be one that it
    /// passes on. *Runs on: the M while it runs no G, or the closer.*
    pub(crate) fn leave_all_parked(&self) -> bool {
        table::all().filter(|&g| !self.leave_parked(g)).count() == 0
    }

    /// Leaves `g` behind if it is a parked G of this scheduler. Returns `false` if it is one that is not
    /// parked.
    fn leave_parked(&self, g: GRef) -> bool {
        // A reference first, as in `cancel`.
        if !g.life.try_retain() {
            return true;
        }
        let has_left = !self.owns(g) || leave_parked(g);
        release(g);
        has_left
    }

    /// Gives the simulation up: no G of it runs any more, and none waits. Returns when the M is to end. *Runs
    /// on: the M, which keeps the P.*
    fn give_up(&self, simulated: &Simulated) {
        simulated.main.give_up();
        // The thread that waits for the main function ends the Ms at once. This M looks for no G until then,
        // and no other has a P.
        while !self.is_exiting() {
            crate::sys::yield_thread();
        }
    }

    /// Records the time from which the waits of the next Gs are counted in dumps. There is no sysmon that
    /// does so.
    pub(crate) fn record_simulated_time(&self, simulated: &Simulated) {
        self.sysmon.record_time(simulated.timers_now(0));
    }

    /// Fires the timers that are due by the simulated clocks. (The gate of the P follows the real one.)
    fn run_due_timers(&self, simulated: &Simulated, held: Held<'_>) {
        for clock in 0..simulated.by.clocks() {
            if self.heaps.earliest(clock) == clock::NEVER {
                continue;
            }
            let now = simulated.timers_now(clock);
            let mut woken = GList::new();
            // What is left of the due timers comes in the next round.
            self.fire_timers(held, clock, now, &mut woken);
            self.ready_all(held, woken, By::Timer);
        }
    }

    /// Returns the simulated time of the next timer by any clock.
    fn next_simulated_due(&self, simulated: &Simulated) -> Option<u64> {
        let due = |clock| Some(self.heaps.earliest(clock)).filter(|&due| due != clock::NEVER);
        let dues =
            (0..simulated.by.clocks()).filter_map(|clock| Some(simulated.of_timers(clock, due(clock)?)));
        dues.min()
    }

    /// Returns the index of the heap for a timer that the caller arms. `held` is the caller's P. Without a P
    /// any heap will do. A simulated scheduler has a heap for each clock of its nodes instead: a heap is in
    /// the order of one clock.
    #[inline]
    pub(crate) fn heap_for(&self, held: Option<Held<'_>>) -> usize {
        match self.simulated() {
            None => held.map_or(0, |held| held.index),
            Some(simulated) => {
                let heap = simulated.heap_here();
                self.heaps.open_up_to(heap);
                heap
            }
        }
    }

    /// Arms a timer for `when` by the caller's clock, in whichever state the timer is: see `Heaps::modify`.
    #[inline]
    pub(crate) fn set_timer(&self, heap: usize, timer: &TimerRef, when: u64, seq: u64) -> Modified {
        // The time of a timer that stays in its heap would be of another clock.
        let was_pending =
            self.is_simulated() && timer.timer().owner() != heap && self.heaps.remove(timer.timer());
        let modified = self.heaps.modify(heap, timer, when, 0, seq);
        Modified { was_pending: modified.was_pending || was_pending, ..modified }
    }

    /// Cancels the main function, which has to end because of `reason`. The thread that waits for it may not
    /// have recorded that yet.
    fn end_main(&self, reason: &Arc<str>) {
        while !self.block_on_calls.are_recorded() {
            crate::sys::yield_thread();
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
}
