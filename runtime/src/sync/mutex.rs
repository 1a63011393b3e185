//! The mutex, with `parking_lot`'s API.

#![allow(unsafe_code)]

use std::panic::Location;
use std::time::{Duration, Instant};

use lock_api::{GuardSend, RawMutex as _};
use sched::Outcome;
use sched::locks::{self, Patience};
use sched::park::unwind_if_cancelled;

use super::again::is_asked_for_again;

/// A mutex: whoever waits for it parks its green thread, or its plain OS thread.
///
/// It is `parking_lot`'s `Mutex`: no poisoning, a guard that unlocks it when dropped, `const` construction, time-outs, fair
/// unlocking. A free one is taken and given back with one atomic operation each, without entering the runtime. The
/// guard may be kept across anything that parks, and may be sent to another thread. To lock it again on the thread that has
/// it is a deadlock; it has no owner that could be asked.
///
/// # Fairness
///
/// Whoever comes along may take a free mutex, even if others wait; but if one has waited for more than a millisecond and
/// comes too late again, it is handed to those who wait, in order, until that has passed.
/// `MutexGuard::unlock_fair` always hands it to the one that has waited longest, and `MutexGuard::bump` does so and takes
/// it again.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits in `lock`, `try_lock_for` or `try_lock_until`, or whose
/// [`timeout`](crate::time::timeout) runs out there, unwinds without the lock, and the lock goes to the next. A free mutex
/// is taken in any case. What takes a mutex *again* (`MutexGuard::unlocked`, `bump`) is not ended so: it waits, and the next
/// parking call unwinds.
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

/// The guard of a [`Mutex`]: what it gives is locked until it is dropped.
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

/// The guard of a part of what a [`Mutex`] holds, from `MutexGuard::map`.
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

/// The guard of a [`Mutex`] in an `Arc`, which it keeps; from `Mutex::lock_arc`.
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

/// The raw mutex under [`Mutex`], for types that are generic over `lock_api`'s traits.
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
    /// The lock itself, for what is built on it.
    pub(super) fn lock_itself(&self) -> &locks::Mutex {
        &self.0
    }

    /// It was not free when `caller` asked for it.
    #[cold]
    fn lock_slow(&self, caller: &'static Location<'static>) {
        while self.0.lock_slow(Patience::LONG).is_err() {
            if is_asked_for_again(caller) {
                return self.0.lock_anyway();
            }
            // It may be that nothing is to be unwound for any more; then it is waited for again.
            unwind_if_cancelled();
        }
    }

    #[cold]
    fn lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        loop {
            match self.0.lock_slow(Patience::until(deadline)) {
                Ok(()) => return Some(GuardSend::new()),
                // As in `lock_slow`.
                Err(Outcome::Cancelled) => unwind_if_cancelled(),
                Err(_) => return None,
            }
        }
    }
}

// SAFETY: `locks::Mutex` has one owner at a time: its word is taken with Acquire and given back with Release.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawMutex(locks::Mutex::new());

    // Nothing of it belongs to a thread.
    type Guard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardSend {
        if !self.0.try_lock_fast() {
            self.lock_slow(Location::caller());
        }
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.0.try_lock().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardSend) {
        // SAFETY: the caller has it, which the guard shows.
        unsafe { self.0.unlock() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as for `RawMutex`; a hand-over makes the one who is woken the only owner. `bump` does not unwind.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self, _guard: GuardSend) {
        // SAFETY: the caller has it.
        unsafe { self.0.unlock_fair() };
    }

    #[inline]
    unsafe fn bump(&self, _guard: &mut GuardSend) {
        if self.0.is_waited_for() {
            // SAFETY: the caller has it, and has it again when this returns; neither call unwinds.
            unsafe { self.0.unlock_fair() };
            self.0.lock_anyway();
        }
    }
}

// SAFETY: as for `RawMutex`.
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
            // For ever.
            None => Some(self.lock()),
        }
    }

    #[inline]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        if self.0.try_lock_fast() { Some(GuardSend::new()) } else { self.lock_until(deadline) }
    }
}
