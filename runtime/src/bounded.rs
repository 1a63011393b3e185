//! `bounded`: the calls of this crate that block, with a bound on how many OS threads they use at once.
//!
//! The bound is for calls that this crate makes itself: `fs`, look-ups of names, starting processes. `blocking` runs code of the
//! user. That code may wait for other code in `blocking`, so a bound there could make both wait for ever.

use sched::Sched;

use crate::sync::Semaphore;

/// The default of `Builder::blocking_threads`.
pub(crate) const DEFAULT: usize = 512;

/// Returns the places for the blocking calls of a runtime, which its scheduler keeps.
pub(crate) fn places(n: usize) -> sched::Attached {
    std::sync::Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)))
}

/// Runs `f`, which blocks its OS thread and waits for no other green thread. Waits in line first if the runtime's places are
/// taken. A plain OS thread only calls `f`.
pub(crate) fn bounded<T>(f: impl FnOnce() -> T) -> T {
    let Some(sched) = Sched::current() else { return f() };
    let _place = places_of(&sched).acquire().expect("the places are never closed");
    crate::blocking(f)
}

/// Returns the places for the blocking calls of `sched`.
pub(crate) fn places_of(sched: &Sched) -> &Semaphore {
    sched.config().attached.downcast_ref().expect("`places` made this value")
}
