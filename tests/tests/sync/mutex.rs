//! The mutex: a single owner at a time, no lost wake-up, and a waiter that is cancelled or times out leaves
//! the queue.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::sync::{ArcMutexGuard, FairMutex, FairMutexGuard, MappedMutexGuard, Mutex, MutexGuard};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{JoinHandle, sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each, with_each};
use tests::{
    ON_PURPOSE, OnDrop, Random, on, on_each, quiet_panics_on_purpose, until_it_waits, wait_until, with,
};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn was_cancelled<T: std::fmt::Debug>(thread: JoinHandle<T>) {
    assert!(thread.join().unwrap_err().is::<Cancelled>());
}

/// Spawns a green thread that locks `mutex`, and waits until it waits.
fn waiter(mutex: &Arc<Mutex<Vec<u32>>>, number: u32) -> JoinHandle<()> {
    let mutex = mutex.clone();
    let thread = spawn(move || mutex.lock().push(number));
    until_it_waits(&thread);
    thread
}

#[test]
fn access_to_the_value() {
    in_each(|| {
        let mut mutex = Mutex::new(vec![1]);
        mutex.get_mut().push(2);
        mutex.lock().push(3);
        assert_eq!(format!("{mutex:?}"), "Mutex { data: [1, 2, 3] }");
        let guard = mutex.lock();
        assert_eq!(format!("{mutex:?} {guard:?}"), "Mutex { data: <locked> } [1, 2, 3]");
        assert!(mutex.is_locked());
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert!(!mutex.is_locked());
        assert_eq!(mutex.try_lock().as_deref(), Some(&vec![1, 2, 3]));
        assert_eq!(mutex.into_inner(), [1, 2, 3]);
        assert_eq!(*Mutex::from(4).lock() + *Mutex::<i32>::default().lock(), 4);
        let unsized_one: &Mutex<[u8]> = &Mutex::new([1, 2]);
        unsized_one.lock()[1] = 3;
        assert_eq!(*unsized_one.lock(), [1, 3]);
    });
}

#[test]
fn guards_of_parts_of_the_value() {
    let map = Mutex::new(HashMap::from([("hello", String::from("world"))]));
    let missing = MutexGuard::try_map(map.lock(), |map| map.get_mut("hello2"));
    let guard = missing.expect_err("the key is missing");
    let word = MutexGuard::try_map_or_err(guard, |map| map.get_mut("hello").ok_or("not there")).unwrap();
    let (word, error) = MappedMutexGuard::try_map_or_err(word, |_| Err::<&mut str, _>(7)).unwrap_err();
    assert_eq!((word.as_str(), error), ("world", 7));
    assert!(map.is_locked());
    let mut text = MappedMutexGuard::map(word, |word| word.as_mut_str());
    text.make_ascii_uppercase();
    MappedMutexGuard::unlock_fair(text);
    assert_eq!(map.into_inner()["hello"], "WORLD");
}

#[test]
fn guards_may_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync>(value: T) -> T {
        value
    }
    in_each(|| {
        let mutex = Arc::new(Mutex::new(1));
        let mut guard: ArcMutexGuard<i32> = is_send_and_sync(mutex.lock_arc());
        assert!(mutex.try_lock_arc().is_none());
        spawn(move || *guard += 1).join().unwrap();
        assert_eq!(*mutex.lock(), 2, "the guard was dropped on another thread");
        let guard = is_send_and_sync(mutex.lock());
        runtime::scope(|s| drop(s.spawn(move || assert_eq!(*guard, 2))));
        assert!(!mutex.is_locked());
        let mutex = ArcMutexGuard::into_arc(mutex.lock_arc());
        assert!(!mutex.is_locked());
        // A leaked guard keeps the mutex locked, with no other effect.
        MutexGuard::leak(mutex.lock());
        assert!(mutex.try_lock_for(MILLI).is_none());
    });
}

#[test]
fn a_single_owner_at_a_time() {
    in_each(|| {
        let (mutex, inside) = (Mutex::new(0), AtomicUsize::new(0));
        crowd(20, 4, |i| {
            for round in 0..200 {
                let mut count = mutex.lock();
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                *count += 1;
                if (i + round) % 16 == 0 {
                    yield_now();
                }
                inside.fetch_sub(1, SeqCst);
            }
        });
        assert_eq!(mutex.into_inner(), 24 * 200);
    });
}

#[test]
fn a_guard_is_held_across_parks() {
    in_each(|| {
        let mutex = Mutex::new((0, 0));
        crowd(10, 2, |_| {
            for _ in 0..10 {
                let mut pair = mutex.lock();
                pair.0 += 1;
                // The thread may resume on another OS thread.
                sleep(Duration::from_micros(50));
                pair.1 += 1;
                assert_eq!(pair.0, pair.1);
            }
        });
        assert_eq!(mutex.into_inner(), (120, 120));
    });
}

/// Two runtimes, plain threads and futures use the same mutex.
#[test]
#[allow(clippy::await_holding_lock, reason = "the test checks that this is allowed")]
fn threads_of_all_kinds_use_a_mutex() {
    static COUNT: Mutex<u64> = Mutex::new(0);
    with(2, |one| {
        with(1, |two| {
            let handles: Vec<_> = [one, two]
                .into_iter()
                .flat_map(|runtime| {
                    (0..8).map(move |i| {
                        runtime.spawn(move || {
                            for _ in 0..500 {
                                *COUNT.lock() += i % 2 + 1;
                            }
                        })
                    })
                })
                .collect();
            let futures: Vec<_> = (0..4)
                .map(|_| {
                    one.spawn(async {
                        for _ in 0..100 {
                            let mut count = COUNT.lock();
                            runtime::time::sleep_async(Duration::from_micros(10)).await;
                            *count += 1;
                        }
                    })
                })
                .collect();
            std::thread::scope(|s| drop(s.spawn(|| (0..1000).for_each(|_| *COUNT.lock() += 1))));
            handles.into_iter().chain(futures).for_each(|handle| handle.join().unwrap());
        });
    });
    assert_eq!(*COUNT.lock(), 8 * 500 * 3 + 400 + 1000);
}

#[test]
fn waiters_are_served_in_order() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        let guard = mutex.lock();
        let waiters: Vec<_> = (0..5).map(|i| waiter(&mutex, i)).collect();
        MutexGuard::unlock_fair(guard);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*mutex.lock(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_fair_unlock_hands_the_mutex_off() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        for unlock in
            [MutexGuard::unlock_fair, |mut guard: MutexGuard<'_, Vec<u32>>| MutexGuard::bump(&mut guard)]
        {
            let guard = mutex.lock();
            let waiter = waiter(&mutex, 7);
            unlock(guard);
            // No other thread can lock first: the unlocker has handed the mutex to the waiter.
            assert_eq!(mutex.lock().pop(), Some(7));
            waiter.join().unwrap();
        }
        // Without a waiter, `unlock_fair` unlocks the mutex, and `bump` keeps it.
        MutexGuard::unlock_fair(mutex.lock());
        MutexGuard::bump(&mut mutex.lock());
        assert!(!mutex.is_locked());
    });
}

#[test]
fn a_fair_mutex_is_handed_off() {
    in_each(|| {
        let mutex = FairMutex::new(0);
        crowd(8, 2, |_| (0..50).for_each(|_| *mutex.lock() += 1));
        assert_eq!(*mutex.lock(), 500);
        assert!(mutex.try_lock_for(MILLI).is_some() && mutex.try_lock_until(Instant::now()).is_some());
        let mut guard = mutex.lock();
        FairMutexGuard::bump(&mut guard);
        assert!(mutex.try_lock().is_none());
        FairMutexGuard::unlock_fair(guard);
        assert!(!mutex.is_locked());
    });
    on_each(|| {
        let mutex = Arc::new(FairMutex::new(0));
        let guard = mutex.lock();
        let other = mutex.clone();
        let waiter = spawn(move || *other.lock() += 1);
        tests::until_it_waits(&waiter);
        drop(guard);
        assert_eq!(*mutex.lock(), 1);
        waiter.join().unwrap();
    });
}

/// Green threads that lock in a loop, with `rest` in between, must let threads that have waited for long have
/// the mutex.
fn greedy_and_others(rest: impl Fn() + Send + Sync) {
    let (mutex, had) = (Mutex::new(()), AtomicUsize::new(0));
    crowd(4, 2, |i| {
        if i % 2 == 0 {
            while had.load(SeqCst) < 3 * 5 {
                // The mutex is unlocked only for a moment.
                let guard = mutex.lock();
                std::hint::black_box(&guard);
                drop(guard);
                rest();
            }
        } else {
            for _ in 0..5 {
                sleep(Duration::from_micros(100));
                drop(mutex.lock());
                had.fetch_add(1, SeqCst);
            }
        }
    });
}

#[test]
fn a_greedy_locker_starves_no_waiter() {
    on_each(|| greedy_and_others(|| ()));
}

#[test]
fn a_greedy_locker_that_yields_starves_no_waiter() {
    // In a strict runtime, a green thread that computes without a yield would block the green threads bound
    // to its OS thread.
    with_each(|runtime| runtime.block_on(|| greedy_and_others(yield_now)));
}

#[test]
fn locks_with_a_deadline() {
    in_each(|| {
        let mutex = Mutex::new(());
        assert!(mutex.try_lock_for(Duration::ZERO).is_some());
        assert!(mutex.try_lock_for(Duration::MAX).is_some());
        assert!(mutex.try_lock_until(Instant::now() - MILLI).is_some());
        let guard = mutex.lock();
        for time in [Duration::ZERO, Duration::from_micros(1), 3 * MILLI] {
            let start = Instant::now();
            assert!(mutex.try_lock_for(time).is_none());
            assert!(start.elapsed() >= time, "early");
        }
        let start = Instant::now();
        assert!(mutex.try_lock_until(start + 2 * MILLI).is_none());
        assert!(start.elapsed() >= 2 * MILLI, "early");
        assert!(mutex.try_lock_until(start).is_none());
        drop(guard);
        crowd(3, 1, |i| {
            let patience = if i == 0 { Duration::MAX } else { HOUR };
            let guard = mutex.try_lock_for(patience).expect("the mutex is unlocked in time");
            sleep(MILLI);
            drop(guard);
        });
        assert!(!mutex.is_locked());
    });
}

#[test]
fn a_cancelled_waiter_leaves_the_mutex_to_the_next() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        for unlock in [MutexGuard::unlock_fair, |guard: MutexGuard<'_, Vec<u32>>| drop(guard)] {
            let guard = mutex.lock();
            let (first, second) = (waiter(&mutex, 1), waiter(&mutex, 2));
            first.cancel();
            unlock(guard);
            was_cancelled(first);
            second.join().unwrap();
            assert_eq!(mutex.lock().drain(..).collect::<Vec<_>>(), [2]);
        }
    });
}

/// A cancellation and an unlock come at about the same moment.
#[test]
fn a_cancellation_races_with_an_unlock() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let (mutex, mut random) = (Arc::new(Mutex::new(0u32)), Random::new(3));
            let mut had = 0;
            for round in 0..100 {
                let guard = mutex.lock();
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let mutex = mutex.clone();
                        spawn(move || *mutex.lock() += 1)
                    })
                    .collect();
                if random.below(2) == 0 {
                    sleep(Duration::from_micros(random.below(100)));
                }
                if round % 2 == 0 {
                    threads[random.below(3) as usize].cancel();
                    drop(guard);
                } else {
                    MutexGuard::unlock_fair(guard);
                    threads[random.below(3) as usize].cancel();
                }
                had += threads.into_iter().map(|thread| u32::from(thread.join().is_ok())).sum::<u32>();
            }
            assert_eq!(*mutex.lock(), had, "a cancelled thread has not had the mutex");
            assert!(!mutex.is_locked());
        });
    });
}

#[test]
fn a_timeout_ends_a_wait_for_the_mutex() {
    in_each(|| {
        let mutex = Mutex::new(());
        let guard = mutex.lock();
        let start = Instant::now();
        assert_eq!(timeout(3 * MILLI, || drop(mutex.lock())), Err(Elapsed));
        assert!(start.elapsed() >= 3 * MILLI, "early");
        assert_eq!(timeout(3 * MILLI, || mutex.try_lock_for(HOUR).is_some()), Err(Elapsed));
        assert_eq!(timeout(HOUR, || mutex.try_lock_for(MILLI).is_some()), Ok(false));
        drop(guard);
        assert_eq!(
            timeout(Duration::ZERO, || drop(mutex.lock())),
            Ok(()),
            "a free mutex is locked without a wait"
        );
    });
}

#[test]
fn time_outs_race_with_unlocks() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let (mutex, had) = (Mutex::new(0), AtomicUsize::new(0));
            crowd(6, 3, |i| {
                let mut random = Random::new(i as u64);
                for _ in 0..100 {
                    let patience = Duration::from_micros(random.below(60));
                    let got = match random.below(4) {
                        0 => mutex.try_lock_for(patience),
                        1 => mutex.try_lock_until(Instant::now() + patience),
                        2 => timeout(patience, || mutex.lock()).ok(),
                        _ => Some(mutex.lock()),
                    };
                    if let Some(mut guard) = got {
                        *guard += 1;
                        had.fetch_add(1, SeqCst);
                        match random.below(8) {
                            0 => yield_now(),
                            1 => sleep(Duration::from_micros(random.below(60))),
                            2 => MutexGuard::bump(&mut guard),
                            3 => MutexGuard::unlocked(&mut guard, yield_now),
                            _ => {}
                        }
                        if random.below(4) == 0 {
                            MutexGuard::unlock_fair(guard);
                        }
                    }
                }
            });
            assert_eq!(mutex.into_inner(), had.into_inner());
        });
    });
}

#[test]
fn a_panic_does_not_poison_the_mutex() {
    quiet_panics_on_purpose();
    in_each(|| {
        let mutex = Mutex::new(1);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            panic!("{ON_PURPOSE}");
        }));
        assert!(result.is_err());
        assert_eq!(*mutex.lock(), 1);
    });
}

/// A destructor that runs while its thread unwinds can wait for the mutex.
#[test]
fn a_mutex_is_locked_while_unwinding() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(0));
        for cancelled in [false, true] {
            let guard = mutex.lock();
            let (other, begun) = (mutex.clone(), Arc::new(AtomicBool::new(false)));
            let says = begun.clone();
            let thread = spawn(move || {
                let _on_drop = OnDrop(|| *other.lock() += 1);
                says.store(true, SeqCst);
                if cancelled {
                    sleep(HOUR);
                }
                std::panic::resume_unwind(Box::new("quietly"));
            });
            wait_until("the thread has begun", || begun.load(SeqCst));
            thread.cancel();
            sleep(2 * MILLI);
            assert!(!thread.is_finished(), "the destructor waits for the mutex");
            drop(guard);
            assert!(thread.join().is_err());
        }
        assert_eq!(*mutex.lock(), 2);
    });
}

/// A call through a function pointer is a call of the user like any other.
#[test]
fn a_call_through_a_function_pointer_is_cancelled() {
    on_each(|| {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let ways: [fn(&Arc<Mutex<i32>>); 2] = [
            |mutex| {
                let lock: fn(&Mutex<i32>) -> MutexGuard<'_, i32> = Mutex::lock;
                *std::hint::black_box(lock)(mutex) += 1;
            },
            |mutex| {
                let lock: fn(&Arc<Mutex<i32>>) -> ArcMutexGuard<i32> = Mutex::lock_arc;
                *std::hint::black_box(lock)(mutex) += 1;
            },
        ];
        for way in ways {
            let its = mutex.clone();
            let waits = spawn(move || way(&its));
            tests::until_it_waits(&waits);
            waits.cancel();
            was_cancelled(waits);
            assert_eq!(timeout(MILLI, || way(&mutex)), Err(Elapsed));
        }
        drop(guard);
        assert_eq!(*mutex.lock(), 0);
    });
}

/// Operations that lock the mutex again wait for it despite a cancellation: an unwind would leave a guard
/// without its mutex.
#[test]
fn relocking_is_not_cancelled() {
    fn wait_for(step: &AtomicUsize, is: usize) {
        while step.load(SeqCst) != is {
            yield_now();
        }
    }
    type Again = fn(&mut MutexGuard<'_, i32>, &AtomicUsize);
    let ways: [Again; 3] = [
        |guard, step| MutexGuard::unlocked(guard, || wait_for(step, 2)),
        |guard, step| MutexGuard::unlocked_fair(guard, || wait_for(step, 2)),
        |guard, _| MutexGuard::bump(guard),
    ];
    on_each(|| {
        for (by, by_timeout) in ways.iter().flat_map(|by| [(by, false), (by, true)]) {
            let (mutex, step) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(0)));
            let (its, its_step, by) = (mutex.clone(), step.clone(), *by);
            let body = move || {
                let mut guard = its.lock();
                its_step.store(1, SeqCst);
                // The other thread has most likely joined the queue by then.
                let start = Instant::now();
                while start.elapsed() < 2 * MILLI {
                    yield_now();
                }
                by(&mut guard, &its_step);
                *guard += 1;
                its_step.store(3, SeqCst);
                sleep(HOUR);
            };
            let thread = spawn(move || {
                if by_timeout {
                    return timeout(4 * MILLI, body).is_err();
                }
                body();
                false
            });
            wait_until("the thread has the mutex", || step.load(SeqCst) >= 1);
            let (other, other_step) = (mutex.clone(), step.clone());
            let in_between = spawn(move || {
                let guard = other.lock();
                // The first thread waits to lock again. If this thread came too late, the first has finished
                // already.
                let _ = other_step.compare_exchange(1, 2, SeqCst, SeqCst);
                sleep(5 * MILLI);
                drop(guard);
            });
            sleep(3 * MILLI);
            if !by_timeout {
                thread.cancel();
            }
            wait_until("the thread has locked again", || step.load(SeqCst) == 3);
            match by_timeout {
                true => assert!(thread.join().unwrap(), "the time-out ends the next wait"),
                false => was_cancelled(thread),
            }
            in_between.join().unwrap();
            assert_eq!(*mutex.lock(), 1);
        }
    });
}

/// Green threads that wait for a mutex unwind when their runtime ends.
#[test]
fn waiters_unwind_when_their_runtime_ends() {
    let mutex = Arc::new(Mutex::new(0));
    let guard = mutex.lock();
    with(2, |runtime| {
        for _ in 0..10 {
            let mutex = mutex.clone();
            drop(runtime.spawn(move || *mutex.lock() += 1));
        }
        std::thread::sleep(2 * MILLI);
    });
    drop(guard);
    assert_eq!(*mutex.lock(), 0);
}

#[test]
fn ten_thousand_waiters() {
    on(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let threads: Vec<_> = (0..10_000)
            .map(|_| {
                let mutex = mutex.clone();
                spawn(move || *mutex.lock() += 1)
            })
            .collect();
        sleep(10 * MILLI);
        drop(guard);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock(), 10_000);
    });
}
