//! `ReentrantMutex`: a mutex that its owner may lock again. The API is that of `parking_lot`.

#![allow(unsafe_code)]

use std::num::NonZeroUsize;

use lock_api::GetThreadId;

use super::mutex::RawMutex;

/// A mutex that its owner may lock again. It gives shared access only.
///
/// It has the API of `parking_lot::ReentrantMutex`. The owner is the green thread, or the plain OS thread. A
/// green thread keeps the mutex across calls that park, on whichever OS thread it resumes. Other green
/// threads on that OS thread do not own it.
///
/// # Cancellation
///
/// A cancellation or a [`timeout`](crate::time::timeout) does not end `lock`: that waits, and the next
/// parking call unwinds. The reason is that `lock` cannot be told from a call that takes the mutex again for
/// an existing guard. A cancellation or a time-out does end `try_lock_for` and `try_lock_until`.
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

/// The guard of a [`ReentrantMutex`]. The mutex is unlocked when the last guard of its owner is dropped.
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

/// The guard of a [`ReentrantMutex`] for a part of the value.
///
/// ```
/// use runtime::sync::{MappedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
///
/// let pair = ReentrantMutex::new((1, 2));
/// let second: MappedReentrantMutexGuard<'_, i32> = ReentrantMutexGuard::map(pair.lock(), |pair| &pair.1);
/// assert_eq!(*second, 2);
/// ```
pub type MappedReentrantMutexGuard<'a, T> = lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The guard of a [`ReentrantMutex`] in an `Arc`. It keeps the `Arc`.
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

/// Gives `lock_api` the id of the owner of a [`ReentrantMutex`]: the calling green thread, or the plain OS
/// thread.
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

// SAFETY: an id belongs to one thread for ever and is the same as long as that thread lives. An id beyond a
// `usize` panics.
unsafe impl GetThreadId for RawThreadId {
    const INIT: RawThreadId = RawThreadId;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        let id = usize::try_from(sched::park::my_id())
            .expect("fewer threads have begun than this system can count");
        NonZeroUsize::new(id).expect("ids begin at 1")
    }
}
