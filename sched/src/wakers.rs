//! Wakers that a timer or the network calls and that are not the scheduler's own: each is called by a green thread made for it.
//!
//! On the M's own stack a waker that takes a lock, joins or computes would hold up a P that nobody can take away; and with
//! one P, whoever has the lock would never run again. (Go's `AfterFunc` starts a goroutine for the same reason.)

#![allow(unsafe_code)]

use std::panic::Location;
use std::task::Waker;

use parking_lot::Mutex;

use crate::after_func::User;
use crate::contain::contain;
use crate::g::task::CallsWaker;
use crate::g::{GRef, Status, table};
use crate::ids;
use crate::sched::Sched;
use crate::wake;

/// User code that would have run while the runtime was being shut down: no new green thread may come then.
#[derive(Default)]
pub(crate) struct LateWakers(Mutex<Vec<Late>>);

enum Late {
    /// A waker to be called.
    Waker(Waker),
    /// A user of a timer's function to be dropped: the function does not run any more.
    Function(User),
}

impl Sched {
    /// A green thread that calls `waker`, to be put into a run queue. *Runs on: any thread, no lock held.*
    #[cold]
    pub(crate) fn g_that_calls(&self, waker: Waker) -> Option<GRef> {
        let admitted = if self.is_closing() { None } else { self.closing.enter_from_outside() };
        let Some(admitted) = admitted else {
            self.late_wakers.0.lock().push(Late::Waker(waker));
            return None;
        };
        let Ok(g) = table::take(0, |_| ()) else {
            // No memory for another green thread: better here than never.
            wake::call(waker);
            return None;
        };
        // SAFETY: it comes from the pool, so nobody else has a reference.
        unsafe { g.begin(self, ids::single(), Location::caller(), None) };
        g.life.begin_unjoined();
        g.set_status(Status::Runnable);
        // SAFETY: a fresh G's payload is empty and ours.
        unsafe { CallsWaker::put(g, waker) };
        admitted.come();
        Some(g)
    }

    /// Keeps a user of a function that does not run any more, until user code may run. *Runs on: any thread, no lock held.*
    #[cold]
    pub(crate) fn drop_late(&self, user: User) {
        self.late_wakers.0.lock().push(Late::Function(user));
    }

    /// Calls the wakers, and drops the functions, that came too late for a green thread. *Runs on: the thread that shuts
    /// the runtime down.*
    pub(crate) fn call_late_wakers(&self) {
        let late = std::mem::take(&mut *self.late_wakers.0.lock());
        for late in late {
            match late {
                Late::Waker(waker) => wake::call(waker),
                Late::Function(user) => _ = contain(|| drop(user)),
            }
        }
    }
}
