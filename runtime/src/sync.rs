//! Locks and what else green threads and plain OS threads coordinate themselves with.
//!
//! Each has the API of the type that it replaces, so a program moves here by changing a path; what must wait parks the
//! green thread, and on a plain OS thread it parks that one. All of it works between the two, and outside any runtime.
//!
//! | here | as in |
//! | --- | --- |
//! | [`Mutex`], [`FairMutex`], [`ReentrantMutex`], [`RwLock`], [`RecursiveRwLock`], [`Condvar`], [`Once`] | `parking_lot` |
//! | [`Barrier`], [`OnceLock`], [`LazyLock`], [`mpsc`] | `std::sync` |
//! | [`Semaphore`], [`Notify`] | tokio, without the `.await`s; with them, the methods that end in `_async` |
//! | [`WaitGroup`] | `crossbeam-utils` |
//!
//! # Cancellation and time-outs
//!
//! A green thread that is cancelled while it waits here, or whose [`timeout`](crate::time::timeout) runs out, unwinds; it
//! has left the queue, and what was meant for it has gone to the next. What differs stands with each type.

mod again;
mod barrier;
mod condvar;
mod fair_mutex;
mod lazy_lock;
pub mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_lock;
mod patience;
mod reentrant_mutex;
mod rwlock;
mod semaphore;
mod wait_group;

pub use ::lock_api;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, RawCondvar, WaitTimeoutResult};
pub use fair_mutex::{FairMutex, FairMutexGuard, MappedFairMutexGuard, RawFairMutex};
pub use lazy_lock::LazyLock;
pub use mutex::{ArcMutexGuard, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use notify::{Notified, Notify};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use reentrant_mutex::{
    ArcReentrantMutexGuard, MappedReentrantMutexGuard, RawThreadId, ReentrantMutex, ReentrantMutexGuard,
};
pub use rwlock::{
    ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard, MappedRecursiveRwLockReadGuard,
    MappedRecursiveRwLockWriteGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock,
    RawRwLockRecursive, RecursiveRwLock, RecursiveRwLockReadGuard, RecursiveRwLockUpgradableReadGuard,
    RecursiveRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
pub use semaphore::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};
pub use wait_group::WaitGroup;
