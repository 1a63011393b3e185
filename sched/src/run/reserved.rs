//! A reserved M runs no Gs but those that are bound to it: a pinned G is parked on it, or a G claims it.
//!
//! *A claim.* A G that waits in std's `thread::park` claims its M until the G ends (`api/foreign/word.rs`): it is bound to
//! the M, and no free G runs there any more. Gs that were bound to the M before still return to it.
//!
//! *A pinned G.* Usually a pinned G parks in place and its M sleeps. The M must not sleep while another G is bound to it, for instance a G that
//! parked inside a poll: the pinned G may wait for that G, or may never end. So the pinned G is bound to the M too, and the M
//! runs only the Gs of its home queue.
//!
//! - Pinned Gs that reserve the same M resume in reverse order. Each may be inside a scoped context of the OS thread, and such
//!   contexts nest.
//! - The M takes a P for one G at a time. The work of that P belongs to other Ms, so the M hands the P off before it
//!   looks for the next G.
//! - The M watches no network, and is in no list of idle Ms. It wakes for timers: all other OS threads may be reserved or asleep
//!   in place, and no further thread can be had.

use std::ptr;
use std::time::Duration;

use timers::clock;

use crate::g::GRef;
use crate::m::M;
use crate::m::rest::SleepKind;
use crate::run::boundary::pass_p_on;
use crate::run::sched::Sched;

/// How soon the M looks again at timers that are due while all Ps are busy. The holders of these Ps fire them meanwhile.
const DUE_ELSEWHERE_NS: u64 = 1_000_000;

impl M {
    /// Returns `true` if the M may run `g`, which is bound to it, while it is reserved. Of the pinned Gs, only the one that
    /// reserved it last may run. *Runs on: this M.*
    fn may_run(&self, g: GRef) -> bool {
        !g.is_pinned() || self.reserved_by.get().is_none_or(|by| ptr::eq(by, g))
    }

    /// Returns `true` if the M may run no Gs but those that are bound to it. *Runs on: this M.*
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved_by.get().is_some() || self.claims.get() > 0
    }

    /// Returns `true` if `take_bound_g` finds a G. *Runs on: this M, reserved.*
    fn has_bound_g(&self) -> bool {
        self.home.any(|g| self.may_run(g))
    }

    /// Takes the first runnable G that is bound to the M and may run now. *Runs on: this M, reserved.*
    fn take_bound_g(&self) -> Option<GRef> {
        self.home.remove_first(|g| self.may_run(g))
    }
}

impl Sched {
    /// Runs the Gs that are bound to `m`, each with a P of its own turn, until `m` is no longer reserved. `m` may
    /// hold a P afterwards. *Runs on: `m`, reserved and without a P, on its own stack.*
    #[cold]
    pub(crate) fn run_bound_gs(&self, m: &M) {
        while m.is_reserved() {
            debug_assert!(!m.spinning.get(), "an M that spins runs no user code");
            pass_p_on(m);
            self.end_roaming(m);
            #[cfg(all(feature = "interpose", target_os = "linux"))]
            m.std_parker.is_left();
            self.sleep_until_bound_g(m);
            while m.held().is_none() {
                self.get_in_line(m);
            }
            let g = m.take_bound_g().expect("only this M takes Gs out of its home queue");
            #[cfg(all(feature = "interpose", target_os = "linux"))]
            m.std_parker.is_entered();
            self.run(m, g);
        }
    }

    fn sleep_until_bound_g(&self, m: &M) {
        // The runtime does not end meanwhile: the G that reserves the M lives.
        while !m.has_bound_g() {
            self.fire_due_timers(m);
            let until = self.heaps.time_sleep_until().max(clock::now() + DUE_ELSEWHERE_NS);
            if m.rest.begin(SleepKind::Reserved, || m.has_bound_g()) {
                let left = Duration::from_nanos(until.saturating_sub(clock::now()));
                self.sleep_on_note(m, Some(left));
                m.rest.over();
            }
        }
    }

    /// Fires the due timers of all Ps, if a P is idle. *Runs on: `m`, without a P.*
    fn fire_due_timers(&self, m: &M) {
        if self.heaps.time_sleep_until() <= clock::now()
            && let Some(held) = self.take_idle_p(m)
        {
            self.steal_due_timers(held);
            pass_p_on(m);
        }
    }
}
