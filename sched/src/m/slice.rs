//! Which OS threads get short slices from the kernel: sysmon, and the Ms that take over the Ps of others.
//!
//! Linux lets a thread that wakes up run at once if its slice is shorter than that of the running thread.
//! Otherwise it may wait for the next tick of the kernel, for up to 4 ms. Beside a G that computes, three
//! threads in turn must run at once when a timer is due: sysmon, the M to which sysmon hands the P, and that
//! M again each time it wakes up. So these have short slices. An M that may compute has the usual one:
//!
//! ```text
//!   an M starts to look for work  usual   its first G may compute
//!   it is handed a P              short   set before it is woken: the kernel looks at the slice then
//!   it loses its P                usual   its G has computed, or was blocked
//! ```
//!
//! # Rejected
//!
//! - *Short slices for all Ms*: a G that computes then has a short slice, too, and nothing runs before it.
//! - *Only for Ps of Gs that compute*: a ticker beside Gs that block their OS threads is later.
//! - *The usual slice again when the M sleeps*: the M then waits behind the hog each time its timer is due.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::m::{M, OwnM};
use crate::sys;

/// Whether an M has a short slice.
#[derive(Debug)]
pub(crate) struct Slice {
    is_short: AtomicBool,
}

impl Slice {
    pub(crate) const fn new() -> Self {
        Slice { is_short: AtomicBool::new(false) }
    }
}

impl M {
    /// Gives the M a short slice, because it will have a P that another M has lost. *Runs on: the thread that
    /// has taken the M out of the list of parked Ms and not woken it yet, or the M before it runs a G.*
    pub(crate) fn shorten_slice(&self) {
        // Relaxed: the list of parked Ms and the wake-up of the M order the accesses of both threads.
        if !self.slice.is_short.swap(true, Ordering::Relaxed) {
            sys::shorten_slice(self.tid());
        }
    }
}

/// Gives an M the usual slice again. *Runs on: `m`, which has lost its P.*
pub(crate) fn restore(m: OwnM<'_>) {
    // Relaxed: as in `shorten_slice`.
    if m.slice.is_short.swap(false, Ordering::Relaxed) {
        sys::restore_slice();
    }
}

/// Notes that a new thread has the usual slice. *Runs on: the new thread of `m`.*
pub(crate) fn begin(m: OwnM<'_>) {
    m.slice.is_short.store(false, Ordering::Relaxed);
}

#[cfg(all(test, target_os = "linux", not(portable), not(loom)))]
mod tests {
    use super::restore;
    use crate::run::boundary::enter;
    use crate::supply::threads::tests::{scheduler, spawn_in};
    use crate::sys;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    fn an_m_that_takes_a_p_over_has_a_short_slice_until_it_loses_it() {
        let usual = sys::slice();
        if usual == 0 {
            return eprintln!("this kernel has no slices that a thread can set (Linux 6.12 has)");
        }
        let sched = scheduler(1);
        let seen = spawn_in(&sched, move || {
            let entered = enter().expect("on an M");
            let m = entered.m();
            let at_start = sys::slice();
            m.shorten_slice();
            let shortened = sys::slice();
            m.shorten_slice();
            restore(m);
            assert_eq!([at_start, shortened, sys::slice()], [usual, sys::SLICE_NS, usual]);
        })
        .join();
        seen.expect("no panic");
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }
}
