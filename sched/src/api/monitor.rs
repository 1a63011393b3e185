//! What sysmon may do with a runtime: look at its Ps, take or ask for a P, start an M, poll, sleep. It shows
//! no G and no queue.
//!
//! [`Monitor`] is sysmon's side of a runtime; `sysmon.rs` is the scheduler's side of sysmon.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use timers::clock;

use crate::notes::events::Preempted;
use crate::p::lease::{Seen, State};
use crate::run::sched::Sched;
use crate::run::signal;
use crate::sys::{self, Doing};

/// What a look at a P shows.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The word of its lease: equal words mean that the P was neither lent nor taken in between.
    pub seen: Seen,
    /// How often its holder has looked for a G. The number does not change while one G runs, whatever that G
    /// calls.
    pub rounds: u32,
    /// True if the G that runs is in `blocking`.
    pub blocking: bool,
    /// True if Gs wait in its queue, or in the global queue while no P is idle, or for stacks in its list.
    pub work_waits: bool,
    /// For how long its next timer has been overdue while no P was idle, in ns.
    pub overdue_ns: u64,
}

impl Look {
    /// Returns the state of the P.
    pub fn state(&self) -> State {
        self.seen.state()
    }
}

/// One runtime, as its sysmon sees it.
#[derive(Clone)]
pub struct Monitor {
    sched: Arc<Sched>,
}

impl Monitor {
    /// Makes the monitor of a runtime. The calling thread becomes its sysmon.
    pub fn new(sched: Arc<Sched>) -> Self {
        sched.sysmon.adopt_thread();
        Monitor { sched }
    }

    /// Returns the time of the runtime's clock, in ns.
    pub fn now(&self) -> u64 {
        let now = clock::now();
        self.sched.sysmon.record_time(now);
        now
    }

    /// Returns `true` when the runtime ends.
    pub fn is_exiting(&self) -> bool {
        self.sched.is_exiting()
    }

    /// Returns how many Ps were ever made; that many may be lent.
    pub fn procs(&self) -> usize {
        self.sched.made()
    }

    /// Sets the number of Ps that the runtime's maker wants now, unless the program has set a number. Looks
    /// how many processors there are.
    pub fn follow_wanted_procs(&self) {
        self.sched.processors.refresh();
        self.sched.follow_wanted_procs();
    }

    /// Returns `true` if a P is idle, so that new work finds a place to run.
    pub fn any_idle(&self) -> bool {
        self.sched.idle.idle_ps() > 0
    }

    /// Returns `true` if all Ps are idle.
    pub fn all_idle(&self) -> bool {
        self.sched.idle.idle_ps() >= self.sched.procs()
    }

    /// Returns how often Ps have been lent in all. The number does not change if no G runs, or no G enters
    /// the runtime.
    pub fn activity(&self) -> u64 {
        self.sched.ps().map(|p| p.lease.tick()).sum()
    }

    /// Begins a round of looks at all Ps.
    pub fn begin_looks(&self) {
        self.sched.sysmon.begin_looks();
    }

    /// Looks at P `p`, in a round of looks at all Ps.
    pub fn look(&self, p: usize, now: u64) -> Look {
        let p_ref = self.sched.p(p);
        let seen = p_ref.look();
        p_ref.busy.look(seen.state() != State::Idle, now);
        let blocking = seen.state() != State::Idle && self.runs_blocking(p);
        let work_waits = || self.work_waits(p);
        // Published before the look: otherwise work made between the two would not make its maker ask for a
        // look.
        let work_waits = if blocking { self.sched.sysmon.note_blocking(work_waits) } else { work_waits() };
        let overdue_ns = if self.any_idle() { 0 } else { now.saturating_sub(self.sched.heaps.earliest(p)) };
        Look { seen, rounds: p_ref.rounds(), blocking, work_waits, overdue_ns }
    }

    /// Returns `true` if work waits for P `p`, in the sense of `Look::work_waits`.
    fn work_waits(&self, p: usize) -> bool {
        let p_ref = self.sched.p(p);
        // All that a surplus P has waits for another P.
        let surplus = p >= self.sched.procs();
        let has_stacks = self.sched.coros.shortage.anyone_waits() && p_ref.stacks_at_hand() > 0;
        let globally = !self.any_idle() && !self.sched.global.is_empty();
        surplus || has_stacks || globally || self.sched.idle.any_wanting() || !p_ref.queue.is_empty()
    }

    /// Returns whether the M that has lent P `p` computes or is blocked in the kernel.
    pub fn doing(&self, p: usize) -> Doing {
        match self.sched.p(p).holder().map(|m| m.tid()) {
            Some(tid) if tid != 0 => sys::doing(tid),
            _ => Doing::Unknown,
        }
    }

    /// Returns `true` if the G that runs on P `p` is in `blocking`.
    fn runs_blocking(&self, p: usize) -> bool {
        self.sched.p(p).holder().and_then(|m| m.running_or_hooked()).is_some_and(|g| g.binding.is_blocking())
    }

    /// Asks for P `p`: its G gives the P up when it next leaves the runtime. The request may be lost, so
    /// sysmon looks and asks again. `away_ns` is how long the G has kept the P.
    pub fn ask(&self, p: usize, away_ns: u64) {
        let p = self.sched.p(p);
        p.ask(away_ns);
    }

    /// Takes P `p`, which has been lent unchanged since `seen`, and hands it to work that waits. Returns
    /// `false` if the P was taken back first. `away_ns` is how long its G has kept it.
    pub fn retake(&self, p: usize, seen: Seen, away_ns: u64, doing: Doing) -> bool {
        let p_ref = self.sched.p(p);
        let m = p_ref.holder();
        let running = m.and_then(|m| m.running_or_hooked());
        let blocking = running.is_some_and(|g| g.binding.is_blocking());
        // Relaxed: a hint. It comes before the retake, after which the M may look at once.
        let note_blocked = |blocked| m.inspect(|m| m.was_blocked.store(blocked, Ordering::Relaxed));
        note_blocked(doing == Doing::Blocked);
        if !p_ref.retake(seen) {
            note_blocked(false);
            return false;
        }
        self.sched.events.on_preempted(p_ref, Preempted::Retaken(seen, doing), blocking, away_ns);
        if let Some(m) = m.filter(|_| !blocking && doing == Doing::Computing) {
            self.sched.crowd.add(m, seen);
        }
        self.sched.hand_off(p_ref);
        true
    }

    /// Pauses and resumes Gs that compute without a P, if there are many. Returns when to call again; NEVER
    /// if there are few.
    pub fn turn_crowd(&self, now: u64) -> u64 {
        let (procs, idle) = (self.sched.procs(), self.sched.idle.idle_ps());
        self.sched.crowd.turn(now, procs, idle, signal::install_to_pause)
    }

    /// Lets all Gs go on that `turn_crowd` has paused.
    pub fn release_crowd(&self) {
        self.sched.crowd.release();
    }

    /// Returns how long the network has not been polled, in ns; 0 if an M waits for it or there is no socket.
    pub fn unpolled_ns(&self, now: u64) -> u64 {
        let netpoll = &self.sched.netpoll;
        if netpoll.has_sources() { now.saturating_sub(netpoll.last_poll()) } else { 0 }
    }

    /// Polls the network, without blocking.
    pub fn poll_network(&self) {
        self.sched.poll_from_outside();
    }

    /// Returns when the next timer of all Ps is due; NEVER if there is none.
    pub fn next_timer(&self) -> u64 {
        self.sched.heaps.time_sleep_until()
    }

    /// Starts an M for due timers if a P is idle and no M looks for work.
    pub fn start_m_for_timers(&self) {
        self.sched.wake_idle_p();
    }

    /// Returns `true` if idle stacks have memory that is worth giving back.
    pub fn has_surplus_stacks(&self) -> bool {
        self.sched.coros.has_surplus()
    }

    /// Decides which idle stacks `trim_stacks` will take: all that were not needed since the last call.
    /// Returns `true` if there are any.
    pub fn find_surplus_stacks(&self) -> bool {
        self.sched.coros.find_surplus()
    }

    /// Gives the memory of surplus stacks back until `until`, of some stacks at least. Returns `true` if
    /// there may be more.
    pub fn trim_stacks(&self, until: u64) -> bool {
        while self.sched.coros.cool_some() {
            // A G that joined the line during that call did not find the stacks that were becoming cold.
            self.sched.serve_waiting(None);
            if clock::now() >= until {
                return true;
            }
        }
        false
    }

    /// Returns `true` if idle stacks have given their pages back, but not their page tables.
    pub fn has_page_tables(&self) -> bool {
        self.sched.coros.has_tables()
    }

    /// Returns `true` if stacks that had given their pages back were needed since the last call.
    pub fn were_trimmed_stacks_needed(&self) -> bool {
        self.sched.coros.take_was_cold_needed()
    }

    /// Gives page tables of stacks that stay idle back until `until`, of some stacks at least. Returns `true`
    /// if there may be more.
    pub fn free_page_tables(&self, until: u64) -> bool {
        while self.sched.coros.strip_some() {
            // As in `trim_stacks`.
            self.sched.serve_waiting(None);
            if clock::now() >= until {
                return true;
            }
        }
        false
    }

    /// Ends the threads of some Ms that were parked and not needed since the last call. Returns `true` if
    /// there are more.
    pub fn end_idle_ms(&self) -> bool {
        self.sched.end_idle_ms()
    }

    /// Returns `true` if more Ms are parked than are kept.
    pub fn has_surplus_ms(&self) -> bool {
        self.sched.has_surplus_ms()
    }

    /// Returns `true` while a G waits for a stack, or the system has refused a thread.
    pub fn is_short(&self) -> bool {
        self.sched.coros.shortage.anyone_waits() || self.sched.threads.refusal.is_there()
    }

    /// Asks the system again for stacks and threads that it had refused.
    pub fn ask_again(&self) {
        self.sched.ask_again_for_stacks();
        self.sched.ask_again_for_threads();
    }

    /// Starts a spare M if no M is parked.
    pub fn keep_spare_m(&self) {
        self.sched.keep_spare_m();
    }

    /// Sleeps until `until`, or until an earlier requested time. Returns `true` if it did not sleep or was
    /// woken. `idle` says that no G runs: an M that takes a P then wakes sysmon.
    pub fn sleep(&self, until: u64, idle: bool) -> bool {
        if idle {
            // A G may have parked since the last look at its P. The sleep may last for hours, which would
            // count as time in use. A G that runs by now loses no more than the time to the next look,
            // because sysmon then stays awake.
            let now = clock::now();
            self.sched.ps().for_each(|p| p.busy.look(false, now));
        }
        let stays_awake = || idle && !self.all_idle() || self.is_exiting();
        self.sched.sysmon.sleep(until, idle, stays_awake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::threads::tests::config;

    /// A green thread may park between a look at its P and the decision to sleep.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no netpoller")]
    fn an_idle_sleep_is_no_time_in_use() {
        let sched = Sched::new(config(1)).unwrap();
        let monitor = Monitor::new(sched.clone());
        const SLEEP_NS: u64 = 300_000_000;
        let (busy, now) = (&sched.p(0).busy, monitor.now());
        busy.look(true, now);
        assert!(monitor.all_idle());
        monitor.sleep(now + SLEEP_NS, true);
        assert!(clock::now() >= now + SLEEP_NS);
        busy.look(true, clock::now());
        assert!(busy.ns() < SLEEP_NS, "{} ns", busy.ns());
    }
}
