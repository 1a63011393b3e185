//! The metrics of a runtime: adds up the counters of all Ps, and reads the gauges of the moment.

use std::sync::Arc;

use crate::g::Status;
use crate::m::M;
use crate::run::rescue::Rescue;
use crate::run::sched::Sched;

/// Counters since the runtime began, and gauges of this moment. The figures are read one after the other while the runtime
/// runs, so they may disagree slightly.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// The number of Ps.
    pub procs: usize,
    /// Ps that no thread uses.
    pub idle_procs: usize,
    /// OS threads that run green threads, without sysmon's.
    pub threads: usize,
    /// OS threads of these that are parked.
    pub idle_threads: usize,
    /// OS threads of these that look for work.
    pub spinning_threads: usize,
    /// Green threads spawned, including those that call wakers for timers.
    pub spawned: u64,
    /// Green threads that have ended.
    pub ended: u64,
    /// Green threads that are ready to run: those in run queues and those in `stackless`.
    pub runnable: u64,
    /// Green threads that are ready to run but wait for a stack, because the system has no memory for another.
    pub stackless: usize,
    /// Green threads that run on an OS thread.
    pub running: u64,
    /// Green threads that are parked.
    pub waiting: u64,
    /// The length of the global run queue.
    pub global_queue: usize,
    /// The length of each P's run queue.
    pub local_queues: Vec<usize>,
    /// Times that a green thread parked.
    pub parks: u64,
    /// Times that a green thread yielded.
    pub yields: u64,
    /// Times that a P stole green threads from another.
    pub steals: u64,
    /// Timers that are pending.
    pub timers_pending: usize,
    /// Timers that have fired.
    pub timers_fired: u64,
    /// Timers that another P than their own fired.
    pub timers_stolen: u64,
    /// Green threads that the network woke.
    pub net_wakeups: u64,
    /// Polls of the network, blocking and not.
    pub net_polls: u64,
    /// Times that a thread blocked in the netpoller was interrupted.
    pub net_breaks: u64,
    /// Ps taken from green threads in `blocking`.
    pub hand_offs: u64,
    /// Ps taken from green threads that computed for long.
    pub rescues_computing: u64,
    /// Ps taken from green threads that blocked outside of `blocking`.
    pub rescues_blocked: u64,
    /// The last rescues.
    pub rescues: Vec<Rescue>,
    /// Times that sysmon woke.
    pub sysmon_wakeups: u64,
    /// Address space taken for stacks, in bytes.
    pub stack_bytes: usize,
}

impl Sched {
    /// Returns all counters and gauges.
    pub fn metrics(self: &Arc<Self>) -> Snapshot {
        crate::sys::fork::check_or_panic();
        let (spawned, ended) = self.closing.counts();
        let mut all = Snapshot {
            procs: self.procs(),
            idle_procs: self.idle.idle_ps(),
            threads: self.crew.threads(),
            idle_threads: self.idle.parked_ms(),
            spinning_threads: self.idle.spinning(),
            spawned,
            ended,
            stackless: self.coros.shortage.waiting(),
            global_queue: self.global.len(),
            net_polls: self.netpoll.counters().polls,
            net_breaks: self.netpoll.counters().breaks_written,
            hand_offs: self.rescues.declared(),
            rescues_computing: self.rescues.computing(),
            rescues_blocked: self.rescues.blocked(),
            rescues: self.rescues.last(),
            sysmon_wakeups: self.sysmon.wakes(),
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
        // A G that lives, and neither runs nor is ready to run.
        all.waiting = all.spawned.saturating_sub(all.ended + all.running + all.runnable);
        all
    }

    /// Returns the number of Gs that run, and of Gs that are queued at the Ms to which they are bound.
    fn count_at_ms(&self) -> (u64, usize) {
        let ms = self.crew.lock();
        let runs = |m: &M| m.running().is_some_and(|g| g.status() == Status::Running);
        let running = ms.all().iter().filter(|m| runs(m)).count();
        (running as u64, ms.all().iter().map(|m| m.home.len()).sum())
    }
}
