//! An M: an OS thread that runs Gs while it has a P. The scheduler runs on the M's own stack.
//!
//! Sysmon, wakers and the dump read an M's atomics from other threads; the cells belong to the M's own
//! thread. How an M sleeps and is woken stands in `asleep.rs`.

#![allow(unsafe_code)]

pub(crate) mod activity;
pub(crate) mod binding;
pub(crate) mod block_on_calls;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, tsan, asan, portable, target_feature = "crt-static"))
))]
pub(crate) mod bounds;
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, tsan, asan, portable, target_feature = "crt-static"))
)))]
#[path = "m/no_bounds.rs"]
pub(crate) mod bounds;
pub(crate) mod crowd;
pub(crate) mod current;
pub(crate) mod fault;
pub(crate) mod kept;
pub(crate) mod os_thread;
pub(crate) mod pause;
pub(crate) mod refusal;
pub(crate) mod release;
pub(crate) mod service;
pub(crate) mod slice;
#[cfg(all(feature = "interpose", target_os = "linux"))]
pub(crate) mod std_parker;
pub(crate) mod template;
pub(crate) mod thread_calls;
mod thread_parker;
pub(crate) mod threads;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use netpoll::Waiter;

use crate::asleep::Sleep;
use crate::asleep::lone_watch::LoneWatch;
use crate::asleep::rest::Homes;
use crate::g::ids;
use crate::g::own::OwnG;
use crate::g::table::KeptGs;
use crate::g::{G, GRef, Runtime};
use crate::p::lease::{Lender, Lent, Seen};
use crate::p::locked_queue::LockedQueue;
use crate::p::{Held, P};
use crate::sys::catch_panic::contain;
use pause::Pause;
use slice::Slice;

/// Whether the M has lent its P.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loan {
    /// The M is in the runtime; its P, if it has one, is held.
    InRuntime,
    /// The M runs user code and has lent its P by this word.
    Lent(Lent),
    /// The M runs user code without a P: in `blocking`, or it roams.
    WithoutP,
}

/// One M. Ms live as long as their runtime, because sysmon reads them; after the end of its thread, an M
/// serves the next thread.
pub(crate) struct M {
    pub(crate) runtime: *const Runtime,
    /// The index of the M among all Ms.
    pub(crate) number: usize,
    /// How the M sleeps, and what wakes it.
    pub(crate) sleep: Sleep,
    /// Whether the M pauses although its G computes.
    pub(crate) pause: Pause,
    /// The G that the M runs. Sysmon and the overflow report read it.
    running: AtomicPtr<G>,
    /// The G for which user code saves or restores contexts now (`run/contexts.rs`). `running` is null in
    /// that time.
    hooked: AtomicPtr<G>,
    /// The kernel's id of the thread.
    tid: AtomicI32,
    slice: Slice,
    /// True if sysmon has taken the P because the G was blocked.
    pub(crate) was_blocked: AtomicBool,
    /// The runnable Gs that are bound to this M.
    pub(crate) home: LockedQueue,
    /// How many Gs are bound to this M, parked ones included.
    pub(crate) homes: Homes,
    /// The word by which the M has lent its P.
    pub(crate) lender: Lender,
    own: Own,
}

/// What belongs to the M's own thread: reached by an [`OwnM`] alone.
pub(crate) struct Own {
    p: Cell<*const P>,
    /// The M's own count of its runtime (`m/kept.rs`); null while no thread runs the M.
    pub(crate) keeper: Cell<*const ()>,
    /// How many references of values that this M has made and dropped it keeps for the next ones.
    pub(crate) returned: Cell<usize>,
    pub(crate) loan: Cell<Loan>,
    /// The pinned G that is parked here at home and has parked last. The M then runs only Gs that are bound
    /// to it (`run/reserved.rs`).
    pub(crate) reserved_by: Cell<Option<GRef>>,
    /// How many Gs claim this M. A claimed M runs only Gs that are bound to it (`run/reserved.rs`).
    pub(crate) claims: Cell<usize>,
    /// Until when the M may run user code without a P, after a call that blocked; 0 if it may not
    /// (`run/roaming.rs`).
    pub(crate) roams_until: Cell<u64>,
    pub(crate) spinning: Cell<bool>,
    /// True if the M was started as a spare and has not parked yet (`Sched::spares_coming`).
    pub(crate) is_coming_spare: Cell<bool>,
    /// True if the last wait for the network was so short that spinning would have been better.
    pub(crate) network_is_quick: Cell<bool>,
    /// The watch over lone Gs, while this M has it (`asleep/lone_watch.rs`).
    pub(crate) watch: RefCell<Option<LoneWatch>>,
    /// True if the M has left a lone G to its P in its search.
    pub(crate) left_lone: Cell<bool>,
    /// True if the M has seen a lone G wait for too long: it leaves none in its next search.
    pub(crate) takes_lone: Cell<bool>,
    /// The time for which this M has set the alarm (`asleep/alarm.rs`).
    pub(crate) alarm: Cell<Option<u64>>,
    /// True if the flight recorder was on when the M last began to run a G, as far as its P had noticed.
    pub(crate) records: Cell<bool>,
    /// When the M last let another thread run; 0 if it has not.
    pub(crate) turn_began: Cell<u64>,
    /// Since when the M has had its P while other Ms waited for one; 0 if the M has not looked.
    pub(crate) since: Cell<u64>,
    /// The buffer that every poll of the network reuses.
    pub(crate) ready: RefCell<Vec<Waiter>>,
    /// The Gs for the next spawns of this thread.
    pub(crate) unused: KeptGs,
    pub(crate) ids: Cell<ids::Batch>,
    /// How many Gs wait at the M's station (`sources/station.rs`).
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    pub(crate) at_station: Cell<usize>,
    /// The word on which std's `thread::park` sleeps on this thread.
    #[cfg(all(feature = "interpose", target_os = "linux"))]
    pub(crate) std_parker: std_parker::StdParker,
}

/// An M on its own thread. It does not leave that thread.
#[derive(Clone, Copy)]
pub(crate) struct OwnM<'m> {
    m: &'m M,
    _here: PhantomData<*const ()>,
}

impl Deref for OwnM<'_> {
    type Target = M;

    #[inline(always)]
    fn deref(&self) -> &M {
        self.m
    }
}

// SAFETY: `own` has the fields that do not synchronise themselves. Only an `OwnM` reaches it, and that exists
// on the M's own thread alone.
unsafe impl Sync for M {}
// What every thread reaches synchronises itself; `runtime` is written once, before.
const _: () = {
    const fn is_sync<T: Sync>() {}
    is_sync::<(Sleep, Pause, LockedQueue)>();
    is_sync::<(Homes, Lender)>();
};
// SAFETY: `supply/threads.rs` makes an M on one thread and hands it to its own thread before any thread
// touches the cells.
unsafe impl Send for M {}

impl M {
    pub(crate) fn new(runtime: *const Runtime, number: usize) -> Self {
        M {
            runtime,
            number,
            sleep: Sleep::new(),
            pause: Pause::new(),
            running: AtomicPtr::new(ptr::null_mut()),
            hooked: AtomicPtr::new(ptr::null_mut()),
            tid: AtomicI32::new(0),
            slice: Slice::new(),
            was_blocked: AtomicBool::new(false),
            home: LockedQueue::new(),
            homes: Homes::new(),
            lender: Lender::new(),
            own: Own {
                p: Cell::new(ptr::null()),
                keeper: Cell::new(ptr::null()),
                returned: Cell::new(0),
                loan: Cell::new(Loan::InRuntime),
                reserved_by: Cell::new(None),
                claims: Cell::new(0),
                roams_until: Cell::new(0),
                spinning: Cell::new(false),
                is_coming_spare: Cell::new(false),
                network_is_quick: Cell::new(false),
                watch: RefCell::new(None),
                left_lone: Cell::new(false),
                takes_lone: Cell::new(false),
                alarm: Cell::new(None),
                records: Cell::new(false),
                turn_began: Cell::new(0),
                since: Cell::new(0),
                ready: RefCell::new(Vec::new()),
                unused: KeptGs::new(),
                ids: Cell::new(ids::Batch::EMPTY),
                #[cfg(all(feature = "interpose", target_os = "linux"))]
                at_station: Cell::new(0),
                #[cfg(all(feature = "interpose", target_os = "linux"))]
                std_parker: std_parker::StdParker::default(),
            },
        }
    }

    /// Notes the kernel's id of the thread. *Runs on: this M.*
    pub(crate) fn set_tid(&self, tid: i32) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// Returns the kernel's id of the thread; 0 without a thread. *Runs on: any thread.*
    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_running(&self, g: Option<GRef>) {
        let g = g.map_or(ptr::null_mut(), |g| ptr::from_ref(g).cast_mut());
        // Release: pairs with `running`. Sysmon and the metrics read words of the G, which this thread may
        // have just initialised.
        self.running.store(g, Ordering::Release);
    }

    /// Returns the G that the M ran a moment ago. *Runs on: any thread.*
    #[inline]
    pub(crate) fn running(&self) -> Option<GRef> {
        // Acquire: pairs with `set_running`; the reader sees the initialised G.
        // SAFETY: only `set_running` writes the pointer, and Gs are never freed.
        unsafe { self.running.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the G of the code or hooks that the M ran a moment ago. *Runs on: any thread.*
    #[inline]
    pub(crate) fn running_or_hooked(&self) -> Option<GRef> {
        // Acquire: pairs with `run_hooks`.
        // SAFETY: only `run_hooks` writes the pointer, and Gs are never freed.
        self.running().or_else(|| unsafe { self.hooked.load(Ordering::Acquire).as_ref() })
    }
}

impl<'m> OwnM<'m> {
    /// # Safety
    /// The caller runs on the thread of `m`, and keeps the result there.
    #[inline(always)]
    pub(crate) unsafe fn new(m: &'m M) -> Self {
        OwnM { m, _here: PhantomData }
    }

    /// Returns the M as every thread sees it.
    #[inline(always)]
    pub(crate) fn shared(self) -> &'m M {
        self.m
    }

    /// Returns the G that runs on this M.
    #[inline]
    pub(crate) fn running(self) -> Option<OwnG> {
        // SAFETY: this is the M's own thread, so the G runs here, or has stopped here and is not passed on
        // yet: `set_running(None)` comes before.
        self.m.running().map(|g| unsafe { OwnG::new(g) })
    }

    /// Returns what belongs to this thread.
    #[inline(always)]
    pub(crate) fn own(self) -> &'m Own {
        &self.m.own
    }

    /// Returns the P that the M holds. *Runs on: this M, in the runtime.*
    #[inline]
    pub(crate) fn held(self) -> Option<Held<'m>> {
        debug_assert!(matches!(self.own().loan.get(), Loan::InRuntime), "a lent P is not held");
        // SAFETY: Ps live as long as their runtime. `acquire` and `let_go` keep `p` set only while this M
        // holds or has lent that P. The entry into the runtime has taken a lent P back.
        unsafe { self.own().p.get().as_ref().map(|p| Held::new(p)) }
    }

    /// Returns the P that the M holds or has lent. Sysmon may have taken a lent P since.
    #[inline]
    pub(crate) fn lent_p(self) -> Option<&'m P> {
        // SAFETY: Ps live as long as their runtime.
        unsafe { self.own().p.get().as_ref() }
    }

    /// Returns `true` if the M runs user code and sysmon has taken its P. *Runs on: this M, also in a signal
    /// handler.*
    pub(crate) fn has_lost_p(self) -> bool {
        self.lent_p().is_some_and(|p| p.lease.is_lost(&self.m.lender))
    }

    /// Returns `true` if the M watches over lone Gs.
    pub(crate) fn watches(self) -> bool {
        self.own().watch.borrow().is_some()
    }

    /// Makes `p` the M's P. The caller has just won its lease.
    #[inline]
    pub(crate) fn acquire(self, p: &P) {
        debug_assert!(self.own().p.get().is_null(), "an M holds one P");
        debug_assert!(self.own().roams_until.get() == 0, "an M with a P does not roam");
        self.own().p.set(p);
        p.set_holder(ptr::from_ref(self.m).cast());
    }

    /// Gives up the P, which the caller then hands to another M or makes idle. No G may be handed to this M
    /// then: `publish_handed`.
    #[inline]
    pub(crate) fn give_up(self, held: Held<'_>) {
        debug_assert!(!held.queue.has_handed(), "a handed G would be lost");
        self.let_go();
    }

    /// Forgets the M's P, which the M has given up or lost.
    #[inline]
    pub(crate) fn let_go(self) {
        self.own().p.set(ptr::null());
    }

    /// Makes `hooks` the running code instead of that of `g`, which runs on this M. Until it returns, the
    /// caller counts as a plain OS thread. The caller waits with its OS thread, no cancellation unwinds it,
    /// and it has no G to attach contexts to. *Runs on: this M, in user code.*
    pub(crate) fn run_hooks(self, g: OwnG, hooks: impl FnOnce()) {
        debug_assert!(!matches!(self.own().loan.get(), Loan::InRuntime), "hooks are user code");
        // Release, as in `set_running`.
        let g = g.shared();
        self.hooked.store(ptr::from_ref(g).cast_mut(), Ordering::Release);
        self.set_running(None);
        let contained = contain(hooks);
        debug_assert!(contained, "each hook is contained");
        self.set_running(Some(g));
        self.hooked.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Releases what the M keeps, because its thread ends. *Runs on: this M. No G is bound to it, or its
    /// runtime exits.*
    pub(crate) fn end(self) {
        self.own().unused.give_all();
        *self.own().ready.borrow_mut() = Vec::new();
        self.tid.store(0, Ordering::Relaxed);
    }
}

impl P {
    /// Returns the M that held or had lent the P a moment ago. *Runs on: any thread.*
    pub(crate) fn holder(&self) -> Option<&M> {
        // SAFETY: `M::acquire` wrote the pointer. Ms and Ps live as long as their runtime.
        unsafe { self.holder_ptr().cast::<M>().as_ref() }
    }

    /// Returns the state of the P at this moment. *Runs on: any thread.*
    pub(crate) fn look(&self) -> Seen {
        self.lease.look(|| self.lender())
    }

    /// Takes the P if it has stayed lent since `seen`; see [`Lease::retake`](crate::p::lease::Lease::retake).
    /// *Runs on: sysmon.*
    pub(crate) fn retake(&self, seen: Seen) -> bool {
        self.lease.retake(seen, || self.lender())
    }

    fn lender(&self) -> Option<&Lender> {
        self.holder().map(|m| &m.lender)
    }
}

/// A reference to an M that lies in the idle lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MRef(*const M);

// SAFETY: an M is `Sync`, and lives as long as the runtime that owns the list.
unsafe impl Send for MRef {}

impl MRef {
    pub(crate) fn new(m: &M) -> Self {
        MRef(m)
    }

    pub(crate) fn m(&self) -> &M {
        // SAFETY: Ms live as long as their runtime, which owns the list.
        unsafe { &*self.0 }
    }
}
