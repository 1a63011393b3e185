//! `real`: calls of the system that the code of a simulation may make.

use std::sync::Arc;

use sched::GHandle;
use sched::sync::Mutex;

use crate::parts;

/// Calls `f`, in which calls of the system are real that else fail the run: those of files, child processes,
/// signals, the environment, sockets, threads and sleeps of the system. The clocks and the random bytes stay
/// simulated. Outside of a simulation it only calls `f`.
///
/// What `f` returns must be the same in each run with the same seed. It may read a file of the test, but not
/// the files that another process changes. `f` blocks the whole simulation, and its time stands still. The
/// calls of other green threads are refused as before, also if `f` parks.
///
/// ```
/// # runtime::sim!();
/// let text = runtime::sim::run(1, || {
///     runtime::sim::real(|| std::fs::read_to_string("Cargo.toml")).unwrap()
/// });
/// assert!(text.contains("[package]"));
/// ```
pub fn real<T>(f: impl FnOnce() -> T) -> T {
    let _real = parts::here::<Reals>().map(Reals::begin);
    f()
}

/// The green threads that make real calls, by their ids: an entry for each call of [`real`] that has not
/// returned.
#[derive(Debug, Default)]
pub(crate) struct Reals(Mutex<Vec<u64>>);

impl Reals {
    /// Lets the calls of the calling green thread be real until the value is dropped.
    pub(crate) fn begin(self: Arc<Reals>) -> Real {
        let id = GHandle::current().id();
        self.0.lock().push(id);
        Real { of: self, id }
    }

    /// Returns `true` if the calls of the calling green thread are real.
    pub(crate) fn is_here(&self) -> bool {
        let real = self.0.lock();
        !real.is_empty() && real.contains(&GHandle::current().id())
    }
}

/// While a value of this lives, the calls of one green thread are real.
pub(crate) struct Real {
    of: Arc<Reals>,
    id: u64,
}

impl Drop for Real {
    fn drop(&mut self) {
        let mut real = self.of.0.lock();
        let at = real.iter().rposition(|&id| id == self.id);
        at.map(|at| real.swap_remove(at));
    }
}
