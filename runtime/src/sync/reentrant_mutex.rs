//! The mutex that its owner may take again, with `parking_lot`'s API.

#![allow(unsafe_code)]

use std::num::NonZeroUsize;

use lock_api::GetThreadId;

use super::mutex::RawMutex;

/// A mutex that whoever has it may take again. It gives shared access only.
///
/// It is `parking_lot`'s `ReentrantMutex`. Its owner is the green thread, or the plain OS thread: a green thread keeps it
/// across everything that parks, on whichever OS thread it goes on, and others on the same OS thread do not have it.
///
/// # Cancellation
///
/// `lock` is not ended by a cancellation or a [`timeout`](crate::time::timeout), for it cannot be told from what takes the
/// mutex again for a guard that exists: it waits, and the next parking call unwinds. `try_lock_for` and `try_lock_until`
/// are.
///
/// ```
/// use runtime::sync::ReentrantMutex;
/// use std::cell::Cell;
///
/// let count = ReentrantMutex::new(Cell::new(0));
/// let outer = count.lock();
/// let inner = count.lock();
/// inner.set(outer.get() + 1);
/// drop((outer, inner));
/// runtime::scope(|s| drop(s.spawn(|| assert_eq!(count.lock().get(), 1))));
/// ```
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;

/// The guard of a [`ReentrantMutex`]; the mutex is free when the last one of its owner's is dropped.
///
/// ```
/// use runtime::sync::{ReentrantMutex, ReentrantMutexGuard};
///
/// let mutex = ReentrantMutex::new(1);
/// let guard: ReentrantMutexGuard<'_, i32> = mutex.lock();
/// assert!(mutex.is_owned_by_current_thread());
/// ReentrantMutexGuard::unlock_fair(guard);
/// assert!(!mutex.is_locked());
/// ```
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The guard of a part of what a [`ReentrantMutex`] holds.
///
/// ```
/// use runtime::sync::{MappedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
///
/// let pair = ReentrantMutex::new((1, 2));
/// let second: MappedReentrantMutexGuard<'_, i32> = ReentrantMutexGuard::map(pair.lock(), |pair| &pair.1);
/// assert_eq!(*second, 2);
/// ```
pub type MappedReentrantMutexGuard<'a, T> = lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The guard of a [`ReentrantMutex`] in an `Arc`, which it keeps.
///
/// ```
/// use runtime::sync::{ArcReentrantMutexGuard, ReentrantMutex};
/// use std::sync::Arc;
///
/// let mutex = Arc::new(ReentrantMutex::new(1));
/// let guard: ArcReentrantMutexGuard<i32> = mutex.lock_arc();
/// assert_eq!(*guard, *mutex.lock());
/// ```
pub type ArcReentrantMutexGuard<T> = lock_api::ArcReentrantMutexGuard<RawMutex, RawThreadId, T>;

/// Who takes a [`ReentrantMutex`]: the green thread that runs, else the plain OS thread.
///
/// ```
/// use runtime::sync::lock_api::GetThreadId;
/// use runtime::sync::RawThreadId;
///
/// let mine = RawThreadId::INIT.nonzero_thread_id();
/// assert_eq!(mine, RawThreadId::INIT.nonzero_thread_id());
/// let other = runtime::spawn(|| RawThreadId::INIT.nonzero_thread_id());
/// assert_ne!(mine, other.join().unwrap());
/// ```
#[derive(Debug)]
pub struct RawThreadId;

// SAFETY: an id is one thread's for ever, and the same as long as it lives; where a `usize` cannot hold it, it is refused.
unsafe impl GetThreadId for RawThreadId {
    const INIT: RawThreadId = RawThreadId;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        let id = usize::try_from(sched::park::my_id())
            .expect("fewer threads have begun than this system can count");
        NonZeroUsize::new(id).expect("ids begin at 1")
    }
}
