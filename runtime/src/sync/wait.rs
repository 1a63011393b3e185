//! `wait_or_unwind`: a wait that ends with its value, or by unwinding a cancelled caller.

use sched::Outcome;
use sched::locks::Patience;
use sched::park::unwind_if_cancelled;

/// Waits with `wait`, which has no deadline of its own, and returns its value. Unwinds a caller that is cancelled or
/// whose time-out is over.
pub(super) fn wait_or_unwind<T>(mut wait: impl FnMut(Patience) -> Result<T, Outcome>) -> T {
    loop {
        match wait(Patience::LONG) {
            Ok(value) => return value,
            // The cancellation or time-out may no longer hold, and then this does not unwind. The loop waits again.
            Err(_) => unwind_if_cancelled(),
        }
    }
}
