//! Locking in a future: `LockAsync` for mutexes, `RwLockAsync` for reader-writer locks. These are traits
//! because the locks are types of `lock_api`. The protocol is in `runtime/waits/src/locks/futures.rs`.

#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_api::{
    GuardSend, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use sched::budget;
use waits::locks::{MutexFuture, RwLockFuture, Wants};

use super::fair_mutex::RawFairMutex;
use super::mutex::RawMutex;
use super::rwlock::RawRwLock;

/// Not nameable outside this crate, so that a trait with it can get further methods.
mod sealed {
    pub trait Sealed {}
}

use sealed::Sealed;

/// The raw mutexes of [`Mutex`](super::Mutex) and [`FairMutex`](super::FairMutex). No other type implements
/// it.
pub trait RawLockAsync: lock_api::RawMutex<Guard = GuardSend> + Sealed {
    #[doc(hidden)]
    fn future(&self) -> MutexFuture<'_>;
}

/// Locking a [`Mutex`](super::Mutex) or a [`FairMutex`](super::FairMutex) in a future, which parks no other
/// branch of its task.
///
/// The future works in any executor. It waits in the same queue as the threads that call `lock`. Dropping it
/// ends the wait; a lock that was on its way to it goes to the next waiter.
///
/// The guard is that of `lock`, and may be kept across awaits: the waiters park or await, and block no OS
/// thread of the runtime. Clippy's lint `await_holding_lock` does not know that, and has to be allowed there.
///
/// # Deadlock
///
/// A future that was woken but is neither polled nor dropped may keep the waiters behind it waiting, as with
/// tokio's `Mutex`. So a task that has polled such a future must go on polling it, or drop it, before it
/// waits for something else. `join!` and [`select!`](crate::select) do so.
///
/// ```
/// use runtime::sync::{LockAsync, Mutex};
///
/// let count = Mutex::new(0);
/// let add = async || *count.lock_async().await += 1;
/// runtime::block_on(async { futures::join!(add(), add()) });
/// assert_eq!(count.into_inner(), 2);
/// ```
pub trait LockAsync: Sealed {
    #[doc(hidden)]
    type Raw: RawLockAsync;
    /// What the mutex guards.
    type Value: ?Sized;

    /// Locks the mutex, in a future. Returns the guard.
    ///
    /// ```
    /// use runtime::sync::{LockAsync, Mutex};
    /// use runtime::time::{Duration, timeout_async};
    ///
    /// let words = Mutex::new(vec!["a"]);
    /// runtime::block_on(async {
    ///     let mut guard = words.lock_async().await;
    ///     assert!(timeout_async(Duration::from_millis(1), words.lock_async()).await.is_err());
    ///     guard.push("b");
    /// });
    /// assert_eq!(words.into_inner(), ["a", "b"]);
    /// ```
    fn lock_async(&self) -> LockFuture<'_, Self::Raw, Self::Value>;
}

impl Sealed for RawMutex {}
impl Sealed for RawFairMutex {}
impl<R: RawLockAsync, T: ?Sized> Sealed for Mutex<R, T> {}

impl RawLockAsync for RawMutex {
    fn future(&self) -> MutexFuture<'_> {
        MutexFuture::new(self.sched_lock())
    }
}

impl RawLockAsync for RawFairMutex {
    fn future(&self) -> MutexFuture<'_> {
        self.inner().future()
    }
}

impl<R: RawLockAsync, T: ?Sized> LockAsync for Mutex<R, T> {
    type Raw = R;
    type Value = T;

    fn lock_async(&self) -> LockFuture<'_, R, T> {
        // SAFETY: the raw mutex is only waited for here. It is unlocked by the guard that `poll` makes.
        let waits = unsafe { self.raw() }.future();
        LockFuture { mutex: self, waits }
    }
}

/// The future that [`LockAsync::lock_async`] returns.
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture<'a, R, T: ?Sized> {
    mutex: &'a Mutex<R, T>,
    /// Pinned with the future.
    waits: MutexFuture<'a>,
}

impl<'a, R: RawLockAsync, T: ?Sized> Future for LockFuture<'a, R, T> {
    type Output = MutexGuard<'a, R, T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mutex = self.mutex;
        // SAFETY: `waits` is pinned because this future is, and is never moved out of it.
        let waits = unsafe { self.map_unchecked_mut(|this| &mut this.waits) };
        ready!(budget::poll(cx, |cx| waits.poll(cx)));
        // SAFETY: the future is ready, so the caller has the lock, and this is its only guard.
        Poll::Ready(unsafe { mutex.make_guard_unchecked(GuardSend::new()) })
    }
}

impl<R, T: ?Sized> fmt::Debug for LockFuture<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}

/// Locking a [`RwLock`](super::RwLock) or a [`RecursiveRwLock`](super::RecursiveRwLock) in a future, which
/// parks no other branch of its task.
///
/// The futures wait in the same queue as the threads that call `read` and `write`. What [`LockAsync`] says of
/// a drop, of guards and of deadlocks holds here, too.
///
/// ```
/// use runtime::sync::{RwLock, RwLockAsync};
///
/// let words = RwLock::new(vec!["a"]);
/// runtime::block_on(async {
///     words.write_async().await.push("b");
///     let (one, other) = futures::join!(words.read_async(), words.read_async());
///     assert_eq!((one.len(), other.len()), (2, 2));
/// });
/// ```
pub trait RwLockAsync<const RECURSIVE: bool>: Sealed {
    /// What the lock guards.
    type Value: ?Sized;

    /// Shares the lock with other readers, in a future. Returns the guard.
    ///
    /// ```
    /// use runtime::sync::{RwLock, RwLockAsync};
    /// let count = RwLock::new(7);
    /// assert_eq!(runtime::block_on(async { *count.read_async().await }), 7);
    /// ```
    fn read_async(&self) -> ReadFuture<'_, RECURSIVE, Self::Value>;

    /// Takes the lock alone, in a future. Returns the guard.
    ///
    /// ```
    /// use runtime::sync::{RwLock, RwLockAsync};
    /// let count = RwLock::new(7);
    /// runtime::block_on(async { *count.write_async().await += 1 });
    /// assert_eq!(count.into_inner(), 8);
    /// ```
    fn write_async(&self) -> WriteFuture<'_, RECURSIVE, Self::Value>;

    /// Shares the lock with other readers, with the option to become a writer, in a future. Returns the
    /// guard. Its `upgrade` parks the caller until the other readers have left.
    ///
    /// ```
    /// use runtime::sync::{RwLock, RwLockAsync, RwLockUpgradableReadGuard};
    /// let count = RwLock::new(7);
    /// runtime::block_on(async {
    ///     let guard = count.upgradable_read_async().await;
    ///     *RwLockUpgradableReadGuard::try_upgrade(guard).unwrap() += 1;
    /// });
    /// assert_eq!(count.into_inner(), 8);
    /// ```
    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, RECURSIVE, Self::Value>;
}

impl<const RECURSIVE: bool, T: ?Sized> Sealed for RwLock<RawRwLock<RECURSIVE>, T> {}

impl<const RECURSIVE: bool, T: ?Sized> RwLockAsync<RECURSIVE> for RwLock<RawRwLock<RECURSIVE>, T> {
    type Value = T;

    fn read_async(&self) -> ReadFuture<'_, RECURSIVE, T> {
        ReadFuture { lock: self, waits: future(self, Wants::Shared) }
    }

    fn write_async(&self) -> WriteFuture<'_, RECURSIVE, T> {
        WriteFuture { lock: self, waits: future(self, Wants::Alone) }
    }

    fn upgradable_read_async(&self) -> UpgradableReadFuture<'_, RECURSIVE, T> {
        UpgradableReadFuture { lock: self, waits: future(self, Wants::Upgradable) }
    }
}

fn future<const RECURSIVE: bool, T: ?Sized>(
    lock: &RwLock<RawRwLock<RECURSIVE>, T>,
    wants: Wants,
) -> RwLockFuture<'_, RECURSIVE> {
    // SAFETY: the raw lock is only waited for here. It is given back by the guard that `poll` makes.
    RwLockFuture::new(unsafe { lock.raw() }.sched_lock(), wants)
}

macro_rules! rwlock_future {
    ($(#[$doc:meta])* $name:ident, $guard:ident, $make:ident) => {
        $(#[$doc])*
        #[must_use = "futures do nothing unless polled"]
        pub struct $name<'a, const RECURSIVE: bool, T: ?Sized> {
            lock: &'a RwLock<RawRwLock<RECURSIVE>, T>,
            /// Pinned with the future.
            waits: RwLockFuture<'a, RECURSIVE>,
        }

        impl<'a, const RECURSIVE: bool, T: ?Sized> Future for $name<'a, RECURSIVE, T> {
            type Output = $guard<'a, RawRwLock<RECURSIVE>, T>;

            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                let lock = self.lock;
                // SAFETY: `waits` is pinned because this future is, and is never moved out of it.
                let waits = unsafe { self.map_unchecked_mut(|this| &mut this.waits) };
                ready!(budget::poll(cx, |cx| waits.poll(cx)));
                // SAFETY: the future is ready, so the caller has the lock in the mode of this guard, which is
                // its only guard.
                Poll::Ready(unsafe { lock.$make(GuardSend::new()) })
            }
        }

        impl<const RECURSIVE: bool, T: ?Sized> fmt::Debug for $name<'_, RECURSIVE, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

rwlock_future!(
    /// The future that [`RwLockAsync::read_async`] returns.
    ReadFuture, RwLockReadGuard, make_read_guard_unchecked
);
rwlock_future!(
    /// The future that [`RwLockAsync::write_async`] returns.
    WriteFuture, RwLockWriteGuard, make_write_guard_unchecked
);
rwlock_future!(
    /// The future that [`RwLockAsync::upgradable_read_async`] returns.
    UpgradableReadFuture, RwLockUpgradableReadGuard, make_upgradable_guard_unchecked
);
