//! The face that sysmon sees: ticks, taking back a P, starting an M, polling, sleeping. It names no G and no queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use timers::clock;

use crate::g::coro::Coro;
use crate::m::note::Note;
use crate::p::lease::{Seen, State};
use crate::sched::Sched;
use crate::sys::{self, Doing};
use crate::watch::Plan;

/// A timer may be overdue by so much before the P of a green thread that computes is taken for it. (At 50 us short
/// computations lose their Ps all the time.)
pub const OVERDUE_NS: u64 = 200_000;
/// A declared blocking call that found work waiting is looked at so soon.
const BLOCKING_LOOK_NS: u64 = 100_000;

/// When sysmon means to wake, and how it is woken earlier.
pub(crate) struct Watch {
    note: Note,
    plan: Plan,
    /// There is a sysmon.
    enabled: AtomicBool,
    /// The kernel's name for its thread.
    tid: AtomicI32,
    pub(crate) wakes: AtomicU64,
    /// The timer slack that its thread had before it set its own, which no other thread is to inherit; 0 if that is not known.
    usual_slack: AtomicU64,
    /// The time, as of when somebody last looked: sysmon, an M that found timers due or came back from the netpoller.
    about_now: AtomicU64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch {
            note: Note::new(),
            plan: Plan::new(),
            enabled: AtomicBool::new(false),
            tid: AtomicI32::new(0),
            wakes: AtomicU64::new(0),
            usual_slack: AtomicU64::new(0),
            about_now: AtomicU64::new(0),
        }
    }

    /// The time to within some milliseconds, for those to whom reading the clock is too dear.
    #[inline]
    pub(crate) fn about_now(&self) -> u64 {
        // Relaxed: it says nothing but the time.
        self.about_now.load(Ordering::Relaxed)
    }

    /// Somebody has read the clock.
    #[inline]
    pub(crate) fn it_is(&self, now: u64) {
        self.about_now.store(now, Ordering::Relaxed);
    }

    /// Gives the calling thread the timer slack that it would have if sysmon had not started it. *Runs on: a new M.*
    pub(crate) fn take_usual_slack(&self) {
        // Relaxed: the start of the thread orders it after the store by sysmon.
        sys::set_timer_slack(self.usual_slack.load(Ordering::Relaxed));
    }

    /// The kernel's name for sysmon's thread; 0 without one.
    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Wakes a sysmon that sleeps because nothing runs. *Runs on: any thread, after it has taken a P out of the idle list.*
    #[inline]
    pub(crate) fn wake_if_asleep(&self) {
        if self.plan.sleeps_idle() {
            self.wake();
        }
    }

    /// Has sysmon look soon after `when`, at which a timer is due that no M watches. *Runs on: any thread that has published
    /// the timer.*
    pub(crate) fn timer_at(&self, when: u64) {
        self.wake_by(when.saturating_add(OVERDUE_NS));
    }

    /// Has sysmon look by `time`. *Runs on: any thread that has published what sysmon is to see.*
    fn wake_by(&self, time: u64) {
        if self.plan.ask(time) {
            self.wake();
        }
    }

    /// A P is about to be lent to a blocking call. Has sysmon look soon if work waits, as `work_waits` says; a maker of work asks
    /// for that look from now on. *Runs on: the M that lends the P.*
    pub(crate) fn blocking_begins(&self, work_waits: impl Fn() -> bool) {
        if self.plan.lend_to_block(work_waits) {
            self.blocking_with_work();
        }
    }

    /// Work waits and no P is idle: if a P is lent to a blocking call, sysmon takes that P soon. *Runs on: a maker of work, after a
    /// full fence.*
    #[inline]
    pub(crate) fn work_waits(&self) {
        if self.plan.is_lent_to_block() {
            self.blocking_with_work();
        }
    }

    /// Has sysmon look soon: a P is lent to a blocking call, and work waits. *Runs on: any thread.*
    #[cold]
    fn blocking_with_work(&self) {
        self.wake_by(clock::now() + BLOCKING_LOOK_NS);
    }

    /// *Runs on: any thread.*
    pub(crate) fn wake(&self) {
        if self.enabled.load(Ordering::Relaxed) {
            self.note.wake();
        }
    }
}

/// What a look at a P shows.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Its word: equal words mean that nothing happened in between.
    pub seen: Seen,
    /// Counts its looks for a G: it stands still while one G runs, whatever that G calls.
    pub rounds: u32,
    /// The G that runs is in `blocking`.
    pub blocking: bool,
    /// Gs wait in its queue, or in the global queue with no P idle, or for stacks that it has at hand.
    pub work_waits: bool,
    /// How long its next timer has been due while no P was idle, in ns.
    pub overdue_ns: u64,
}

impl Look {
    /// What the P is.
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
    /// The monitor of a runtime; the calling thread becomes its sysmon.
    pub fn new(sched: Arc<Sched>) -> Self {
        sched.watch.note.adopt();
        sched.watch.tid.store(sys::thread_id(), Ordering::Relaxed);
        sched.watch.enabled.store(true, Ordering::Relaxed);
        // Relaxed: for the threads that this one starts.
        sched.watch.usual_slack.store(sys::timer_slack(), Ordering::Relaxed);
        // Its sleeps are to end in time.
        sys::set_timer_slack(1);
        Monitor { sched }
    }

    /// The runtime's clock, in ns.
    pub fn now(&self) -> u64 {
        let now = clock::now();
        self.sched.watch.it_is(now);
        now
    }

    /// True when the runtime ends.
    pub fn is_exiting(&self) -> bool {
        self.sched.is_exiting()
    }

    /// How many Ps were ever made: so many may be lent.
    pub fn procs(&self) -> usize {
        self.sched.made()
    }

    /// True if any P is idle: whatever comes up finds a place to run.
    pub fn any_idle(&self) -> bool {
        self.sched.idle.idle_ps() > 0
    }

    /// True if all Ps are idle.
    pub fn all_idle(&self) -> bool {
        self.sched.idle.idle_ps() >= self.sched.procs()
    }

    /// How often Ps have been lent in all: it stands still only if nothing runs, or nothing comes back.
    pub fn activity(&self) -> u64 {
        self.sched.ps().map(|p| p.lease.tick()).sum()
    }

    /// Before a round of looks at all Ps.
    pub fn begin_looks(&self) {
        self.sched.watch.plan.forget_lent();
    }

    /// A look at P `p`, in a round of all of them.
    pub fn look(&self, p: usize, now: u64) -> Look {
        let p_ref = self.sched.p(p);
        let seen = p_ref.look();
        let blocking = seen.state() != State::Idle && self.runs_blocking(p);
        let work_waits = || self.work_waits(p);
        // Published before the look, as work that is made between the two would ask for none.
        let work_waits =
            if blocking { self.sched.watch.plan.lend_to_block(work_waits) } else { work_waits() };
        let overdue_ns = if self.any_idle() { 0 } else { now.saturating_sub(self.sched.heaps.earliest(p)) };
        Look { seen, rounds: p_ref.rounds(), blocking, work_waits, overdue_ns }
    }

    /// True if work waits for P `p`, as `Look::work_waits` says.
    fn work_waits(&self, p: usize) -> bool {
        let p_ref = self.sched.p(p);
        // What a P that is one too many has, waits.
        let surplus = p >= self.sched.procs();
        let has_stacks = self.sched.coros.shortage.anyone_waits() && p_ref.stacks_at_hand() > 0;
        let globally = !self.any_idle() && !self.sched.global.is_empty();
        surplus || has_stacks || globally || self.sched.idle.any_wanting() || !p_ref.queue.is_empty()
    }

    /// Whether whoever has lent P `p` computes or is blocked.
    pub fn doing(&self, p: usize) -> Doing {
        match self.sched.p(p).holder().map(|m| m.tid.load(Ordering::Relaxed)) {
            Some(tid) if tid != 0 => sys::doing(tid),
            _ => Doing::Unknown,
        }
    }

    /// True if the G that P `p` was last lent to is in `blocking`.
    fn runs_blocking(&self, p: usize) -> bool {
        self.sched.p(p).holder().and_then(|m| m.running()).is_some_and(Coro::is_blocking)
    }

    /// Asks for P `p`: the G that runs on it gives it up when it next leaves the runtime. A request may be lost: look and ask
    /// again. `away_ns`: for how long that G has kept the P.
    pub fn ask(&self, p: usize, away_ns: u64) {
        let p = self.sched.p(p);
        p.away_ns.store(away_ns, Ordering::Relaxed);
        p.lease.ask();
    }

    /// Takes P `p`, lent since `seen` without a change, and gives it to whoever can use it. `away_ns`: for how long.
    pub fn retake(&self, p: usize, seen: Seen, away_ns: u64, doing: Doing) -> bool {
        let p_ref = self.sched.p(p);
        let running = p_ref.holder().and_then(|m| m.running());
        let blocking = running.is_some_and(Coro::is_blocking);
        if !p_ref.retake(seen) {
            return false;
        }
        match blocking {
            true => drop(self.sched.rescues.declared.fetch_add(1, Ordering::Relaxed)),
            false => self.sched.rescues.note(running, away_ns, doing),
        }
        self.sched.hand_off(p_ref);
        true
    }

    /// How long the network has gone unpolled, in ns; 0 if somebody waits for it or nobody uses it.
    pub fn unpolled_ns(&self, now: u64) -> u64 {
        let netpoll = &self.sched.netpoll;
        if netpoll.has_sources() { now.saturating_sub(netpoll.last_poll()) } else { 0 }
    }

    /// Polls the network, without blocking.
    pub fn poll_network(&self) {
        self.sched.poll_from_outside();
    }

    /// When the next timer of all Ps is due; NEVER if there is none.
    pub fn next_timer(&self) -> u64 {
        self.sched.heaps.time_sleep_until()
    }

    /// Timers are due: an idle P, if there is one, and if nobody looks already, gets an M to run them.
    pub fn start_m_for_timers(&self) {
        self.sched.wake_idle_p();
    }

    /// True if stacks lie idle whose memory is worth giving back.
    pub fn has_surplus_stacks(&self) -> bool {
        self.sched.coros.has_surplus()
    }

    /// Decides which idle stacks `trim_stacks` is to take: those that were not needed since the last call. Returns `true` if
    /// there are any.
    pub fn find_surplus_stacks(&self) -> bool {
        self.sched.coros.find_surplus()
    }

    /// Gives the memory of surplus stacks back until `until`, at least of some. Returns `true` if there may be more.
    pub fn trim_stacks(&self, until: u64) -> bool {
        while self.sched.coros.cool_some() {
            // A green thread that came to wait for a stack has not seen those that were cooling.
            self.sched.serve_waiting(None);
            if clock::now() >= until {
                return true;
            }
        }
        false
    }

    /// Ends the threads of some Ms that were parked and not needed since the last call; true if there are more of them.
    pub fn end_idle_ms(&self) -> bool {
        self.sched.end_idle_ms()
    }

    /// True if more Ms are parked than are worth keeping.
    pub fn has_surplus_ms(&self) -> bool {
        self.sched.has_surplus_ms()
    }

    /// True while somebody waits for a stack, or the system has refused a thread.
    pub fn is_short(&self) -> bool {
        self.sched.coros.shortage.anyone_waits() || self.sched.no_thread.load(Ordering::Relaxed)
    }

    /// Asks the system again for what it had refused.
    pub fn ask_again(&self) {
        self.sched.ask_again_for_stacks();
        self.sched.ask_again_for_threads();
    }

    /// Keeps one M parked in reserve.
    pub fn keep_spare_m(&self) {
        self.sched.keep_spare_m();
    }

    /// Sleeps until `until`, or until an earlier time that was asked for; `true` if it did not sleep, or was woken.
    /// `idle`: nothing runs, and an M that takes a P wakes it.
    pub fn sleep(&self, until: u64, idle: bool) -> bool {
        let watch = &self.sched.watch;
        let stays_awake = || idle && !self.all_idle() || self.is_exiting();
        let woken = watch.plan.sleep(until, idle, stays_awake, |until| match until {
            clock::NEVER => {
                watch.note.sleep();
                true
            }
            until => watch.note.sleep_for(Duration::from_nanos(until.saturating_sub(clock::now()))),
        });
        watch.wakes.fetch_add(1, Ordering::Relaxed);
        woken.unwrap_or(true)
    }
}
