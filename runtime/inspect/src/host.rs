//! What this crate asks of `monochrome`, which keeps these values with each runtime.

use std::sync::OnceLock;

use sched::Sched;

use crate::metrics::LastStacks;

/// Functions of `monochrome`.
#[derive(Debug)]
pub struct Host {
    /// Returns the place for the stacks of a runtime's hogs.
    pub last_stacks: fn(&Sched) -> &LastStacks,
    /// Returns how many calls wait in line, because too many block already.
    pub waiting: fn(&Sched) -> usize,
}

static HOST: OnceLock<&'static Host> = OnceLock::new();

/// Lets this crate ask `host` from now on. `monochrome` calls it before it makes a runtime.
pub fn note(host: &'static Host) {
    let _first = HOST.set(host);
}

/// Returns the stacks of the hogs of a runtime; `None` without a host.
pub(crate) fn last_stacks(sched: &Sched) -> Option<&LastStacks> {
    HOST.get().map(|host| (host.last_stacks)(sched))
}

/// Returns how many calls of a runtime wait in line; 0 without a host.
pub(crate) fn waiting(sched: &Sched) -> usize {
    HOST.get().map_or(0, |host| (host.waiting)(sched))
}
