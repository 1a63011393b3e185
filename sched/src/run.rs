//! Running Gs: choosing the next one, running it until it stops, waking waiters.

pub(crate) mod boundary;
pub(crate) mod case_waker;
pub(crate) mod contexts;
pub(crate) mod find;
#[cfg(feature = "other-budget")]
pub(crate) mod other_budget;
pub(crate) mod overcommit;
pub(crate) mod reserved;
pub(crate) mod roaming;
mod run_loop;
pub(crate) mod sched;
pub(crate) mod signal;
pub(crate) mod simulated;
pub(crate) mod task;
pub(crate) mod unpolled;
pub(crate) mod wake;
mod with_locals;
