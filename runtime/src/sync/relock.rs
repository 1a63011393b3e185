//! Recognising calls in which `lock_api` takes a lock *again*; such a call must not unwind.
//!
//! `MutexGuard::unlocked` and its like release a lock, run a closure, and take the lock again. `lock_api`
//! aborts the process if that last step unwinds, because its guard would guard nothing. So neither a
//! cancellation nor a time-out ends such a wait. The next wait is ended instead.
//!
//! A raw lock is not told its caller. But its methods are `#[track_caller]`, as the functions of `lock_api`
//! are that users call:
//!
//! - For a call of `Mutex::lock` and its like, the location is in the source of the caller.
//! - For such a call through a function pointer, the location is the definition of that function.
//! - For all else that `lock_api` does, the location is another place in its source: it takes a lock again.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::hint::black_box;
use std::panic::Location;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use lock_api::{ArcRwLockUpgradableReadGuard, GuardNoSend, MutexGuard, RwLockUpgradableReadGuard};

type Place = &'static Location<'static>;
type Mutex = lock_api::Mutex<Probe, ()>;
type RwLock = lock_api::RwLock<Probe, ()>;

/// Returns `true` if `lock_api` takes a lock again at `place`.
pub(super) fn is_relock(place: Place) -> bool {
    directory(place) == directory(IN_LOCK_API.relock) && !IN_LOCK_API.definitions.contains(&place)
}

fn directory(place: Place) -> &'static str {
    place.file().rsplit_once(['/', '\\']).map_or("", |(directory, _)| directory)
}

/// Places in the source of `lock_api`.
struct InLockApi {
    /// A place at which it takes a lock again.
    relock: Place,
    /// The definitions of all functions that wait for a lock for their caller, and may unwind.
    definitions: Vec<Place>,
}

static IN_LOCK_API: LazyLock<InLockApi> = LazyLock::new(|| {
    let (mutex, lock) = (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())));
    let (time, now) = (Duration::ZERO, Instant::now());
    InLockApi {
        relock: place_of(|| MutexGuard::unlocked(&mut mutex.lock(), || ())),
        definitions: vec![
            by_pointer(Mutex::lock, &*mutex),
            by_pointer(Mutex::lock_arc, &mutex),
            by_pointer(RwLock::read, &*lock),
            by_pointer(RwLock::read_arc, &lock),
            by_pointer(RwLock::write, &*lock),
            by_pointer(RwLock::write_arc, &lock),
            by_pointer(RwLock::upgradable_read, &*lock),
            by_pointer(RwLock::upgradable_read_arc, &lock),
            by_pointer(RwLockUpgradableReadGuard::upgrade, lock.upgradable_read()),
            by_pointer(ArcRwLockUpgradableReadGuard::upgrade, lock.upgradable_read_arc()),
            by_pointer_with(RwLockUpgradableReadGuard::try_upgrade_for, lock.upgradable_read(), time),
            by_pointer_with(RwLockUpgradableReadGuard::try_upgrade_until, lock.upgradable_read(), now),
            by_pointer_with(ArcRwLockUpgradableReadGuard::try_upgrade_for, lock.upgradable_read_arc(), time),
            by_pointer_with(ArcRwLockUpgradableReadGuard::try_upgrade_until, lock.upgradable_read_arc(), now),
        ],
    }
});

/// Returns the place of which a probe is told if it is locked by `lock`, called through a function pointer.
fn by_pointer<L, G>(lock: fn(L) -> G, of: L) -> Place {
    place_of(|| drop(black_box(lock)(of)))
}

/// As [`by_pointer`], for a function with a limit of its time.
fn by_pointer_with<L, T, G>(lock: fn(L, T) -> G, of: L, limit: T) -> Place {
    place_of(|| drop(black_box(lock)(of, limit)))
}

std::thread_local! {
    /// From where a probe of this thread was last locked.
    static LOCKED_FROM: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Returns the place of which a probe is told that `lock` locks.
fn place_of(lock: impl FnOnce()) -> Place {
    lock();
    LOCKED_FROM.get().expect("a probe was locked")
}

/// A lock that is always free and notes from where it is locked.
struct Probe;

impl Probe {
    #[track_caller]
    fn note() -> GuardNoSend {
        LOCKED_FROM.set(Some(Location::caller()));
        GuardNoSend::new()
    }
}

// SAFETY: this lock excludes no thread, and guards `()`.
unsafe impl lock_api::RawMutex for Probe {
    const INIT: Self = Probe;

    type Guard = GuardNoSend;

    #[track_caller]
    fn lock(&self) -> Self::Guard {
        Probe::note()
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        Some(GuardNoSend::new())
    }

    unsafe fn unlock(&self, _guard: Self::Guard) {}

    fn is_locked(&self) -> bool {
        false
    }
}

// SAFETY: this lock excludes no thread, and guards `()`.
unsafe impl lock_api::RawRwLock for Probe {
    const INIT: Self = Probe;

    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[track_caller]
    fn lock_shared(&self) -> GuardNoSend {
        Probe::note()
    }

    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {}

    #[track_caller]
    fn lock_exclusive(&self) -> GuardNoSend {
        Probe::note()
    }

    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {}

    fn is_locked(&self) -> bool {
        false
    }

    fn is_locked_exclusive(&self) -> bool {
        false
    }
}

// SAFETY: this lock excludes no thread, and guards `()`.
unsafe impl lock_api::RawRwLockUpgrade for Probe {
    type UpgradableGuard = GuardNoSend;

    #[track_caller]
    fn lock_upgradable(&self) -> GuardNoSend {
        Probe::note()
    }

    fn try_lock_upgradable(&self) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    unsafe fn unlock_upgradable(&self, _guard: GuardNoSend) {}

    #[track_caller]
    unsafe fn upgrade(&self, _guard: GuardNoSend) -> GuardNoSend {
        Probe::note()
    }

    unsafe fn try_upgrade(&self, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
        Ok(guard)
    }
}

// SAFETY: this lock excludes no thread, and guards `()`.
unsafe impl lock_api::RawRwLockTimed for Probe {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, _time: Duration) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    fn try_lock_shared_until(&self, _time: Instant) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    fn try_lock_exclusive_for(&self, _time: Duration) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    fn try_lock_exclusive_until(&self, _time: Instant) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }
}

// SAFETY: this lock excludes no thread, and guards `()`.
unsafe impl lock_api::RawRwLockUpgradeTimed for Probe {
    fn try_lock_upgradable_for(&self, _time: Duration) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    fn try_lock_upgradable_until(&self, _time: Instant) -> Option<GuardNoSend> {
        Some(GuardNoSend::new())
    }

    #[track_caller]
    unsafe fn try_upgrade_for(
        &self,
        _guard: GuardNoSend,
        _time: Duration,
    ) -> Result<GuardNoSend, GuardNoSend> {
        Ok(Probe::note())
    }

    #[track_caller]
    unsafe fn try_upgrade_until(
        &self,
        _guard: GuardNoSend,
        _time: Instant,
    ) -> Result<GuardNoSend, GuardNoSend> {
        Ok(Probe::note())
    }
}

#[cfg(test)]
mod tests {
    use lock_api::{ArcMutexGuard, RwLockReadGuard, RwLockWriteGuard};

    use super::*;

    /// Each call of the user may unwind, in whichever way it is made.
    #[test]
    fn calls_of_the_user() {
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        let here = place_of(|| drop(mutex.lock()));
        assert_eq!(here.file(), file!());
        let places = [
            here,
            place_of(|| drop(lock.write())),
            place_of(|| drop(RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()))),
            by_pointer(Mutex::lock, &mutex),
            by_pointer(RwLock::write, &lock),
            // Of another type.
            by_pointer(lock_api::Mutex::<Probe, [u8; 3]>::lock, &lock_api::Mutex::new([1, 2, 3])),
            // As a function of an adapter.
            place_of(|| drop([&mutex].map(Mutex::lock))),
            place_of(|| drop([&lock].map(RwLock::read))),
        ];
        for place in places {
            assert!(!is_relock(place), "{place}");
        }
        let distinct: std::collections::HashSet<_> = IN_LOCK_API.definitions.iter().collect();
        assert_eq!(distinct.len(), IN_LOCK_API.definitions.len(), "each function has its own definition");
    }

    #[test]
    fn calls_of_lock_api() {
        let (mutex, lock) = (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())));
        let places = [
            place_of(|| MutexGuard::unlocked(&mut mutex.lock(), || ())),
            place_of(|| ArcMutexGuard::unlocked(&mut mutex.lock_arc(), || ())),
            place_of(|| RwLockReadGuard::unlocked(&mut lock.read(), || ())),
            place_of(|| RwLockWriteGuard::unlocked(&mut lock.write(), || ())),
            place_of(|| RwLockUpgradableReadGuard::unlocked(&mut lock.upgradable_read(), || ())),
            by_pointer_with(MutexGuard::unlocked, &mut mutex.lock(), || ()),
        ];
        for place in places {
            assert!(is_relock(place), "{place}");
        }
    }
}
