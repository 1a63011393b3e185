//! Locks in an `Arc` that are awaited: futures and guards that borrow nothing, and that keep the lock alive.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::sync::{
    ArcRwLockUpgradableReadGuard, FairMutex, LockArcAsync, Mutex, OwnedMutexGuard, RecursiveRwLock, RwLock,
    RwLockArcAsync,
};
use runtime::time::timeout_async;
use runtime::{block_on, spawn, yield_now_async};
use tests::{everywhere, until_it_waits};

/// Polls with a waker that does nothing.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn tasks_own_their_guards() {
    everywhere(|| {
        let (mutex, fair) = (Arc::new(Mutex::new(0)), Arc::new(FairMutex::new(0)));
        let (lock, recursive) = (Arc::new(RwLock::new(0)), Arc::new(RecursiveRwLock::new(0)));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (mutex, fair) = (Arc::clone(&mutex), Arc::clone(&fair));
                let (lock, recursive) = (Arc::clone(&lock), Arc::clone(&recursive));
                spawn(async move {
                    for _ in 0..20 {
                        let mut guard = mutex.lock_arc_async().await;
                        let was = *guard;
                        yield_now_async().await;
                        *guard = was + 1;
                        drop(guard);
                        *fair.lock_arc_async().await += 1;

                        let mut guard = lock.write_arc_async().await;
                        let was = *guard;
                        yield_now_async().await;
                        *guard = was + 1;
                        drop(guard);
                        assert!(*lock.read_arc_async().await > 0);
                        *recursive.write_arc_async().await += 1;
                        assert!(*recursive.read_arc_async().await > 0);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!((*mutex.lock(), *fair.lock(), *lock.read(), *recursive.read()), (160, 160, 160, 160));
    });
}

#[test]
fn a_guard_excludes_others_until_it_is_dropped() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(7));
        let guard = block_on(mutex.lock_arc_async());
        assert!(mutex.try_lock().is_none());
        let other = Arc::clone(&mutex);
        let waits = spawn(move || *other.lock());
        until_it_waits(&waits);
        OwnedMutexGuard::unlock_fair(guard);
        assert_eq!(waits.join().unwrap(), 7);

        let lock = Arc::new(RwLock::new(7));
        let read = block_on(lock.read_arc_async());
        let upgradable = block_on(lock.upgradable_read_arc_async());
        assert!(lock.try_write().is_none() && lock.try_read().is_some());
        drop(read);
        let write = ArcRwLockUpgradableReadGuard::upgrade(upgradable);
        assert!(lock.try_read().is_none());
        drop(write);
        let write = block_on(lock.write_arc_async());
        assert!(lock.try_read().is_none());
        drop(write);
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_dropped_future_passes_its_wake_up_on_and_keeps_nothing() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let mut first = Box::pin(mutex.lock_arc_async());
        assert!(poll(first.as_mut()).is_pending());
        let other = Arc::clone(&mutex);
        let second = spawn(move || *other.lock() += 1);
        until_it_waits(&second);
        drop(guard);
        drop(first);
        second.join().unwrap();
        let short = Duration::from_millis(1);
        let guard = mutex.lock();
        assert!(block_on(timeout_async(short, mutex.lock_arc_async())).is_err());
        drop(guard);
        assert_eq!(Arc::strong_count(&mutex), 1);
    });
}

/// The last `Arc` may be that of a waiting future, or of a guard.
#[test]
fn a_future_and_a_guard_keep_the_lock_alive() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(String::from("kept")));
        let weak: Weak<_> = Arc::downgrade(&mutex);
        let locked = mutex.lock_arc();
        let mut waits = Box::pin(mutex.lock_arc_async());
        drop(mutex);
        assert!(poll(waits.as_mut()).is_pending());
        drop(locked);
        let Poll::Ready(guard) = poll(waits.as_mut()) else { panic!("the mutex is free") };
        drop(waits);
        assert_eq!(*guard, "kept");
        drop(guard);
        assert!(weak.upgrade().is_none());

        let lock = Arc::new(RwLock::new(String::from("kept")));
        let weak = Arc::downgrade(&lock);
        let locked = lock.write_arc();
        let mut waits = Box::pin(lock.read_arc_async());
        drop(lock);
        assert!(poll(waits.as_mut()).is_pending());
        drop(locked);
        // The last owner is a future that has been granted the lock, and is dropped.
        drop(waits);
        assert!(weak.upgrade().is_none());
    });
}
