//! One runtime's scheduler: its Ps, its Ms, its queues, its timers, its netpoller. The verbs stand in files of their
//! own.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use netpoll::Netpoll;
use parking_lot::Mutex;
use timers::Heaps;

use crate::closing::Closing;
use crate::coros::Coros;
use crate::deadlock::{self, Deadlock};
use crate::fork;
use crate::idle::Idle;
use crate::lead::Lead;
use crate::lend::enter;
use crate::locked_queue::LockedQueue;
use crate::m::{M, MRef};
use crate::monitor::Watch;
use crate::p::{Held, P};
use crate::rescue::Rescues;
use crate::sys;
use crate::timer::TimerRef;
use crate::wakers::LateWakers;

/// The most Ps a runtime can have.
pub const MAX_PROCS: usize = 1024;

/// What a runtime is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ps.
    pub procs: usize,
    /// Address space of a stack, in bytes.
    pub stack_bytes: usize,
    /// The most Ms.
    pub max_threads: usize,
    /// The name of its threads.
    pub thread_name: String,
    /// Strict: a green thread that has started runs on no other M.
    pub strict: bool,
}

/// See the file's head.
pub struct Sched {
    pub(crate) config: Config,
    /// Made when they are first needed, never taken away: `procs` says how many are in use.
    ps: Box<[OnceLock<Box<P>>]>,
    procs: AtomicUsize,
    /// How many were ever made; those from `procs` on are retired, or will be when their M comes by.
    made: AtomicUsize,
    pub(crate) idle: Idle<MRef>,
    pub(crate) global: LockedQueue,
    pub(crate) heaps: Heaps<TimerRef>,
    pub(crate) netpoll: Arc<Netpoll>,
    pub(crate) lead: Lead,
    pub(crate) coros: Coros,
    pub(crate) watch: Watch,
    pub(crate) rescues: Rescues,
    pub(crate) deadlock: Deadlock,
    pub(crate) late_wakers: LateWakers,
    /// Ps beyond `procs` that nobody holds any more; its lock lets one resizing happen at a time.
    pub(crate) retired: Mutex<HashSet<usize>>,
    /// The Ms and their threads.
    pub(crate) ms: Mutex<Ms>,
    pub(crate) threads: AtomicUsize,
    /// Ms that were started as spares and have not parked yet.
    pub(crate) spares_coming: AtomicUsize,
    /// The system refused a thread, and sysmon has not asked again.
    pub(crate) no_thread: AtomicBool,
    pub(crate) closing: Closing,
    /// Something was said on stderr already.
    pub(crate) reported: AtomicBool,
    /// Itself.
    me: Weak<Sched>,
}

#[derive(Default)]
pub(crate) struct Ms {
    /// All that were ever made, by number; they live as long as the runtime.
    pub(crate) all: Vec<Arc<M>>,
    /// Those whose thread has ended.
    pub(crate) free: Vec<Arc<M>>,
    /// The threads of the others, by number.
    pub(crate) joins: HashMap<usize, thread::JoinHandle<()>>,
    /// The thread that ended last.
    pub(crate) ended: Option<thread::JoinHandle<()>>,
    pub(crate) limit_reported: bool,
}

impl Sched {
    /// A scheduler without threads yet: see [`start`](Sched::start).
    ///
    /// # Errors
    /// `InvalidInput` for a value that is not allowed (it says what is); what the system says if it has no
    /// descriptor for the netpoller, or no memory for a stack.
    pub fn new(config: Config) -> io::Result<Arc<Sched>> {
        check(&config)?;
        fork::check()?;
        fork::watch()?;
        let procs = config.procs;
        let (netpoll, coros) = (Arc::new(Netpoll::new()?), Coros::new(config.stack_bytes)?);
        let sched = Arc::new_cyclic(|me| Sched {
            ps: (0..MAX_PROCS).map(|_| OnceLock::new()).collect(),
            procs: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            idle: Idle::new(),
            global: LockedQueue::new(),
            heaps: Heaps::new(MAX_PROCS),
            netpoll,
            lead: Lead::new(),
            coros,
            watch: Watch::new(),
            rescues: Rescues::default(),
            deadlock: Deadlock::default(),
            late_wakers: LateWakers::default(),
            retired: Mutex::new(HashSet::new()),
            ms: Mutex::new(Ms::default()),
            threads: AtomicUsize::new(0),
            spares_coming: AtomicUsize::new(0),
            no_thread: AtomicBool::new(false),
            closing: Closing::default(),
            reported: AtomicBool::new(false),
            me: me.clone(),
            config,
        });
        crate::g::fault::watch();
        sched.resize(procs)?;
        deadlock::add(&sched);
        Ok(sched)
    }

    /// The runtime of the calling green thread.
    pub fn current() -> Option<Arc<Sched>> {
        enter().map(|entered| entered.m().sched().arc())
    }

    /// How many Ps there are to be.
    #[inline]
    pub fn procs(&self) -> usize {
        // SeqCst: `set_procs` stores it before it looks at the idle list; `put_idle` looks at it under that list's lock.
        self.procs.load(Ordering::SeqCst)
    }

    /// How many were ever made.
    #[inline]
    pub(crate) fn made(&self) -> usize {
        // Acquire: the Ps; pairs with the Release in `make_ps`.
        self.made.load(Ordering::Acquire)
    }

    /// Makes Ps up to that number, and gives the new ones. *Runs on: the holder of the lock of `retired`.*
    pub(crate) fn make_ps(&self, upto: usize) -> Range<usize> {
        let new = self.made()..upto.max(self.made());
        for index in new.clone() {
            self.heaps.open(index);
            self.ps[index].get_or_init(|| Box::new(P::new(index, sys::barrier::is_there())));
        }
        // Release: the Ps; pairs with `made`.
        self.made.store(new.end, Ordering::Release);
        new
    }

    /// *Runs on: likewise.*
    pub(crate) fn store_procs(&self, n: usize) {
        self.procs.store(n, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn p(&self, index: usize) -> &P {
        self.ps[index].get().expect("a P that was named exists")
    }

    /// All of them, the retired ones too: their Ms may not have come by yet.
    #[inline]
    pub(crate) fn ps(&self) -> impl DoubleEndedIterator<Item = &P> {
        (0..self.made()).map(|index| self.p(index))
    }

    /// Takes an idle P for this M. *Runs on: `m`, without a P.*
    pub(crate) fn take_idle_p<'m>(&'m self, m: &'m M) -> Option<Held<'m>> {
        let index = self.idle.take(|p| self.p(p).lease.set_held())?;
        self.adopt(m, index);
        m.held()
    }

    /// `m` becomes the holder of a P whose lease is held for it. *Runs on: `m`.*
    pub(crate) fn adopt(&self, m: &M, index: usize) {
        m.acquire(self.p(index));
        if let Some(held) = m.held() {
            // This M may have been the one in the netpoller, or on its way there.
            held.own().uncovered.set(true);
        }
        m.since.set(0);
        self.watch.wake_if_asleep();
    }

    /// A file of this runtime's, for the netpoller.
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.netpoll
    }

    /// Itself, to be kept. *Runs on: a thread that knows it to live.*
    pub(crate) fn arc(&self) -> Arc<Sched> {
        self.me.upgrade().expect("whoever calls holds it")
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

fn check(config: &Config) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if config.max_threads == 0 {
        return invalid("max_threads is 0: at least 1 thread is needed to run anything".into());
    }
    if config.thread_name.contains('\0') {
        return invalid("thread_name contains a zero byte, which no system takes in a thread's name".into());
    }
    Ok(())
}

impl std::fmt::Debug for Sched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sched")
            .field("config", &self.config)
            .field("idle_ps", &self.idle.idle_ps())
            .finish_non_exhaustive()
    }
}
