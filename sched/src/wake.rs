//! Making Gs runnable, and waking somebody to run them.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::contain::contain;
use crate::fork::is_forked;
use crate::g::coro::{Bound, Coro};
use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef, Status, Ticket};
use crate::lend::{Entered, enter};
use crate::m::M;
use crate::m::current::current;
use crate::m::rest::How;
use crate::outside;
use crate::p::Held;
use crate::sched::Sched;

/// Ends a wait as woken and makes the one who waited runnable; `false` if the wait is over. *Runs on: any thread.*
#[inline]
pub fn wake(ticket: Ticket) -> bool {
    end_wait(ticket, Outcome::Woken)
}

pub(crate) fn end_wait(ticket: Ticket, outcome: Outcome) -> bool {
    match ticket.g.wait.decide(ticket.number, outcome) {
        Decision::Lost => false,
        Decision::Early => true,
        Decision::Parked => {
            ready(ticket.g);
            true
        }
    }
}

/// Makes a parked G runnable (Go: `ready`). *Runs on: any thread, by whoever decided its wait.*
#[inline]
pub(crate) fn ready(g: GRef) {
    if is_elsewhere(g) {
        return;
    }
    g.set_status(Status::Runnable);
    let entered = enter();
    match entered.as_ref().and_then(|e| local_p(e, g)) {
        Some(held) => {
            held.queue.put_next(g);
            entered.as_ref().expect("a P is held").m().sched().wake_idle_p();
        }
        None => ready_globally(g),
    }
}

/// Wakes a waiter that no run queue of a P may have: a plain thread, a G that is parked in place, one that only one M
/// may run. *Runs on: as `ready`.*
pub(crate) fn is_elsewhere(g: GRef) -> bool {
    if !g.is_green() {
        outside::wake(g);
        return true;
    }
    match Coro::bound(g) {
        Bound::Free => return false,
        Bound::InPlace(m) => {
            let _sched = keep_sched(g);
            m.wake_in_place();
        }
        Bound::Home(m) => ready_at_home(m, g),
    }
    true
}

/// Makes a parked G runnable on the one M that may run it.
fn ready_at_home(m: &M, g: GRef) {
    g.set_status(Status::Runnable);
    // SAFETY: an M outlives its thread's stay in it.
    match unsafe { current().as_ref() } {
        // It comes to its queue when what it runs now stops.
        Some(here) if ptr::eq(here, m) => m.home.push(g),
        // The runtime lives while one of its own Ms is in it.
        Some(here) if ptr::eq(here.sched, g.owner()) => here.sched().put_home(m, g),
        // In a forked child it is not here: nobody would run it.
        _ if is_forked() => {}
        _ => {
            let sched = keep_sched(g);
            sched.put_home(m, g);
        }
    }
}

/// Holds on to the runtime of a parked G, which may end, and its runtime with it, as soon as it can run.
fn keep_sched(g: GRef) -> Arc<Sched> {
    // SAFETY: `g` is parked, so its runtime lives. The pointer was made from a reference, which does not cover the counts
    // of an `Arc`: `arc` reaches them by the runtime's own `Weak`.
    unsafe { (*g.owner()).arc() }
}

/// The P of this thread, if it is one of the runtime that `g` belongs to.
#[inline]
fn local_p(entered: &Entered, g: GRef) -> Option<Held<'_>> {
    if ptr::eq(entered.m().sched, g.owner()) { entered.held() } else { None }
}

/// Makes a parked G runnable through the global queue of its runtime. *Runs on: as `ready`.*
#[cold]
pub(crate) fn ready_globally(g: GRef) {
    if is_forked() {
        // It is not here: nobody would run it.
        return;
    }
    g.set_status(Status::Runnable);
    let sched = keep_sched(g);
    sched.make_work(|| sched.global.push(g));
}

/// Makes many parked Gs runnable, in order. *Runs on: as `ready`.*
pub(crate) fn ready_many(mut gs: GList) {
    if gs.is_empty() {
        return;
    }
    let entered = enter();
    let mut here = GList::new();
    while let Some(g) = gs.pop() {
        if is_elsewhere(g) {
            continue;
        }
        match entered.as_ref().and_then(|e| local_p(e, g)) {
            Some(_) => here.push(g),
            None => ready_globally(g),
        }
    }
    if let Some(entered) = &entered
        && let Some(held) = entered.held()
    {
        entered.m().sched().ready_all(held, here);
    }
}

impl Sched {
    /// Puts a G into the queue of the one M that may run it, and wakes that M if it sleeps. *Runs on: any thread.*
    fn put_home(&self, m: &M, g: GRef) {
        m.home.push(g);
        match m.rest.look() {
            None => {}
            Some(How::Parked) => m.note.wake(),
            // Perhaps another M by now; then that one looks around for nothing.
            Some(How::Polls) => self.netpoll.break_poll(),
        }
    }

    /// Gs that were woken all at once, by the network or a clock. *Runs on: the holder of the P.*
    pub(crate) fn ready_all(&self, held: Held<'_>, mut gs: GList) {
        if gs.is_empty() {
            return;
        }
        self.make_work(|| {
            while let Some(g) = gs.pop() {
                g.set_status(Status::Runnable);
                held.queue.put_woken(g);
            }
        });
    }

    /// Publishes work by `publish`, which puts it into a run queue, and wakes an M for it if a P is idle and no M looks for work.
    /// Returns what `publish` returns. *Runs on: any thread.*
    #[inline]
    pub(crate) fn make_work<T>(&self, publish: impl FnOnce() -> T) -> T {
        self.idle.make_work(publish, || self.wake_idle_p())
    }

    /// Wakes an M for an idle P, if no M looks for work already (Go: `wakep`). The caller's last store published work with SeqCst,
    /// or the caller fenced.
    #[inline]
    pub(crate) fn wake_idle_p(&self) {
        self.idle.wake_for_work(|| self.watch.work_waits(), || self.wake_idle_p_slow());
    }

    #[cold]
    fn wake_idle_p_slow(&self) {
        if let Some(p) = self.idle.take_to_look(|p| self.p(p).lease.set_held()) {
            self.start_m(p, true);
        }
    }
}

/// Calls a waker, whose panic is its own affair: it is reported, and the scheduler goes on.
pub(crate) fn call(waker: Waker) {
    if !contain(|| waker.wake()) {
        eprintln!("a waker panicked; the green thread that it was to wake may wait for ever");
    }
}

/// Wakes the G whose future is polled, or will be.
fn wake_future(g: GRef) {
    if let Some(number) = g.wakes.unpark() {
        wake(Ticket { g, number });
    }
}

// A static, not a const: `is_harmless` compares its address.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |g| {
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
    // SAFETY: only `borrowed_waker` and the clone above make these, of Gs, which are never freed.
    unsafe { &*g.cast::<G>() }
}

/// The waker that wakes `g` from a park on its `wakes` token. Its clones count as references; it does not.
pub(crate) fn borrowed_waker(g: GRef) -> ManuallyDrop<Waker> {
    // SAFETY: the functions above keep to the contract of `RawWakerVTable`, on any thread.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(ptr::from_ref(g).cast(), &VTABLE)) })
}

/// True if it is the waker of some G: calling it runs no code but the scheduler's.
pub(crate) fn is_harmless(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &VTABLE)
}

/// What calling it would end, if it is the waker of some G, as `wake_future` does it; the inner `None`: nothing, for now.
pub(crate) fn ticket_of(waker: &Waker) -> Option<Option<Ticket>> {
    is_harmless(waker).then(|| {
        let g = as_g(waker.data());
        g.wakes.unpark().map(|number| Ticket { g, number })
    })
}

/// True if it is the waker of `g`.
pub(crate) fn is_waker_of(waker: &Waker, g: GRef) -> bool {
    ptr::eq(waker.data(), ptr::from_ref(g).cast()) && is_harmless(waker)
}

/// Gives up a reference to a G. *Runs on: any thread.*
pub(crate) fn release(g: GRef) {
    if g.life.release() {
        recycle(g);
    }
}

/// The last reference is gone: the G may be used again.
pub(crate) fn recycle(g: GRef) {
    if !g.is_green() {
        return outside::recycle(g);
    }
    g.forget();
    // SAFETY: an M outlives its thread's stay in it; what it keeps is its thread's own, lent P or not.
    match unsafe { current().as_ref() } {
        Some(m) => m.give_g(g),
        None => crate::g::table::give([g]),
    }
}
