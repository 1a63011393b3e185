//! Locks, condition variables, semaphores and other types for threads that share data.
//!
//! Each type has the API of the type that it replaces, so a program is ported by changing a path. A call that
//! has to wait parks the green thread; on a plain OS thread it blocks that OS thread. Green threads, plain OS
//! threads and threads of several runtimes may share a value.
//!
//! | here | API of |
//! | --- | --- |
//! | [`Mutex`], [`FairMutex`], [`ReentrantMutex`], [`RwLock`], [`RecursiveRwLock`], [`Condvar`], [`Once`] | `parking_lot` |
//! | [`Barrier`], [`OnceLock`], [`LazyLock`], [`mpsc`] | `std::sync` |
//! | [`Semaphore`], [`Notify`] | tokio: the method that parks has tokio's name, the method that is awaited ends in `_async` |
//! | [`oneshot`], [`watch`], [`broadcast`], [`OnceCell`] | tokio, with the same suffix; [`oneshot::Receiver`] is a future |
//! | [`LockAsync`], [`RwLockAsync`] | mutexes and reader-writer locks that are awaited: `lock_async`, `read_async`, `write_async` |
//! | [`LockArcAsync`], [`RwLockArcAsync`] | the same for locks in an `Arc`, as tokio's `lock_owned` |
//! | [`WaitGroup`] | `crossbeam-utils` |
//!
//! # Cancellation and time-outs
//!
//! A green thread unwinds if it is cancelled while it waits here, or if its [`timeout`](crate::time::timeout)
//! is over. It has then left the queue, and a lock or permit that was on its way to it goes to the next
//! waiter. Pages of types say what differs.

mod barrier;
pub mod broadcast;
mod condvar;
mod fair_mutex;
mod lazy_lock;
mod lock_arc_async;
mod lock_async;
pub mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_cell;
mod once_lock;
pub mod oneshot;
mod reentrant_mutex;
mod relock;
mod rwlock;
mod semaphore;
mod wait;
mod wait_group;
pub mod watch;

pub use ::lock_api;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, RawCondvar, WaitTimeoutResult};
pub use fair_mutex::{FairMutex, FairMutexGuard, MappedFairMutexGuard, RawFairMutex};
pub use lazy_lock::LazyLock;
pub use lock_arc_async::{
    LockArcAsync, LockArcFuture, OwnedMutexGuard, ReadArcFuture, RwLockArcAsync, UpgradableReadArcFuture,
    WriteArcFuture,
};
pub use lock_async::{
    LockAsync, LockFuture, RawLockAsync, ReadFuture, RwLockAsync, UpgradableReadFuture, WriteFuture,
};
pub use mutex::{ArcMutexGuard, MappedMutexGuard, Mutex, MutexGuard, RawMutex};
pub use notify::{Notified, Notify, OwnedNotified};
pub use once::{Once, OnceState};
pub use once_cell::{OnceCell, SetError};
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
/// Those of std, so that a program moves by changing `std::sync` to `runtime::sync`.
#[doc(no_inline)]
pub use std::sync::{Arc, Weak, atomic};
pub use wait_group::WaitGroup;
