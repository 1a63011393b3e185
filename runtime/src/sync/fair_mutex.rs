//! `FairMutex`: a mutex that always goes to the first waiter. The API is that of `parking_lot`.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use lock_api::{GuardSend, RawMutexFair as _};

use super::mutex::RawMutex;

/// A [`Mutex`](super::Mutex) that unlocking always hands to the waiter that has waited longest.
///
/// Each hand-over costs a switch. So this mutex is slow if many threads use it often. It has the API of
/// `parking_lot::FairMutex`. What [`Mutex`](super::Mutex) says about guards and cancellation holds here, too.
///
/// ```
/// use runtime::sync::FairMutex;
///
/// let count = FairMutex::new(0);
/// runtime::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| *count.lock() += 1);
///     }
/// });
/// assert_eq!(count.into_inner(), 4);
/// ```
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;

/// The guard of a [`FairMutex`]: gives access to the value, and unlocks the mutex when it is dropped.
///
/// ```
/// use runtime::sync::{FairMutex, FairMutexGuard};
///
/// let count = FairMutex::new(0);
/// let mut guard: FairMutexGuard<'_, i32> = count.lock();
/// *guard += 1;
/// ```
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;

/// The guard of a [`FairMutex`] for a part of the value, from `FairMutexGuard::map`.
///
/// ```
/// use runtime::sync::{FairMutex, FairMutexGuard, MappedFairMutexGuard};
///
/// let pair = FairMutex::new((1, 2));
/// let mut first: MappedFairMutexGuard<'_, i32> = FairMutexGuard::map(pair.lock(), |pair| &mut pair.0);
/// *first += 1;
/// ```
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// The raw mutex of [`FairMutex`], for types that are generic over the traits of `lock_api`.
///
/// ```
/// use runtime::sync::{RawFairMutex, lock_api};
///
/// let mutex = lock_api::Mutex::<RawFairMutex, i32>::new(1);
/// assert_eq!(*mutex.lock(), 1);
/// ```
#[derive(Debug, Default)]
pub struct RawFairMutex(RawMutex);

impl RawFairMutex {
    /// Returns the mutex that this one unlocks fairly, for futures.
    pub(super) fn inner(&self) -> &RawMutex {
        &self.0
    }
}

// SAFETY: a `RawMutex` excludes, and this one differs only in unlocking it fairly.
unsafe impl lock_api::RawMutex for RawFairMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawFairMutex(RawMutex::INIT);

    type Guard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardSend {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self, guard: GuardSend) {
        // SAFETY: the caller has the lock; it passes the guard as the proof.
        unsafe { self.0.unlock_fair(guard) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: all calls go to `RawMutex`, which keeps the contract.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    #[inline]
    unsafe fn unlock_fair(&self, guard: GuardSend) {
        // SAFETY: the caller has the lock, by the contract of `unlock_fair`.
        unsafe { self.0.unlock_fair(guard) };
    }

    #[inline]
    unsafe fn bump(&self, guard: &mut GuardSend) {
        // SAFETY: the caller has the lock, by the contract of `bump`.
        unsafe { self.0.bump(guard) };
    }
}

// SAFETY: all calls go to `RawMutex`, which keeps the contract.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.0.try_lock_for(timeout)
    }

    #[inline]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.0.try_lock_until(deadline)
    }
}
