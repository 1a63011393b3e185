//! What the scheduler has done and has, added up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::g::Status;
use crate::m::M;
use crate::rescue::Rescue;
use crate::sched::Sched;

/// Counters since the runtime began, and gauges of this moment. The figures are read one after the other while the
/// runtime goes on, so they need not add up to the last one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Ps.
    pub procs: usize,
    /// Ps that nobody uses.
    pub idle_procs: usize,
    /// OS threads that run green threads (without sysmon's).
    pub threads: usize,
    /// Those of them that are parked.
    pub idle_threads: usize,
    /// Those of them that look for work.
    pub spinning_threads: usize,
    /// Green threads spawned; among them those that call wakers for timers.
    pub spawned: u64,
    /// Green threads that have ended.
    pub ended: u64,
    /// Green threads that are ready to run: in run queues, but for those in `stackless`.
    pub runnable: u64,
    /// Those of them that wait for a stack, as the system has no memory for another.
    pub stackless: usize,
    /// Green threads on a thread.
    pub running: u64,
    /// Green threads that are parked.
    pub waiting: u64,
    /// Length of the global run queue.
    pub global_queue: usize,
    /// Length of each P's run queue.
    pub local_queues: Vec<usize>,
    /// Times that a green thread parked.
    pub parks: u64,
    /// Times that a green thread yielded.
    pub yields: u64,
    /// Thefts of green threads by one P from another.
    pub steals: u64,
    /// Timers pending.
    pub timers_pending: usize,
    /// Timers that have fired.
    pub timers_fired: u64,
    /// Those of them that another P than their own fired.
    pub timers_stolen: u64,
    /// Green threads woken by the network.
    pub net_wakeups: u64,
    /// Polls of the network, blocking and not.
    pub net_polls: u64,
    /// Times that a thread blocked in the netpoller was told to come back.
    pub net_breaks: u64,
    /// Ps taken from green threads in `blocking`.
    pub hand_offs: u64,
    /// Ps taken from green threads that computed for long.
    pub rescues_computing: u64,
    /// Ps taken from green threads that blocked without saying so.
    pub rescues_blocked: u64,
    /// The last rescues.
    pub rescues: Vec<Rescue>,
    /// Times that sysmon woke.
    pub sysmon_wakeups: u64,
    /// Address space taken for stacks, in bytes.
    pub stack_bytes: usize,
}

impl Sched {
    /// All counters and gauges.
    pub fn metrics(self: &Arc<Self>) -> Snapshot {
        crate::fork::check_or_panic();
        let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
        let (spawned, ended) = self.closing.counts();
        let mut all = Snapshot {
            procs: self.procs(),
            idle_procs: self.idle.idle_ps(),
            threads: self.threads.load(Ordering::Relaxed),
            idle_threads: self.idle.parked_ms(),
            spinning_threads: self.idle.spinning(),
            spawned,
            ended,
            stackless: self.coros.shortage.waiting(),
            global_queue: self.global.len(),
            net_polls: self.netpoll.counters().polls,
            net_breaks: self.netpoll.counters().breaks_written,
            hand_offs: load(&self.rescues.declared),
            rescues_computing: load(&self.rescues.computing),
            rescues_blocked: load(&self.rescues.blocked),
            rescues: self.rescues.last(),
            sysmon_wakeups: load(&self.watch.wakes),
            stack_bytes: self.coros.mapped_bytes(),
            ..Snapshot::default()
        };
        for p in self.ps() {
            let counters = &p.counters;
            all.local_queues.push(p.queue.len());
            all.timers_pending += self.heaps.len(p.index);
            all.spawned += counters.spawned.get();
            all.ended += counters.ended.get();
            all.parks += counters.parks.get();
            all.yields += counters.yields.get();
            all.steals += counters.steals.get();
            all.timers_fired += counters.timers_fired.get();
            all.timers_stolen += counters.timers_stolen.get();
            all.net_wakeups += counters.net_wakes.get();
        }
        let (running, home) = self.count_at_ms();
        let queued = all.local_queues.iter().sum::<usize>() + all.global_queue + home + all.stackless;
        (all.running, all.runnable) = (running, queued as u64);
        // Whatever lives, and neither runs nor is about to.
        all.waiting = all.spawned.saturating_sub(all.ended + all.running + all.runnable);
        all
    }

    /// The number of Gs that run, and of those that are queued at their Ms (strict mode).
    fn count_at_ms(&self) -> (u64, usize) {
        let ms = self.ms.lock();
        let runs = |m: &M| m.running().is_some_and(|g| g.status() == Status::Running);
        let running = ms.all.iter().filter(|m| runs(m)).count();
        (running as u64, ms.all.iter().map(|m| m.home.len()).sum())
    }
}
