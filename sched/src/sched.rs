//! One runtime's scheduler: its Ps, its Ms, its queues, its timers, its netpoller. The verbs stand in files of their
//! own.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use netpoll::Netpoll;
use parking_lot::Mutex;
use timers::Heaps;

use crate::coros::Coros;
use crate::global_queue::GlobalQueue;
use crate::idle::Idle;
use crate::lend::enter;
use crate::m::{M, MRef};
use crate::monitor::Watch;
use crate::p::{Held, P};
use crate::rescue::Rescues;
use crate::timer::TimerRef;

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
    pub(crate) global: GlobalQueue,
    pub(crate) heaps: Heaps<TimerRef>,
    pub(crate) netpoll: Arc<Netpoll>,
    pub(crate) coros: Coros,
    pub(crate) watch: Watch,
    pub(crate) rescues: Rescues,
    /// Ps beyond `procs` that nobody holds any more; its lock lets one resizing happen at a time.
    pub(crate) retired: Mutex<HashSet<usize>>,
    /// All Ms ever started, by number; they live as long as the runtime.
    pub(crate) ms: Mutex<Ms>,
    pub(crate) threads: AtomicUsize,
    /// Spawned and ended without a P at hand.
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// Green threads are being cancelled: new ones are born cancelled.
    pub(crate) closing: AtomicBool,
    /// No green thread is left, and none may come from outside.
    pub(crate) sealed: AtomicBool,
    /// Ms are to end.
    exiting: AtomicBool,
    /// Something was said on stderr already.
    pub(crate) reported: AtomicBool,
    /// Itself.
    me: Weak<Sched>,
}

#[derive(Default)]
pub(crate) struct Ms {
    pub(crate) all: Vec<Arc<M>>,
    pub(crate) joins: Vec<thread::JoinHandle<()>>,
    pub(crate) limit_reported: bool,
}

impl Sched {
    /// A scheduler without threads yet: the first spawn starts one.
    ///
    /// # Errors
    /// `InvalidInput` for a value that is not allowed (it says what is); what the system says if it has no
    /// descriptor for the netpoller.
    pub fn new(config: Config) -> io::Result<Arc<Sched>> {
        check(&config)?;
        let procs = config.procs;
        let (netpoll, coros) = (Arc::new(Netpoll::new()?), Coros::new(config.stack_bytes)?);
        let sched = Arc::new_cyclic(|me| Sched {
            ps: (0..MAX_PROCS).map(|_| OnceLock::new()).collect(),
            procs: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            idle: Idle::new(),
            global: GlobalQueue::new(),
            heaps: Heaps::new(MAX_PROCS),
            netpoll,
            coros,
            watch: Watch::new(),
            rescues: Rescues::default(),
            retired: Mutex::new(HashSet::new()),
            ms: Mutex::new(Ms::default()),
            threads: AtomicUsize::new(0),
            spawned: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            exiting: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            me: me.clone(),
            config,
        });
        crate::g::fault::watch();
        sched.set_procs(procs)?;
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
            self.ps[index].get_or_init(|| Box::new(P::new(index)));
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

    /// True once the runtime is being shut down.
    pub(crate) fn is_closing(&self) -> bool {
        // SeqCst: a spawn looks at this after its G is in the table; `begin_closing` comes before a look at the table.
        self.closing.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn is_exiting(&self) -> bool {
        // SeqCst: a sleeper looks at this after it has entered its list; the partner is `exit`.
        self.exiting.load(Ordering::SeqCst)
    }

    /// Tells all Ms to end. The caller then wakes them.
    pub(crate) fn set_exiting(&self) {
        // SeqCst: before the caller's look at who sleeps.
        self.exiting.store(true, Ordering::SeqCst);
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
