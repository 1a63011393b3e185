//! Sysmon as the scheduler uses it: threads ask it here to look earlier, and wake it. The reasons are overdue
//! timers, work that waits behind `blocking`, and the end of idleness. The same state keeps a rough clock
//! (`about_now`) and the usual timer slack for new Ms. `plan.rs` has the protocol.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use timers::clock;

use crate::asleep::note::Note;
use crate::asleep::plan::Plan;
use crate::sys;

/// How long a timer may be overdue before sysmon takes the P of a G that computes. (At 50 us, short
/// computations lose their Ps all the time.)
pub const OVERDUE_NS: u64 = 200_000;
/// The time between two requests for memory or threads that the system has refused.
pub const ASK_AGAIN_NS: u64 = 100_000_000;
/// How old the rough clock may be when a thread that has read the clock leaves it as it is.
const ABOUT_NS: u64 = 500_000;
/// How soon sysmon looks at a P that is lent to `blocking` while work waits.
const BLOCKING_LOOK_NS: u64 = 100_000;

/// What threads and sysmon share of one runtime: requests for a look, the rough clock, the timer slack.
pub(crate) struct Sysmon {
    note: Note,
    plan: Plan,
    /// True once a sysmon exists.
    enabled: AtomicBool,
    /// The kernel's id of sysmon's thread.
    tid: AtomicI32,
    wakes: AtomicU64,
    /// The timer slack that sysmon's thread had before it set its own, and that the threads which it starts
    /// must get; 0 if unknown.
    usual_slack: AtomicU64,
    /// About the time of the last reading of the clock. Sysmon has read it, or an M that found timers due, or
    /// an M that left the netpoller. On a cache line of its own, because each park reads it.
    about_now: CachePadded<AtomicU64>,
}

impl Sysmon {
    pub(crate) fn new() -> Self {
        Sysmon {
            note: Note::new(),
            plan: Plan::new(),
            enabled: AtomicBool::new(false),
            tid: AtomicI32::new(0),
            wakes: AtomicU64::new(0),
            usual_slack: AtomicU64::new(0),
            about_now: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Makes the calling thread the sysmon, and lets its sleeps end on time.
    pub(crate) fn adopt_thread(&self) {
        self.tid.store(sys::thread_id(), Ordering::Relaxed);
        self.enabled.store(true, Ordering::Relaxed);
        // Relaxed: the threads that this thread starts read it, and their start orders the load.
        self.usual_slack.store(sys::timer_slack(), Ordering::Relaxed);
        sys::set_timer_slack(1);
        // `m/slice.rs` says why.
        sys::shorten_slice(0);
    }

    /// Sleeps until `until`, or until an earlier requested time. Returns `true` if it did not sleep or was
    /// woken. `idle` says that no G runs: an M that takes a P then wakes sysmon. *Runs on: sysmon.*
    pub(crate) fn sleep(&self, until: u64, idle: bool, stays_awake: impl Fn() -> bool) -> bool {
        let woken = self.plan.sleep(until, idle, stays_awake, |until| match until {
            clock::NEVER => {
                self.note.sleep();
                true
            }
            until => self.note.sleep_for(Duration::from_nanos(until.saturating_sub(clock::now()))),
        });
        self.wakes.fetch_add(1, Ordering::Relaxed);
        woken.unwrap_or(true)
    }

    /// Begins a round of looks at all Ps. *Runs on: sysmon.*
    pub(crate) fn begin_looks(&self) {
        self.plan.forget_lent();
    }

    /// Publishes that a P is lent to a blocking call, and then returns `true` if `work_waits` does. *Runs on:
    /// sysmon, in a round of looks.*
    pub(crate) fn note_blocking(&self, work_waits: impl Fn() -> bool) -> bool {
        self.plan.lend_to_block(work_waits)
    }

    /// Returns how often sysmon has woken. *Runs on: any thread.*
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Returns the time to within some milliseconds, for callers to which reading the clock costs too much.
    #[inline]
    pub(crate) fn about_now(&self) -> u64 {
        // Relaxed: the value orders no other data.
        self.about_now.load(Ordering::Relaxed)
    }

    /// Records the time. *Runs on: a thread that has just read the clock.*
    #[inline]
    pub(crate) fn record_time(&self, now: u64) {
        // A store takes the line away from all Ps that read it. So each M does not store whenever timers are
        // due.
        if now.saturating_sub(self.about_now()) >= ABOUT_NS {
            self.about_now.store(now, Ordering::Relaxed);
        }
    }

    /// Gives the calling thread the timer slack that it would have had without sysmon. *Runs on: a new M.*
    pub(crate) fn take_usual_slack(&self) {
        // Relaxed: the start of this thread orders the load after sysmon's store.
        sys::set_timer_slack(self.usual_slack.load(Ordering::Relaxed));
    }

    /// Returns the kernel's id of sysmon's thread; 0 if there is no sysmon.
    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Wakes sysmon if it sleeps because no G runs. *Runs on: any thread, after it has taken a P out of the
    /// idle list.*
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        if self.plan.sleeps_idle() {
            self.wake();
        }
    }

    /// Makes sysmon look soon after `when`, because a timer is due then that no M watches. *Runs on: a thread
    /// that has published the timer.*
    pub(crate) fn timer_at(&self, when: u64) {
        self.wake_by(when.saturating_add(OVERDUE_NS));
    }

    /// Makes sysmon ask again soon for a thread that the system has refused. *Runs on: a thread that has
    /// noted the refusal.*
    pub(crate) fn try_again_soon(&self) {
        self.wake_by(clock::now() + ASK_AGAIN_NS);
    }

    /// Makes sysmon look by `time`. *Runs on: a thread that has published what sysmon is to see.*
    fn wake_by(&self, time: u64) {
        if self.plan.ask(time) {
            self.wake();
        }
    }

    /// Announces that a P is about to be lent to a blocking call: from now on makers of work call
    /// `blocking_with_work`. Returns `true` if `work_waits` does. *Runs on: the M that lends the P.*
    pub(crate) fn blocking_begins(&self, work_waits: impl Fn() -> bool) -> bool {
        self.plan.lend_to_block(work_waits)
    }

    /// Makes sysmon look soon if a P is lent to a blocking call, because work waits and no P is idle. *Runs
    /// on: a maker of work, after a full fence.*
    #[inline]
    pub(crate) fn work_waits(&self) {
        if self.plan.is_lent_to_block() {
            self.blocking_with_work();
        }
    }

    /// Makes sysmon look soon, because a P is lent to a blocking call and work waits. *Runs on: any thread.*
    #[cold]
    pub(crate) fn blocking_with_work(&self) {
        self.wake_by(clock::now() + BLOCKING_LOOK_NS);
    }

    /// Wakes sysmon, if there is one. *Runs on: any thread.*
    pub(crate) fn wake(&self) {
        if self.enabled.load(Ordering::Relaxed) {
            self.note.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{apart, lines};

    #[test]
    fn the_rough_clock_has_a_line_of_its_own() {
        let clock = lines!(Sysmon, about_now);
        for other in
            [lines!(Sysmon, note), lines!(Sysmon, plan), lines!(Sysmon, enabled), lines!(Sysmon, wakes)]
        {
            assert!(apart(&clock, &other), "{clock:?}, {other:?}");
        }
    }

    #[test]
    fn the_rough_clock_is_not_written_at_each_reading() {
        let sysmon = Sysmon::new();
        sysmon.record_time(10 * ABOUT_NS);
        sysmon.record_time(11 * ABOUT_NS - 1);
        assert_eq!(sysmon.about_now(), 10 * ABOUT_NS);
        sysmon.record_time(11 * ABOUT_NS);
        assert_eq!(sysmon.about_now(), 11 * ABOUT_NS);
    }
}
