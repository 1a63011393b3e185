//! What this crate asks of `monochrome`, which keeps these values with each runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use sched::Sched;
use sched::sync::Mutex;

/// Functions of `monochrome`.
#[derive(Debug)]
pub struct Host {
    /// Returns the place for the stacks of a runtime's hogs.
    pub last_stacks: fn(&Sched) -> &LastStacks,
    /// Returns how many calls wait in line, because too many block already.
    pub waiting: fn(&Sched) -> usize,
}

/// The addresses on the last stack of the hogs of each spawn place, of one runtime. The host keeps them with
/// that runtime.
#[derive(Default)]
pub struct LastStacks(pub(crate) Mutex<HashMap<String, Box<[usize]>>>);

impl fmt::Debug for LastStacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastStacks").finish_non_exhaustive()
    }
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
