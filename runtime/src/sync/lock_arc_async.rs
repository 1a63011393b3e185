//! Locking in a future that keeps the `Arc` of its lock: `LockArcAsync` for mutexes, `RwLockArcAsync` for
//! reader-writer locks. Such a future, and its guard, borrow nothing, so a spawned task may own them.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_api::{
    ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard, GuardSend, Mutex, RawMutexFair,
    RwLock,
};
use sched::budget;
use waits::locks::{MutexFuture, RwLockFuture, Wants};

use super::lock_async::RawLockAsync;
use super::rwlock::RawRwLock;

/// Not nameable outside this crate, so that a trait with it can get further methods.
mod sealed {
    pub trait Sealed {}
}

use sealed::Sealed;

impl<L: ?Sized> Sealed for Arc<L> {}

/// Locking an `Arc` of a [`Mutex`](super::Mutex) or a [`FairMutex`](super::FairMutex) in a future that
/// borrows nothing. It is tokio's `lock_owned`.
///
/// What [`LockAsync`](super::LockAsync) says of a drop, of guards and of deadlocks holds here, too.
///
/// ```
/// use runtime::sync::{LockArcAsync, Mutex};
/// use std::sync::Arc;
///
/// let words = Arc::new(Mutex::new(vec!["a"]));
/// let guard = runtime::block_on(words.lock_arc_async());
/// let task = runtime::spawn(async move {
///     let mut guard = guard;
///     guard.push("b");
/// });
/// task.join().unwrap();
/// assert_eq!(*words.lock(), ["a", "b"]);
/// ```
pub trait LockArcAsync: Sealed {
    #[doc(hidden)]
    type Raw: RawLockAsync + 'static;
    /// What the mutex guards.
    type Value: ?Sized;

    /// Locks the mutex, in a future. Returns a guard that keeps the `Arc`.
    ///
    /// ```
    /// use runtime::sync::{LockArcAsync, Mutex};
    /// use std::sync::Arc;
    /// let count = Arc::new(Mutex::new(0));
    /// runtime::block_on(async { *count.lock_arc_async().await += 1 });
    /// assert_eq!(*count.lock(), 1);
    /// ```
    fn lock_arc_async(&self) -> LockArcFuture<Self::Raw, Self::Value>;
}

impl<R: RawLockAsync + 'static, T: ?Sized> LockArcAsync for Arc<Mutex<R, T>> {
    type Raw = R;
    type Value = T;

    fn lock_arc_async(&self) -> LockArcFuture<R, T> {
        // SAFETY: the raw mutex is only waited for here. It is unlocked by the guard that `poll` makes.
        let raw: *const R = unsafe { self.raw() };
        // SAFETY: the future keeps the `Arc`, which keeps the raw mutex at its place. `waits` is the field
        // before it, and is dropped first.
        let raw: &'static R = unsafe { &*raw };
        LockArcFuture { waits: raw.future(), mutex: Arc::clone(self) }
    }
}

/// The future that [`LockArcAsync::lock_arc_async`] returns.
#[must_use = "futures do nothing unless polled"]
pub struct LockArcFuture<R, T: ?Sized> {
    /// Pinned with the future. It borrows from `mutex`, so it stands before it.
    waits: MutexFuture<'static>,
    mutex: Arc<Mutex<R, T>>,
}

impl<R: RawLockAsync, T: ?Sized> Future for LockArcFuture<R, T> {
    type Output = OwnedMutexGuard<R, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `waits` is pinned because this future is, and is never moved out of it.
        let waits = unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.waits) };
        ready!(budget::poll(cx, |cx| waits.poll(cx)));
        // The future is ready, so the caller has the lock, and this is its only guard.
        Poll::Ready(OwnedMutexGuard { mutex: Arc::clone(&self.mutex), value: PhantomData })
    }
}

impl<R, T: ?Sized> fmt::Debug for LockArcFuture<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockArcFuture").finish_non_exhaustive()
    }
}

/// The guard that [`LockArcAsync::lock_arc_async`] returns: gives access to the value, keeps the `Arc` of the
/// mutex, and unlocks the mutex when it is dropped.
///
/// `Mutex::lock_arc`, which parks, returns an [`ArcMutexGuard`](super::ArcMutexGuard). `lock_api` lets no
/// other crate make one.
///
/// ```
/// use runtime::sync::{LockArcAsync, Mutex, OwnedMutexGuard};
/// use std::sync::Arc;
///
/// let count = Arc::new(Mutex::new(1));
/// let guard = runtime::block_on(count.lock_arc_async());
/// assert_eq!(*guard, 1);
/// assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &count));
/// assert!(count.try_lock().is_none());
/// OwnedMutexGuard::unlock_fair(guard);
/// assert!(count.try_lock().is_some());
/// ```
#[must_use = "dropping the guard unlocks the mutex"]
pub struct OwnedMutexGuard<R: RawLockAsync, T: ?Sized> {
    /// Locked for this guard.
    mutex: Arc<Mutex<R, T>>,
    /// A shared guard gives `&T` to several threads, for which the mutex alone does not ask.
    value: PhantomData<T>,
}

impl<R: RawLockAsync, T: ?Sized> OwnedMutexGuard<R, T> {
    /// Returns the mutex that is locked.
    ///
    /// ```
    /// use runtime::sync::{LockArcAsync, Mutex, OwnedMutexGuard};
    /// let count = std::sync::Arc::new(Mutex::new(1));
    /// let guard = runtime::block_on(count.lock_arc_async());
    /// assert!(OwnedMutexGuard::mutex(&guard).is_locked());
    /// ```
    pub fn mutex(this: &Self) -> &Arc<Mutex<R, T>> {
        &this.mutex
    }

    /// Unlocks the mutex, and hands it to the first waiter if there is one.
    ///
    /// ```
    /// use runtime::sync::{LockArcAsync, Mutex, OwnedMutexGuard};
    /// let count = std::sync::Arc::new(Mutex::new(1));
    /// OwnedMutexGuard::unlock_fair(runtime::block_on(count.lock_arc_async()));
    /// assert!(!count.is_locked());
    /// ```
    pub fn unlock_fair(this: Self)
    where
        R: RawMutexFair,
    {
        let this = std::mem::ManuallyDrop::new(this);
        // SAFETY: the `Arc` is moved out once, because the drop of `this` does not run.
        let mutex = unsafe { std::ptr::read(&this.mutex) };
        // SAFETY: this guard has the lock, and its drop does not unlock it again.
        unsafe { mutex.force_unlock_fair(GuardSend::new()) };
    }
}

impl<R: RawLockAsync, T: ?Sized> Deref for OwnedMutexGuard<R, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked for this guard, which lends the value out as its own borrow allows.
        unsafe { &*self.mutex.data_ptr() }
    }
}

impl<R: RawLockAsync, T: ?Sized> DerefMut for OwnedMutexGuard<R, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is locked for this guard, which is borrowed mutably as long as the value.
        unsafe { &mut *self.mutex.data_ptr() }
    }
}

impl<R: RawLockAsync, T: ?Sized> Drop for OwnedMutexGuard<R, T> {
    fn drop(&mut self) {
        // SAFETY: this guard has the lock, and the value is borrowed no more.
        unsafe { self.mutex.force_unlock(GuardSend::new()) };
    }
}

impl<R: RawLockAsync, T: ?Sized + fmt::Debug> fmt::Debug for OwnedMutexGuard<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: RawLockAsync, T: ?Sized + fmt::Display> fmt::Display for OwnedMutexGuard<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Locking an `Arc` of a [`RwLock`](super::RwLock) or a [`RecursiveRwLock`](super::RecursiveRwLock) in a
/// future that borrows nothing. It is tokio's `read_owned` and `write_owned`.
///
/// What [`LockAsync`](super::LockAsync) says of a drop, of guards and of deadlocks holds here, too.
///
/// ```
/// use runtime::sync::{RwLock, RwLockArcAsync};
/// use std::sync::Arc;
///
/// let words = Arc::new(RwLock::new(vec!["a"]));
/// let task = runtime::spawn({
///     let words = Arc::clone(&words);
///     async move { words.write_arc_async().await.push("b") }
/// });
/// task.join().unwrap();
/// assert_eq!(runtime::block_on(words.read_arc_async()).len(), 2);
/// ```
pub trait RwLockArcAsync<const RECURSIVE: bool>: Sealed {
    /// What the lock guards.
    type Value: ?Sized;

    /// Shares the lock with other readers, in a future. Returns a guard that keeps the `Arc`.
    ///
    /// ```
    /// use runtime::sync::{RwLock, RwLockArcAsync};
    /// let count = std::sync::Arc::new(RwLock::new(7));
    /// assert_eq!(runtime::block_on(async { *count.read_arc_async().await }), 7);
    /// ```
    fn read_arc_async(&self) -> ReadArcFuture<RECURSIVE, Self::Value>;

    /// Takes the lock alone, in a future. Returns a guard that keeps the `Arc`.
    ///
    /// ```
    /// use runtime::sync::{RwLock, RwLockArcAsync};
    /// let count = std::sync::Arc::new(RwLock::new(7));
    /// runtime::block_on(async { *count.write_arc_async().await += 1 });
    /// assert_eq!(*count.read(), 8);
    /// ```
    fn write_arc_async(&self) -> WriteArcFuture<RECURSIVE, Self::Value>;

    /// Shares the lock with other readers, with the option to become a writer, in a future. Returns a guard
    /// that keeps the `Arc`. Its `upgrade` parks the caller until the other readers have left.
    ///
    /// ```
    /// use runtime::sync::{ArcRwLockUpgradableReadGuard, RwLock, RwLockArcAsync};
    /// let count = std::sync::Arc::new(RwLock::new(7));
    /// let guard = runtime::block_on(count.upgradable_read_arc_async());
    /// *ArcRwLockUpgradableReadGuard::upgrade(guard) += 1;
    /// assert_eq!(*count.read(), 8);
    /// ```
    fn upgradable_read_arc_async(&self) -> UpgradableReadArcFuture<RECURSIVE, Self::Value>;
}

impl<const RECURSIVE: bool, T: ?Sized> RwLockArcAsync<RECURSIVE> for Arc<RwLock<RawRwLock<RECURSIVE>, T>> {
    type Value = T;

    fn read_arc_async(&self) -> ReadArcFuture<RECURSIVE, T> {
        ReadArcFuture { waits: future(self, Wants::Shared), lock: Arc::clone(self) }
    }

    fn write_arc_async(&self) -> WriteArcFuture<RECURSIVE, T> {
        WriteArcFuture { waits: future(self, Wants::Alone), lock: Arc::clone(self) }
    }

    fn upgradable_read_arc_async(&self) -> UpgradableReadArcFuture<RECURSIVE, T> {
        UpgradableReadArcFuture { waits: future(self, Wants::Upgradable), lock: Arc::clone(self) }
    }
}

/// Returns a future that borrows from `lock`. The caller keeps it in a field before a clone of the `Arc`.
fn future<const RECURSIVE: bool, T: ?Sized>(
    lock: &Arc<RwLock<RawRwLock<RECURSIVE>, T>>,
    wants: Wants,
) -> RwLockFuture<'static, RECURSIVE> {
    // SAFETY: the raw lock is only waited for here. It is given back by the guard that `poll` makes.
    let raw: *const RawRwLock<RECURSIVE> = unsafe { lock.raw() };
    // SAFETY: the `Arc` in the next field keeps the raw lock at its place, and is dropped after the result.
    let raw: &'static RawRwLock<RECURSIVE> = unsafe { &*raw };
    RwLockFuture::new(raw.sched_lock(), wants)
}

macro_rules! rwlock_future {
    ($(#[$doc:meta])* $name:ident, $guard:ident, $make:ident) => {
        $(#[$doc])*
        #[must_use = "futures do nothing unless polled"]
        pub struct $name<const RECURSIVE: bool, T: ?Sized> {
            /// Pinned with the future. It borrows from `lock`, so it stands before it.
            waits: RwLockFuture<'static, RECURSIVE>,
            lock: Arc<RwLock<RawRwLock<RECURSIVE>, T>>,
        }

        impl<const RECURSIVE: bool, T: ?Sized> Future for $name<RECURSIVE, T> {
            type Output = $guard<RawRwLock<RECURSIVE>, T>;

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                // SAFETY: `waits` is pinned because this future is, and is never moved out of it.
                let waits = unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.waits) };
                ready!(budget::poll(cx, |cx| waits.poll(cx)));
                // SAFETY: the future is ready, so the caller has the lock in the mode of this guard, which is
                // its only guard.
                Poll::Ready(unsafe { self.lock.$make(GuardSend::new()) })
            }
        }

        impl<const RECURSIVE: bool, T: ?Sized> fmt::Debug for $name<RECURSIVE, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

rwlock_future!(
    /// The future that [`RwLockArcAsync::read_arc_async`] returns.
    ReadArcFuture, ArcRwLockReadGuard, make_arc_read_guard_unchecked
);
rwlock_future!(
    /// The future that [`RwLockArcAsync::write_arc_async`] returns.
    WriteArcFuture, ArcRwLockWriteGuard, make_arc_write_guard_unchecked
);
rwlock_future!(
    /// The future that [`RwLockArcAsync::upgradable_read_arc_async`] returns.
    UpgradableReadArcFuture, ArcRwLockUpgradableReadGuard, make_upgradable_arc_guard_unchecked
);
