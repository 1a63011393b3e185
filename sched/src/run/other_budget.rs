//! The budget of another crate's runtime, tokio's, for its resources that are awaited in polls of this one.
//!
//! That budget lies in a thread-local of tokio's. So the M keeps it apart for each G that the M resumes:
//!
//! ```text
//!   the M resumes a G         `apart`: none is set; what the G leaves is removed when the G stops
//!     the G polls a future    `apart` again, then `renew`: a new one for this poll
//!       the poll parks        the M's `apart` ends; the rest of this poll has none
//! ```

use std::sync::OnceLock;

use crate::m::os_thread::Around;

/// What the user of that runtime registers.
#[derive(Clone, Copy, Debug)]
pub struct OtherBudget {
    /// Runs its argument without a budget. Then sets the budget to what it was before.
    pub apart: Around,
    /// Sets a new budget on the calling OS thread.
    pub renew: fn(),
}

static OTHER: OnceLock<OtherBudget> = OnceLock::new();

/// Registers `other`. The first call counts. *Runs on: any thread.*
pub fn set_other_budget(other: OtherBudget) {
    let _ = OTHER.set(other);
}

/// Runs `f` without a budget, and then sets the budget to what it was before.
#[inline]
pub(crate) fn apart<T>(f: impl FnOnce() -> T) -> T {
    let Some(other) = OTHER.get() else { return f() };
    let (mut f, mut result) = (Some(f), None);
    (other.apart)(&mut || result = f.take().map(|f| f()));
    result.expect("`Around` calls its argument")
}

/// Runs `poll` with a new budget, and then sets the budget to what it was before.
pub(crate) fn with_new<T>(poll: impl FnOnce() -> T) -> T {
    apart(|| {
        if let Some(other) = OTHER.get() {
            (other.renew)();
        }
        poll()
    })
}
