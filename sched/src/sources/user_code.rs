//! Code of users that a timer or the network calls: functions of timers, and foreign wakers. A green thread
//! is made for each call. A foreign waker is any waker that is not the scheduler's own.
//!
//! Such code must not run on the M's own stack, because it may take a lock, join or compute. It would hold up
//! a P that no other thread can take. With a single P, the holder of that lock would never run again. (Go's
//! `AfterFunc` starts a goroutine for the same reason.)
//!
//! If no memory is left for a G, a waker is called at once, on the stack of the caller: an M or sysmon. That
//! may delay a P, but a waker that is never called would leave its future asleep for ever. A function is
//! tried again later.

#![allow(unsafe_code)]

use std::panic::Location;
use std::task::Waker;

use timers::clock;

use crate::choices::simulation;
use crate::g::own::OwnG;
use crate::g::payload::put;
use crate::g::{GRef, Status, table};
use crate::m::current::on_m;
use crate::notes::events::At;
use crate::p::closing::Admitted;
use crate::p::{Held, P};
use crate::run::sched::Sched;
use crate::run::task::{CallsWaker, Closure, Work};
use crate::sys::catch_panic::call_waker;
use crate::timer::entry::{Alarm, Target, TimerRef};
use crate::timer::function::User;

/// How soon a run of a function is tried again that found no memory for a green thread.
const AGAIN_NS: u64 = 1_000_000;

impl Sched {
    /// Makes a green thread that calls `waker`. Returns the G, which the caller puts into a run queue.
    /// Returns `None` if the runtime closes: the closer calls the waker later. Also returns `None` if there
    /// is no memory for a G: the waker has then been called here. *Runs on: any thread, with no lock held.*
    #[cold]
    pub(crate) fn g_that_calls(&self, waker: Waker) -> Option<GRef> {
        let Some(admitted) = self.admit_user_code(None) else {
            self.late.add_waker(waker);
            return None;
        };
        let Ok(g) = table::take(0, |_| ()) else {
            // No memory for another green thread: call the waker here rather than never.
            call_waker(waker);
            return None;
        };
        let id = self.take_ids(1);
        // SAFETY: the G comes from the pool. The payload of a fresh G is empty and belongs to the thread that
        // took it from there.
        let put = || unsafe { CallsWaker::put(g, waker) };
        Some(self.begin_user_code(g, id, Location::caller(), put, admitted))
    }

    /// Makes a green thread that runs the function of a timer that has fired. Returns `None` if the runtime
    /// closes, or there is no memory for a green thread now. Otherwise the caller puts the G into a run
    /// queue. *Runs on: an M with that P.*
    pub(crate) fn g_that_runs(&self, held: Held<'_>, user: User) -> Option<GRef> {
        let Some(admitted) = self.admit_user_code(Some(held.p())) else {
            // A closing runtime runs no function. This user may be the last, and dropping the function is
            // user code.
            self.late.add_function(user);
            return None;
        };
        let taken = on_m(|m| (m.own().unused.take(), m.next_id()));
        let (g, id) = taken.unwrap_or_else(|| (table::take(0, |_| ()), self.take_ids(1)));
        let Ok(g) = g else {
            // Try again later, by an alarm. The timer itself belongs to the handle, which may have armed it
            // again.
            let alarm = TimerRef::of_alarm(Alarm::new(Target::Function(user)));
            self.heaps.modify(held.index, &alarm, clock::now() + AGAIN_NS, 0, 0);
            return None;
        };
        let (place, node) = (user.place(), user.node());
        let g = self.begin_user_code(g, id, place, || set_task(g, move || user.call()), admitted);
        if self.is_simulated() {
            // SAFETY: no thread runs the G before the caller has put it into a run queue.
            simulation::begin_g_on(node, unsafe { OwnG::new(g) });
        }
        Some(g)
    }

    /// Counts a G for user code by the P that the caller holds, if it holds one.
    fn admit_user_code<'s>(&'s self, p: Option<&'s P>) -> Option<Admitted<'s>> {
        if self.is_closing() {
            return None;
        }
        match p {
            Some(p) => self.closing.enter_from_p(&p.counters),
            None => self.closing.enter_from_outside(),
        }
    }

    /// Begins the life of `g`, which comes from the pool. `put` gives it its task. Returns `g`.
    fn begin_user_code(
        &self,
        g: GRef,
        id: u64,
        place: &'static Location<'static>,
        put: impl FnOnce(),
        admitted: Admitted<'_>,
    ) -> GRef {
        // SAFETY: the G comes from the pool, so no other thread has a reference.
        unsafe { g.begin(self.as_runtime(), id, place, None, 0) };
        g.life.begin_unjoined();
        g.set_status(Status::Runnable);
        put();
        admitted.commit();
        self.events.on_spawned(At::Either, g);
        g
    }
}

fn set_task<F: FnOnce()>(g: GRef, function: F) {
    // SAFETY: the payload of a fresh G is empty and belongs to the thread that took the G from the pool.
    unsafe { put(g, Work { work: function, after: () }) };
    g.set_task(&Closure::<F, (), ()>::TASK);
}
