//! When sysmon looks next: how a request for an early look reaches sysmon, whether it sleeps or not.
//!
//! ```text
//!   the asker (any thread)                        sysmon, which goes to sleep
//!   publish what is to be looked at               publish until when           (`until`)
//!   publish the time of the look  (`wanted_by`)   full fence
//!   full fence                                    take the earliest request; it ends the sleep
//!   sysmon sleeps for longer? wake sysmon         look whether it must stay awake
//!                                                 sleep
//!                                                 publish that it is awake
//! ```
//!
//! A request that comes while sysmon is awake stays in `wanted_by` until the next sleep. It may have come
//! after the looks of the present round. The price is at most one unneeded round for each request.
//!
//! A maker of work asks for an early look only while a P is lent to a blocking call. The M that lends this P
//! looks for work too:
//!
//! ```text
//!   a maker of work, no P idle                    an M that lends its P to a blocking call; sysmon, as it looks at that P
//!   publish the work                              full fence; is a P published as lent to block? else
//!   full fence                                      publish it (`lent_blocking`), full fence
//!   a P is lent to block? ask                     work waits? ask
//! ```
//!
//! Sysmon takes that back before it looks at the leases of all Ps, with a full fence between. So an M that
//! finds it published has lent its P before that look, or publishes it.
//!
//! While no G runs, sysmon sleeps with the bit `IDLE`, and each M that takes a P wakes it. Here the idle list
//! is the published state. The M has taken the P out of the list, and sysmon looks whether all Ps are in it.
//!
//! Rejected: requests that only wake. A request that found sysmon awake was lost, for up to 10 ms.

use crossbeam_utils::CachePadded;

use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken, full_fence,
};

/// The value of `until` while sysmon is awake.
const AWAKE: u64 = 0;
/// The bit of `until` that says that no G runs. No time has it, except NEVER.
const IDLE: u64 = 1 << 63;
/// The value of `wanted_by` without a request.
const NO_TIME: u64 = u64::MAX;

/// The time of the next look, and the requests to look earlier.
#[derive(Debug)]
pub(crate) struct Plan {
    /// When sysmon means to wake; `AWAKE` while it is awake. Has the bit `IDLE` while sysmon sleeps because
    /// no G runs.
    until: AtomicU64,
    /// The earliest requested look since sysmon last went to sleep.
    wanted_by: AtomicU64,
    /// True if a P may be lent to a blocking call. On a cache line of its own, because each maker of work
    /// reads it.
    lent_blocking: CachePadded<AtomicBool>,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Plan {
            until: AtomicU64::new(AWAKE),
            wanted_by: AtomicU64::new(NO_TIME),
            lent_blocking: CachePadded::new(AtomicBool::new(false)),
        }
    }

    /// Requests a look by `time` at what the caller has published. Returns `true` if sysmon sleeps for
    /// longer: the caller then wakes it. *Runs on: any thread.*
    #[must_use]
    pub(crate) fn ask(&self, time: u64) -> bool {
        // Release: pairs with the swap in `take_request`, so that sysmon sees what the request is for.
        if !broken!("watch_request_only_wakes") {
            self.wanted_by.fetch_min(time, Ordering::Release);
        }
        // Pairs with the fence in `sleep`: either sysmon sees the request, or this thread sees how long
        // sysmon sleeps.
        if !broken!("watch_asker_no_fence") {
            full_fence();
        }
        self.until.load(Ordering::Relaxed) > time
    }

    /// Publishes that a P is lent to a blocking call, then looks by `work_waits` whether work waits. Returns
    /// what `work_waits` returns. *Runs on: the M that is about to lend the P; sysmon, when it looks at the
    /// P.*
    pub(crate) fn lend_to_block(&self, work_waits: impl Fn() -> bool) -> bool {
        let early = broken!("watch_blocker_looks_first").then(&work_waits);
        // After the P was lent. Pairs with the fence in `forget_lent`, and with that in `Idle::make_work`.
        if !broken!("watch_blocker_no_fence") {
            full_fence();
        }
        // No write if it is published: all Ps read this line.
        if !self.is_lent_to_block() {
            // Release: pairs with the swap in `forget_lent`; sysmon, which clears this, then sees that the P
            // is lent.
            self.lent_blocking.store(true, Ordering::Release);
            // Pairs with the fence in `Idle::make_work`.
            if !broken!("watch_publisher_no_fence") {
                full_fence();
            }
        }
        early.unwrap_or_else(work_waits)
    }

    /// Returns `true` if a P may be lent to a blocking call. A maker of work that finds no idle P then asks
    /// for a look. *Runs on: any thread, after a full fence.*
    #[inline]
    pub(crate) fn is_lent_to_block(&self) -> bool {
        // Relaxed: the caller's fence orders it.
        self.lent_blocking.load(Ordering::Relaxed)
    }

    /// Clears what `lend_to_block` published. Sysmon then looks at all Ps, and publishes it again for each P
    /// that is lent to a blocking call. *Runs on: sysmon.*
    pub(crate) fn forget_lent(&self) {
        // Acquire: pairs with the Release in `lend_to_block`. The looks that follow see every P as lent that
        // was published before; a plain store would not.
        self.lent_blocking.swap(false, Ordering::Acquire);
        // Before the look at the leases. Pairs with the first fence in `lend_to_block`.
        if !broken!("watch_forgets_without_fence") {
            full_fence();
        }
    }

    /// Returns `true` if sysmon sleeps because no G runs. The caller, which has taken a P out of the idle
    /// list, then wakes sysmon. *Runs on: any thread.*
    #[inline]
    #[must_use]
    pub(crate) fn sleeps_idle(&self) -> bool {
        // SeqCst: pairs with the fence in `sleep`. The caller changed the count of the idle list before, by a
        // SeqCst read-modify-write. loom orders SeqCst accesses only as AcqRel.
        #[cfg(loom)]
        if !broken!("watch_taker_no_fence") {
            full_fence();
        }
        self.until.load(Ordering::SeqCst) & IDLE != 0
    }

    /// Sleeps by `wait` until `until` or the earliest requested time. Returns what `wait` returns, or `None`
    /// without sleeping if `stays_awake` returns `true`. `idle` says that no G runs. *Runs on: sysmon.*
    pub(crate) fn sleep<T>(
        &self,
        until: u64,
        idle: bool,
        stays_awake: impl FnOnce() -> bool,
        wait: impl FnOnce(u64) -> T,
    ) -> Option<T> {
        debug_assert_eq!(self.until.load(Ordering::Relaxed), AWAKE, "sysmon is already asleep");
        debug_assert_ne!(until, AWAKE, "sysmon cannot sleep until a time in the past");
        // SeqCst: pairs with the load in `sleeps_idle`.
        let word = if idle { until | IDLE } else { until };
        self.until.store(word, Ordering::SeqCst);
        // Pairs with the fences in `ask` and in `Closing::exit`, and with the taking of a P (`sleeps_idle`).
        if !broken!("watch_sleeper_no_fence") {
            full_fence();
        }
        let until = until.min(self.take_request());
        let woken = if stays_awake() && !broken!("watch_sleeper_no_look") { None } else { Some(wait(until)) };
        // Relaxed: a thread that reads the old word wakes sysmon without need; its request is kept.
        self.until.store(AWAKE, Ordering::Relaxed);
        woken
    }

    fn take_request(&self) -> u64 {
        if broken!("watch_sleeper_takes_no_request") {
            return NO_TIME;
        }
        // Acquire: pairs with the Release in `ask`.
        self.wanted_by.swap(NO_TIME, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::asleep::idle::Idle;
    use crate::sync::atomic::AtomicUsize;
    use crate::sync::models::{Reached, Turns, explore};
    use crate::sync::{Condvar, Mutex, wait_on};
    use loom::sync::Arc;
    use loom::thread;

    /// The time until which sysmon plans to sleep, and the requested time.
    const PLANNED: u64 = 100;
    const WANTED: u64 = 50;

    /// The wake-ups of sysmon, as bits: the asker's, and one for another reason.
    const ASKER: u8 = 1;
    const OTHER: u8 = 2;

    struct World {
        plan: Plan,
        /// Models `Note`: keeps a wake-up that comes before the sleep.
        note: (Mutex<u8>, Condvar),
        timer: AtomicUsize,
        idle_ps: AtomicUsize,
        /// 1 while the lease of a P says that it is lent.
        lent: AtomicUsize,
        /// An idle list without a P.
        idle: Idle<()>,
        turns: Turns,
    }

    impl World {
        fn new(note: u8) -> Arc<World> {
            Arc::new(World {
                plan: Plan::new(),
                note: (Mutex::new(note), Condvar::new()),
                timer: AtomicUsize::new(0),
                idle_ps: AtomicUsize::new(1),
                lent: AtomicUsize::new(0),
                idle: Idle::new(),
                turns: Turns::default(),
            })
        }

        fn wake(&self, bit: u8) {
            *self.note.0.lock() |= bit;
            self.note.1.notify_one();
        }

        /// Sleeps until the note is woken; time `PLANNED` never comes in the models.
        fn sleep_on_note(&self) -> u8 {
            let mut woken = self.note.0.lock();
            while *woken == 0 {
                woken = wait_on(&self.note.1, woken, None);
            }
            std::mem::take(&mut *woken)
        }

        /// Models `Watch::timer_at`.
        fn ask(&self) {
            self.turns.take();
            self.timer.store(1, Ordering::Relaxed);
            if self.plan.ask(WANTED) {
                self.wake(ASKER);
            }
        }

        /// Models `Sched::make_work`. Returns `true` if the maker asks for a look.
        fn make_work(&self) -> bool {
            self.turns.take();
            let (mut asks, publish) = (false, || self.timer.store(1, Ordering::Relaxed));
            let all_busy = || asks = self.plan.is_lent_to_block();
            self.idle.make_work(publish, || self.idle.wake_for_work(all_busy, || ()));
            asks
        }

        /// Models `Sysmon::blocking_begins` and `Monitor::look`. Returns `true` if the caller knows that work
        /// waits.
        fn lend_to_block(&self) -> bool {
            self.turns.take();
            self.plan.lend_to_block(|| self.timer.load(Ordering::Relaxed) == 1)
        }

        /// Models `Monitor::sleep`. Returns `true` if this sleep answers the request.
        fn sleep(&self) -> bool {
            self.turns.take();
            let wait = |until| until == WANTED || self.sleep_on_note() & ASKER != 0;
            self.plan.sleep(PLANNED, false, || false, wait).expect("nothing keeps sysmon awake")
        }
    }

    /// A request comes while sysmon sleeps, is awake for another reason, and sleeps again. If a sleep neither
    /// takes the request nor is woken, it never ends, which loom reports.
    #[test]
    fn a_request_ends_a_sleep_whenever_it_comes() {
        static FIRST: Reached = Reached::new();
        static SECOND: Reached = Reached::new();
        explore(4, || {
            let world = World::new(OTHER);
            let asker = world.clone();
            let asker = thread::spawn(move || asker.ask());
            let first = world.sleep();
            let answered = first || world.sleep();
            assert!(answered, "only the asker could end this sleep");
            assert_eq!(
                world.timer.load(Ordering::Relaxed),
                1,
                "sysmon looks but does not see the asker's change"
            );
            FIRST.note(first);
            SECOND.note(!first);
            asker.join().unwrap();
        });
        FIRST.assert();
        SECOND.assert();
    }

    /// An M lends the only P to a blocking call while work comes: the M or the maker of work asks for an
    /// early look.
    #[test]
    fn a_look_is_asked_for_at_a_p_that_blocks_while_work_waits() {
        static BY_MAKER: Reached = Reached::new();
        static BY_BLOCKER: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(0);
            let maker = world.clone();
            let maker = thread::spawn(move || maker.make_work());
            let by_blocker = world.lend_to_block();
            let by_maker = maker.join().unwrap();
            assert!(
                by_blocker || by_maker,
                "work waits while a P is lent to block, and no look was requested"
            );
            BY_MAKER.note(by_maker);
            BY_BLOCKER.note(by_blocker);
        });
        BY_MAKER.assert();
        BY_BLOCKER.assert();
    }

    /// The same, while sysmon in a round of looks publishes anew which Ps are lent to block.
    #[test]
    fn work_that_comes_in_a_round_of_looks_is_seen_or_asked_for() {
        loom::model(|| {
            let world = World::new(0);
            assert!(!world.lend_to_block());
            let maker = world.clone();
            let maker = thread::spawn(move || maker.make_work());
            world.turns.take();
            world.plan.forget_lent();
            let seen = world.lend_to_block();
            assert!(
                maker.join().unwrap() || seen,
                "work waits, sysmon has not seen it, and no look was requested"
            );
        });
    }

    /// An M lends its P while sysmon, in a round of looks, takes back what was published for another P.
    #[test]
    fn a_p_that_is_lent_in_a_round_of_looks_is_published() {
        static SEEN: Reached = Reached::new();
        static FOUND: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(0);
            world.lend_to_block();
            let blocker = world.clone();
            let blocker = thread::spawn(move || {
                blocker.turns.take();
                blocker.lent.store(1, Ordering::Release);
                FOUND.note(blocker.plan.is_lent_to_block());
                blocker.plan.lend_to_block(|| false)
            });
            world.turns.take();
            world.plan.forget_lent();
            let seen = world.lent.load(Ordering::Acquire) == 1;
            if seen {
                world.plan.lend_to_block(|| false);
            }
            blocker.join().unwrap();
            SEEN.note(seen);
            assert!(world.plan.is_lent_to_block(), "no maker of work will ask for a look at this P");
        });
        SEEN.assert();
        FOUND.assert();
    }

    /// An M takes the only P while sysmon goes to sleep because all Ps are idle. If sysmon neither stays
    /// awake nor is woken, it sleeps for ever, which loom reports.
    #[test]
    fn sysmon_does_not_sleep_for_ever_while_an_m_runs() {
        static SLEPT: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(0);
            let taker = world.clone();
            let taker = thread::spawn(move || {
                taker.turns.take();
                // Models `Idle::take`, and then `Sched::adopt`.
                taker.idle_ps.fetch_sub(1, Ordering::SeqCst);
                if taker.plan.sleeps_idle() {
                    taker.wake(OTHER);
                }
            });
            world.turns.take();
            let busy = || world.idle_ps.load(Ordering::SeqCst) == 0;
            let slept = world.plan.sleep(NO_TIME, true, busy, |_| world.sleep_on_note());
            SLEPT.note(slept.is_some());
            taker.join().unwrap();
        });
        SLEPT.assert();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{apart, lines};

    #[test]
    fn what_each_maker_of_work_reads_lies_apart_from_the_requests() {
        let read = lines!(Plan, lent_blocking);
        for written in [lines!(Plan, until), lines!(Plan, wanted_by)] {
            assert!(apart(&read, &written), "{read:?}, {written:?}");
        }
    }
}
