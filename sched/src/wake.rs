//! Making Gs runnable, and waking somebody to run them.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::g::coro::Coro;
use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef, Status, Ticket};
use crate::lend::{Entered, enter};
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

/// Wakes a waiter that is in no run queue: a plain thread, or a G that is parked in place.
pub(crate) fn is_elsewhere(g: GRef) -> bool {
    if !g.is_green() {
        outside::wake(g);
        return true;
    }
    match Coro::in_place(g) {
        Some(m) => {
            m.note.wake();
            true
        }
        None => false,
    }
}

/// The P of this thread, if it is one of the runtime that `g` belongs to.
#[inline]
fn local_p(entered: &Entered, g: GRef) -> Option<Held<'_>> {
    if ptr::eq(entered.m().sched, g.owner()) { entered.held() } else { None }
}

/// Makes a parked G runnable through the global queue of its runtime. *Runs on: as `ready`.*
#[cold]
pub(crate) fn ready_globally(g: GRef) {
    g.set_status(Status::Runnable);
    // SAFETY: `g` is parked, so its runtime lives; it may end as soon as `g` runs, so we hold on to it before that.
    let sched = unsafe {
        Arc::increment_strong_count(g.owner());
        Arc::from_raw(g.owner())
    };
    sched.global.push(g);
    sched.work_was_made();
}

impl Sched {
    /// Gs that the network or a clock woke, all at once. *Runs on: the holder of the P.*
    pub(crate) fn ready_all(&self, held: Held<'_>, mut gs: GList) {
        if gs.is_empty() {
            return;
        }
        while let Some(g) = gs.pop() {
            g.set_status(Status::Runnable);
            held.queue.put_woken(g);
        }
        self.work_was_made();
    }

    /// Work was published: somebody must look. *Runs on: any thread.*
    #[inline]
    pub(crate) fn work_was_made(&self) {
        // The maker's half of the idle protocol; the partner is `Idle::look_again`.
        crate::sync::full_fence();
        self.wake_idle_p();
    }

    /// Wakes an M for an idle P, if nobody looks for work already (Go: `wakep`). The caller's last store published
    /// work with SeqCst, or it fenced.
    #[inline]
    pub(crate) fn wake_idle_p(&self) {
        if self.idle.idle_ps() == 0 {
            self.watch.work_waits();
        } else if self.idle.nobody_spins() {
            self.wake_idle_p_slow();
        }
    }

    #[cold]
    fn wake_idle_p_slow(&self) {
        if !self.idle.start_spinning_alone() {
            return;
        }
        match self.idle.take(|p| self.p(p).lease.set_held()) {
            Some(p) => self.start_m(p, true),
            None => self.idle.stop_spinning(),
        }
    }
}

/// Calls a waker, whose panic is its own affair: it is reported, and the scheduler goes on.
pub(crate) fn call(waker: Waker) {
    if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
        eprintln!("a waker panicked; the green thread that it was to wake may wait for ever");
    }
}

/// Wakes the G whose future is polled, or will be.
fn wake_future(g: GRef) {
    if let Some(number) = g.wakes.unpark() {
        wake(Ticket { g, number });
    }
}

// A static, not a const: `is_waker_of` compares its address.
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

/// True if it is the waker of `g`.
pub(crate) fn is_waker_of(waker: &Waker, g: GRef) -> bool {
    ptr::eq(waker.data(), ptr::from_ref(g).cast()) && ptr::eq(waker.vtable(), &VTABLE)
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
    match unsafe { crate::m::current::current().as_ref() } {
        Some(m) => m.give_g(g),
        None => crate::g::table::give([g]),
    }
}
