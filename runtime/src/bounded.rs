//! `bounded`: the calls of this crate that block, with a bound on how many OS threads they use at once.
//!
//! The bound is for calls that this crate makes itself: `fs`, look-ups of names, starting processes.
//! `blocking` runs code of the user. That code may wait for other code in `blocking`, so a bound there could
//! make both wait for ever.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use inspect::host::{Host, LastStacks};
use sched::Sched;

use crate::aside::aside_async;
use crate::sync::Semaphore;

/// The default of `Builder::blocking_threads`.
pub(crate) const DEFAULT: usize = 512;

/// What the scheduler keeps for this crate: the places for the blocking calls of a runtime, and the stacks of
/// its hogs.
pub(crate) struct Places {
    pub(crate) free: Semaphore,
    waiting: AtomicUsize,
    last_stacks: LastStacks,
}

/// What the crate `monochrome-inspect` asks of this one.
static HOST: Host =
    Host { last_stacks: |sched| &places_of(sched).last_stacks, waiting: |sched| places_of(sched).waiting() };

/// Returns the places of a new runtime.
pub(crate) fn places(n: usize) -> sched::Attached {
    inspect::host::note(&HOST);
    let free = Semaphore::new(n.min(Semaphore::MAX_PERMITS));
    std::sync::Arc::new(Places { free, waiting: AtomicUsize::new(0), last_stacks: LastStacks::default() })
}

/// Runs `f`, which blocks its OS thread and waits for no other green thread. Waits in line first if the
/// runtime's places are taken. A plain OS thread only calls `f`; for a green thread of a simulation that
/// takes simulated time.
pub(crate) fn bounded<T>(f: impl FnOnce() -> T) -> T {
    if sched::simulation::is_here() {
        return sched::simulation::block(f);
    }
    Sched::with_current(|sched| {
        let Some(sched) = sched else { return f() };
        let places = places_of(sched);
        let _place = match places.free.try_acquire() {
            Ok(place) => place,
            Err(_) => {
                let _waits = places.count_waiting();
                places.free.acquire().expect("the places are never closed")
            }
        };
        sched::park::blocking_briefly(f)
    })
}

/// Runs `f` as [`bounded`] does, in a future: on a green thread of its own, named `name`.
///
/// Dropping the future before `f` has begun drops `f`. An `f` that runs goes on to its end, and its result is
/// dropped.
///
/// # Errors
/// Returns the errors of `f` and of [`aside_async`].
pub(crate) async fn bounded_async<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    aside_async(name, move || bounded(f)).await?
}

/// Returns the places for the blocking calls of `sched`.
pub(crate) fn places_of(sched: &Sched) -> &Places {
    sched.config().attached.downcast_ref().expect("`places` made this value")
}

impl Places {
    /// Counts the caller as waiting until the result is dropped.
    pub(crate) fn count_waiting(&self) -> impl Drop + '_ {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // Relaxed: a count for the metrics.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(&self.waiting)
    }

    /// Returns how many callers wait for a place.
    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::bounded;

    /// Such calls are short, and all Ps would share the count.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no processor's counter")]
    fn a_blocking_call_holds_no_count_of_its_runtime() {
        let runtime = crate::Builder::new().procs(1).build().unwrap();
        let handle = runtime.handle();
        let counts = || Arc::strong_count(handle.sched());
        // An OS thread that starts or ends at that moment changes the count, but not each time.
        let holds_none = |_| bounded(counts) == counts();
        assert!(runtime.block_on(|| (0..100).any(holds_none)));
    }
}
