//! The monitor thread, sysmon: decides when to preempt, poll and start Ms, and sleeps while there is nothing
//! to watch.
//!
//! Sysmon has no P and runs no G. The scheduler's own progress always wins. Sysmon does not take a P that was
//! entered meanwhile, and starts no M for a timer that has fired meanwhile.
//!
//! ```text
//!   a round of sysmon                              sysmon then sleeps until the first of these
//!   1  no thread polled the network for 10 ms:       the backoff is over: 20 us after a round that found work,
//!      poll the network                              doubling to 10 ms with each round that found none, and
//!                                                    eight times as long if all Ps were idle
//!   2  timers are due and a P is idle:               all Ps are busy and a timer may be overdue
//!      start an M                                    a P may have kept others waiting for long enough to be judged
//!   3  each busy P that another G could use:         a request to a P may have been lost
//!      ask for the P; take it if it is lent          2 ms are over, if step 4 has more to do
//!   4  once a second: find idle stacks to trim;      another thread wakes sysmon
//!      trim some of them, for 1 ms at most, or
//!      free page tables of those trimmed long ago
//!   5  each five seconds: end the threads of Ms    if all Ps are idle and no G has run since the last round,
//!      that have been parked all the while         at the longest backoff, sysmon then sleeps until
//!   6  short of memory or threads: ask again,        step 4, 5 or 6 is due, if it has work left
//!      each tenth of a second                        another thread wakes sysmon
//!   7  once a second: as many Ps as are wanted
//! ```
//!
//! Step 7 ends no sleep: an idle runtime has the wanted number of Ps soon after it has work again.
//!
//! # Rejected
//!
//! - *A constant tick*: such a tick keeps waking an idle process, and is too late or too frequent for a busy
//!   process.
//! - *Judging a thread by its CPU clock*: a starved thread looks blocked.
//! - *Retaking only, without asking*: code that calls the runtime each microsecond changes its P's word as
//!   often. Then sysmon's compare-exchange always fails, because the word has changed since sysmon read it.

#![forbid(unsafe_code)]

mod backoff;
mod watch;

use sched::{ASK_AGAIN_NS, Doing, Monitor, OVERDUE_NS};

use backoff::Backoff;
use watch::{Stretch, Verdict, judge};

/// Sysmon polls the network if no thread has polled it for this long.
const UNPOLLED_NS: u64 = 10_000_000;
/// While all Ps are busy and a timer may be overdue, sysmon sleeps for this long at most.
const TIMER_LOOK_NS: u64 = 1_000_000;
/// The time between two searches for idle stacks to trim.
const TRIM_NS: u64 = 1_000_000_000;
/// The longest time for which a round trims stacks: sysmon watches nothing meanwhile. A round may exceed the
/// time by one portion of stacks.
const TRIM_PORTION_NS: u64 = 1_000_000;
/// Page tables are freed if no stack was trimmed, and no trimmed stack was needed, for this long. A stack
/// that has lost its page table takes longer to use again.
const STAYS_TRIMMED_NS: u64 = 5_000_000_000;
/// As `TRIM_PORTION_NS`, for page tables while a P is busy. Other threads are late by as much, and page
/// tables are little memory, which can wait.
const TABLES_PORTION_NS: u64 = 60_000;
/// The time from one round that trims to the next. So trimming takes at most half of a processor.
const TRIM_ROUND_NS: u64 = 2_000_000;
/// The time between two searches for Ms that were not needed since the last search. So such an M ends five to
/// ten seconds after it was last needed, and 110 of them are gone after twelve.
const IDLE_MS_NS: u64 = 5_000_000_000;
/// The time between two questions for the wanted number of Ps.
const WANTED_PS_NS: u64 = 1_000_000_000;
/// The time on the runtime's clock that never comes.
const NEVER: u64 = u64::MAX;

/// Runs sysmon. Returns when the runtime ends. *Runs on: a thread that does nothing else.*
pub fn run(monitor: &Monitor) {
    let mut sysmon = Sysmon {
        monitor,
        stretches: Vec::new(),
        backoff: Backoff::new(),
        activity: 0,
        trimmed_at: 0,
        trims: false,
        tables_at: 0,
        frees_tables: false,
        end_ms_at: monitor.now() + IDLE_MS_NS,
        wanted_ps_at: monitor.now() + WANTED_PS_NS,
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
    monitor.release_crowd();
}

struct Sysmon<'m> {
    monitor: &'m Monitor,
    /// For each P: since when it has stood still.
    stretches: Vec<Stretch>,
    backoff: Backoff,
    /// What `Monitor::activity` returned in the last round.
    activity: u64,
    /// When this sysmon last searched for stacks to trim.
    trimmed_at: u64,
    /// True if the last portion left stacks to trim.
    trims: bool,
    /// Page tables may be freed from then on.
    tables_at: u64,
    /// True if page tables are being freed.
    frees_tables: bool,
    /// When to search next for Ms that are not needed.
    end_ms_at: u64,
    /// When to ask next for the wanted number of Ps.
    wanted_ps_at: u64,
    /// When this sysmon last asked again for refused memory or threads.
    asked_at: u64,
    /// True if the last round found threads that block outside of `blocking`. The next round looks for more
    /// of them sooner.
    blocked_ones: bool,
    /// True if the last round asked for a P.
    asked: bool,
}

impl Sysmon<'_> {
    /// Performs one round. Returns the time of the next round, and `true` if all is idle: then nothing
    /// happens until some thread has work.
    fn round(&mut self) -> (u64, bool) {
        let now = self.monitor.now();
        let polled = self.poll_network(now);
        let started = self.start_m_for_timers(now);
        let (taken, look_by) = self.look_at_ps(now);
        let look_by = look_by.min(self.monitor.turn_crowd(now));
        if !self.monitor.any_idle() {
            self.monitor.keep_spare_m();
        }
        self.trim_stacks(now);
        self.end_idle_ms(now);
        self.ask_again(now);
        self.follow_wanted_ps(now);
        let idle = self.is_idle();
        match (polled || started || taken, idle) {
            (true, _) => self.backoff.found(),
            (false, false) => self.backoff.found_nothing(),
            (false, true) => self.backoff.found_all_idle(),
        }
        self.next_look(now, look_by, idle)
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
            let were_needed = self.monitor.were_trimmed_stacks_needed();
            if self.trims || were_needed {
                self.tables_at = now + STAYS_TRIMMED_NS;
            }
            self.frees_tables = now >= self.tables_at && self.monitor.has_page_tables();
        }
        if self.trims {
            self.trims = self.monitor.trim_stacks(self.monitor.now() + TRIM_PORTION_NS);
        } else if self.frees_tables {
            let portion = if self.monitor.all_idle() { TRIM_PORTION_NS } else { TABLES_PORTION_NS };
            self.frees_tables = self.monitor.free_page_tables(self.monitor.now() + portion);
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

    fn follow_wanted_ps(&mut self, now: u64) {
        if now >= self.wanted_ps_at {
            self.wanted_ps_at = now + WANTED_PS_NS;
            self.monitor.follow_wanted_procs();
        }
    }

    /// Judges each P, and takes the P or asks for it if need be. Returns `true` if a P was taken, or asked
    /// for after a round without a request. Also returns the time by which the other Ps must be judged again.
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
                    // The request comes first: a G that enters and leaves while sysmon reads `/proc` gives
                    // the P up.
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
        // A request may be lost, so a first request counts as a find: sysmon looks again soon. A repeated
        // request does not count: otherwise a G that never leaves the runtime would keep the backoff at its
        // shortest.
        let asked_before = std::mem::replace(&mut self.asked, asked);
        (taken || asked && !asked_before, look_by)
    }

    /// Returns `true` if all Ps are idle and no G has run since the last round.
    fn is_idle(&mut self) -> bool {
        let activity = self.monitor.activity();
        let still = std::mem::replace(&mut self.activity, activity) == activity;
        still && self.monitor.all_idle()
    }

    fn next_look(&self, now: u64, look_by: u64, idle: bool) -> (u64, bool) {
        if idle && self.backoff.is_longest() {
            return (self.next_chore(), true);
        }
        let mut next = look_by.min(now + self.backoff.ns());
        if self.trims || self.frees_tables {
            next = next.min(now + TRIM_ROUND_NS);
        }
        if !self.monitor.any_idle() {
            let soonest = now + self.backoff.ns().min(TIMER_LOOK_NS);
            let timer = self.monitor.next_timer();
            let overdue_at = timer.saturating_add(OVERDUE_NS);
            // A due timer that has not fired may wait behind a G that computes. Sysmon looks again when that
            // timer is overdue.
            let waits = timer <= now && now < overdue_at;
            next = next.min(if waits { overdue_at } else { overdue_at.max(soonest) });
        }
        (next, false)
    }

    /// Returns the time of the next chore while all is idle; NEVER if there is none. After a burst, sysmon
    /// trims surplus stacks, ends surplus Ms, and asks again for what the system has refused.
    fn next_chore(&self) -> u64 {
        let chores = [
            (self.monitor.is_short(), self.asked_at + ASK_AGAIN_NS),
            (self.trims || self.frees_tables, self.monitor.now() + TRIM_ROUND_NS - TRIM_PORTION_NS),
            (self.monitor.has_surplus_stacks(), self.trimmed_at + TRIM_NS),
            (self.monitor.has_page_tables(), self.tables_at.max(self.trimmed_at + TRIM_NS)),
            (self.monitor.has_surplus_ms(), self.end_ms_at),
        ];
        chores.into_iter().filter(|chore| chore.0).map(|chore| chore.1).min().unwrap_or(NEVER)
    }
}
