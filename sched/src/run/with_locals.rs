//! The main loop of an M on which green threads have thread-locals of their own: from one G straight to the
//! next.
//!
//! Setting the base of thread-locals takes as long as the rest of a switch. The loop of `run_loop.rs` would
//! set it twice: when a G stops, and when the next begins. This loop takes the next G first, and goes from
//! the block of the one to the block of the other:
//!
//! ```text
//!   g stops          the M is off its stack, and in its block; no other thread sees yet that g has stopped
//!   next_at_once     takes the next G from this P's queue, if nothing else is to be done
//!   go               into the block of that G, which is this M's alone now
//!   stopped          only now may others see g as parked, queued or dead, and enter its block
//! ```
//!
//! Without such a G the M goes back to its own block, and looks for one as always.
//!
//! The M runs its own code under the block of a G here, and no code of the user. `errno` is the G's in that
//! time: a park may change it, as any call may. A compiler may keep the address of a thread-local for a whole
//! function. So the function that goes from block to block touches none, and calls, never inlined, what may:
//! `ci/own-base.sh` looks at the program.

#![allow(unsafe_code)]

use std::ptr;

use crate::g::payload::Stop;
use crate::g::{GRef, Status};
use crate::m::OwnM;
use crate::run::boundary;
use crate::run::sched::Sched;
use crate::stack::coro::Coro;
use crate::sync::imposed_barrier;
use crate::tls::Under;

impl Sched {
    /// As `run`, and then runs Gs of this P's queue as long as nothing else is to be done. *Runs on: `m`,
    /// with a P.*
    #[inline(never)]
    pub(crate) fn run_with_locals(&self, m: OwnM<'_>, mut g: GRef) {
        let mut under = Under::home(ptr::from_ref(m.shared()).expose_provenance());
        // The way into the block of `g`, if the M is there.
        let mut entered = None;
        loop {
            if !self.sets_out_at_once(m, g) {
                // SAFETY: this function touches no thread-local, here and below.
                unsafe { under.leave() };
                if !self.sets_out(m, g) {
                    return;
                }
                entered = None;
            }
            // SAFETY: `g` came out of a run queue, so only this M uses it, and it has a coroutine.
            let to_run = || unsafe { Coro::way_to_run(g, || m.homes.is_any()) };
            let way = entered.or_else(to_run);
            // SAFETY: the block is that of `g`. Nothing in between touches a thread-local.
            let run = |under: &mut Under| unsafe {
                under.go(way);
                Coro::switch_to(g)
            };
            #[cfg(not(feature = "other-budget"))]
            let stop = run(&mut under);
            // That budget is kept apart under the M's own thread-locals.
            #[cfg(feature = "other-budget")]
            let stop = crate::run::other_budget::apart(|| {
                let stop = run(&mut under);
                // SAFETY: as above; this closure is a function of its own.
                unsafe { under.leave() };
                stop
            });
            m.set_running(None);
            let next = if way.is_some() { self.next_at_once(m) } else { None };
            // One that waits in place is in its block on another M.
            let free = next.filter(|next| !next.binding.is_special());
            // SAFETY: `next` came out of a run queue, so its block is this M's alone, as that of `g` is until
            // `stopped`. What is called after the block was left is not inlined.
            entered = unsafe { free.and_then(|next| Coro::way_to_run(next, || m.homes.is_any())) };
            // SAFETY: as above.
            let goes_on = unsafe {
                under.go_then(entered, || {
                    if let Stop::Done | Stop::Pending = stop {
                        Coro::renew_block(g);
                    }
                    self.has_stopped(m, g, stop)
                })
            };
            match next {
                None if goes_on => {}
                None => return,
                Some(next) if goes_on => {
                    // Another M may take it.
                    // SAFETY: as above.
                    unsafe { under.leave() };
                    entered = None;
                    self.queue_again(m, next);
                }
                Some(next) => g = next,
            }
        }
    }

    /// Prepares to run `g` if that needs nothing but a few words. Returns `false` if it needs more. *Runs on:
    /// `m`.*
    #[inline(always)]
    fn sets_out_at_once(&self, m: OwnM<'_>, g: GRef) -> bool {
        let Some(held) = m.held() else { return false };
        g.set_status(Status::Running);
        // A dumper may watch `g` from here on: `g/binding.rs`.
        imposed_barrier();
        if g.binding.is_special() || g.coro().is_null() || held.own().is_alert() || self.config.strict {
            return false;
        }
        m.set_running(Some(g));
        boundary::lend(m, held);
        true
    }

    /// Prepares to run `g`. Returns `false` if `m` is not to run it. *Runs on: `m`, under its own
    /// thread-locals.*
    #[inline(never)]
    fn sets_out(&self, m: OwnM<'_>, g: GRef) -> bool {
        self.may_run(m, g).is_some_and(|held| self.prepare(m, held, g))
    }

    /// Takes the next G of this P if the M has nothing else to do first. *Runs on: `m`, off the stack of a G
    /// and in its block.*
    #[inline(always)]
    fn next_at_once(&self, m: OwnM<'_>) -> Option<GRef> {
        // A simulation chooses by itself. With another runtime's budget the M is under its own thread-locals.
        if self.is_simulated() {
            return None;
        }
        if cfg!(feature = "other-budget") {
            return None;
        }
        let held = m.held()?;
        let own = held.own();
        let round = held.round().wrapping_add(1);
        let has_other_work = self.is_exiting()
            || self.is_surplus(held)
            || m.is_reserved()
            || self.idle.any_wanting()
            || !m.home.is_empty()
            || own.is_alert()
            || held.looks_in(round)
            || self.may_have_due_timers(held);
        if has_other_work {
            return None;
        }
        let mut slice = own.slice.get();
        let next = held.queue.pop(held.next_round(), &mut slice);
        own.slice.set(slice);
        let next = next?;
        if next.coro().is_null()
            && let Some(coro) = held.coros().pop()
        {
            next.set_coro(coro);
        }
        Some(next)
    }

    /// As `stopped`.
    #[inline(never)]
    fn has_stopped(&self, m: OwnM<'_>, g: GRef, stop: Stop) -> bool {
        self.stopped(m, g, stop)
    }

    /// Puts back a G that was taken too early.
    #[cold]
    #[inline(never)]
    fn queue_again(&self, m: OwnM<'_>, g: GRef) {
        match m.held() {
            Some(held) if !g.binding.is_home() => held.queue.put_fresh(g),
            _ => self.queue_without_p(m, g),
        }
    }
}
