//! The end of a simulated scheduler. Its Gs are cancelled as others are, but some cannot unwind. Such a G
//! waits for a lock of std, or goes on although its calls fail. It is left behind. (Feature `sim`.)

#![allow(unsafe_code)]

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::run::sched::Sched;

/// How the Gs of a simulation have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All have ended.
    All,
    /// Some wait for what no other G does, and cannot unwind. None of them will run again.
    ButLeft,
    /// Some still run.
    No,
}

/// For how long one round looks for the end of all Gs. In each round all are cancelled again, which wakes a G
/// that has begun to wait since.
const ROUND: Duration = Duration::from_millis(1);

/// After how many rounds without a G that runs none will run again. The waker of a G takes the P out of the
/// idle list itself, so one would do if no M was late.
const QUIET_ROUNDS: u32 = 3;

impl Sched {
    /// Ends the Ms of a simulated scheduler of which Gs are left behind. They stay as they are, and so does
    /// what they use. Blocks the caller for a moment. *Runs on: a thread that is no G of this runtime, after
    /// `leave_all_parked`.*
    pub fn leave(self: &Arc<Self>) {
        self.end_threads();
        mem::forget(self.clone());
        // SAFETY: the scheduler is never dropped. Its Ms have ended, and its Gs run no more.
        unsafe { self.netpoll.close_leaked() };
    }

    /// Cancels all Gs of a simulated scheduler, which has begun to close. Waits until they have ended, or
    /// until none will run any more, at most for `time`. A G that panics and waits for a thread outside may
    /// run again: it may be in the panic hook, and would keep std's lock of the hook. Blocks the caller.
    /// *Runs on: a thread that is no G of this runtime.*
    #[must_use]
    pub fn cancel_simulated(&self, time: Duration) -> Ended {
        let (start, mut quiet) = (Instant::now(), 0);
        loop {
            if self.cancel_all(Some(ROUND)) {
                return Ended::All;
            }
            quiet = if self.idle.idle_ps() == self.procs() { quiet + 1 } else { 0 };
            let is_late = start.elapsed() >= time;
            let may_run = || !is_late && self.simulated().is_some_and(|simulated| simulated.outside.panics());
            if quiet >= QUIET_ROUNDS && !may_run() && self.leave_all_parked() {
                return Ended::ButLeft;
            }
            if is_late {
                return Ended::No;
            }
        }
    }
}
