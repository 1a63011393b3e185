//! The metrics of a runtime: adds up the counters of all Ps, and reads the gauges of the moment.

use std::sync::Arc;
use std::time::Duration;

use crate::g::Status;
use crate::notes::rescue::Rescue;
use crate::p::P;
use crate::p::histogram::Histogram;
use crate::run::sched::Sched;

/// Counters since the runtime began, and gauges of this moment. The figures are read one after the other
/// while the runtime runs, so they may disagree slightly.
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
    /// Green threads spawned, including green threads that call wakers for timers.
    pub spawned: u64,
    /// Green threads that have ended.
    pub ended: u64,
    /// Green threads that are ready to run: those in run queues and those in `stackless`.
    pub runnable: u64,
    /// Green threads that are ready to run but wait for a stack, because the system has no memory for
    /// another.
    pub stackless: usize,
    /// Green threads that run on an OS thread.
    pub running: u64,
    /// Green threads that are parked.
    pub waiting: u64,
    /// The length of the global run queue.
    pub global_queue: usize,
    /// The length of each P's run queue.
    pub local_queues: Vec<usize>,
    /// What each P has done, and what it has. Retired Ps are included.
    pub by_proc: Vec<Proc>,
    /// Times that a green thread parked. It is not counted if sysmon had taken its P.
    pub parks: u64,
    /// Times that a green thread parked while it polled a future: in the poll, a lock, a channel or a socket
    /// was used in its parking form. Such a green thread keeps its OS thread, so it also waits for other green
    /// threads that run there. The forms that are awaited let it move. Waits between the polls of
    /// `block_on_local` and of a `LocalSet` are counted, too. It is not counted if sysmon had taken its P.
    pub parks_in_polls: u64,
    /// Times that a green thread yielded. It is not counted if sysmon had taken its P.
    pub yields: u64,
    /// Times that a P stole green threads from another.
    pub steals: u64,
    /// Green threads that were stolen.
    pub stolen: u64,
    /// Polls of futures that are green threads. A poll is not counted if sysmon had taken its P.
    pub polls: u64,
    /// How long green threads waited for a P while they could run: from their wake-up or spawn to their
    /// resume. Samples, as all histograms but `timer_lateness` are. A green thread that waits for the P which
    /// sysmon has taken from it is not in it.
    pub latency: Histogram,
    /// How long closures ran, from a resume to the next park, yield or end, by the clock.
    pub slices: Histogram,
    /// How long polls of futures took that are green threads.
    pub poll_times: Histogram,
    /// How late timers fired. Their number is that of `timers_fired`.
    pub timer_lateness: Histogram,
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
    /// Waits for the network that have ended because a descriptor was ready, of green threads and of others.
    pub net_ready: u64,
    /// Sockets moved to the P on the processor that receives their packets, or away from a P. Linux does
    /// so while all Ps are busy.
    pub net_moves: u64,
    /// Ps that have had sockets near them. Each keeps a poller with two descriptors for them.
    pub near_pollers: usize,
    /// Descriptors that are registered with the netpoller.
    pub descriptors: usize,
    /// OS threads with a green thread in `blocking`.
    pub blocking_threads: usize,
    /// Calls of this crate that wait because as many OS threads as are allowed run such calls: see
    /// `Builder::blocking_threads`.
    pub blocking_queue: usize,
    /// Ps taken from green threads, for whatever reason: in `blocking`, `rescues_computing` and
    /// `rescues_blocked`.
    pub preemptions: u64,
    /// Ps that a green thread has given up because sysmon had asked for them: the green thread called the
    /// runtime too often for a retake.
    pub preemptions_asked: u64,
    /// Ps that green threads in `blocking` handed off, or that were taken from them.
    pub hand_offs: u64,
    /// Ps taken from green threads that computed for long.
    pub rescues_computing: u64,
    /// Ps taken from green threads that blocked outside of `blocking`.
    pub rescues_blocked: u64,
    /// The last rescues.
    pub rescues: Vec<Rescue>,
    /// Times that a cancelled green thread caught the unwinding of its cancellation and went on: it waited
    /// again, or returned a value.
    pub swallowed_cancellations: u64,
    /// Times that sysmon woke.
    pub sysmon_wakeups: u64,
    /// Address space taken for stacks, in bytes.
    pub stack_bytes: usize,
}

/// The counters of one P since the runtime began, and its gauges of this moment.
///
/// What a thread without a P does is counted in [`Snapshot`] only, so the counters of all Ps may add up to
/// less.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Proc {
    /// The length of the run queue.
    pub queue: usize,
    /// Timers that are pending.
    pub timers_pending: usize,
    /// Green threads that were spawned here.
    pub spawned: u64,
    /// Green threads that have ended here.
    pub ended: u64,
    /// Times that a green thread parked. It is not counted if sysmon had taken its P.
    pub parks: u64,
    /// Times that a green thread parked while it polled a future.
    pub parks_in_polls: u64,
    /// Times that a green thread yielded. It is not counted if sysmon had taken its P.
    pub yields: u64,
    /// Times that the P stole green threads from another.
    pub steals: u64,
    /// Timers that this P has fired, of its own and of others.
    pub timers_fired: u64,
    /// Timers of other Ps that this P has fired.
    pub timers_stolen: u64,
    /// Green threads that the network woke here.
    pub net_wakeups: u64,
    /// Green threads that the P stole.
    pub stolen: u64,
    /// Polls of futures that are green threads. A poll is not counted if sysmon had taken the P.
    pub polls: u64,
    /// How long a green thread or the scheduler used the P, as far as sysmon saw. Sysmon looks every 20 us to
    /// 10 ms.
    pub busy: Duration,
}

impl Sched {
    /// Returns all counters and gauges.
    pub fn metrics(self: &Arc<Self>) -> Snapshot {
        crate::sys::fork::check_or_panic();
        let (spawned, ended) = self.closing.counts();
        let net = self.netpoll.counters();
        let mut all = Snapshot {
            procs: self.procs(),
            idle_procs: self.idle.idle_ps(),
            threads: self.threads.threads(),
            idle_threads: self.idle.parked_ms(),
            spinning_threads: self.idle.spinning(),
            spawned,
            ended,
            stackless: self.coros.shortage.waiting(),
            global_queue: self.global.len(),
            net_polls: net.polls,
            net_breaks: net.breaks_written,
            net_ready: net.delivered,
            net_moves: net.moves,
            near_pollers: net.near_pollers,
            descriptors: self.netpoll.sources(),
            preemptions_asked: self.events.rescues.asked(),
            hand_offs: self.events.rescues.handed_off() + self.events.rescues.declared(),
            rescues_computing: self.events.rescues.computing(),
            rescues_blocked: self.events.rescues.blocked(),
            rescues: self.events.rescues.last(),
            swallowed_cancellations: self.swallowed(),
            sysmon_wakeups: self.sysmon.wakes(),
            stack_bytes: self.coros.mapped_bytes(),
            ..Snapshot::default()
        };
        all.by_proc = self.ps().map(|p| self.proc(p)).collect();
        for p in &all.by_proc {
            all.local_queues.push(p.queue);
            all.timers_pending += p.timers_pending;
            all.spawned += p.spawned;
            all.ended += p.ended;
            all.parks += p.parks;
            all.parks_in_polls += p.parks_in_polls;
            all.yields += p.yields;
            all.steals += p.steals;
            all.timers_fired += p.timers_fired;
            all.timers_stolen += p.timers_stolen;
            all.net_wakeups += p.net_wakeups;
            all.stolen += p.stolen;
            all.polls += p.polls;
        }
        all.preemptions = self.events.rescues.declared() + all.rescues_computing + all.rescues_blocked;
        self.add_measured(&mut all);
        let (running, home) = self.count_at_ms(&mut all.blocking_threads);
        let queued = all.local_queues.iter().sum::<usize>() + all.global_queue + home + all.stackless;
        (all.running, all.runnable) = (running, queued as u64);
        // A G that lives, and neither runs nor is ready to run.
        all.waiting = all.spawned.saturating_sub(all.ended + all.running + all.runnable);
        all
    }

    fn add_measured(&self, all: &mut Snapshot) {
        for measured in self.ps().map(|p| &p.measured).chain([&self.events.latency.without_p]) {
            measured.latency.add_to(&mut all.latency);
            measured.slice.add_to(&mut all.slices);
            measured.poll.add_to(&mut all.poll_times);
            measured.lateness.add_to(&mut all.timer_lateness);
        }
    }

    fn proc(&self, p: &P) -> Proc {
        let counters = &p.counters;
        let mut lateness = Histogram::default();
        p.measured.lateness.add_to(&mut lateness);
        Proc {
            queue: p.queue.len(),
            timers_pending: self.heaps.len(p.index),
            spawned: counters.spawned.get(),
            ended: counters.ended.get(),
            parks: counters.parks.get(),
            parks_in_polls: counters.parks_in_polls.get(),
            yields: counters.yields.get(),
            steals: counters.steals.get(),
            timers_fired: lateness.count(),
            polls: counters.polls.get(),
            stolen: counters.stolen.get(),
            busy: Duration::from_nanos(p.busy.ns()),
            timers_stolen: counters.timers_stolen.get(),
            net_wakeups: counters.net_wakes.get(),
        }
    }

    /// Returns the number of Gs that were spawned and have not ended. *Runs on: any thread.*
    pub fn living(&self) -> usize {
        self.closing.live(|| self.counters()) as usize
    }

    /// Returns the number of Gs that run, and of Gs that are queued at the Ms to which they are bound. Adds
    /// the number of Ms with a G in `blocking` to `blocking`.
    fn count_at_ms(&self, blocking: &mut usize) -> (u64, usize) {
        let (mut running, mut home) = (0, 0);
        self.threads.look_at_all(|m| {
            running += u64::from(m.running().is_some_and(|g| g.status() == Status::Running));
            *blocking += usize::from(m.running_or_hooked().is_some_and(|g| g.binding.is_blocking()));
            home += m.home.len();
        });
        (running, home)
    }
}
