//! Whether a lock is asked for by `lock_api` itself, to be taken *again*: that must not unwind.
//!
//! `MutexGuard::unlocked` and its like give a lock back, run a closure, and take it again; if that unwinds, `lock_api`
//! ends the process, for the guard that it has promised would guard nothing. So such a wait is not ended by a cancellation
//! or a time-out: the next one that may be is. The raw locks cannot be told who calls; but their methods know from where
//! they are called, and what a user calls hands the user's place through.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::panic::Location;

/// True if `place` is in `lock_api`'s own source.
pub(super) fn is_asked_for_again(place: &'static Location<'static>) -> bool {
    directory(place.file()) == directory(place_of_unlocked().file())
}

fn directory(file: &str) -> &str {
    file.rsplit_once(['/', '\\']).map_or("", |(directory, _)| directory)
}

/// Where `lock_api` takes a lock again.
fn place_of_unlocked() -> &'static Location<'static> {
    let probe = lock_api::Mutex::<Probe, ()>::new(());
    lock_api::MutexGuard::unlocked(&mut probe.lock(), || ());
    // SAFETY: nothing is done with it but to look.
    unsafe { probe.raw() }.0.get().expect("it was asked for")
}

/// A lock that is always free and remembers from where it was last asked for.
struct Probe(Cell<Option<&'static Location<'static>>>);

// SAFETY: it guards nothing, and is used by one thread.
unsafe impl lock_api::RawMutex for Probe {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = Probe(Cell::new(None));

    type Guard = lock_api::GuardNoSend;

    #[track_caller]
    fn lock(&self) -> Self::Guard {
        self.0.set(Some(Location::caller()));
        lock_api::GuardNoSend::new()
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        Some(self.lock())
    }

    unsafe fn unlock(&self, _guard: Self::Guard) {}

    fn is_locked(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks() {
        let probe = lock_api::Mutex::<Probe, ()>::new(());
        // SAFETY: nothing is done with it but to look.
        let place = || unsafe { probe.raw() }.0.get().expect("it was asked for");
        let mut guard = probe.lock();
        assert_eq!(place().file(), file!());
        assert!(!is_asked_for_again(place()), "the user");
        lock_api::MutexGuard::unlocked(&mut guard, || ());
        assert!(is_asked_for_again(place()), "{}", place());
    }
}
