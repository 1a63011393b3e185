//! Entering the runtime and leaving it: the P is taken back and lent again, and what happens when it was lost.
//!
//! ```text
//!   user code ──enter──> runtime, with its P ──leave──> user code, P lent
//!                   └──> runtime, without    ──leave──> an idle P? take it and go on
//!                        (sysmon took it)               none: the G queues up globally and keeps its M,
//!                                                       which sleeps until it is handed a P
//! ```
//!
//! Losing the P never blocks at entry, for the caller may hold the lock of a channel: without a P a call does what
//! it came for (a ready or a spawn goes to the global queue, a timer into any P's heap, a park parks). Only on the
//! way out, where the runtime holds no lock, does the G wait for a P.
//!
//! It waits *in place*: only a call that parks may move its caller to another OS thread, and leaving is no such call. The
//! G lies in the queue of all that is runnable, so that it has its turn; the M that takes it out of a queue hands its P to
//! the M that waits (`Sched::pass_to`). (The model is in `p/lease/models.rs`.)
//!
//! A G that enters often never stays away for long enough to be taken by surprise. So sysmon asks for the P, and the next
//! leave gives it up: the G goes to the end of the P's queue and waits in place, too (`give_up`).
//!
//! Code in `blocking` needs no P and waits for none: it goes on without.
//!
//! Rejected: to go on without a P. Then a crowd of computing Gs runs on as many threads as it likes, and what such a G
//! spawns grows without bound.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::time::Duration;

use timers::clock;

use crate::g::coro::{Coro, Stop};
use crate::g::wait::{Decision, Outcome};
use crate::g::{GRef, Status, panics};
use crate::m::{M, current::current};
use crate::p::{Held, lease::Lent};
use crate::sys::Doing;

/// What an M has to show for its P.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loan {
    /// The M is in the runtime; its P, if it has one, is held.
    InRuntime,
    /// The M runs user code and has lent its P by this word.
    Lent(Lent),
    /// The M runs user code in `blocking`, without a P.
    WithoutP,
}

/// Evidence that this thread is an M in the runtime; leaves when dropped.
pub(crate) struct Entered {
    m: *const M,
    /// It was in the runtime already, on its own stack: leaving is somebody else's.
    nested: bool,
    _here: PhantomData<*const ()>,
}

/// Enters the runtime; `None` on a thread that is no M. *Runs on: any thread.*
#[inline(always)]
pub(crate) fn enter() -> Option<Entered> {
    // SAFETY: an M outlives its thread's stay in it.
    let m = unsafe { current().as_ref()? };
    let nested = match m.loan.get() {
        Loan::InRuntime => true,
        loan => {
            take_back(m, loan);
            false
        }
    };
    Some(Entered { m, nested, _here: PhantomData })
}

#[inline]
fn take_back(m: &M, loan: Loan) {
    m.loan.set(Loan::InRuntime);
    if let Loan::Lent(lent) = loan
        && let Some(p) = m.lent_p()
    {
        p.lease.enter(lent, &m.lender, || m.let_go());
    }
}

/// Enters on the G's stack, to be left by the M after the switch.
#[inline]
pub(crate) fn enter_for_good() {
    match enter() {
        Some(entered) => std::mem::forget(entered),
        None => crate::fork::nowhere_to_go(),
    }
}

/// Lends the P to user code. *Runs on: an M in the runtime, with a P.*
#[inline]
pub(crate) fn lend(m: &M, held: Held<'_>) {
    m.loan.set(Loan::Lent(held.lease.lend(&m.lender)));
}

impl Entered {
    #[inline]
    pub(crate) fn m(&self) -> &M {
        // SAFETY: as in `enter`.
        unsafe { &*self.m }
    }

    #[inline]
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        self.m().held()
    }

    /// True if it runs on the M's own stack: there is no G to stop.
    pub(crate) fn nested(&self) -> bool {
        self.nested
    }

    /// True if there is a G to stop, and it may go on on another OS thread.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.nested && self.m().running().is_some_and(is_free)
    }

    /// Stops the running G; returns when it is resumed, in user code again.
    #[inline(always)]
    pub(crate) fn suspend(self, stop: Stop) {
        debug_assert!(!self.nested);
        let g = self.m().running().expect("user code on an M is a G's");
        std::mem::forget(self);
        // SAFETY: it is the G that runs on this stack; nothing of the M is used after this line.
        unsafe { Coro::suspend(g, stop) };
    }

    /// Lends the P although sysmon may have asked for it: to code that said it will block, from which sysmon takes it soon.
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
                Some(lent) => m.loan.set(Loan::Lent(lent)),
                None => give_up(m, held),
            },
            None => come_back(m),
        }
    }
}

/// Out of the runtime without a P. *Runs on: `m`, in the runtime, without a lock.*
#[cold]
fn come_back(m: &M) {
    let (g, sched) = (m.running().expect("user code on an M is a G's"), m.sched());
    if Coro::is_blocking(g) {
        return m.loan.set(Loan::WithoutP);
    }
    let queue_up = |g| sched.make_work(|| sched.global.push(g));
    let held = sched.take_idle_p(m).unwrap_or_else(|| wait_in_place(m, g, queue_up));
    lend(m, held);
}

/// Out of the runtime with a P that sysmon has asked for: others run first. *Runs on: `m`, in the runtime, without a lock.*
#[cold]
fn give_up(m: &M, held: Held<'_>) {
    let (g, sched, p) = (m.running().expect("user code on an M is a G's"), m.sched(), held.p());
    if Coro::is_blocking(g) {
        sched.rescues.declared.fetch_add(1, Ordering::Relaxed);
        m.let_go();
        sched.hand_off(p);
        return m.loan.set(Loan::WithoutP);
    }
    sched.rescues.note(Some(g), p.away_ns.load(Ordering::Relaxed), Doing::Computing);
    let queue_up = |g| {
        held.queue.put_fresh(g);
        m.let_go();
        sched.hand_off(p);
    };
    let held = wait_in_place(m, g, queue_up);
    lend(m, held);
}

/// Waits for a P in the queue of all that is runnable, into which `queue_up` puts `g`, the running G. The G stays on its
/// stack and its OS thread. *Runs on: `m`, in the runtime, without a lock; without a P after `queue_up`.*
fn wait_in_place(m: &M, g: GRef, queue_up: impl FnOnce(GRef)) -> Held<'_> {
    debug_assert!(!m.spinning.get(), "an M that spins runs no user code");
    let sched = m.sched();
    let home = Coro::is_home(g);
    if !home {
        // SAFETY: it runs here, on `m`.
        unsafe { Coro::set_in_place(g, Some(m)) };
    }
    g.set_status(Status::Runnable);
    queue_up(g);
    debug_assert!(m.lent_p().is_none(), "the P is another's");
    sched.sleep_for_a_p(m);
    if !home {
        // SAFETY: as above; the M that handed the P over had taken the G out of its queue.
        unsafe { Coro::set_in_place(g, None) };
    }
    g.set_status(Status::Running);
    m.held().expect("it was handed a P")
}

/// The G that runs here, in user code; `None` on the M's own stack and on other threads.
#[inline]
pub(crate) fn current_g() -> Option<GRef> {
    // SAFETY: as in `enter`.
    unsafe { current().as_ref()?.running() }
}

/// Looks at the M that this thread is, without entering the runtime; `None` on a thread that is no M. What it looks at
/// may be another's already. *Runs on: any thread; `look` switches to nobody.*
#[inline]
pub(crate) fn on_m<R>(look: impl FnOnce(&M) -> R) -> Option<R> {
    // SAFETY: as in `enter`.
    unsafe { current().as_ref() }.map(look)
}

/// Parks the calling G, whose wait is armed and registered. *Runs on: a green thread.*
#[inline(always)]
pub(crate) fn park(g: GRef) {
    if g.wait.is_decided() {
        return;
    }
    let entered = enter().expect("a green thread runs on an M");
    if !is_free(g) {
        return park_kept(g, entered, None);
    }
    entered.suspend(Stop::Park);
}

/// Parks the calling G under its armed wait `number`; a timer that is armed for `when` ends the wait as timed out.
/// *Runs on: a green thread.*
#[cold]
pub(crate) fn park_until(g: GRef, number: u32, when: u64) {
    if g.wait.is_decided() {
        return;
    }
    let entered = enter().expect("a green thread runs on an M");
    if !is_free(g) {
        return park_kept(g, entered, Some(Limit { number, when }));
    }
    entered.suspend(Stop::Park);
}

/// True if `g` may be moved to another OS thread when it parks: it polls no future, is not pinned, and does not unwind.
/// (std counts panics per thread.)
#[inline]
pub(crate) fn is_free(g: GRef) -> bool {
    g.is_unkept() && !std::thread::panicking()
}

/// How a G that must not leave its OS thread waits there.
enum Keeps {
    /// The M runs other Gs meanwhile; this G resumes on the same M.
    AtHome,
    /// The M sleeps with it.
    InPlace,
}

impl Keeps {
    /// A poll and all Gs of strict mode wait at home. A pinned G keeps other Gs off its OS thread. A closure that unwinds
    /// keeps an OS thread of its own, so that no hog delays it; but not one to which other Gs must return, for its
    /// destructor may wait for such a G.
    fn of(g: GRef, m: &M) -> Self {
        let alone = g.is_pinned() || !(g.polls() || m.homes.is_any());
        if alone && !Coro::is_home(g) { Keeps::InPlace } else { Keeps::AtHome }
    }
}

/// Parks a G that must not leave its OS thread. At home a timer ends the wait; in place the M looks at `limit` itself.
#[cold]
fn park_kept(g: GRef, entered: Entered, limit: Option<Limit>) {
    match Keeps::of(g, entered.m()) {
        Keeps::AtHome => stop_at_home(g, entered, Stop::Park),
        Keeps::InPlace => park_in_place(g, entered, limit),
    }
}

/// `yield_now` of a G that must not leave its OS thread, or of code that runs on an M's own stack. A G that keeps its M to
/// itself passes its P on, as in a park, and waits for a P on its way out.
#[cold]
pub(crate) fn yield_kept(entered: Entered) {
    if !entered.nested()
        && let Some(g) = entered.m().running()
    {
        match Keeps::of(g, entered.m()) {
            Keeps::AtHome => return stop_at_home(g, entered, Stop::Yield),
            Keeps::InPlace => pass_p_on(entered.m()),
        }
    }
    drop(entered);
    std::thread::yield_now();
}

/// Gives the M's P, if it has one, to the work that waits for a P. *Runs on: `m`, in the runtime, without a lock.*
fn pass_p_on(m: &M) {
    if let Some(held) = m.held() {
        m.let_go();
        m.sched().hand_off(held.p());
    }
}

/// Stops the G; only this M resumes it. Its panics in flight are set aside, for other Gs run on this M meanwhile.
fn stop_at_home(g: GRef, entered: Entered, stop: Stop) {
    let m: *const M = entered.m();
    let panics = if std::thread::panicking() { panics::set_aside() } else { 0 };
    // In strict mode it is bound already, until its stack is free.
    let binds = !Coro::is_home(g);
    if binds {
        // SAFETY: `g` runs here, on `m`.
        unsafe { Coro::settle(g, entered.m()) };
    }
    entered.suspend(stop);
    debug_assert!(std::ptr::eq(current(), m), "a G that was bound to an M was resumed on another");
    if binds {
        Coro::unsettle(g);
    }
    if panics > 0 {
        panics::bring_back(panics);
    }
}

/// When a wait in place is to end as timed out.
struct Limit {
    /// The wait's number.
    number: u32,
    /// The time on the runtime's clock; NEVER for no limit.
    when: u64,
}

/// Parks the G together with its M, which hands its P on.
#[cold]
fn park_in_place(g: GRef, entered: Entered, limit: Option<Limit>) {
    let m = entered.m();
    pass_p_on(m);
    // SAFETY: `g` runs here, on `m`.
    unsafe { Coro::set_in_place(g, Some(m)) };
    if g.wait.commit() {
        sleep_in_place(m, g, limit);
    }
    debug_assert!(g.wait.is_decided(), "a wait in place ended undecided");
    // SAFETY: `g` runs here, on `m`. A waker that decided the wait has called `wake_in_place`, its last use of the coroutine.
    unsafe { Coro::set_in_place(g, None) };
    // Leaving finds a P or waits for one.
    drop(entered);
}

/// Sleeps until the committed wait of `g` is over, and its waker has said so. At the limit the M ends the wait itself, because
/// the wait's timer may lie in a heap that no M looks at: all OS threads may be asleep here, and no further one to be had.
fn sleep_in_place(m: &M, g: GRef, limit: Option<Limit>) {
    let mut limit = limit.filter(|limit| limit.when != clock::NEVER);
    // The note's wake-up alone ends no wait: it may be a late one.
    while !m.take_woken_in_place() {
        let Some(Limit { number, when }) = limit else {
            m.note.sleep();
            continue;
        };
        let left = when.saturating_sub(clock::now());
        if left > 0 {
            m.note.sleep_for(Duration::from_nanos(left));
        } else if g.wait.decide(number, Outcome::TimedOut) == Decision::Parked {
            return;
        } else {
            // A waker has decided the wait, and is about to say so.
            limit = None;
        }
    }
}
