//! The semaphore: permits are neither lost nor created, and waiters are served in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::{Mutex, Semaphore, TryAcquireError};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout, timeout_async};
use runtime::{JoinHandle, sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each, with_each};
use tests::futures::drive_on_plain_thread;
use tests::turns::gives_turns;
use tests::{ON_PURPOSE, Random, Watchdog, on_each, quiet_panics_on_purpose, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);

/// Spawns a thread that acquires `n` permits, records `n` and releases them. Returns when the thread waits.
fn waiter(semaphore: &Arc<Semaphore>, served: &Arc<Mutex<Vec<u32>>>, n: u32) -> JoinHandle<()> {
    let (semaphore, served) = (semaphore.clone(), served.clone());
    let thread = spawn(move || {
        let _permits = semaphore.acquire_many(n).unwrap();
        served.lock().push(n);
    });
    until_it_waits(&thread);
    thread
}

#[test]
fn permits_are_merged_split_and_forgotten() {
    in_each(|| {
        let semaphore = Arc::new(Semaphore::new(5));
        let mut permit = semaphore.acquire_many(3).unwrap();
        assert_eq!(semaphore.available_permits(), 2);
        assert_eq!(semaphore.try_acquire_many(3).unwrap_err(), TryAcquireError::NoPermits);
        permit.merge(semaphore.try_acquire_many(2).unwrap());
        let half = permit.split(2).unwrap();
        assert!(permit.split(4).is_none());
        assert_eq!((permit.num_permits(), half.num_permits()), (3, 2));
        drop(permit);
        half.forget();
        assert_eq!(semaphore.available_permits(), 3);
        semaphore.add_permits(2);
        assert_eq!(semaphore.forget_permits(1), 1);
        drop(semaphore.acquire_many(0).unwrap());
        let mut owned = semaphore.clone().acquire_many_owned(2).unwrap();
        owned.merge(semaphore.clone().try_acquire_owned().unwrap());
        let one = owned.split(1).unwrap();
        spawn(move || drop(owned)).join().unwrap();
        assert_eq!(semaphore.available_permits(), 3);
        assert_eq!(one.semaphore().available_permits(), 3);
        one.forget();
        assert!(semaphore.clone().try_acquire_many_owned(4).is_err());
    });
}

#[test]
fn waiters_are_served_in_order() {
    on_each(|| {
        let (semaphore, served) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let waiters = [3, 1, 2].map(|n| waiter(&semaphore, &served, n));
        semaphore.add_permits(2);
        sleep(MILLI);
        assert!(served.lock().is_empty(), "no waiter passes the first");
        assert_eq!(semaphore.available_permits(), 0, "no permit is left for a new caller");
        assert!(semaphore.try_acquire().is_err());
        semaphore.add_permits(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(served.lock()[0], 3);
        assert_eq!(semaphore.available_permits(), 3);
    });
}

#[test]
fn permits_pass_to_the_next_when_the_first_waiter_leaves() {
    on_each(|| {
        let (semaphore, served) = (Arc::new(Semaphore::new(1)), Arc::new(Mutex::new(Vec::new())));
        let (first, second) = (waiter(&semaphore, &served, 2), waiter(&semaphore, &served, 1));
        first.cancel();
        assert!(first.join().unwrap_err().is::<Cancelled>());
        second.join().unwrap();
        assert_eq!(timeout(2 * MILLI, || drop(semaphore.acquire_many(2))), Err(Elapsed));
        assert_eq!(*served.lock(), [1]);
        // A dropped future returns its permits too.
        runtime::block_on(async {
            assert!(timeout_async(2 * MILLI, semaphore.acquire_many_async(2)).await.is_err());
            let first = timeout_async(20 * MILLI, semaphore.acquire_many_async(2));
            let (first, second) = tests::futures::both(first, async {
                runtime::time::sleep_async(MILLI).await;
                semaphore.acquire_async().await.unwrap().num_permits()
            })
            .await;
            assert!(first.is_err());
            assert_eq!(second, 1);
        });
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn close_ends_all_waits() {
    on_each(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = semaphore.clone().acquire_owned().unwrap();
        let (a, b) = (semaphore.clone(), semaphore.clone());
        let waits = spawn(move || a.acquire().is_err());
        let polls = spawn(async move { b.acquire_async().await.is_err() });
        tests::until_it_waits(&waits);
        tests::until_it_waits(&polls);
        semaphore.close();
        assert!(waits.join().unwrap() && polls.join().unwrap());
        assert!(semaphore.is_closed());
        assert_eq!(semaphore.acquire().unwrap_err().to_string(), "semaphore closed");
        assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
        drop(permit);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn more_permits_than_allowed() {
    quiet_panics_on_purpose();
    let _ = ON_PURPOSE;
    assert!(std::panic::catch_unwind(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).is_err());
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| semaphore.add_permits(1))).is_err());
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

/// Threads of all kinds acquire and release permits, some without success. The number of permits never
/// exceeds the initial number.
#[test]
fn the_number_of_permits_is_conserved() {
    const ALL: usize = 3;
    with_each(|runtime| {
        runtime.block_on(|| {
            let (semaphore, out) = (Arc::new(Semaphore::new(ALL)), AtomicUsize::new(0));
            let futures: Vec<_> = (0..4)
                .map(|i| {
                    let semaphore = semaphore.clone();
                    spawn(async move {
                        for round in 0..60u64 {
                            let patience = Duration::from_micros((round * 7 + i) % 60);
                            let wants = (round % 3 + 1) as u32;
                            let _ = timeout_async(patience, async {
                                let _permits = semaphore.acquire_many_async(wants).await;
                                runtime::time::sleep_async(Duration::from_micros(5)).await;
                            })
                            .await;
                        }
                    })
                })
                .collect();
            crowd(8, 3, |i| {
                let mut random = Random::new(i as u64);
                for _ in 0..100 {
                    let wants = 1 + random.below(ALL as u64) as u32;
                    let patience = Duration::from_micros(random.below(60));
                    let got = match random.below(3) {
                        0 => timeout(patience, || semaphore.acquire_many(wants).unwrap()).ok(),
                        1 => semaphore.try_acquire_many(wants).ok(),
                        _ => Some(semaphore.acquire_many(wants).unwrap()),
                    };
                    let Some(permits) = got else { continue };
                    let n = permits.num_permits();
                    assert!(out.fetch_add(n, SeqCst) + n <= ALL);
                    if random.below(4) == 0 {
                        yield_now();
                    }
                    out.fetch_sub(n, SeqCst);
                }
            });
            futures.into_iter().for_each(|future| future.join().unwrap());
            assert_eq!(semaphore.available_permits(), ALL);
        });
    });
}

#[test]
fn a_cancellation_races_with_a_permit() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let mut random = Random::new(9);
            for round in 0..150 {
                let its = semaphore.clone();
                let thread: JoinHandle<()> = if round % 2 == 0 {
                    spawn(move || its.acquire().unwrap().forget())
                } else {
                    spawn(async move { its.acquire_async().await.unwrap().forget() })
                };
                sleep(Duration::from_micros(random.below(40)));
                semaphore.add_permits(1);
                thread.cancel();
                let taken = usize::from(thread.join().is_ok());
                assert_eq!(
                    semaphore.available_permits(),
                    1 - taken,
                    "the permit is either taken or available"
                );
                semaphore.forget_permits(1);
            }
        });
    });
}

#[test]
fn acquire_in_another_executor() {
    let semaphore = Arc::new(Semaphore::new(0));
    let its = semaphore.clone();
    let thread =
        std::thread::spawn(move || drive_on_plain_thread(its.acquire_owned_async()).unwrap().num_permits());
    sleep(MILLI);
    semaphore.add_permits(1);
    assert_eq!(thread.join().unwrap(), 1);
    assert_eq!(semaphore.available_permits(), 1);
}

/// The time-outs of several plain threads expire at about the moment when they are served.
#[test]
fn time_outs_of_plain_threads_race_with_permits() {
    const THREADS: usize = 6;
    let _dog = Watchdog::new();
    let semaphore = Semaphore::new(0);
    let (taken, left) = (AtomicUsize::new(0), AtomicUsize::new(THREADS));
    std::thread::scope(|s| {
        for i in 0..THREADS {
            let (semaphore, taken, left) = (&semaphore, &taken, &left);
            s.spawn(move || {
                let mut random = Random::new(i as u64);
                for _ in 0..2000 {
                    let patience = Duration::from_micros(random.below(100));
                    if timeout(patience, || semaphore.acquire().unwrap().forget()).is_ok() {
                        taken.fetch_add(1, SeqCst);
                    }
                }
                left.fetch_sub(1, SeqCst);
            });
        }
        let mut given = 0;
        while left.load(SeqCst) > 0 {
            semaphore.add_permits(THREADS);
            given += THREADS;
            std::thread::sleep(Duration::from_micros(50));
        }
        assert_eq!(taken.load(SeqCst) + semaphore.available_permits(), given);
    });
}

#[test]
fn permits_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let semaphore = Semaphore::new(1);
            loop {
                drop(semaphore.acquire_async().await.unwrap());
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let semaphore = Arc::new(Semaphore::new(2));
            loop {
                drop(semaphore.clone().acquire_many_owned_async(2).await.unwrap());
            }
        })
    });
}

#[test]
#[cfg(target_pointer_width = "64")]
fn merged_permits_may_be_more_than_one_call_takes() {
    let all = u32::MAX as usize * 2;
    let semaphore = Arc::new(Semaphore::new(all));
    let mut permits = semaphore.acquire_many(u32::MAX).unwrap();
    permits.merge(semaphore.acquire_many(u32::MAX).unwrap());
    assert_eq!((permits.num_permits(), semaphore.available_permits()), (all, 0));
    assert!(std::ptr::eq(permits.semaphore(), &*semaphore));
    drop(permits);
    let mut owned = semaphore.clone().acquire_many_owned(u32::MAX).unwrap();
    owned.merge(semaphore.clone().acquire_many_owned(u32::MAX).unwrap());
    assert_eq!(owned.split(all - 1).unwrap().num_permits(), all - 1);
    assert!(owned.split(2).is_none());
    drop(owned);
    assert_eq!(semaphore.available_permits(), all);
}
