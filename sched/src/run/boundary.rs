//! The boundary between user code and the runtime: entering, leaving, and stopping the running G. Entering
//! takes the P back; leaving lends it, and a G may find its P lost. A G that must stay on its OS thread stops
//! in one of three ways. It waits at home, reserves its M, or waits in place (`Keeps`).
//!
//! ```text
//!   user code ──enter──> runtime, with its P ──leave──> user code, P lent
//!                   └──> runtime, without    ──leave──> an idle P? take it and go on
//!                        (sysmon took it)               none: the G queues up globally and keeps its M,
//!                                                       which sleeps until it is handed a P
//! ```
//!
//! A G that lost its P is never blocked at entry, because it may hold the lock of a channel. Without a P a
//! call still does its work. A ready or a spawn goes to the global queue, a timer into the heap of any P, a
//! park parks. The G waits for a P only on the way out, where the runtime holds no lock.
//!
//! The G waits *in place*. Only a call that parks may move its caller to another OS thread, and leaving is
//! not such a call. The G lies in a run queue, so it has its turn. The M that takes it out of the queue hands
//! its P to the M that waits (`Sched::passed_on`). The loom model is in `p/lease/models.rs`.
//!
//! A G that enters often is never away for long enough to be taken by a retake. Sysmon then asks for the P,
//! and the next leave gives it up. The G goes to the end of the P's queue and waits in place too (`give_up`).
//!
//! Code in `blocking` needs no P and does not wait for one: it goes on without. So does a G that was blocked,
//! for a bounded time (`run/roaming.rs`).
//!
//! Rejected: going on without a P everywhere and for ever. A crowd of computing Gs would then run on any
//! number of threads, and their spawns would pile up without bound.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use timers::clock;

use crate::asleep::in_place::Slept;
use crate::g::own::OwnG;
use crate::g::payload::Stop;
use crate::g::wait::{Decision, Outcome};
use crate::g::{GRef, Status, panics};
use crate::m::current::current;
use crate::m::{Loan, M, OwnM, slice};
use crate::notes::events::{At, Preempted, Stops};
use crate::p::Held;
use crate::p::event::By;
use crate::run::contexts;
use crate::run::sched::Sched;
use crate::stack::coro::Coro;

/// Proves that this thread is an M in the runtime. Its drop leaves the runtime.
pub(crate) struct Entered {
    m: *const M,
    /// True if the M was in the runtime already, on its own stack: this drop does not leave.
    nested: bool,
    _here: PhantomData<*const ()>,
}

/// Enters the runtime. Returns `None` on a thread that is no M. *Runs on: any thread.*
#[inline(always)]
pub(crate) fn enter() -> Option<Entered> {
    // SAFETY: `current` names the M of this OS thread, which outlives that thread.
    let m = unsafe { OwnM::new(current().as_ref()?) };
    let nested = match m.own().loan.get() {
        Loan::InRuntime => true,
        loan => {
            end_loan(m, loan);
            false
        }
    };
    Some(Entered { m: m.shared(), nested, _here: PhantomData })
}

#[inline]
fn end_loan(m: OwnM<'_>, loan: Loan) {
    m.own().loan.set(Loan::InRuntime);
    if let Loan::Lent(lent) = loan
        && let Some(p) = m.lent_p()
    {
        p.lease.enter(lent, &m.lender, || lose_p(m));
    }
}

/// Forgets the P that sysmon has taken. Sysmon lets the next hog of a large crowd go (`m/crowd.rs`). *Runs
/// on: `m`, which enters the runtime.*
#[cold]
fn lose_p(m: OwnM<'_>) {
    m.let_go();
    slice::restore(m);
    let sched = m.sched();
    // Relaxed: a hint. Read too early, it costs the G a wait for a P.
    if m.was_blocked.swap(false, Ordering::Relaxed) {
        sched.roaming.roam(m, sched.procs());
    }
    if sched.crowd.runs_by_turns() {
        sched.sysmon.wake();
    }
}

/// Enters the runtime on the G's stack, and calls `then`; the M leaves it after the switch.
#[inline]
pub(crate) fn enter_for_good(then: impl FnOnce(&Entered)) {
    match enter() {
        Some(entered) => then(&std::mem::ManuallyDrop::new(entered)),
        None => crate::sys::fork::nowhere_to_go(),
    }
}

/// Lends the P to user code. *Runs on: an M in the runtime, with a P.*
#[inline]
pub(crate) fn lend(m: OwnM<'_>, held: Held<'_>) {
    m.own().loan.set(Loan::Lent(held.lease.lend(&m.lender)));
}

impl Sched {
    /// Returns the runtime of the calling green thread.
    pub fn current() -> Option<Arc<Sched>> {
        enter().map(|entered| entered.m().sched().arc())
    }

    /// Calls `f` with the runtime of the calling green thread; with `None` elsewhere. Unlike `current`, this
    /// changes no count that all Ps share.
    pub fn with_current<T>(f: impl FnOnce(Option<&Sched>) -> T) -> T {
        let current = enter().map(|entered| ptr::from_ref(entered.m().sched()));
        // SAFETY: a runtime lives while one of its Gs lives, and its Ms hold it by an `Arc`. The caller is a
        // G or an M, and returns only after `f`. `as_runtime` made the pointer from the runtime itself.
        f(current.map(|sched| unsafe { &*sched }))
    }

    /// Says to sysmon that the P is about to be lent to a G in `blocking`. Sysmon looks soon if work waits
    /// for a P, and later work wakes it. *Runs on: the holder of the P.*
    pub(crate) fn lends_to_block(&self, held: Held<'_>) {
        if self.arm_sysmon_for_work(held) {
            self.sysmon.blocking_with_work();
        }
    }

    /// Arms sysmon, which later work then wakes. Returns whether work waits for the P already. *Runs on: the
    /// holder of the P, which lends it to a G in `blocking` or gives it up.*
    pub(crate) fn arm_sysmon_for_work(&self, held: Held<'_>) -> bool {
        self.sysmon.blocking_begins(|| {
            let work_waits = !held.queue.is_empty() || !self.global.is_empty() || self.idle.any_wanting();
            work_waits && self.idle.idle_ps() == 0
        })
    }
}

impl Entered {
    #[inline]
    pub(crate) fn m(&self) -> OwnM<'_> {
        // SAFETY: `enter` took the M from `current`; the M outlives this OS thread, which this value does not
        // leave.
        unsafe { OwnM::new(&*self.m) }
    }

    #[inline]
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        self.m().held()
    }

    /// Returns `true` if the call runs on the M's own stack: no G can be stopped then.
    pub(crate) fn nested(&self) -> bool {
        self.nested
    }

    /// Returns `true` if a G runs here that may resume on another OS thread.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.nested && self.m().running().is_some_and(is_free)
    }

    /// Stops the running G. Returns, in user code, when the G is resumed.
    #[inline(always)]
    pub(crate) fn suspend(self, stop: Stop) {
        debug_assert!(!self.nested);
        let g = self.m().running().expect("user code on an M belongs to a G");
        std::mem::forget(self);
        // SAFETY: `g` is the G that runs on this stack, and nothing of the M is used after this line.
        unsafe { Coro::suspend(g.shared(), stop) };
    }

    /// Lends the P even if sysmon has asked for it, to code in `blocking`: sysmon takes the P from it soon
    /// anyway.
    pub(crate) fn leave_to_block(self) {
        let m = self.m();
        if let Some(held) = m.held() {
            lend(m, held);
            std::mem::forget(self);
        }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.nested {
            return;
        }
        let m = self.m();
        match m.held() {
            Some(held) => match held.lease.lend_unless_asked(&m.lender) {
                Some(lent) => m.own().loan.set(Loan::Lent(lent)),
                None => give_up(m, held),
            },
            None => regain_p(m),
        }
    }
}

/// Leaves the runtime without a P: takes an idle P, or waits in place for one. Code in `blocking` goes on
/// without, and so does a G that roams. *Runs on: `m`, in the runtime, without a lock.*
#[cold]
fn regain_p(m: OwnM<'_>) {
    let (g, sched) = (m.running_or_hooked().expect("user code on an M belongs to a G"), m.sched());
    if g.binding.is_blocking() || m.may_roam() {
        return m.own().loan.set(Loan::WithoutP);
    }
    sched.roaming.end(m);
    let queue_up = |g| sched.make_work(|| sched.global.push(g));
    let held = sched.take_idle_p(m).unwrap_or_else(|| wait_in_place(m, g, queue_up));
    m.on_run(held, g);
    lend(m, held);
}

/// Leaves the runtime after sysmon has asked for the P: hands the P off and waits in place. *Runs on: `m`, in
/// the runtime, without a lock.*
#[cold]
fn give_up(m: OwnM<'_>, held: Held<'_>) {
    let (g, sched, p) =
        (m.running_or_hooked().expect("user code on an M belongs to a G"), m.sched(), held.p());
    let blocking = g.binding.is_blocking();
    sched.events.on_preempted(p, Preempted::Asked, blocking, p.away_ns());
    if blocking {
        m.give_up(held);
        sched.hand_off(p);
        return m.own().loan.set(Loan::WithoutP);
    }
    let queue_up = |g| {
        held.queue.put_fresh(g);
        m.give_up(held);
        sched.hand_off(p);
    };
    let held = wait_in_place(m, g, queue_up);
    m.on_run(held, g);
    lend(m, held);
}

/// Waits for a P in a run queue, into which `queue_up` puts `g`, the running G. The G stays on its stack and
/// its OS thread. *Runs on: `m`, in the runtime, without a lock; without a P after `queue_up`.*
fn wait_in_place(m: OwnM<'_>, g: GRef, queue_up: impl FnOnce(GRef)) -> Held<'_> {
    debug_assert!(!m.own().spinning.get(), "an M that spins runs no user code");
    let sched = m.sched();
    let home = g.binding.is_home();
    if !home {
        // SAFETY: `g` runs here, on `m`.
        unsafe { g.set_in_place(Some(m)) };
    }
    g.set_status(Status::Runnable);
    sched.events.on_stop(m, g, Stops::WaitsForP);
    queue_up(g);
    debug_assert!(m.lent_p().is_none(), "the M still has a P that it passed on");
    sched.sleep_for_a_p(m);
    if !home {
        // SAFETY: `g` runs here, on `m`. The M that handed the P over had taken `g` out of its queue.
        unsafe { g.set_in_place(None) };
    }
    g.set_status(Status::Running);
    m.held().expect("the M was handed a P")
}

/// Parks the calling G. Its wait is armed, and its wakers have the number. *Runs on: a green thread.*
#[inline(always)]
pub(crate) fn park(g: OwnG) {
    if g.wait.is_decided() {
        return;
    }
    let entered = enter().expect("a green thread runs on an M");
    if !is_free(g) {
        return park_kept(g, entered, None);
    }
    entered.suspend(Stop::Park);
}

/// Parks the calling G under its armed wait `number`. A timer armed for `when` ends the wait as timed out.
/// *Runs on: a green thread.*
#[cold]
pub(crate) fn park_until(g: OwnG, number: u32, when: u64) {
    if g.wait.is_decided() {
        return;
    }
    let entered = enter().expect("a green thread runs on an M");
    if !is_free(g) {
        return park_kept(g, entered, Some(Limit { number, when }));
    }
    entered.suspend(Stop::Park);
}

/// Returns `true` if `g` may move to another OS thread when it parks, without further ado. Such a G polls no
/// future, is not pinned, has no value that stays, has no contexts, and does not unwind. (std counts panics
/// per thread.)
#[inline]
pub(crate) fn is_free(g: OwnG) -> bool {
    g.is_unkept() && !std::thread::panicking()
}

/// How a G waits that must not leave its OS thread, or not before its contexts are saved.
enum Keeps {
    /// The G may resume on any M, as other Gs: only its contexts kept it.
    Nothing,
    /// The M runs other Gs while this G waits. This G resumes on the same M.
    AtHome,
    /// While this G waits, the M runs only Gs that are bound to it (`run/reserved.rs`).
    Reserved,
    /// As `Reserved`: the G claims the M, before and after this wait as well.
    Claimed,
    /// The M sleeps until this G resumes.
    InPlace,
}

impl Keeps {
    /// Chooses how `g` waits on `m`.
    ///
    /// - A G that claims `m` passes its P on, because an M without a P looks whether it is claimed. If the G
    ///   is also pinned and another pinned G reserves `m`, the result is `Reserved`.
    /// - A G in a poll, a G with a value that stays, and every G of strict mode, waits at home.
    /// - A pinned G waits in place, so that no other G runs on its OS thread. If Gs are bound to `m`, it
    ///   reserves `m` instead: it may wait for one of them, or for ever.
    /// - A closure that unwinds waits in place, so that no hog delays it. If Gs are bound to `m`, it waits at
    ///   home, because its destructor may wait for one of them.
    fn of(g: OwnG, m: OwnM<'_>) -> Self {
        if m.sched().is_simulated() {
            // All Gs of a simulation run on one M.
            let free = !g.must_stay_on_thread() && !std::thread::panicking();
            return if free { Keeps::Nothing } else { Keeps::AtHome };
        }
        if g.claims() {
            return if g.is_pinned() && m.own().reserved_by.get().is_some() {
                Keeps::Reserved
            } else {
                Keeps::Claimed
            };
        }
        if g.binding.is_home() {
            return Keeps::AtHome;
        }
        if !g.must_stay_on_thread() && !std::thread::panicking() {
            return Keeps::Nothing;
        }
        match (g.is_pinned(), m.homes.is_any()) {
            (true, true) => Keeps::Reserved,
            (true, false) => Keeps::InPlace,
            (false, any) if any || g.polls() || g.stays() => Keeps::AtHome,
            (false, _) => Keeps::InPlace,
        }
    }
}

/// Parks a G that `is_free` refuses. In place the M itself ends the wait at `limit`; otherwise the timer of
/// the G does.
#[cold]
fn park_kept(g: OwnG, entered: Entered, limit: Option<Limit>) {
    if g.polls()
        && let Some(held) = entered.held()
    {
        held.counters.parks_in_polls.one();
    }
    match Keeps::of(g, entered.m()) {
        Keeps::InPlace => park_in_place(g, entered, limit),
        keeps => stop_kept(g, entered, Stop::Park, keeps),
    }
}

/// Stops a G, and lets its OS thread run other Gs until the G resumes there. Its contexts are saved before,
/// and restored afterwards.
fn stop_kept(g: OwnG, mut entered: Entered, stop: Stop, keeps: Keeps) {
    if g.has_contexts() {
        // The hooks are user code. They leave this G, its M and the wait that it has armed alone.
        drop(entered);
        contexts::save(g);
        entered = enter().expect("a green thread runs on an M");
    }
    match keeps {
        Keeps::AtHome => stop_at_home(g, entered, stop),
        Keeps::Reserved => stop_reserved(g, entered, stop),
        Keeps::Claimed => {
            hand_p_off(entered.m());
            stop_at_home(g, entered, stop);
        }
        Keeps::Nothing | Keeps::InPlace => entered.suspend(stop),
    }
    if g.has_contexts() {
        contexts::restore(g);
    }
}

/// Yields for a G that `is_free` refuses, or for code on an M's own stack. A G that waits in place passes its
/// P on, and waits for a P on its way out.
#[cold]
pub(crate) fn yield_kept(entered: Entered) {
    if !entered.nested()
        && let Some(g) = entered.m().running()
    {
        match Keeps::of(g, entered.m()) {
            Keeps::InPlace => hand_p_off(entered.m()),
            keeps => return stop_kept(g, entered, Stop::Yield, keeps),
        }
    }
    drop(entered);
    // Not by libc's name: the caller may be a hook of it.
    crate::sys::yield_thread();
}

/// Hands the M's P, if it has one, to work that waits for a P. *Runs on: `m`, in the runtime, without a
/// lock.*
pub(crate) fn hand_p_off(m: OwnM<'_>) {
    if let Some(held) = m.held() {
        m.sched().publish_handed(held);
        m.give_up(held);
        m.sched().hand_off(held.p());
    }
}

/// Stops the pinned G as `stop_at_home` does, and reserves the M until the G is resumed. The P is passed on
/// first: an M without a P looks whether it is reserved, and the others need not.
fn stop_reserved(g: OwnG, entered: Entered, stop: Stop) {
    let m: *const M = entered.m().shared();
    hand_p_off(entered.m());
    // SAFETY: an M lives as long as its runtime, and an M to which a G is bound keeps its thread, which is
    // this one.
    let reserved_by = unsafe { &OwnM::new(&*m).own().reserved_by };
    let outer = reserved_by.replace(Some(g.shared()));
    stop_at_home(g, entered, stop);
    // `M::may_run` lets the reserving Gs resume only in reverse order.
    debug_assert!(reserved_by.get().is_some_and(|by| g.is(by)), "a pinned G was resumed before an inner one");
    reserved_by.set(outer);
}

/// Stops the G, which only this M then resumes. Sets its panics in flight aside, because other Gs run on this
/// M in between.
fn stop_at_home(g: OwnG, entered: Entered, stop: Stop) {
    let m: *const M = entered.m().shared();
    let panics = if std::thread::panicking() { panics::set_aside() } else { 0 };
    // In strict mode the G is bound already, and stays bound until its stack is free.
    let binds = !g.binding.is_home();
    if binds {
        // SAFETY: `g` runs here, on `m`.
        unsafe { g.settle(entered.m()) };
    }
    entered.suspend(stop);
    debug_assert!(std::ptr::eq(current(), m), "a G that was bound to an M was resumed on another");
    if binds {
        g.unsettle();
    }
    if panics > 0 {
        panics::bring_back(panics);
    }
}

/// The limit of a wait in place, at which the wait ends as timed out.
#[derive(Clone, Copy)]
struct Limit {
    /// The wait's number.
    number: u32,
    /// The time on the runtime's clock; NEVER means no limit.
    when: u64,
}

/// Parks the G together with its M, which passes its P on.
#[cold]
fn park_in_place(g: OwnG, entered: Entered, limit: Option<Limit>) {
    let m = entered.m();
    m.sched().events.on_stop(m, g.shared(), Stops::Parks);
    m.sched().roaming.end(m);
    hand_p_off(m);
    // SAFETY: `g` runs here, on `m`.
    unsafe { g.set_in_place(Some(m)) };
    g.set_status(Status::Waiting);
    g.set_waits_since(m.sched().sysmon.about_now());
    if g.wait.commit() {
        sleep_in_place(m, g.shared(), limit);
    } else {
        m.sched().events.on_goes_on(m, g.shared());
    }
    g.set_status(Status::Running);
    debug_assert!(g.wait.is_decided(), "a wait in place ended undecided");
    // SAFETY: `g` runs here, on `m`. A waker that decided the wait has called `wake_in_place`, its last use
    // of the coroutine.
    unsafe { g.set_in_place(None) };
    // The drop takes an idle P or waits for one.
    drop(entered);
}

/// Sleeps until the committed wait of `g` is over and its waker has called `wake_in_place`. At the limit the
/// M ends the wait itself. The wait's timer may lie in a heap that no M looks at: all OS threads sleep in
/// place, and no other can be had.
fn sleep_in_place(m: OwnM<'_>, g: GRef, limit: Option<Limit>) {
    let limit = limit.filter(|limit| limit.when != clock::NEVER);
    let sleep = |limited| {
        let Some(Limit { when, .. }) = limit.filter(|_| limited) else {
            m.sched().sleep_on_note(m, None);
            return Slept::Woken;
        };
        let left = when.saturating_sub(clock::now());
        if left == 0 {
            return Slept::UntilLimit;
        }
        m.sched().sleep_on_note(m, Some(Duration::from_nanos(left)));
        Slept::Woken
    };
    let times_out = || {
        let times_out =
            limit.is_some_and(|limit| g.wait.decide(limit.number, Outcome::TimedOut) == Decision::Parked);
        if times_out {
            m.sched().events.on_ready(At::Either, g, By::Timer);
        }
        times_out
    };
    m.sleep.wish.wait_in_place(sleep, times_out);
}
