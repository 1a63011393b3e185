//! Waking: makes waiters runnable, finds an M to run them, and provides the `Waker`s of futures on Gs.
//!
//! A waker decides a wait (`g/wait.rs`). If the waiter had committed its wait, [`ready`] makes the waiter
//! runnable. It does so in a run queue, at the home M, in place, or as a plain OS thread. Wakers of futures
//! count as references to their G.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::asleep::rest::SleepKind;
use crate::g::binding::Binding;
use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef, Status, Ticket};
use crate::m::binding::Bound;
use crate::m::current::current;
use crate::m::os_thread;
use crate::m::release::release;
use crate::m::{M, OwnM};
use crate::notes::events::{At, on_delay};
use crate::p::Held;
use crate::p::event::By;
use crate::p::run_queue::RunQueue;
use crate::run::boundary::{Entered, enter};
use crate::run::case_waker::{self, CaseWaker};
use crate::run::sched::Sched;
use crate::sys::fork::is_forked;

/// Decides a wait as woken, and makes the waiter runnable. Returns `false` if the wait was over. *Runs on:
/// any thread.*
// Not a function of the outcome: compilers do not always make a loop for each outcome out of that of
// `decide`.
#[inline]
pub fn wake(ticket: Ticket) -> bool {
    match ticket.g.wait.decide(ticket.number, Outcome::Woken) {
        Decision::Lost => false,
        Decision::Early => true,
        Decision::Parked => {
            ready(ticket.g);
            true
        }
    }
}

/// As `wake`, for a G that has ended: a waiter that this M may run is the next that it runs. So no other M is
/// woken for it. *Runs on: a G at its end, which goes straight to its M.*
#[inline]
pub(crate) fn wake_at_end(entered: &Entered, ticket: Ticket) {
    let g = ticket.g;
    let parked = g.wait.decide(ticket.number, Outcome::Woken) == Decision::Parked;
    if !parked || wake_if_unqueueable(g, By::Caller) {
        return;
    }
    g.set_status(Status::Runnable);
    match local_p(entered, g) {
        Some(held) if RunQueue::is_over(held.own().slice.get()) => ready_next(entered.m(), held, g),
        Some(held) => {
            entered.m().sched().events.on_ready(At::P(held), g, By::Caller);
            held.queue.hand(g);
        }
        None => ready_globally(g, By::Caller),
    }
}

/// Makes a parked G runnable (Go: `ready`). *Runs on: the thread that decided its wait.*
#[inline]
pub(crate) fn ready(g: GRef) {
    if wake_if_unqueueable(g, By::Caller) {
        return;
    }
    g.set_status(Status::Runnable);
    let entered = enter();
    match entered.as_ref().and_then(|e| local_p(e, g)) {
        Some(held) => ready_next(entered.as_ref().expect("a P is held").m(), held, g),
        None => ready_globally(g, By::Caller),
    }
}

/// Puts `g` into the slot of this P, and wakes an M for it if need be. The status of `g` is that it is
/// runnable.
#[inline(always)]
fn ready_next(m: OwnM<'_>, held: Held<'_>, g: GRef) {
    m.sched().events.on_ready(At::P(held), g, By::Caller);
    held.queue.put_next(g);
    m.sched().wake_for_one(held);
}

/// Wakes `g` and returns `true` if no run queue of a P may hold it. That is so of a plain OS thread, a G
/// parked in place, and a G bound to an M. *Runs on: the thread that decided its wait.*
// Nearly every G is free: this look is inlined into the callers.
#[inline(always)]
pub(crate) fn wake_if_unqueueable(g: GRef, by: By) -> bool {
    if g.is_green() && g.binding.get() == Binding::Free {
        return false;
    }
    wake_unqueueable(g, by);
    true
}

#[inline(never)]
fn wake_unqueueable(g: GRef, by: By) {
    if !g.is_green() {
        return os_thread::wake(g);
    }
    match g.bound() {
        Bound::Free => unreachable!("the binding of a parked G does not change"),
        Bound::InPlace(m) => {
            // SAFETY: `g` is parked until its M is woken.
            let sched = unsafe { Sched::of_parked(g) };
            sched.events.on_ready(At::Either, g, by);
            m.sleep.end_wait_in_place();
        }
        Bound::Home(m) => ready_at_home(m, g, by),
    }
}

/// Makes a parked G runnable on the M to which it is bound.
fn ready_at_home(m: &M, g: GRef, by: By) {
    g.set_status(Status::Runnable);
    // SAFETY: `current` names the M of this OS thread, which outlives that thread.
    match unsafe { current().as_ref() } {
        // The M looks at its queue when the code that it runs now stops.
        Some(here) if ptr::eq(here, m) => {
            here.sched().events.on_ready(At::Either, g, by);
            m.home.push(g);
        }
        // This M keeps its runtime alive.
        Some(here) if ptr::eq(here.runtime, g.runtime()) => here.sched().put_home(m, g, by),
        // In a forked child no M exists that would run the G.
        _ if is_forked() => {}
        _ => {
            // SAFETY: `g` is parked until it is in the queue.
            let sched = unsafe { Sched::of_parked(g) };
            sched.put_home(m, g, by);
        }
    }
}

/// Returns the P of this thread if it belongs to the runtime of `g`.
#[inline]
fn local_p(entered: &Entered, g: GRef) -> Option<Held<'_>> {
    if ptr::eq(entered.m().runtime, g.runtime()) { entered.held() } else { None }
}

/// Makes a parked G runnable, if its wait was decided while a dump held it. *Runs on: the thread that held
/// it.*
pub(crate) fn ready_after_hold(g: GRef) {
    if !wake_if_unqueueable(g, By::Scheduler) {
        ready_globally(g, By::Scheduler);
    }
}

/// Makes a parked G runnable through the global queue of its runtime. *Runs on: the thread that decided its
/// wait.*
#[cold]
pub(crate) fn ready_globally(g: GRef, by: By) {
    if is_forked() {
        // In a forked child no M exists that would run the G.
        return;
    }
    g.set_status(Status::Runnable);
    // SAFETY: `g` is parked until it is in the queue.
    let sched = unsafe { Sched::of_parked(g) };
    sched.events.on_ready(At::Outside, g, by);
    sched.make_work(|| sched.global.push(g));
}

/// Makes many parked Gs runnable, in order. *Runs on: the thread that decided their waits.*
pub(crate) fn ready_many(mut gs: GList) {
    if gs.is_empty() {
        return;
    }
    let entered = enter();
    let mut here = GList::new();
    while let Some(g) = gs.pop() {
        if wake_if_unqueueable(g, By::Caller) {
            continue;
        }
        match entered.as_ref().and_then(|e| local_p(e, g)) {
            Some(_) => here.push(g),
            None => ready_globally(g, By::Caller),
        }
    }
    if let Some(entered) = &entered
        && let Some(held) = entered.held()
    {
        entered.m().sched().ready_all(held, here, By::Caller);
    }
}

impl Sched {
    /// Puts a G into the queue of the M to which it is bound, and wakes that M if it sleeps. *Runs on: any
    /// thread.*
    fn put_home(&self, m: &M, g: GRef, by: By) {
        self.events.on_ready(At::Either, g, by);
        m.home.push(g);
        match m.sleep.rest.look() {
            None => {}
            Some(SleepKind::Parked | SleepKind::Reserved) => m.sleep.note.wake(),
            // Another M may block in the netpoller by now; it then returns without need.
            Some(SleepKind::Polls) => self.netpoll.break_poll(),
        }
    }

    /// Leaves `report` for the callers of `block_on`, and cancels the green threads that they wait for.
    pub(crate) fn cancel_mains(&self, report: &Arc<str>) {
        for (g, id) in self.block_on_calls.tell(report) {
            // Take a reference first: without one the G may end here and be used again.
            if g.life.try_retain() {
                if g.id() == id && g.wait.cancel() == Decision::Parked {
                    ready(g);
                }
                release(g);
            }
        }
    }

    /// Adds `g` to the Gs that `ready_all` is to make runnable. `g` is parked, and its wait is decided. Makes
    /// it runnable at once if it is none of this runtime or no run queue may hold it. *Runs on: the thread
    /// that decided its wait.*
    pub(crate) fn ready_in_list(&self, g: GRef, by: By, gs: &mut GList) {
        if wake_if_unqueueable(g, by) {
            return;
        }
        if ptr::eq(g.runtime(), self.as_runtime()) {
            gs.push(g);
        } else {
            ready_globally(g, by);
        }
    }

    /// As `ready_in_list`, for the G that `waker` wakes. A waker that is user code is not called here: a G
    /// that calls it is added.
    pub(crate) fn wake_by(&self, waker: Waker, by: By, gs: &mut GList) {
        match decided_by(&waker) {
            Some(woken) => {
                if let Some(g) = woken {
                    self.ready_in_list(g, by, gs);
                }
            }
            None => {
                if let Some(g) = self.g_that_calls(waker) {
                    gs.push(g);
                }
            }
        }
    }

    /// Makes Gs runnable that the network or the clock woke together. *Runs on: the holder of the P.*
    #[inline]
    pub(crate) fn ready_all(&self, held: Held<'_>, mut gs: GList, by: By) {
        if gs.is_empty() {
            return;
        }
        // So many take time: the first of them does not run at once.
        let many = gs.len() > 8;
        self.make_work(|| {
            while let Some(g) = gs.pop() {
                g.set_status(Status::Runnable);
                self.events.on_ready(At::P(held), g, by);
                held.queue.put_woken(g);
            }
        });
        if many {
            on_delay(At::P(held));
        }
    }

    /// Makes parked Gs of this runtime runnable through the global queue. *Runs on: a thread without a P,
    /// which has decided their waits.*
    pub(crate) fn ready_all_globally(&self, gs: GList, by: By) {
        gs.iter().for_each(|g| self.events.on_ready(At::Outside, g, by));
        self.make_work(|| self.global.append(gs));
    }

    /// Publishes work by `publish`, which puts it into a run queue. Wakes an M for the work if a P is idle
    /// and no M looks for work. Returns what `publish` returns. *Runs on: any thread.*
    #[inline]
    pub(crate) fn make_work<T>(&self, publish: impl FnOnce() -> T) -> T {
        self.idle.make_work(publish, || self.wake_idle_p())
    }

    /// Wakes an M for an idle P, if no M looks for work already (Go: `wakep`). The caller's last store
    /// published work with SeqCst, or the caller fenced.
    #[inline]
    pub(crate) fn wake_idle_p(&self) {
        self.idle.wake_for_work(|| self.sysmon.work_waits(), || self.wake_idle_p_slow());
    }

    /// As `wake_idle_p`, for one G in the queue of this P. If no other G waits there, an M may watch over it
    /// instead (`asleep/lone_watch.rs`).
    #[inline]
    pub(crate) fn wake_for_one(&self, held: Held<'_>) {
        let is_lone = || held.queue.has_one();
        self.idle.wake_for_one(is_lone, || self.sysmon.work_waits(), || self.wake_idle_p_slow());
    }

    #[cold]
    fn wake_idle_p_slow(&self) {
        if let Some(p) = self.idle.take_to_look(|p| self.p(p).lease.set_held()) {
            self.start_m(p, true);
            on_delay(At::Either);
        }
    }

    /// Hands P `p` to a parked M, or to a new M if none is parked (Go: `startm`). `spinning` says that the M
    /// is to look for work; otherwise another M has lost the P. The caller holds the lease of `p`. *Runs on:
    /// any thread.*
    pub(crate) fn start_m(&self, p: usize, spinning: bool) {
        match self.idle.unpark() {
            Some(m) => {
                if !spinning && !self.is_simulated() {
                    m.m().shorten_slice();
                }
                m.m().sleep.hand_to_parked(p, spinning);
            }
            None => self.start_m_with(p, spinning),
        }
    }
}

impl CaseWaker {
    /// Makes a waker for a future that the calling thread polls.
    pub fn new() -> CaseWaker {
        CaseWaker::of_caller(ready)
    }
}

impl Default for CaseWaker {
    fn default() -> Self {
        CaseWaker::new()
    }
}

/// Wakes a G that polls a future, or waits for its next poll.
fn wake_future(g: GRef) {
    if let Some(number) = g.wakes.unpark() {
        wake(Ticket { g, number });
    }
}

// A static, not a const, because `is_waker_of_a_g` compares its address.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |g| {
        as_g(g).on_awaited(M::events);
        as_g(g).life.retain();
        RawWaker::new(g, &VTABLE)
    },
    |g| {
        wake_future(as_g(g));
        release(as_g(g));
    },
    |g| wake_future(as_g(g)),
    |g| release(as_g(g)),
);

fn as_g(g: *const ()) -> GRef {
    // SAFETY: only `borrowed_waker` and the clone function above make these pointers, from Gs, which are
    // never freed.
    unsafe { &*g.cast::<G>() }
}

/// Returns the waker that ends a park of `g` on its `wakes` token. Clones of it count as references to `g`;
/// the result does not.
pub(crate) fn borrowed_waker(g: GRef) -> ManuallyDrop<Waker> {
    // SAFETY: the functions of `VTABLE` are thread-safe and keep the contract of `RawWakerVTable`; `g` is
    // never freed.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(ptr::from_ref(g).cast(), &VTABLE)) })
}

fn is_waker_of_a_g(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &VTABLE)
}

/// Returns `None` if `waker` is user code. Else takes the wake-up and decides the wait. Returns the G to make
/// runnable; the inner `None` means that there is none.
pub(crate) fn decided_by(waker: &Waker) -> Option<Option<GRef>> {
    if !is_waker_of_a_g(waker) {
        return case_waker::decided_by(waker);
    }
    let g = as_g(waker.data());
    let parked = |number| g.wait.decide(number, Outcome::Woken) == Decision::Parked;
    Some(g.wakes.unpark().and_then(|number| parked(number).then_some(g)))
}

/// Returns `true` if `waker` is the waker of `g`.
pub(crate) fn is_waker_of(waker: &Waker, g: GRef) -> bool {
    ptr::eq(waker.data(), ptr::from_ref(g).cast()) && is_waker_of_a_g(waker)
}
