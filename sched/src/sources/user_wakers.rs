//! Foreign wakers that a timer or the network calls: a green thread is made to call each of them. A foreign
//! waker is any waker that is not the scheduler's own.
//!
//! A waker that takes a lock, joins or computes must not run on the M's own stack. Such a waker would hold up
//! a P that no other thread can take. With a single P, the holder of that lock would never run again. (Go's
//! `AfterFunc` starts a goroutine for the same reason.)
//!
//! If no memory is left for a G, the waker is called at once, on the stack of the caller: an M or sysmon.
//! That may delay a P, but a waker that is never called would leave its future asleep for ever.

#![allow(unsafe_code)]

use std::panic::Location;
use std::task::Waker;

use crate::g::{GRef, Status, table};
use crate::run::sched::Sched;
use crate::run::task::CallsWaker;
use crate::sys::catch_panic::call_waker;

impl Sched {
    /// Makes a green thread that calls `waker`. Returns the G, which the caller puts into a run queue.
    /// Returns `None` if the runtime closes: the closer calls the waker later. Also returns `None` if there
    /// is no memory for a G: the waker has then been called here. *Runs on: any thread, with no lock held.*
    #[cold]
    pub(crate) fn g_that_calls(&self, waker: Waker) -> Option<GRef> {
        let admitted = if self.is_closing() { None } else { self.closing.enter_from_outside() };
        let Some(admitted) = admitted else {
            self.late.add_waker(waker);
            return None;
        };
        let Ok(g) = table::take(0, |_| ()) else {
            // No memory for another green thread: call the waker here rather than never.
            call_waker(waker);
            return None;
        };
        // SAFETY: the G comes from the pool, so no other thread has a reference.
        unsafe { g.begin(self.as_runtime(), self.take_ids(1), Location::caller(), None, 0) };
        g.life.begin_unjoined();
        g.set_status(Status::Runnable);
        // SAFETY: the payload of a fresh G is empty and belongs to the thread that took it from the pool.
        unsafe { CallsWaker::put(g, waker) };
        admitted.commit();
        self.events.on_spawned_by_event(g);
        Some(g)
    }
}
