//! Waiting until it is over, or unwinding.

use sched::Outcome;
use sched::locks::Patience;
use sched::park::unwind_if_cancelled;

/// Waits; a cancelled caller, or one whose time is up, unwinds. `wait` has no deadline of its own.
pub(super) fn wait_or_unwind<T>(mut wait: impl FnMut(Patience) -> Result<T, Outcome>) -> T {
    loop {
        match wait(Patience::LONG) {
            Ok(value) => return value,
            // It may be that nothing is to be unwound for any more; then it is waited for again.
            Err(_) => unwind_if_cancelled(),
        }
    }
}
