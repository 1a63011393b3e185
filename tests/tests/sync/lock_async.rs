//! Locks and barriers that are awaited. Branches of one task take turns, and a future that is dropped in any
//! of its states keeps nothing from the others.

// Waiters for these locks park or await, and block no OS thread.
#![allow(clippy::await_holding_lock)]

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on as on_this_thread;
use futures::future::join_all;
use runtime::sync::{
    Barrier, FairMutex, LockAsync, Mutex, MutexGuard, RecursiveRwLock, RwLock, RwLockAsync,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{block_on, select, spawn, yield_now_async};
use tests::crowd::{crowd, in_each, with_each};
use tests::turns::gives_turns;
use tests::{Random, everywhere, until_it_waits, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Polls with a waker that does nothing.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn branches_of_one_task_take_turns() {
    in_each(|| {
        let (mutex, fair, lock) = (Mutex::new(0), FairMutex::new(0), RwLock::new(0));
        let recursive = RecursiveRwLock::new(0);
        let branch = async |i: usize| {
            for _ in 0..10 {
                let mut guard = mutex.lock_async().await;
                let was = *guard;
                sleep_async(MILLI / 100).await;
                *guard = was + 1;
                drop(guard);

                *fair.lock_async().await += 1;
                let mut guard = lock.write_async().await;
                let was = *guard;
                yield_now_async().await;
                *guard = was + 1;
                drop(guard);
                assert!(*lock.read_async().await > 0);
                if i.is_multiple_of(2) {
                    *recursive.write_async().await += 1;
                }
                let _outer = recursive.read_async().await;
                assert!(*recursive.read_async().await <= 100);
            }
        };
        on_this_thread(join_all((0..10).map(branch)));
        assert_eq!((*mutex.lock(), *fair.lock(), *lock.read(), *recursive.read()), (100, 100, 100, 50));
        block_on(join_all((0..10).map(branch)));
        assert_eq!((*mutex.lock(), *fair.lock(), *lock.read(), *recursive.read()), (200, 200, 200, 100));
    });
}

/// Green threads, plain OS threads and futures use one lock in every way. Many waits end early.
#[test]
fn a_crowd_of_threads_and_futures() {
    const ROUNDS: usize = 60;
    with_each(|runtime| {
        let (mutex, lock) = (Mutex::new(0_usize), RwLock::new(0_usize));
        let (locked, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let add = |mut guard: MutexGuard<'_, usize>| {
            *guard += 1;
            locked.fetch_add(1, SeqCst);
        };
        let write = |mut guard: RwLockWriteGuard<'_, usize>| {
            *guard += 1;
            written.fetch_add(1, SeqCst);
        };
        runtime.block_on(|| {
            crowd(8, 2, |i| {
                let mut random = Random::new(i as u64 + 1);
                for _ in 0..ROUNDS {
                    let short = Duration::from_micros(random.below(60));
                    match random.below(9) {
                        0 => add(mutex.lock()),
                        1 => block_on(async { add(mutex.lock_async().await) }),
                        2 => drop(block_on(timeout_async(short, async { add(mutex.lock_async().await) }))),
                        3 => drop(timeout(short, || block_on(async { add(mutex.lock_async().await) }))),
                        4 => write(lock.write()),
                        5 => block_on(async { write(lock.write_async().await) }),
                        6 => drop(block_on(timeout_async(short, async { write(lock.write_async().await) }))),
                        7 => drop(block_on(timeout_async(short, async { drop(lock.read_async().await) }))),
                        _ => block_on(async {
                            // Both guards are kept across an await.
                            let guard = mutex.lock_async().await;
                            let upgradable = lock.upgradable_read_async().await;
                            sleep_async(short).await;
                            if let Ok(guard) = RwLockUpgradableReadGuard::try_upgrade(upgradable) {
                                write(guard);
                            }
                            add(guard);
                        }),
                    }
                }
            });
        });
        assert_eq!(*mutex.try_lock().expect("no guard is left"), locked.load(SeqCst));
        assert_eq!(*lock.try_write().expect("no guard is left"), written.load(SeqCst));
        assert!(locked.load(SeqCst) > ROUNDS && written.load(SeqCst) > ROUNDS);
    });
}

/// A future that has been woken, or was handed the lock, is dropped. The waiter behind it goes on.
#[test]
fn a_dropped_future_passes_its_wake_up_on() {
    everywhere(|| {
        for fair in [false, true] {
            let mutex = Arc::new(Mutex::new(0));
            let guard = mutex.lock();
            let other = Arc::clone(&mutex);
            {
                let mut first = Box::pin(mutex.lock_async());
                assert!(poll(first.as_mut()).is_pending());
                let second = spawn(move || *other.lock() += 1);
                until_it_waits(&second);
                if fair {
                    MutexGuard::unlock_fair(guard)
                } else {
                    drop(guard)
                }
                assert!(!second.is_finished());
                drop(first);
                second.join().unwrap();
            }
            assert_eq!(*mutex.try_lock().unwrap(), 1);

            let lock = Arc::new(RwLock::new(0));
            let guard = lock.write();
            let other = Arc::clone(&lock);
            {
                let mut first = Box::pin(lock.write_async());
                assert!(poll(first.as_mut()).is_pending());
                let second = spawn(move || *other.read());
                until_it_waits(&second);
                if fair {
                    RwLockWriteGuard::unlock_fair(guard)
                } else {
                    drop(guard)
                }
                drop(first);
                assert_eq!(second.join().unwrap(), 0);
            }
            assert!(lock.try_write().is_some());
        }
    });
}

/// A queued writer keeps readers out. Its drop lets them in.
#[test]
fn a_dropped_writer_lets_readers_in() {
    everywhere(|| {
        let lock = Arc::new(RwLock::new(7));
        let guard = lock.read();
        let mut writer = Box::pin(lock.write_async());
        assert!(poll(writer.as_mut()).is_pending());
        let other = Arc::clone(&lock);
        let reader = spawn(move || *other.read());
        until_it_waits(&reader);
        drop(writer);
        assert_eq!(reader.join().unwrap(), 7);
        drop(guard);
    });
}

#[test]
fn a_waker_that_panics_when_cloned_loses_no_wake_up() {
    use std::task::{RawWaker, RawWakerVTable};
    static VTABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("this is on purpose"), |_| (), |_| (), |_| ());
    everywhere(|| {
        tests::quiet_panics_on_purpose();
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let mut first = Box::pin(mutex.lock_async());
        assert!(poll(first.as_mut()).is_pending());
        let other = Arc::clone(&mutex);
        let second = spawn(move || *other.lock() += 1);
        until_it_waits(&second);
        drop(guard);
        // SAFETY: no function of the table uses the pointer.
        let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
        let polls = std::panic::AssertUnwindSafe(|| first.as_mut().poll(&mut Context::from_waker(&waker)));
        assert!(std::panic::catch_unwind(polls).is_err());
        drop(first);
        second.join().unwrap();
    });
}

#[test]
fn a_cancelled_task_leaves_the_queue() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let other = Arc::clone(&mutex);
        let task = spawn(async move { *other.lock_async().await += 1 });
        wait_until("the task waits", || format!("{:?}", mutex).contains("locked") && !task.is_finished());
        until_it_waits(&task);
        task.cancel();
        assert!(task.join().unwrap_err().is::<Cancelled>());
        drop(guard);
        assert_eq!(*mutex.try_lock().unwrap(), 0);
    });
}

#[test]
fn a_lock_is_a_case_of_a_select() {
    in_each(|| {
        let mutex = Mutex::new(7);
        let guard = mutex.lock();
        let (s, r) = runtime::channel::bounded(1);
        s.send(1).unwrap();
        select! {
            future(mutex.lock_async()) -> _ => panic!("the mutex is locked"),
            recv(r) -> n => assert_eq!(n, Ok(1)),
        }
        drop(guard);
        select! {
            future(mutex.lock_async()) -> guard => assert_eq!(*guard, 7),
            recv(r) -> _ => panic!("no message"),
        }
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn branches_and_threads_meet_at_a_barrier() {
    in_each(|| {
        let (barrier, leaders) = (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)));
        let (other, led) = (Arc::clone(&barrier), Arc::clone(&leaders));
        let thread = spawn(move || {
            for _ in 0..20 {
                led.fetch_add(usize::from(other.wait().is_leader()), SeqCst);
            }
        });
        let branch = async |_| {
            for _ in 0..20 {
                leaders.fetch_add(usize::from(barrier.wait_async().await.is_leader()), SeqCst);
            }
        };
        on_this_thread(join_all((0..3).map(branch)));
        thread.join().unwrap();
        assert_eq!(leaders.load(SeqCst), 20);
    });
}

#[test]
fn a_dropped_future_has_not_come_to_the_barrier() {
    everywhere(|| {
        let barrier = Barrier::new(2);
        {
            let mut gone = pin!(barrier.wait_async());
            assert!(poll(gone.as_mut()).is_pending());
        }
        assert!(timeout(MILLI, || barrier.wait()).is_err(), "one has come, not two");
        let mut first = pin!(barrier.wait_async());
        assert!(poll(first.as_mut()).is_pending());
        assert!(barrier.wait().is_leader());
        assert!(matches!(poll(first), Poll::Ready(result) if !result.is_leader()));
    });
}

/// A task that yields for ever lets the other green threads of its only P run, and the other branches of its
/// task.
#[test]
fn a_yield_lets_others_run() {
    tests::on(1, || {
        let done = Cell::new(false);
        let other = spawn(async { sleep_async(MILLI).await });
        let yields = async {
            while !other.is_finished() {
                yield_now_async().await;
            }
            done.set(true);
        };
        let branch = async {
            let mut rounds = 0;
            while !done.get() {
                yield_now_async().await;
                rounds += 1;
            }
            rounds
        };
        let ((), rounds) = runtime::block_on_local(async { futures::join!(yields, branch) });
        assert!(rounds > 0);

        let turn = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let turn = Arc::clone(&turn);
                spawn(async move {
                    for _ in 0..100 {
                        while turn.load(SeqCst) % 2 != me {
                            yield_now_async().await;
                        }
                        turn.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(turn.load(SeqCst), 200);
        assert!(timeout(HOUR, || block_on(yield_now_async())).is_ok());
    });
}

#[test]
fn free_locks_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let mutex = Mutex::new(0);
            loop {
                *mutex.lock_async().await += 1;
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let lock = RwLock::new(0);
            loop {
                *lock.write_async().await += 1;
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let lock = RwLock::new(0);
            loop {
                let read = lock.read_async().await;
                drop(lock.upgradable_read_async().await);
                drop(read);
            }
        })
    });
}
