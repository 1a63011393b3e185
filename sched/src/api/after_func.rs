//! `AfterFunc`: a timer that runs a function on a green thread made for that run, each time it fires (Go:
//! `AfterFunc`).
//!
//! `timer/function.rs` has the memory behind the handle, and `sources/user_code.rs` makes the green thread.
//!
//! A run is counted as a user when the timer is taken out of its heap. From the same step on, `stop` returns
//! `false`. So `stop` and `reset` are exact: a run that they have not stopped takes place. It does so even if
//! the handle is dropped before the run has a green thread.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use timers::{Modified, clock};

use crate::m::kept::Kept;
use crate::run::boundary::{Entered, enter};
use crate::run::sched::Sched;
use crate::sync::unpaused;
use crate::sys::fork;
use crate::timer::entry::TimerRef;
use crate::timer::function::User;

/// The handle of an `AfterFunc`. Dropping the handle stops the timer.
pub struct AfterFunc {
    user: User,
    /// The runtime with the heap that has the timer.
    sched: ManuallyDrop<Kept<Sched>>,
}

impl AfterFunc {
    /// Arms a timer that runs `function` `time` from now, in the caller's runtime, or else in the runtime
    /// that `sched` returns.
    ///
    /// # Panics
    /// Panics in a child of `fork`, where no thread would run the function.
    #[track_caller]
    pub fn new<F>(time: Duration, function: F, sched: fn() -> Arc<Sched>) -> AfterFunc
    where
        F: Fn() + Send + Sync + 'static,
    {
        let when = clock::after(time);
        let user = User::new(function, Location::caller());
        let entry = TimerRef::of_func(user.head_ptr());
        if let Some(entered) = enter() {
            let sched = entered.m().sched();
            let heap = heap_of(&entered);
            if let Some(when) = sched.heaps.add(heap, entry, when, 0, 0) {
                sched.timer_was_added(when);
            }
            return AfterFunc { user, sched: ManuallyDrop::new(entered.m().keep()) };
        }
        fork::check_or_panic();
        let sched = sched();
        if let Some(when) = unpaused(|| sched.heaps.add(0, entry, when, 0, 0)) {
            sched.timer_was_added(when);
        }
        AfterFunc { user, sched: ManuallyDrop::new(Kept::Alone(sched)) }
    }

    /// Stops the timer. Returns `true` if the timer was armed: its run does not take place.
    pub fn stop(&self) -> bool {
        !fork::is_forked() && unpaused(|| self.sched.heaps.delete(self.user.timer()))
    }

    /// Moves the next run to `time` from now. Returns `true` if a run was pending; that run does not take
    /// place at its old time.
    ///
    /// # Panics
    /// Panics in a child of `fork`.
    pub fn reset(&self, time: Duration) -> bool {
        let when = clock::after(time);
        let entry = TimerRef::borrow_func(self.user.head_ptr());
        let modified: Modified = match enter() {
            Some(entered) if ptr::eq(entered.m().runtime, self.sched.as_runtime()) => {
                let heap = heap_of(&entered);
                self.sched.set_timer(heap, &entry, when, 0)
            }
            entered => {
                // The caller is not in the timer's runtime and has no P there, so any heap will do.
                drop(entered);
                fork::check_or_panic();
                unpaused(|| self.sched.heaps.modify(0, &entry, when, 0, 0))
            }
        };
        if let Some(when) = modified.wake_for {
            self.sched.timer_was_added(when);
        }
        modified.was_pending
    }
}

impl Drop for AfterFunc {
    fn drop(&mut self) {
        if fork::is_forked() {
            // Threads that do not exist here may have been inside the heap. The parent stops its own copy.
            return;
        }
        unpaused(|| self.sched.heaps.delete(self.user.timer()));
        // SAFETY: `sched` is dropped once, here, and not used after.
        unsafe { ManuallyDrop::drop(&mut self.sched) };
    }
}

impl std::fmt::Debug for AfterFunc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AfterFunc").field("place", self.user.place()).finish_non_exhaustive()
    }
}

/// Returns the heap for a timer that the caller arms, and records that. Without a P, any heap will do.
fn heap_of(entered: &Entered) -> usize {
    let (m, held) = (entered.m(), entered.held());
    m.sched().events.on_timer_armed(held, m.running().map_or(0, |g| g.id()), false);
    m.sched().heap_for(held)
}
