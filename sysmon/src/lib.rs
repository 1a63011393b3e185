//! The monitor thread: decides when to retake, poll and start, and sleeps when there is nothing to watch.
//!
//! It has no P and runs no G. Everything it does is an offer that loses against the machine's own progress: a P
//! that was entered meanwhile is not taken, a timer that has fired meanwhile starts nothing.
//!
//! ```text
//!   a round                                        and then it sleeps until
//!   1  nobody polled the network for 10 ms: poll     something was found: 20 us, doubling to 10 ms while not
//!   2  timers are due and a P is idle: start an M    a timer may be overdue behind a busy P (if all are busy)
//!   3  each busy P: would another G gain? for how    a P that stands still with work waiting may be judged
//!      long? computing or blocked? ask for it,       a request may have been lost
//!      and take it if it is lent                     stacks may have lain idle for a second
//!   4  once a second: find idle stacks to trim;      stacks are left to trim: 2 ms
//!      trim some of them, for 1 ms at most           another thread wakes it; for good, when all was idle for 10 ms
//!   5  each ten seconds: end the threads of Ms
//!      that have been parked all the while
//!   6  short of memory or threads: ask again,
//!      each tenth of a second
//! ```
//!
//! Rejected: a constant tick (it costs an idle process its sleep, and comes too late or too often for a busy one);
//! judging a thread by its CPU clock (one that is starved looks blocked); taking alone, without asking (code that calls the
//! runtime each microsecond changes the word of its P as often, and the swap of a word that was seen fails each time).

#![forbid(unsafe_code)]

mod backoff;
mod watch;

use sched::{Doing, Monitor, OVERDUE_NS};

use backoff::Backoff;
use watch::{Stretch, Verdict, judge};

/// The network is polled when nobody has for so long.
const UNPOLLED_NS: u64 = 10_000_000;
/// Between two looks at timers that might become overdue, when nothing was found.
const TIMER_LOOK_NS: u64 = 1_000_000;
/// Between two looks for idle stacks that are to be trimmed.
const TRIM_NS: u64 = 1_000_000_000;
/// So long a round trims at most: sysmon sees nothing meanwhile. A round has one portion of stacks more at worst.
const TRIM_PORTION_NS: u64 = 1_000_000;
/// From the begin of a round that trims to the next: sysmon leaves half of a processor to others.
const TRIM_ROUND_NS: u64 = 2_000_000;
/// An M that has been parked for so long, without being needed, is one too many.
const IDLE_MS_NS: u64 = 10_000_000_000;
/// Between two requests for what the system has refused.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// Never, as the runtime's clock says it.
const NEVER: u64 = u64::MAX;

/// The life of a sysmon: returns when the runtime ends. *Runs on: a thread of its own.*
pub fn run(monitor: &Monitor) {
    let mut sysmon = Sysmon {
        monitor,
        stretches: Vec::new(),
        backoff: Backoff::new(),
        activity: 0,
        trimmed_at: 0,
        trims: false,
        end_ms_at: monitor.now() + IDLE_MS_NS,
        asked_at: 0,
        blocked_ones: false,
        asked: false,
    };
    while !monitor.is_exiting() {
        let (until, idle) = sysmon.round();
        if monitor.sleep(until, idle) {
            sysmon.backoff.found();
        }
    }
}

struct Sysmon<'m> {
    monitor: &'m Monitor,
    /// What each P has been doing since when.
    stretches: Vec<Stretch>,
    backoff: Backoff,
    /// The scheduler's progress at the last round.
    activity: u64,
    trimmed_at: u64,
    /// The last portion left stacks to trim.
    trims: bool,
    /// When to look for Ms that are not needed.
    end_ms_at: u64,
    asked_at: u64,
    /// The last round found threads that block without saying so: it looks sooner for the next.
    blocked_ones: bool,
    /// The last round asked for a P.
    asked: bool,
}

impl Sysmon<'_> {
    /// One round; gives the time of the next, and whether nothing happens until something runs.
    fn round(&mut self) -> (u64, bool) {
        let now = self.monitor.now();
        let polled = self.poll_network(now);
        let started = self.start_m_for_timers(now);
        let (taken, look_by) = self.look_at_ps(now);
        if !self.monitor.any_idle() {
            self.monitor.keep_spare_m();
        }
        self.trim_stacks(now);
        self.end_idle_ms(now);
        self.ask_again(now);
        match polled || started || taken {
            true => self.backoff.found(),
            false => self.backoff.found_nothing(),
        }
        self.next_look(now, look_by)
    }

    fn poll_network(&self, now: u64) -> bool {
        let due = self.monitor.unpolled_ns(now) >= UNPOLLED_NS;
        if due {
            self.monitor.poll_network();
        }
        due
    }

    fn start_m_for_timers(&self, now: u64) -> bool {
        let due = self.monitor.any_idle() && self.monitor.next_timer() < now;
        if due {
            self.monitor.start_m_for_timers();
        }
        due
    }

    fn trim_stacks(&mut self, now: u64) {
        if now >= self.trimmed_at + TRIM_NS {
            self.trimmed_at = now;
            self.trims = self.monitor.find_surplus_stacks();
        }
        if self.trims {
            self.trims = self.monitor.trim_stacks(self.monitor.now() + TRIM_PORTION_NS);
        }
    }

    fn end_idle_ms(&mut self, now: u64) {
        if now >= self.end_ms_at {
            let more = self.monitor.end_idle_ms();
            self.end_ms_at = now + if more { TRIM_NS } else { IDLE_MS_NS };
        }
    }

    fn ask_again(&mut self, now: u64) {
        if self.monitor.is_short() && now >= self.asked_at + ASK_AGAIN_NS {
            self.asked_at = now;
            self.monitor.ask_again();
        }
    }

    /// Takes what is to be taken; whether anything was, or was asked for, and by when to look at what was left.
    fn look_at_ps(&mut self, now: u64) -> (bool, u64) {
        let unpolled = self.monitor.unpolled_ns(now) >= UNPOLLED_NS && !self.monitor.any_idle();
        let (mut taken, mut look_by, mut blocked, mut asked) = (false, NEVER, false, false);
        self.monitor.begin_looks();
        self.stretches.resize_with(self.monitor.procs(), Stretch::new);
        for p in 0..self.stretches.len() {
            let look = self.monitor.look(p, now);
            let stretch = &mut self.stretches[p];
            stretch.update(&look, now);
            let age = stretch.age(now);
            let away_ns = age.stuck_ns.max(look.overdue_ns);
            let doing = match judge(&look, age, unpolled, self.blocked_ones) {
                Verdict::Leave => continue,
                Verdict::Ask => {
                    self.monitor.ask(p, away_ns);
                    asked = true;
                    continue;
                }
                Verdict::LookBy(ns) => {
                    look_by = look_by.min(now + ns);
                    continue;
                }
                Verdict::Take => {
                    // The request first: it reaches code that enters and leaves while `/proc` is read.
                    self.monitor.ask(p, away_ns);
                    asked = true;
                    self.monitor.doing(p)
                }
                Verdict::TakeIfBlocked { else_look_ns } => {
                    look_by = look_by.min(now + else_look_ns);
                    match self.monitor.doing(p) {
                        Doing::Blocked => Doing::Blocked,
                        Doing::Computing | Doing::Unknown => continue,
                    }
                }
            };
            blocked |= doing == Doing::Blocked;
            taken |= self.monitor.retake(p, look.seen, away_ns, doing);
        }
        self.blocked_ones = blocked;
        // A request may be lost, so sysmon looks again soon; but one that is not heard for long is no find each time.
        let asked_before = std::mem::replace(&mut self.asked, asked);
        (taken || asked && !asked_before, look_by)
    }

    fn next_look(&mut self, now: u64, look_by: u64) -> (u64, bool) {
        let activity = self.monitor.activity();
        let still = std::mem::replace(&mut self.activity, activity) == activity;
        if still && self.backoff.is_longest() && self.monitor.all_idle() {
            return (self.next_chore(), true);
        }
        let mut next = look_by.min(now + self.backoff.ns());
        if self.trims {
            next = next.min(now + TRIM_ROUND_NS);
        }
        if !self.monitor.any_idle() {
            let soonest = now + self.backoff.ns().min(TIMER_LOOK_NS);
            let timer = self.monitor.next_timer();
            let overdue_at = timer.saturating_add(OVERDUE_NS);
            // A timer that is due already, and not fired, is looked at when it is overdue: perhaps a hog keeps it waiting.
            let waits = timer <= now && now < overdue_at;
            next = next.min(if waits { overdue_at } else { overdue_at.max(soonest) });
        }
        (next, false)
    }

    /// What is left to do while all is idle: a burst may have left more stacks or threads than are worth keeping, or want of
    /// them.
    fn next_chore(&self) -> u64 {
        let chores = [
            (self.monitor.is_short(), self.asked_at + ASK_AGAIN_NS),
            (self.trims, self.monitor.now() + TRIM_ROUND_NS - TRIM_PORTION_NS),
            (self.monitor.has_surplus_stacks(), self.trimmed_at + TRIM_NS),
            (self.monitor.has_surplus_ms(), self.end_ms_at),
        ];
        chores.into_iter().filter(|chore| chore.0).map(|chore| chore.1).min().unwrap_or(NEVER)
    }
}
