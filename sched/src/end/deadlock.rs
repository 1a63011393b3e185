//! Deadlock detection: finds that no green thread of the process can ever run again, and reports that to the
//! callers of `block_on`. The search runs on the M that blocks in the netpoller, where it costs nothing. The
//! search starts after that M has blocked for a while with nothing to wake it, while a plain thread is inside
//! `block_on`. On a deadlock the green threads that `block_on` waits for are cancelled, and `block_on` panics
//! with the dump. (Go ends the process.)
//!
//! A false alarm would be far worse than a missed deadlock. So every thread of the process must be accounted
//! for:
//!
//! ```text
//!   a thread of a runtime       its runtime is quiet: all Ps idle, all Ms parked, reserved and asleep, or in the netpoller, all queues
//!                               empty, no timer armed, no source registered, no G waiting for a stack
//!   another thread              parked, without a time-out, for something of a runtime's
//! ```
//!
//! A thread in any other state might go on and wake a waiter. Such states are a system call, `blocking`, a
//! std lock, a sleep, and a wait with a time-out. So two kinds of threads hide a deadlock. One is a green
//! thread that is pinned or unwinds, and takes its OS thread along when it parks. The other is any thread
//! that a library has started. (An M that a G has claimed or reserved hides none: it sleeps like others, and
//! `asleep/rest.rs` says when.)
//!
//! These looks do not happen at one moment. But a thread that runs leaves a trace. The tick of a P grows when
//! the P is lent. A plain thread is counted when it parks and when it is woken. If the traces are equal
//! before and after the looks, all that was seen held at one moment (`m/activity.rs`, with a model). In each
//! runtime the queues are read before the Ps: a thread that took a G out of a queue has a P by then.
//!
//! In a process of Rust's test harness the main thread waits for the tests, and no test waits for the main
//! thread. So the search leaves the main thread out while that thread is blocked (`set_in_test_harness`). If
//! the main thread has ever waited for something of a runtime's, it is a plain thread as any other. A test
//! hides the deadlock of another test that runs beside, so the search goes on every second.
//!
//! Only Linux lists the threads of a process; on other systems there is no report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use timers::clock;

use crate::end::report::report;
use crate::m::activity::{PARKS, at_one_moment};
use crate::m::block_on_calls::InBlockOn;
use crate::m::os_thread;
use crate::run::sched::Sched;
use crate::sys::{self, Doing};

/// The message with which `block_on` panics.
pub const TEXT: &str = "all green threads are asleep - deadlock!";

/// How long an M blocks without anything to wait for before each of the first looks. Another thread may just
/// be ending, or may compute for long before it waits, too. So each further look comes after twice the time
/// of the one before: an idle process sleeps longer and longer.
const LOOK_AFTER_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];
/// The times grow up to 2^16 s.
const MOST_DOUBLINGS: usize = 16;

/// How long an M in a process of the test harness blocks before each further look.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

static IN_TEST_HARNESS: AtomicBool = AtomicBool::new(false);

/// Says that the main thread of this process belongs to Rust's test harness: it wakes no green thread. *Runs
/// on: any thread.*
pub fn set_in_test_harness() {
    // Relaxed: the flag guards no data. The caller's runtime, which looks for deadlocks, is started after
    // this.
    IN_TEST_HARNESS.store(true, Ordering::Relaxed);
}

fn in_test_harness() -> bool {
    IN_TEST_HARNESS.load(Ordering::Relaxed)
}

impl Sched {
    /// Records that the calling plain thread is about to start a green thread and wait for it in `block_on`.
    /// Call it before the green thread runs: an M that goes to sleep while no thread is in `block_on` does
    /// not look.
    pub fn in_block_on(&self) -> InBlockOn<'_> {
        self.block_on_calls.enter()
    }

    /// Returns when the M in the netpoller is to wake up and look for a deadlock, or `NEVER`. *Runs on: that
    /// M, or an M that has just given its P up.*
    pub(crate) fn look_for_deadlock_at(&self) -> u64 {
        if self.is_simulated() {
            return clock::NEVER;
        }
        // A P in use needs no look: its M calls this again when it gives the P up.
        let busy = self.idle.idle_ps() < self.procs();
        if !sys::LISTS_THREADS || !self.block_on_calls.is_any() || busy || self.something_comes() {
            return clock::NEVER;
        }
        let looks = self.block_on_calls.looks_since(self.ticks());
        clock::now() + time_of_next_look(looks, in_test_harness())
    }

    /// Looks for a deadlock. Returns the report if there is one: the caller then cancels the green threads
    /// that `block_on` waits for. *Runs on: the M that had blocked in the netpoller, without a P.*
    #[cold]
    pub(crate) fn look_for_deadlock(&self) -> Option<Arc<str>> {
        self.block_on_calls.count_look();
        if let Some(report) = self.block_on_calls.earlier_report() {
            // A cancelled green thread has not ended, and may be waiting again. Print the report.
            self.report_once(&format!("{TEXT}\n\n{report}"));
            return None;
        }
        is_deadlocked().then(|| report().into())
    }

    /// Returns a sum that grows whenever a green thread of this runtime runs.
    fn ticks(&self) -> u64 {
        self.ps().map(|p| p.lease.tick()).sum()
    }

    /// Returns `true` if no thread of this runtime runs and nothing will make one run. Adds its threads to
    /// `tids`.
    fn quiet(&self, tids: &mut Vec<i32>) -> bool {
        if self.is_exiting() {
            // Its threads count as plain threads until they have ended.
            return true;
        }
        let ms = self.threads.lock();
        let threads = self.threads.threads();
        let at_rest = |m: &crate::m::M| m.running_or_hooked().is_none() && m.home.is_empty();
        // First how an M sleeps, then its queue: `asleep/rest.rs` says why.
        let unlisted = ms.all().iter().filter(|m| m.sleep.rest.sleeps_unlisted()).count();
        let asleep = threads == self.idle.parked_ms() + unlisted;
        if self.is_closing() || !asleep || !ms.all().iter().all(|m| at_rest(m)) {
            return false;
        }
        tids.extend(ms.all().iter().map(|m| m.tid()));
        drop(ms);
        tids.push(self.sysmon.tid());
        // Read the queues before the Ps: a thread that took a G out of a queue has a P by then.
        !self.something_comes() && !self.any_g_waits() && self.idle.idle_ps() >= self.procs()
    }

    /// Returns `true` if a timer, the network or sysmon may wake a G. (sysmon asks the system again for what
    /// it refused.)
    fn something_comes(&self) -> bool {
        self.heaps.any()
            || self.netpoll.sources() != 0
            || self.coros.shortage.anyone_waits()
            || self.threads.refusal.is_there()
    }
}

/// Returns how long an M blocks before the next look, after so many.
fn time_of_next_look(looks: usize, in_test_harness: bool) -> u64 {
    let [.., last] = LOOK_AFTER_NS;
    match LOOK_AFTER_NS.get(looks) {
        Some(&after) => after,
        None if in_test_harness => LOOK_AGAIN_NS,
        None => last << (looks + 1 - LOOK_AFTER_NS.len()).min(MOST_DOUBLINGS),
    }
}

/// Returns `true` if no thread of the process can run a green thread again; the file's head gives the
/// argument.
fn is_deadlocked() -> bool {
    let all = Sched::all();
    let traces = || (all.iter().map(|sched| sched.ticks()).collect::<Vec<_>>(), PARKS.trace());
    at_one_moment(traces, |&(_, (began, ended))| {
        let mut ours = Vec::new();
        if !all.iter().all(|sched| sched.quiet(&mut ours)) {
            return false;
        }
        let Some(threads) = sys::thread_ids() else { return false };
        let harness = harness_thread();
        let others =
            threads.iter().filter(|&tid| !ours.contains(tid) && Some(*tid) != harness).count() as u64;
        others == began.wrapping_sub(ended)
    })
}

/// Returns the id of the main thread if it is the test harness's, waits, and is never counted as parked.
fn harness_thread() -> Option<i32> {
    let main = sys::main_thread_id();
    let is_left_out =
        in_test_harness() && !os_thread::main_thread_waits() && sys::doing(main) == Doing::Blocked;
    is_left_out.then_some(main)
}
