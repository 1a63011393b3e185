//! `RwLock` and `RecursiveRwLock`: many readers, or one writer. The API is that of `parking_lot`.

mod raw;

pub use raw::{RawRwLock, RawRwLockRecursive};

/// A reader-writer lock: many readers share it, or one writer has it alone.
///
/// It has the API of `parking_lot::RwLock`: no poisoning, `const` construction, time-outs, upgradable reads,
/// downgrades, fair unlocking. Locking and unlocking a free lock takes one atomic operation each, without
/// entering the runtime. Guards may be kept across calls that park, and may be sent to another thread.
///
/// # Fairness
///
/// Waiters are served in order: readers together, up to the first writer. Readers that come while a writer
/// waits go behind that writer. So a thread that has a read guard must not read again, because a writer may
/// have come in between. ([`RecursiveRwLock`] allows that.) A writer that comes may take a free lock although
/// others wait, until a waiter has waited for a millisecond.
///
/// # Cancellation
///
/// A green thread unwinds without the lock if it is cancelled while it waits, or if its
/// [`timeout`](crate::time::timeout) is over there. In `upgrade` it also gives up its upgradable guard. A
/// free lock is taken by a cancelled green thread, too. Calls that take the lock *again*, or change a guard
/// in place (`unlocked`, `bump`, `with_upgraded`), are not ended. They wait, and the next parking call
/// unwinds.
///
/// ```
/// use runtime::sync::RwLock;
///
/// static CONFIG: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// CONFIG.write().push("verbose");
/// runtime::scope(|s| {
///     for _ in 0..3 {
///         s.spawn(|| assert!(CONFIG.read().contains(&"verbose")));
///     }
/// });
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// The guard of a reader of a [`RwLock`].
///
/// ```
/// use runtime::sync::{RwLock, RwLockReadGuard};
///
/// let words = RwLock::new(vec!["a"]);
/// let one: RwLockReadGuard<'_, Vec<&str>> = words.read();
/// let two = words.read();
/// assert_eq!(one.len(), two.len());
/// assert!(words.try_write().is_none());
/// ```
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a writer of a [`RwLock`].
///
/// ```
/// use runtime::sync::{RwLock, RwLockWriteGuard};
///
/// let words = RwLock::new(vec!["a"]);
/// let mut guard: RwLockWriteGuard<'_, Vec<&str>> = words.write();
/// guard.push("b");
/// let shared = RwLockWriteGuard::downgrade(guard);
/// assert_eq!(shared.len(), words.read().len());
/// ```
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The guard of an upgradable reader of a [`RwLock`]: it shares the lock with readers, and can become a
/// writer. There is one at a time.
///
/// ```
/// use runtime::sync::{RwLock, RwLockUpgradableReadGuard};
///
/// let count = RwLock::new(1);
/// let guard: RwLockUpgradableReadGuard<'_, i32> = count.upgradable_read();
/// assert_eq!(*count.read(), 1);
/// if *guard == 1 {
///     // No writer came in between.
///     *RwLockUpgradableReadGuard::upgrade(guard) += 1;
/// }
/// assert_eq!(*count.read(), 2);
/// ```
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// The guard of a reader of a [`RwLock`] for a part of the value.
///
/// ```
/// use runtime::sync::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
///
/// let pair = RwLock::new((1, 2));
/// let second: MappedRwLockReadGuard<'_, i32> = RwLockReadGuard::map(pair.read(), |pair| &pair.1);
/// assert_eq!(*second, 2);
/// ```
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a writer of a [`RwLock`] for a part of the value.
///
/// ```
/// use runtime::sync::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};
///
/// let pair = RwLock::new((1, 2));
/// let mut second: MappedRwLockWriteGuard<'_, i32> = RwLockWriteGuard::map(pair.write(), |pair| &mut pair.1);
/// *second += 1;
/// drop(second);
/// assert_eq!(pair.into_inner(), (1, 3));
/// ```
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] of a lock in an `Arc`, from `RwLock::read_arc`. It keeps the `Arc`.
///
/// ```
/// use runtime::sync::{ArcRwLockReadGuard, RwLock};
/// use std::sync::Arc;
///
/// let count = Arc::new(RwLock::new(1));
/// let guard: ArcRwLockReadGuard<i32> = count.read_arc();
/// runtime::spawn(move || assert_eq!(*guard, 1)).join().unwrap();
/// ```
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;

/// A [`RwLockWriteGuard`] of a lock in an `Arc`, from `RwLock::write_arc`. It keeps the `Arc`.
///
/// ```
/// use runtime::sync::{ArcRwLockWriteGuard, RwLock};
/// use std::sync::Arc;
///
/// let count = Arc::new(RwLock::new(1));
/// let mut guard: ArcRwLockWriteGuard<i32> = count.write_arc();
/// runtime::spawn(move || *guard += 1).join().unwrap();
/// assert_eq!(*count.read(), 2);
/// ```
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;

/// A [`RwLockUpgradableReadGuard`] of a lock in an `Arc`, from `RwLock::upgradable_read_arc`. It keeps the
/// `Arc`.
///
/// ```
/// use runtime::sync::{ArcRwLockUpgradableReadGuard, RwLock};
/// use std::sync::Arc;
///
/// let count = Arc::new(RwLock::new(1));
/// let guard: ArcRwLockUpgradableReadGuard<i32> = count.upgradable_read_arc();
/// *ArcRwLockUpgradableReadGuard::upgrade(guard) += 1;
/// assert_eq!(*count.read(), 2);
/// ```
pub type ArcRwLockUpgradableReadGuard<T> = lock_api::ArcRwLockUpgradableReadGuard<RawRwLock, T>;

/// A [`RwLock`] that a thread may read again while it reads: a reader never waits while the lock has another
/// reader.
///
/// A writer waits as long as there are readers, which may be for ever. It has the API of `parking_lot` for
/// recursive reads.
///
/// ```
/// use runtime::sync::RecursiveRwLock;
///
/// let words = RecursiveRwLock::new(vec!["a"]);
/// let outer = words.read();
/// runtime::scope(|s| {
///     s.spawn(|| words.write().push("b"));
///     // This works although a writer may wait.
///     assert_eq!(words.read().len(), 1);
///     drop(outer);
/// });
/// assert_eq!(words.read().len(), 2);
/// ```
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;

/// The guard of a reader of a [`RecursiveRwLock`].
///
/// ```
/// use runtime::sync::{RecursiveRwLock, RecursiveRwLockReadGuard};
///
/// let count = RecursiveRwLock::new(1);
/// let guard: RecursiveRwLockReadGuard<'_, i32> = count.read();
/// assert_eq!(*guard, *count.read());
/// ```
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;

/// The guard of a writer of a [`RecursiveRwLock`].
///
/// ```
/// use runtime::sync::{RecursiveRwLock, RecursiveRwLockWriteGuard};
///
/// let count = RecursiveRwLock::new(1);
/// let mut guard: RecursiveRwLockWriteGuard<'_, i32> = count.write();
/// *guard += 1;
/// ```
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;

/// The guard of an upgradable reader of a [`RecursiveRwLock`], which can become a writer.
///
/// ```
/// use runtime::sync::{RecursiveRwLock, RecursiveRwLockUpgradableReadGuard};
///
/// let count = RecursiveRwLock::new(1);
/// let guard: RecursiveRwLockUpgradableReadGuard<'_, i32> = count.upgradable_read();
/// assert!(RecursiveRwLockUpgradableReadGuard::try_upgrade(guard).is_ok());
/// ```
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;

/// The guard of a reader of a [`RecursiveRwLock`] for a part of the value.
///
/// ```
/// use runtime::sync::{MappedRecursiveRwLockReadGuard, RecursiveRwLock, RecursiveRwLockReadGuard};
///
/// let pair = RecursiveRwLock::new((1, 2));
/// let first: MappedRecursiveRwLockReadGuard<'_, i32> = RecursiveRwLockReadGuard::map(pair.read(), |pair| &pair.0);
/// assert_eq!(*first, 1);
/// ```
pub type MappedRecursiveRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;

/// The guard of a writer of a [`RecursiveRwLock`] for a part of the value.
///
/// ```
/// use runtime::sync::{MappedRecursiveRwLockWriteGuard, RecursiveRwLock, RecursiveRwLockWriteGuard};
///
/// let pair = RecursiveRwLock::new((1, 2));
/// let mut first: MappedRecursiveRwLockWriteGuard<'_, i32> =
///     RecursiveRwLockWriteGuard::map(pair.write(), |pair| &mut pair.0);
/// *first += 1;
/// ```
pub type MappedRecursiveRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;
