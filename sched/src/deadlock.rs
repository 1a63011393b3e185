//! Finding out that nobody will ever run again: every green thread waits, and so does every other thread.
//!
//! It is looked for where it costs nothing: by the M that has waited in the netpoller for a while, with no timer to wait for and
//! no source to wake it, while somebody is inside of `block_on`. It tells those who are: their green threads are cancelled,
//! and `block_on` panics with the dump (Go ends the process).
//!
//! A false alarm would be far worse than none, so each thread of the process must be accounted for:
//!
//! ```text
//!   a thread of a runtime       its runtime is quiet: all its Ps idle, its Ms parked but for the one in the netpoller, nothing
//!                               in a queue, no timer that comes, no source registered, nobody waiting for a stack
//!   another thread              waits, without a time-out, for something of this runtime's
//! ```
//!
//! Whatever else a thread does (a system call, `blocking`, a std lock, a sleep, a wait with a time-out), it might come back
//! and wake somebody. So a green thread that is pinned or unwinds, and takes its OS thread along when it parks, hides a
//! deadlock too, and so does any thread that some library has started.
//!
//! All this is not seen in one moment. But whoever runs leaves a trace: the tick of a P that is lent grows, and a plain
//! thread that parks or is woken is counted. If the traces are the same before and after the looks, all that was seen was so
//! at one moment (`traces.rs`, with a model). In each runtime the queues are looked at before the Ps: who takes something
//! out of a queue has a P by then.
//!
//! Only Linux lists the threads of a process; elsewhere there is no report.

pub(crate) mod traces;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use timers::clock;

use crate::dump::dump;
use crate::g::GRef;
use crate::g::wait::Decision;
use crate::join::GHandle;
use crate::sched::Sched;
use crate::sys;
use crate::wake;
use traces::Parks;

/// What `block_on` says.
pub const TEXT: &str = "all green threads are asleep - deadlock!";

/// After so long without anything to wait for an M looks, and again a few times, for a thread that is just ending, say. Then no
/// more until something has run: an idle process sleeps.
const LOOK_AFTER_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// Plain threads that wait for something of this runtime's without a time-out.
pub(crate) static PARKS: Parks = Parks::new();

/// All runtimes of the process.
static ALL: Mutex<Vec<Weak<Sched>>> = Mutex::new(Vec::new());

/// There is another runtime.
pub(crate) fn add(sched: &Arc<Sched>) {
    let mut all = ALL.lock();
    all.retain(|sched| sched.strong_count() > 0);
    all.push(Arc::downgrade(sched));
}

/// What one runtime keeps for this.
#[derive(Default)]
pub(crate) struct Deadlock {
    /// How many plain threads are in `block_on`, or about to be.
    in_block_on: AtomicUsize,
    mains: Mutex<Vec<Main>>,
    /// How often it was looked for since something last ran, and the ticks then.
    looks: Mutex<(usize, u64)>,
}

/// A green thread that a plain one waits for in `block_on`.
struct Main {
    g: GRef,
    id: u64,
    report: Option<Arc<str>>,
}

/// The calling plain thread is in `block_on`.
pub struct InBlockOn<'s> {
    sched: &'s Sched,
    /// Which green thread it waits for.
    id: Option<u64>,
}

impl std::fmt::Debug for InBlockOn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InBlockOn").field("id", &self.id).finish_non_exhaustive()
    }
}

impl InBlockOn<'_> {
    /// It is about to wait for the end of `main`.
    pub fn waits_for(&mut self, main: &GHandle) {
        self.id = Some(main.id());
        let main = Main { g: main.g(), id: main.id(), report: None };
        self.sched.deadlock.mains.lock().push(main);
    }

    /// It waits no more: the dump, if it was ended because of a deadlock.
    pub fn over(mut self) -> Option<Arc<str>> {
        self.forget()
    }

    fn forget(&mut self) -> Option<Arc<str>> {
        let id = self.id.take()?;
        let mut mains = self.sched.deadlock.mains.lock();
        let at = mains.iter().position(|main| main.id == id)?;
        mains.swap_remove(at).report
    }
}

impl Drop for InBlockOn<'_> {
    fn drop(&mut self) {
        self.forget();
        self.sched.deadlock.in_block_on.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sched {
    /// The calling plain thread is about to start the green thread that it will wait for in `block_on`. (Said before that
    /// runs: an M that finds nobody in `block_on` when it goes to sleep does not look.)
    pub fn in_block_on(&self) -> InBlockOn<'_> {
        // Relaxed: the green thread, and so its M, is made after this.
        self.deadlock.in_block_on.fetch_add(1, Ordering::Relaxed);
        InBlockOn { sched: self, id: None }
    }

    /// When the M in the netpoller, where nothing may ever wake it, is to wake by itself and look for a deadlock.
    /// *Runs on: that M, or one that has just given its P up.*
    pub(crate) fn look_for_deadlock_at(&self) -> u64 {
        let nobody = self.deadlock.in_block_on.load(Ordering::Relaxed) == 0;
        // While somebody has a P: it comes by here when it gives that up.
        let busy = self.idle.idle_ps() < self.procs();
        if !sys::LISTS_THREADS || nobody || busy || self.something_comes() {
            return clock::NEVER;
        }
        let mut looks = self.deadlock.looks.lock();
        let ticks = self.ticks();
        if looks.1 != ticks {
            *looks = (0, ticks);
        }
        LOOK_AFTER_NS.get(looks.0).map_or(clock::NEVER, |after| clock::now() + after)
    }

    /// Looks, and tells those in `block_on` if there is one. *Runs on: the M that had blocked in the netpoller, without a P.*
    #[cold]
    pub(crate) fn look_for_deadlock(&self) {
        self.deadlock.looks.lock().0 += 1;
        let told = |main: &Main| main.report.clone();
        if let Some(report) = self.deadlock.mains.lock().iter().find_map(told) {
            // It was told, and has not ended; perhaps it waits again. So that at least somebody hears of it:
            return self.report_once(&format!("{TEXT}\n\n{report}"));
        }
        if !nobody_will_run() {
            return;
        }
        let report: Arc<str> = dump().unwrap_or_default().into();
        let tell = |main: &mut Main| {
            main.report = Some(report.clone());
            (main.g, main.id)
        };
        let to_cancel: Vec<_> = self.deadlock.mains.lock().iter_mut().map(tell).collect();
        for (g, id) in to_cancel {
            // A reference first, as when a runtime ends.
            if g.life.try_retain() {
                if g.id() == id && g.wait.cancel() == Decision::Parked {
                    wake::ready(g);
                }
                wake::release(g);
            }
        }
    }

    /// Grows whenever a green thread of this runtime runs.
    fn ticks(&self) -> u64 {
        self.ps().map(|p| p.lease.tick()).sum()
    }

    /// Nothing runs here, and nothing comes of itself. Gives the threads that it has.
    fn quiet(&self, tids: &mut Vec<i32>) -> bool {
        if self.is_exiting() {
            // Its threads count as any others, until they have ended.
            return true;
        }
        let ms = self.ms.lock();
        let threads = self.threads.load(Ordering::SeqCst);
        let at_rest = |m: &crate::m::M| m.running().is_none() && m.home.is_empty();
        // All but one are parked: that one waits in the netpoller, or is about to, for there always is one.
        if self.is_closing() || threads != self.idle.parked_ms() + 1 || !ms.all.iter().all(|m| at_rest(m)) {
            return false;
        }
        tids.extend(ms.all.iter().map(|m| m.tid.load(Ordering::SeqCst)));
        drop(ms);
        tids.push(self.watch.tid());
        // The queues before the Ps: who takes something out of a queue has a P by then.
        !self.something_comes() && !self.any_work() && self.idle.idle_ps() >= self.procs()
    }

    /// Somebody may be woken by a timer, the network, or sysmon, which asks the system again for what it refused.
    fn something_comes(&self) -> bool {
        let timers = |p: usize| self.heaps.earliest(p) != clock::NEVER && self.heaps.len(p) > 0;
        self.ps().any(|p| timers(p.index))
            || self.netpoll.has_sources()
            || self.coros.shortage.anyone_waits()
            || self.no_thread.load(Ordering::SeqCst)
    }
}

/// See the file's head.
fn nobody_will_run() -> bool {
    let all: Vec<Arc<Sched>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    let traces = || (all.iter().map(|sched| sched.ticks()).collect::<Vec<_>>(), PARKS.trace());
    traces::at_one_moment(traces, |&(_, (began, ended))| {
        let mut ours = Vec::new();
        if !all.iter().all(|sched| sched.quiet(&mut ours)) {
            return false;
        }
        let Some(threads) = sys::thread_ids() else { return false };
        let others = threads.iter().filter(|tid| !ours.contains(tid)).count() as u64;
        others == began.wrapping_sub(ended)
    })
}
