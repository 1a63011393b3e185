//! The reentrant mutex: the owner is the green thread, on any OS thread, or the plain OS thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::sync::{ArcReentrantMutexGuard, MappedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
use runtime::thread::Cancelled;
use runtime::{sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each};
use tests::{on_each, until_it_waits, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_owner_locks_again() {
    in_each(|| {
        let mutex = ReentrantMutex::new(Cell::new(0));
        let outer = mutex.lock();
        let inner = mutex.try_lock().expect("this thread is the owner");
        assert!(mutex.try_lock_for(MILLI).is_some() && mutex.try_lock_until(Instant::now()).is_some());
        assert!(mutex.is_owned_by_current_thread());
        runtime::scope(|s| {
            s.spawn(|| {
                assert!(mutex.try_lock().is_none(), "another thread is the owner");
                assert!(mutex.try_lock_for(MILLI).is_none());
                assert!(!mutex.is_owned_by_current_thread());
            });
        });
        drop(outer);
        assert!(mutex.is_locked());
        inner.set(3);
        drop(inner);
        assert!(!mutex.is_locked());
        let part = ReentrantMutexGuard::map(mutex.lock(), |cell| cell);
        assert_eq!(MappedReentrantMutexGuard::map(part, |cell| cell).get(), 3);
        assert_eq!(mutex.into_inner().get(), 3);
    });
}

#[test]
fn a_single_owner_on_any_os_thread() {
    in_each(|| {
        let mutex = ReentrantMutex::new(Cell::new((0u32, 0u32)));
        crowd(12, 3, |_| {
            for _ in 0..30 {
                let outer = mutex.lock();
                outer.set((outer.get().0 + 1, outer.get().1));
                // The thread may resume on another OS thread.
                sleep(Duration::from_micros(20));
                let inner = mutex.lock();
                inner.set((inner.get().0, inner.get().1 + 1));
                yield_now();
                assert_eq!(inner.get().0, inner.get().1);
            }
        });
        assert_eq!(mutex.into_inner().get(), (450, 450));
    });
}

#[test]
fn a_fair_unlock_hands_the_reentrant_mutex_off() {
    on_each(|| {
        let mutex = Arc::new(ReentrantMutex::new(Cell::new(0)));
        let mut guard: ArcReentrantMutexGuard<Cell<i32>> = mutex.lock_arc();
        let its = mutex.clone();
        let other = spawn(move || {
            let guard = its.lock();
            guard.set(guard.get() + 1);
        });
        until_it_waits(&other);
        ArcReentrantMutexGuard::bump(&mut guard);
        assert_eq!(guard.get(), 1);
        ArcReentrantMutexGuard::unlock_fair(guard);
        other.join().unwrap();
    });
}

/// `lock` waits on despite a cancellation. A lock with a deadline unwinds.
#[test]
fn a_cancellation_ends_only_locks_with_a_deadline() {
    on_each(|| {
        let mutex = Arc::new(ReentrantMutex::new(Cell::new(0)));
        let guard = mutex.lock();
        let (its, begun) = (mutex.clone(), Arc::new(AtomicBool::new(false)));
        let says = begun.clone();
        let waits = spawn(move || {
            says.store(true, SeqCst);
            its.lock().set(1);
            sleep(HOUR);
        });
        wait_until("the thread has begun", || begun.load(SeqCst));
        let its = mutex.clone();
        let has_a_deadline = spawn(move || its.try_lock_for(HOUR).is_some());
        until_it_waits(&has_a_deadline);
        has_a_deadline.cancel();
        assert!(has_a_deadline.join().unwrap_err().is::<Cancelled>());
        waits.cancel();
        sleep(2 * MILLI);
        assert!(!waits.is_finished());
        drop(guard);
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        assert_eq!(mutex.lock().get(), 1);
    });
}
