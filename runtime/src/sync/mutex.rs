//! `Mutex`: mutual exclusion that parks its waiters. The API is that of `parking_lot`.

#![allow(unsafe_code)]

use std::panic::Location;
use std::time::{Duration, Instant};

use lock_api::{GuardSend, RawMutex as _};
use sched::Outcome;
use sched::park::unwind_if_cancelled;
use waits::locks::{self, Patience};

use super::relock::is_relock;

/// A mutual exclusion lock. A waiter parks its green thread, or blocks its plain OS thread.
///
/// It has the API of `parking_lot::Mutex`: no poisoning, a guard that unlocks when it is dropped, `const`
/// construction, time-outs, fair unlocking. Locking and unlocking a free mutex takes one atomic operation
/// each, without entering the runtime.
///
/// The guard may be kept across calls that park, and may be sent to another thread. Locking the mutex again
/// on the thread that has it is a deadlock. It is not detected, because a mutex has no owner.
///
/// # Fairness
///
/// A caller may take a free mutex although others wait. But once a waiter that has waited for a millisecond
/// loses again, the mutex is handed to the waiters in order. That ends when none has waited that long.
/// `MutexGuard::unlock_fair` always hands it to the first waiter. `MutexGuard::bump` does so and takes the
/// mutex again.
///
/// # Cancellation
///
/// A green thread unwinds without the lock if it is cancelled while it waits in `lock`, `try_lock_for` or
/// `try_lock_until`. It also does so if its [`timeout`](crate::time::timeout) is over there. The lock then
/// goes to the next waiter. A free mutex is taken by a cancelled green thread, too. Calls that take a mutex
/// *again* (`MutexGuard::unlocked`, `bump`) are not ended: they wait, and the next parking call unwinds.
///
/// ```
/// use runtime::sync::Mutex;
///
/// static WORDS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
///
/// runtime::scope(|s| {
///     for word in ["a", "b", "c"] {
///         s.spawn(move || WORDS.lock().push(word));
///     }
/// });
/// assert_eq!(WORDS.lock().len(), 3);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The guard of a [`Mutex`]: gives access to the value, and unlocks the mutex when it is dropped.
///
/// ```
/// use runtime::sync::{Mutex, MutexGuard};
///
/// let pair = Mutex::new((1, 2));
/// let mut guard: MutexGuard<'_, (i32, i32)> = pair.lock();
/// guard.0 += 1;
/// assert!(pair.try_lock().is_none());
/// MutexGuard::unlock_fair(guard);
/// assert_eq!(*pair.lock(), (2, 2));
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The guard of a [`Mutex`] for a part of the value, from `MutexGuard::map`.
///
/// ```
/// use runtime::sync::{MappedMutexGuard, Mutex, MutexGuard};
///
/// let pair = Mutex::new((1, 2));
/// let mut second: MappedMutexGuard<'_, i32> = MutexGuard::map(pair.lock(), |pair| &mut pair.1);
/// *second += 1;
/// drop(second);
/// assert_eq!(pair.into_inner(), (1, 3));
/// ```
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// The guard of a [`Mutex`] in an `Arc`, from `Mutex::lock_arc`. It keeps the `Arc`.
///
/// ```
/// use runtime::sync::{ArcMutexGuard, Mutex};
/// use std::sync::Arc;
///
/// let count = Arc::new(Mutex::new(0));
/// let mut guard: ArcMutexGuard<i32> = count.lock_arc();
/// runtime::spawn(move || *guard += 1).join().unwrap();
/// assert_eq!(*count.lock(), 1);
/// ```
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

/// The raw mutex of [`Mutex`], for types that are generic over the traits of `lock_api`.
///
/// ```
/// use runtime::sync::RawMutex;
///
/// let mutex = lock_api::Mutex::<RawMutex, i32>::new(1);
/// assert_eq!(*mutex.lock(), 1);
/// # use runtime::sync::lock_api;
/// ```
#[derive(Debug, Default)]
pub struct RawMutex(locks::Mutex);

impl RawMutex {
    /// Returns the lock of `sched`, for condition variables and futures.
    pub(super) fn sched_lock(&self) -> &locks::Mutex {
        &self.0
    }

    /// Waits for the mutex, which was not free when `caller` asked for it.
    #[cold]
    fn lock_slow(&self, caller: &'static Location<'static>) {
        while self.0.lock_slow(Patience::LONG).is_err() {
            if is_relock(caller) {
                return self.0.lock_anyway();
            }
            // The cancellation or time-out may no longer hold, and then this does not unwind. The loop waits
            // again.
            unwind_if_cancelled();
        }
    }

    #[cold]
    fn lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        crate::point();
        loop {
            match self.0.lock_slow(Patience::until(deadline)) {
                Ok(()) => return Some(GuardSend::new()),
                // As in `lock_slow`: the loop waits again if this does not unwind.
                Err(Outcome::Cancelled) => unwind_if_cancelled(),
                Err(_) => return None,
            }
        }
    }
}

// SAFETY: `locks::Mutex` has one owner at a time: its word is taken with Acquire and released with Release.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawMutex(locks::Mutex::new());

    // The lock belongs to no thread, so the guard may be sent.
    type Guard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardSend {
        crate::point();
        if !self.0.try_lock_fast() {
            self.lock_slow(Location::caller());
        }
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        crate::point();
        self.0.try_lock().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardSend) {
        crate::point_in_drop();
        // SAFETY: the caller has the lock; it passes the guard as the proof.
        unsafe { self.0.unlock() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: `unlock_fair` makes the woken waiter the only owner. `bump` does not unwind, so the caller's guard
// stays valid.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self, _guard: GuardSend) {
        crate::point_in_drop();
        // SAFETY: the caller has the lock, by the contract of `unlock_fair`.
        unsafe { self.0.unlock_fair() };
    }

    #[inline]
    unsafe fn bump(&self, _guard: &mut GuardSend) {
        if self.0.is_waited_for() {
            // SAFETY: the caller has the lock, by the contract of `bump`, and has it again when this returns.
            // Neither call unwinds.
            unsafe { self.0.unlock_fair() };
            self.0.lock_anyway();
        }
    }
}

// SAFETY: a `true` or `Some` is returned only to the one owner, as in `RawMutex::lock`.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        if self.0.try_lock_fast() {
            return Some(GuardSend::new());
        }
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.lock_until(deadline),
            // A time beyond the clock's range means for ever.
            None => Some(self.lock()),
        }
    }

    #[inline]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        if self.0.try_lock_fast() { Some(GuardSend::new()) } else { self.lock_until(deadline) }
    }
}
