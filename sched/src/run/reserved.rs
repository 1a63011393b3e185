//! A reserved M runs only Gs that are bound to it. It is reserved because a pinned G is parked on it, or a G
//! claims it.
//!
//! *A claim.* A G that waits in std's `thread::park` claims its M until the G ends
//! (`api/std_wait.rs`). The G is bound to the M, and no free G runs there any more. Gs that were bound
//! to the M before still return to it.
//!
//! *A pinned G.* Usually a pinned G parks in place and its M sleeps. The M must not sleep while another G is
//! bound to it, for instance a G that parked inside a poll. The pinned G may wait for that G, or may never
//! end. So the pinned G is bound to the M too, and the M runs only the Gs of its home queue.
//!
//! - Pinned Gs that reserve the same M resume in reverse order. Each may be inside a scoped context of the OS
//!   thread, and such contexts nest.
//! - The M takes a P for one G at a time. The work of that P belongs to other Ms, so the M hands the P off
//!   before it looks for the next G.
//! - The M is in no list of idle Ms, and leaves the network and the timers to other Ms. If no other M may
//!   watch them, because no further thread can be had, one reserved M blocks in the netpoller. The thread
//!   that was refused a thread wakes a reserved M (`wake_reserved_m`).
//!
//! Rejected: to wake for each timer. Each of many reserved Ms then wakes as often as all sleepers together.

use std::ptr;

use netpoll::{Turn, WakeBy};
use timers::clock;

use crate::asleep::rest::SleepKind;
use crate::g::GRef;
use crate::m::OwnM;
use crate::notes::events::Does;
use crate::p::event::By;
use crate::run::boundary::hand_p_off;
use crate::run::sched::Sched;
use crate::sync::full_fence;

impl OwnM<'_> {
    /// Returns `true` if the M may run `g`, which is bound to it, while it is reserved. Of the pinned Gs,
    /// only the one that reserved it last may run.
    fn may_run(self, g: GRef) -> bool {
        !g.is_pinned() || self.own().reserved_by.get().is_none_or(|by| ptr::eq(by, g))
    }

    /// Returns `true` if the M may run only Gs that are bound to it.
    pub(crate) fn is_reserved(self) -> bool {
        self.own().reserved_by.get().is_some() || self.own().claims.get() > 0
    }

    /// Returns `true` if `take_bound_g` finds a G. *Runs on: this M, reserved.*
    pub(crate) fn has_bound_g(self) -> bool {
        self.home.any(|g| self.may_run(g))
    }

    /// Takes the first runnable G that is bound to the M and may run now. *Runs on: this M, reserved.*
    fn take_bound_g(self) -> Option<GRef> {
        self.home.remove_first(|g| self.may_run(g))
    }
}

impl Sched {
    /// Runs the Gs that are bound to `m`, each with a P of its own turn, until `m` is no longer reserved. `m`
    /// may hold a P afterwards. *Runs on: `m`, reserved and without a P, on its own stack.*
    #[cold]
    pub(crate) fn run_bound_gs(&self, m: OwnM<'_>) {
        while m.is_reserved() {
            debug_assert!(!m.own().spinning.get(), "an M that spins runs no user code");
            hand_p_off(m);
            self.roaming.end(m);
            #[cfg(all(feature = "interpose", target_os = "linux"))]
            m.own().std_parker.is_left();
            self.sleep_until_bound_g(m);
            while m.held().is_none() {
                self.get_in_line(m);
            }
            let g = m.take_bound_g().expect("only this M takes Gs out of its home queue");
            #[cfg(all(feature = "interpose", target_os = "linux"))]
            m.own().std_parker.is_entered();
            self.run(m, g);
        }
    }

    fn sleep_until_bound_g(&self, m: OwnM<'_>) {
        // The runtime does not end in this loop: the G that reserves the M lives.
        while !m.has_bound_g() {
            let mut turn = None;
            // Looks for a watcher after `begin` has said that the M sleeps. Pairs with `wake_reserved_m`.
            let sleeps = m.sleep.rest.begin(SleepKind::Reserved, || {
                if !m.has_bound_g() && self.lacks_watchers() {
                    turn = self.turn_to_block();
                }
                m.has_bound_g() || turn.is_some()
            });
            if sleeps {
                self.sleep_on_note(m, None);
                m.sleep.rest.over();
            } else if let Some(turn) = turn {
                self.watch_for_others(m, turn);
            }
        }
    }

    /// Returns `true` if perhaps only reserved Ms can watch the network and the timers: the last thread that
    /// was wanted could not be had. While no P is idle, the holders of the Ps watch.
    fn lacks_watchers(&self) -> bool {
        let no_thread = self.threads.is_full() || self.threads.refusal.is_there();
        no_thread && self.idle.idle_ps() > 0 && self.idle.parked_ms() == 0
    }

    /// Blocks in the netpoller until an event, a timer, or a G that is bound to `m`. Hands on what there is
    /// to run. *Runs on: `m`, reserved and without a P.*
    fn watch_for_others(&self, m: OwnM<'_>, turn: Turn<'_>) {
        let Some(woken) = self.block_once(m, turn) else { return };
        let next = self.heaps.time_sleep_until();
        if woken.is_empty() && next > clock::now() {
            self.events.on_m(m, Does::Wakes);
            // An M has parked because this one watched (`rest_without_p`), and takes over: this one stops
            // now.
            if !self.lacks_watchers() {
                self.timer_was_added(next.min(self.look_for_deadlock_at()));
            }
            return;
        }
        match self.take_idle_p(m) {
            Some(held) => {
                held.counters.net_wakes.add(woken.len() as u64);
                self.ready_all(held, woken, By::Network);
                self.steal_due_timers(held);
                hand_p_off(m);
            }
            None => self.leave_to_busy_ps(m, woken),
        }
    }

    /// Wakes a reserved M that sleeps, if no M blocks in the netpoller: it then watches (`lacks_watchers`).
    /// *Runs on: a thread that could not start an M, after it has noted that and has put the P into the idle
    /// list.*
    pub(crate) fn wake_reserved_m(&self) {
        if self.netpoll.wake_by(self.heaps.time_sleep_until()) != WakeBy::NobodyBlocks {
            return;
        }
        // The refusal is noted. Pairs with the fence in `Rest::begin`.
        full_fence();
        if let Some(m) = self.threads.lock().all().iter().find(|m| m.sleep.rest.sleeps_reserved()) {
            m.sleep.note.wake();
        }
    }
}
