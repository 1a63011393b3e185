//! Recognising calls in which `lock_api` takes a lock *again*; such a call must not unwind.
//!
//! `MutexGuard::unlocked` and its like release a lock, run a closure, and take the lock again. `lock_api` aborts the
//! process if that last step unwinds, because its guard would guard nothing. So neither a cancellation nor a time-out
//! ends such a wait. The next wait is ended instead.
//!
//! A raw lock is not told its caller. But its methods are `#[track_caller]`: the location is in the user's source for
//! a call by the user, and in `lock_api`'s source for such a call.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::panic::Location;

/// Returns `true` if `place` is in `lock_api`'s source.
pub(super) fn is_lock_api(place: &'static Location<'static>) -> bool {
    directory(place.file()) == directory(location_of_relock().file())
}

fn directory(file: &str) -> &str {
    file.rsplit_once(['/', '\\']).map_or("", |(directory, _)| directory)
}

/// Returns a location in `lock_api` at which it takes a lock again.
fn location_of_relock() -> &'static Location<'static> {
    let probe = lock_api::Mutex::<Probe, ()>::new(());
    lock_api::MutexGuard::unlocked(&mut probe.lock(), || ());
    // SAFETY: the raw lock is only read, and it is free.
    unsafe { probe.raw() }.0.get().expect("the lock was taken")
}

/// A lock that is always free and records from where it was last taken.
struct Probe(Cell<Option<&'static Location<'static>>>);

// SAFETY: this lock excludes nothing. It is used by one thread, and guards `()`.
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
    fn calls_of_the_user_and_of_lock_api_differ() {
        let probe = lock_api::Mutex::<Probe, ()>::new(());
        // SAFETY: the raw lock is only read.
        let place = || unsafe { probe.raw() }.0.get().expect("the lock was taken");
        let mut guard = probe.lock();
        assert_eq!(place().file(), file!());
        assert!(!is_lock_api(place()), "the user");
        lock_api::MutexGuard::unlocked(&mut guard, || ());
        assert!(is_lock_api(place()), "{}", place());
    }
}
