//! `Sched`: the scheduler of one runtime, with its Ps, its Ms, its queues, its timers and its netpoller.
//!
//! This file has the state, its construction, and access to the Ps. What the scheduler does stands in files
//! named after it.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use netpoll::Netpoll;
use timers::Heaps;

use crate::asleep::alarm::Alarm;
use crate::asleep::idle::Idle;
use crate::asleep::sysmon::Sysmon;
use crate::asleep::wake_latency::WakeLatency;
use crate::choices::simulation::{IS_BUILT, Simulated};
use crate::g::{GRef, Runtime, ids};
use crate::m::block_on_calls::BlockOnCalls;
use crate::m::crowd::Crowd;
use crate::m::kept::{self, Kept};
use crate::m::os_thread::Around;
use crate::m::template::Template;
use crate::m::thread_calls::ThreadCalls;
use crate::m::threads::Threads;
use crate::m::{M, MRef, OwnM};
use crate::notes::await_stacks::TakeStack;
use crate::notes::events::{Asked, Does, Events};
use crate::notes::hogs::HogNotes;
use crate::notes::spawn_stacks::SpawnStacks;
use crate::p::closing::Closing;
use crate::p::locked_queue::LockedQueue;
use crate::p::sampler::Sampler;
use crate::p::{Held, P};
use crate::run::overcommit::Processors;
use crate::run::roaming::Roaming;
use crate::stack::pool::Coros;
use crate::sync::Mutex;
use crate::sys;
use crate::sys::message::write_message;
use crate::timer::entry::TimerRef;
use crate::timer::late::LateUserCode;

/// The most Ps that a runtime can have: more than the largest machines have processors.
pub const MAX_PROCS: usize = crate::p::lease::MAX_INDEX;

/// The settings of a runtime.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of Ps at the start.
    pub procs: usize,
    /// Sysmon sets the number of Ps to what this function returns, unless `set_procs` has set the number.
    pub wanted_procs: Option<WantedProcs>,
    /// The address space of one stack, in bytes.
    pub stack_bytes: usize,
    /// The most Ms that may exist at a time.
    pub max_threads: usize,
    /// The name of the runtime's OS threads.
    pub thread_name: String,
    /// Measures all wake-ups, not only samples.
    pub measure_all: bool,
    /// Keeps the stacks of spawners.
    pub spawn_stacks: Option<SpawnStacks>,
    /// Keeps the stacks at which futures wait, by this function.
    pub await_stacks: Option<TakeStack>,
    /// Where the runtime notes hogs and late wake-ups; `None` if no thread reads that.
    pub hogs: Option<Arc<dyn HogNotes>>,
    /// From which delay on a wake-up is late, and is noted.
    pub late_wake: Option<Duration>,
    /// Strict mode: binds each green thread to the M on which it starts.
    pub strict: bool,
    /// Gives each closure thread-locals of its own (`tls.rs`).
    pub own_locals: bool,
    /// With `own_locals`: libraries that need a place in each block of thread-locals can be opened later.
    pub late_libraries: bool,
    /// Surrounds all that an M does, from the start of its OS thread to the end. It is called within the
    /// thread-locals of a closure that has its own, too, before its first line.
    pub around_thread: Option<Around>,
    /// What each M calls at the start and at the end of its OS thread.
    pub thread_calls: ThreadCalls,
    /// What makes the scheduler's choices, in a simulation.
    pub simulation: Option<Arc<dyn crate::choices::simulation::Simulation>>,
    /// A value that belongs to the maker of the scheduler. The scheduler only keeps it.
    pub attached: Attached,
}

/// Returns how many Ps a runtime should have now; `None` if that is not known. It may make system calls.
pub type WantedProcs = fn() -> Option<usize>;

/// See [`Config::attached`].
pub type Attached = Arc<dyn std::any::Any + Send + Sync>;

/// The scheduler of one runtime.
// In the order of the declaration. Each M reads the first fields whenever it looks for work, and hardly any
// thread writes them. A field that is written begins a cache line of its own after them. So no write takes
// the first fields from the other Ms.
#[repr(C)]
pub struct Sched {
    pub(crate) config: Config,
    /// The Ps. A P is made when it is first needed and lives as long as the runtime; `procs` says how many
    /// are in use.
    ps: Places,
    procs: AtomicUsize,
    /// How many Ps were ever made. Those with an index from `procs` on are retired, or retire at their M's
    /// next look.
    made: AtomicUsize,
    pub(crate) heaps: Heaps<TimerRef>,
    pub(crate) netpoll: Arc<Netpoll>,
    pub(crate) processors: Processors,
    /// A reference to this value, for `arc`.
    me: Weak<Sched>,
    // From here on fields are written.
    /// What only watches.
    pub(crate) events: CachePadded<Events>,
    pub(crate) idle: CachePadded<Idle<MRef>>,
    pub(crate) global: CachePadded<LockedQueue>,
    pub(crate) sysmon: CachePadded<Sysmon>,
    pub(crate) closing: CachePadded<Closing>,
    pub(crate) coros: CachePadded<Coros>,
    pub(crate) simulated: Option<Simulated>,
    pub(crate) lead: WakeLatency,
    pub(crate) alarm: Alarm,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) roaming: Roaming,
    pub(crate) block_on_calls: BlockOnCalls,
    pub(crate) late: LateUserCode,
    /// The surplus Ps that no M holds. Its lock lets one change of the number of Ps happen at a time.
    pub(crate) retired: Mutex<HashSet<usize>>,
    /// True once `set_procs` has set the number of Ps. The lock of `retired` guards its changes.
    pub(crate) procs_are_set: AtomicBool,
    pub(crate) threads: Threads,
    /// How many schedulers have had its parts before.
    pub(crate) reuses: u32,
    pub(crate) template: Template,
    /// Times that user code caught the unwinding of a cancelled G and went on.
    swallowed: AtomicU64,
    /// True once a report went to stderr; there is only one.
    reported: AtomicBool,
}

/// The places of the Ps, by their index.
type Places = Box<[OnceLock<Box<P>>]>;

/// What a scheduler is made of, and can take over from one that has ended.
pub(crate) struct Parts {
    pub(crate) netpoll: Netpoll,
    pub(crate) coros: Coros,
    heaps: Heaps<TimerRef>,
    ps: Places,
    /// How many schedulers have had these parts.
    pub(crate) reuses: u32,
}

impl Parts {
    pub(crate) fn new(netpoll: Netpoll, coros: Coros) -> Parts {
        let ps = (0..MAX_PROCS).map(|_| OnceLock::new()).collect();
        Parts { netpoll, coros, heaps: Heaps::new(MAX_PROCS), ps, reuses: 0 }
    }
}

impl Sched {
    /// Takes a scheduler apart that has ended. Returns `None` if another reference to it is left, or to its
    /// netpoller. *Runs on: a thread that is no M of it, after `end_threads`.*
    pub(crate) fn into_parts(self: Arc<Sched>) -> Option<Parts> {
        let Sched { netpoll, coros, heaps, mut ps, reuses, .. } = Arc::into_inner(self)?;
        let coros = CachePadded::into_inner(coros);
        for mut p in ps.iter_mut().map_while(OnceLock::take) {
            coros.take_all(p.coros_mut());
        }
        let netpoll = Arc::into_inner(netpoll)?.renewed();
        Some(Parts { netpoll, coros, heaps: heaps.emptied(), ps, reuses: reuses.wrapping_add(1) })
    }

    /// Puts a scheduler together, without Ps. `Sched::new` is for users.
    pub(crate) fn of(config: Config, parts: Parts) -> Arc<Sched> {
        let max_threads = config.max_threads;
        Arc::new_cyclic(|me: &Weak<Sched>| Sched {
            ps: parts.ps,
            procs: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            heaps: parts.heaps,
            netpoll: parts.netpoll.into(),
            processors: Processors::new(),
            me: me.clone(),
            events: Events::new(Weak::as_ptr(me).cast(), asked_of_events(&config)).into(),
            idle: Idle::new().into(),
            global: LockedQueue::new().into(),
            sysmon: Sysmon::new().into(),
            closing: CachePadded::default(),
            coros: parts.coros.into(),
            simulated: config.simulation.clone().map(Simulated::new),
            lead: WakeLatency::new(),
            alarm: Alarm::new(),
            crowd: Arc::default(),
            roaming: Roaming::default(),
            block_on_calls: BlockOnCalls::default(),
            late: LateUserCode::default(),
            retired: Mutex::new(HashSet::new()),
            procs_are_set: AtomicBool::new(false),
            threads: Threads::new(max_threads),
            reuses: parts.reuses,
            template: Template::default(),
            swallowed: AtomicU64::new(0),
            reported: AtomicBool::new(false),
            config,
        })
    }

    /// Returns what a simulated scheduler keeps; `None` if this is none. Without the feature the compiler
    /// knows that, and leaves out what follows from it.
    #[inline(always)]
    pub(crate) fn simulated(&self) -> Option<&Simulated> {
        if IS_BUILT { self.simulated.as_ref() } else { None }
    }

    /// Returns `true` if this is a simulated scheduler.
    #[inline(always)]
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated().is_some()
    }

    /// Returns `true` if a G lies in a run queue of a P or in the global queue. *Runs on: any thread; after
    /// `Idle::look_again` it misses nothing.*
    pub(crate) fn any_g_waits(&self) -> bool {
        !self.global.is_empty() || self.awake_ps(0).any(|p| !p.queue.is_empty())
    }

    /// Returns the Ps that may have Gs, from P `first` on. *Runs on: as `any_g_waits`.*
    pub(crate) fn awake_ps(&self, first: usize) -> impl Iterator<Item = &P> {
        self.idle.awake_ps(first).map(|index| self.p(index))
    }

    /// Returns how many Ps are to be in use.
    #[inline]
    pub fn procs(&self) -> usize {
        // SeqCst: pairs with `store_procs`. `set_procs` stores before it looks at the idle list; `put_idle`
        // loads under the lock of that list.
        self.procs.load(Ordering::SeqCst)
    }

    /// Returns how many Ps were ever made.
    #[inline]
    pub(crate) fn made(&self) -> usize {
        // Acquire: pairs with the Release in `make_ps`; the caller sees the Ps.
        self.made.load(Ordering::Acquire)
    }

    /// Makes Ps until there are `upto`, and returns the indices of the new ones. *Runs on: the holder of the
    /// lock of `retired`.*
    pub(crate) fn make_ps(&self, upto: usize) -> Range<usize> {
        let new = self.made()..upto.max(self.made());
        for index in new.clone() {
            self.heaps.open(index);
            let sampler = Sampler::new(self.config.measure_all, self.events.spawns.is_some());
            let p = self.ps[index].get_or_init(|| Box::new(P::new(index, sys::barrier::is_there(), sampler)));
            // No thread uses the P yet. An M may get it for a G that goes on, without a look around first.
            if new.end > 1 {
                p.queue.open();
            }
        }
        // Release: pairs with the Acquire in `made`.
        self.made.store(new.end, Ordering::Release);
        self.join_recording();
        new
    }

    /// Sets how many Ps are to be in use. *Runs on: the holder of the lock of `retired`.*
    pub(crate) fn store_procs(&self, n: usize) {
        self.procs.store(n, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn p(&self, index: usize) -> &P {
        self.ps[index].get().expect("no P with this index was ever made")
    }

    /// Returns all Ps, retired ones included: an M may still hold a surplus P.
    #[inline]
    pub(crate) fn ps(&self) -> impl DoubleEndedIterator<Item = &P> {
        (0..self.made()).map(|index| self.p(index))
    }

    /// Takes an idle P for `m`. *Runs on: `m`, without a P.*
    pub(crate) fn take_idle_p<'m>(&'m self, m: OwnM<'m>) -> Option<Held<'m>> {
        let index = self.idle.take(|p| self.p(p).lease.set_held())?;
        self.adopt(m, index);
        m.held()
    }

    /// Makes `m` the holder of a P. The lease of the P was set to Held for `m`.
    pub(crate) fn adopt(&self, m: OwnM<'_>, index: usize) {
        debug_assert!(self.idle.is_awake(index), "others would not look at the Gs of this P");
        m.acquire(self.p(index));
        if let Some(held) = m.held() {
            // This M may have blocked in the netpoller, or have been about to.
            held.own().set_uncovered();
            self.events.on_m(m, Does::Takes(held));
        }
        m.own().since.set(0);
        self.sysmon.wake_if_asleep();
    }

    /// Takes `n` ids for green threads of this scheduler. Returns the first of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_ids(&self, n: u64) -> u64 {
        if let Some(simulated) = self.simulated() {
            return simulated.ids.take(n);
        }
        ids::take(n)
    }

    /// Counts a cancellation that user code has caught.
    #[cold]
    pub(crate) fn count_swallowed(&self) {
        // Relaxed: a counter for metrics only.
        self.swallowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many cancellations user code has caught.
    pub(crate) fn swallowed(&self) -> u64 {
        self.swallowed.load(Ordering::Relaxed)
    }

    /// Writes a message to stderr, once per runtime.
    #[cold]
    pub(crate) fn report_once(&self, text: &str) {
        if !self.reported.swap(true, Ordering::Relaxed) {
            write_message(format_args!("runtime: {text}"));
        }
    }

    /// Returns the netpoller, for sockets of this runtime.
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.netpoll
    }

    /// Returns a reference that keeps the runtime alive. *Runs on: a thread on which the runtime cannot end.*
    pub(crate) fn arc(&self) -> Arc<Sched> {
        self.me.upgrade().expect("the caller keeps the runtime alive")
    }

    /// Returns a reference that does not keep the runtime alive.
    pub(crate) fn weak(&self) -> Weak<Sched> {
        self.me.clone()
    }

    /// Returns the settings of the runtime.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

fn asked_of_events(config: &Config) -> Asked {
    Asked {
        measure_all: config.measure_all,
        spawn_stacks: config.spawn_stacks,
        await_stacks: config.await_stacks,
        hogs: config.hogs.clone(),
        late_wake: config.late_wake,
    }
}

static NEW_PS: OnceLock<fn(&Sched)> = OnceLock::new();

/// Sets what is called when a runtime has new Ps. The first call counts. A recorder calls this before it
/// looks at `Sched::all`, so it misses no runtime.
pub fn set_new_ps(joined: fn(&Sched)) {
    let _ = NEW_PS.set(joined);
}

impl Sched {
    /// Shows new Ps to a recorder. *Runs on: the thread that has made them.*
    pub(crate) fn join_recording(&self) {
        if let Some(joined) = NEW_PS.get() {
            joined(self);
        }
    }
}

/// All runtimes of the process.
static ALL: Mutex<Vec<Weak<Sched>>> = Mutex::new(Vec::new());

impl Sched {
    /// Adds this runtime to the list of all.
    pub(crate) fn add_to_all(self: &Arc<Sched>) {
        let mut all = ALL.lock();
        all.retain(|sched| sched.strong_count() > 0);
        all.push(Arc::downgrade(self));
    }

    /// Returns all runtimes of the process.
    pub fn all() -> Vec<Arc<Sched>> {
        ALL.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns this runtime as Gs and Ms name it.
    #[inline]
    pub(crate) fn as_runtime(&self) -> *const Runtime {
        ptr::from_ref(self).cast()
    }

    /// Returns `true` if `g` is a G of this runtime that has not ended.
    pub(crate) fn owns(&self, g: GRef) -> bool {
        ptr::eq(g.runtime(), self.as_runtime()) && !g.life.is_done()
    }

    /// Returns the runtime of a parked green thread. The caller keeps this reference: once the green thread
    /// can run, it may end and its runtime with it.
    ///
    /// # Safety
    /// `g` is a green thread, and stays parked during this call.
    pub(crate) unsafe fn of_parked(g: GRef) -> Arc<Sched> {
        // SAFETY: `G::begin` wrote what `as_runtime` gave. A runtime lives while one of its Gs is parked. The
        // pointer was made from a reference, which does not cover the counts of an `Arc`: `arc` reaches them
        // by the runtime's own `Weak`.
        unsafe { (*g.runtime().cast::<Sched>()).arc() }
    }
}

impl M {
    /// Returns the runtime that the M belongs to. *Runs on: this M.*
    #[inline]
    pub(crate) fn sched(&self) -> &Sched {
        // SAFETY: `Ms::take_free` made the M with what `as_runtime` gave. The M's thread holds its runtime by
        // an `Arc`.
        unsafe { &*self.runtime.cast::<Sched>() }
    }

    /// Returns the events of that runtime. *Runs on: as `sched`.*
    pub(crate) fn events(&self) -> &Events {
        &self.sched().events
    }
}

impl<'m> OwnM<'m> {
    /// Returns the runtime that the M belongs to, for as long as the M is known here.
    #[inline(always)]
    pub(crate) fn sched(self) -> &'m Sched {
        self.shared().sched()
    }

    /// Returns a reference that keeps the M's runtime alive.
    pub(crate) fn keep(self) -> Kept<Sched> {
        // SAFETY: the thread of an M passes its `Sched` to `Keeper::of`.
        unsafe { kept::keep(self) }
    }

    /// Returns a fresh id for a G.
    #[inline]
    pub(crate) fn next_id(self) -> u64 {
        let mut batch = self.own().ids.get();
        let id = batch.next(|n| self.sched().take_ids(n));
        self.own().ids.set(batch);
        id
    }
}

impl std::fmt::Debug for Sched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sched")
            .field("config", &self.config)
            .field("idle_ps", &self.idle.idle_ps())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::threads::tests::config;
    use crate::sync::{apart, lines};

    /// An M may get a P for a G that goes on, and that G may wake another, before the first look around.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no netpoller")]
    fn only_the_slot_of_a_lone_p_is_closed() {
        let open = |sched: &Sched| sched.ps().map(|p| p.queue.is_open()).collect::<Vec<_>>();
        let lone = Sched::new(config(1)).unwrap();
        assert_eq!(open(&lone), [false]);
        lone.make_ps(3);
        assert_eq!(open(&lone), [false, true, true], "the holder of the first opens its slot");
        assert_eq!(open(&Sched::new(config(2)).unwrap()), [true, true]);
    }

    #[test]
    fn what_is_written_lies_apart_from_what_each_m_reads() {
        let read = [
            lines!(Sched, config),
            lines!(Sched, ps),
            lines!(Sched, procs),
            lines!(Sched, made),
            lines!(Sched, heaps),
            lines!(Sched, netpoll),
            lines!(Sched, me),
        ];
        let written = [
            lines!(Sched, idle),
            lines!(Sched, global),
            lines!(Sched, sysmon),
            lines!(Sched, closing),
            lines!(Sched, coros),
            lines!(Sched, lead),
            lines!(Sched, events),
            lines!(Sched, roaming),
            lines!(Sched, block_on_calls),
            lines!(Sched, retired),
            lines!(Sched, threads),
        ];
        for (i, written_one) in written.iter().enumerate() {
            assert!(read.iter().all(|read| apart(read, written_one)), "{i}: {written_one:?}, {read:?}");
        }
        let busiest = &written[..5];
        for (i, one) in busiest.iter().enumerate() {
            assert!(written[i + 1..].iter().all(|other| apart(one, other)), "{i}: {one:?}, {written:?}");
        }
    }
}
