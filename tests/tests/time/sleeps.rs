//! Sleeps: never early, in order, in large numbers, and without end.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runtime::{Builder, spawn, thread};
use tests::{Random, everywhere, on, on_each, wait_until, with, with_built};

fn sleeps_at_least(time: Duration) {
    let start = Instant::now();
    runtime::sleep(time);
    assert!(start.elapsed() >= time, "{:?} instead of {time:?}", start.elapsed());
}

#[test]
fn ten_thousand_random_sleeps_are_never_early() {
    on_each(|| {
        let threads: Vec<_> = (0..200)
            .map(|seed| {
                spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..50 {
                        sleeps_at_least(Duration::from_nanos(random.below(8_000_000)));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // On a plain thread.
    sleeps_at_least(Duration::from_millis(3));
}

/// Returns the order in which 300 sleepers woke, or `None` if some began to sleep after the first deadline.
fn order_of_waking() -> Option<Vec<u64>> {
    let (order, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let first = start + Duration::from_millis(20);
    let threads: Vec<_> = (0..300u64)
        .map(|i| {
            // 7 and 300 have no common divisor, so the places are 0..300, each once, in mixed order.
            let (order, place) = (order.clone(), i * 7 % 300);
            spawn(move || {
                let in_time = Instant::now() < first;
                runtime::sleep_until(first + Duration::from_micros(place * 100));
                order.lock().unwrap().push(place);
                in_time
            })
        })
        .collect();
    let in_time: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let all_in_time = in_time.iter().all(|&one| one);
    all_in_time.then(|| std::mem::take(&mut *order.lock().unwrap()))
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    // Without sysmon the P stays with a single OS thread, so the first to be woken is the first to run.
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let tries = (0..100).find_map(|_| runtime.block_on(order_of_waking));
        let order = tries.expect("all began to sleep in time, in some attempt");
        assert_eq!(order.len(), 300);
        assert!(order.is_sorted(), "{order:?}");
    });
}

#[test]
fn zero_and_past_sleeps_return_at_once() {
    everywhere(|| {
        let long_ago = Instant::now();
        runtime::sleep(Duration::from_millis(1));
        for _ in 0..10_000 {
            runtime::sleep(Duration::ZERO);
            runtime::sleep_until(long_ago);
        }
        thread::park_timeout(Duration::ZERO);
        runtime::block_on(async {
            runtime::time::sleep_async(Duration::ZERO).await;
        });
    });
    runtime::sleep_until(Instant::now());
}

#[test]
fn a_sleep_of_zero_does_not_yield() {
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        runtime.block_on(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            let other = ran.clone();
            let thread = spawn(move || other.store(1, SeqCst));
            for _ in 0..100 {
                runtime::sleep(Duration::ZERO);
                runtime::sleep_until(Instant::now());
            }
            assert_eq!(ran.load(SeqCst), 0, "the other thread ran meanwhile");
            thread.join().unwrap();
        });
    });
}

#[test]
fn a_huge_sleep_lasts_until_it_is_cancelled() {
    on_each(|| {
        let far = Instant::now() + Duration::from_secs(100 * 365 * 86_400);
        let threads = [
            spawn(|| runtime::sleep(Duration::MAX)),
            spawn(|| runtime::sleep(Duration::from_secs(u64::MAX))),
            spawn(|| runtime::sleep(Duration::from_nanos(u64::MAX))),
            spawn(move || runtime::sleep_until(far)),
            spawn(|| thread::park_timeout(Duration::MAX)),
            spawn(|| runtime::block_on(runtime::time::sleep_async(Duration::MAX))),
        ];
        let future = spawn(runtime::time::sleep_async(Duration::MAX));
        runtime::sleep(Duration::from_millis(20));
        for thread in threads.into_iter().chain([future]) {
            assert!(!thread.is_finished());
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<thread::Cancelled>());
        }
    });
}

#[test]
fn sleep_until_is_never_early() {
    fn sleeps_until(deadline: Instant) {
        runtime::sleep_until(deadline);
        assert!(Instant::now() >= deadline);
    }
    on_each(|| {
        let threads: Vec<_> = (0..500u64)
            .map(|i| spawn(move || sleeps_until(Instant::now() + Duration::from_micros(i * 37 % 5000))))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // On a plain thread.
    sleeps_until(Instant::now() + Duration::from_millis(3));
}

#[test]
fn timers_of_parks_that_ended_early_have_no_effect() {
    on_each(|| {
        let parker = spawn(|| {
            for round in 0..3000u64 {
                // The token ends the first park at once. Its timer stays in the heap for a while.
                thread::current().unpark();
                thread::park_timeout(Duration::from_secs(3600));
                thread::park_timeout(Duration::from_micros(round % 7));
                if round % 300 == 0 {
                    sleeps_at_least(Duration::from_millis(1));
                }
            }
            sleeps_at_least(Duration::from_millis(5));
        });
        parker.join().unwrap();
    });
}

#[test]
fn timers_of_parks_that_others_end_are_removed() {
    on_each(|| {
        let parkers: Vec<_> = (0..200)
            .map(|_| {
                spawn(|| {
                    for _ in 0..20 {
                        thread::park_timeout(Duration::from_secs(3600));
                        sleeps_at_least(Duration::from_micros(100));
                    }
                })
            })
            .collect();
        while !parkers.iter().all(|thread| thread.is_finished()) {
            parkers.iter().for_each(|thread| thread.thread().unpark());
            thread::yield_now();
        }
        parkers.into_iter().for_each(|thread| thread.join().unwrap());
        // Deleted timers may stay in the heaps for a while, but not all 4,000 of them.
        let pending = runtime::metrics::snapshot().timers_pending;
        assert!(pending <= 1000, "{pending} timers are left");
    });
}

#[test]
fn a_hundred_thousand_sleepers_finish() {
    on_each(|| {
        let awake = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..100_000u64)
            .map(|i| {
                let awake = awake.clone();
                spawn(move || {
                    sleeps_at_least(Duration::from_micros(1000 + i % 20_000));
                    awake.fetch_add(1, SeqCst);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(awake.load(SeqCst), 100_000);
    });
}

#[test]
fn a_timer_of_a_computing_thread_fires_elsewhere() {
    on(2, || {
        let fired = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let fired = fired.clone();
            spawn(async move {
                runtime::time::sleep_async(Duration::from_millis(1)).await;
                fired.fetch_add(1, SeqCst);
            });
        }
        // The sleep lets the futures arm their timers, on this P or the other.
        runtime::sleep(Duration::from_micros(200));
        let start = Instant::now();
        while fired.load(SeqCst) < 20 {
            assert!(start.elapsed() < Duration::from_secs(20), "the timers wait for the computing thread");
            std::hint::spin_loop();
        }
    });
}

#[test]
fn another_m_watches_the_timers_when_their_watcher_computes() {
    // Without sysmon, which would repair a missing watcher.
    with_built(Builder::new().procs(2).sysmon(false), |runtime| {
        for _ in 0..20 {
            runtime.block_on(|| {
                let fired = Arc::new(AtomicUsize::new(0));
                for i in 0..10 {
                    let fired = fired.clone();
                    spawn(move || {
                        runtime::sleep(Duration::from_micros(4000 + i));
                        fired.fetch_add(1, SeqCst);
                    });
                }
                // All green threads sleep, and an M waits for the first timer, which is that of this thread.
                runtime::sleep(Duration::from_millis(2));
                let start = Instant::now();
                while fired.load(SeqCst) < 10 {
                    assert!(start.elapsed() < Duration::from_secs(20), "no M watches the timers");
                    std::hint::spin_loop();
                }
            });
        }
    });
}

#[test]
fn a_short_sleep_beside_a_watched_long_one_is_not_late() {
    with(2, |runtime| {
        // The poller waits for an hour. Then shorter timers are set, by a green thread and by a plain thread.
        let long = runtime.spawn(|| runtime::sleep(Duration::from_secs(3600)));
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..20 {
            let start = Instant::now();
            runtime.spawn(|| runtime::sleep(Duration::from_millis(1))).join().unwrap();
            runtime.block_on(async { runtime::time::sleep_async(Duration::from_millis(1)).await });
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        wait_until("the short timers are removed", || runtime.handle().metrics().timers_pending <= 1);
        long.cancel();
        assert!(long.join().is_err());
    });
}

#[test]
fn timers_of_a_dropped_runtime_do_not_reach_the_next() {
    for round in 0..20 {
        with(1, |runtime| {
            // Some of these threads use Gs of cancelled threads with timers that were still in a heap.
            runtime.block_on(|| {
                let short: Vec<_> =
                    (0..50).map(|_| spawn(|| sleeps_at_least(Duration::from_micros(100)))).collect();
                short.into_iter().for_each(|thread| thread.join().unwrap());
            });
            let long: Vec<_> = (0..50).map(|_| runtime.spawn(|| runtime::sleep(Duration::MAX))).collect();
            wait_until("the threads sleep", || runtime.handle().metrics().timers_pending >= 50);
            if round % 2 == 0 {
                long.iter().for_each(|thread| thread.cancel());
                long.into_iter().for_each(|thread| assert!(thread.join().is_err()));
            }
        });
    }
}

/// Sleepers with long deadlines lie in the heaps while others arm short ones, behind time-outs that did not
/// end. Without sysmon, only the M in the netpoller is there to wake them. It must learn of each deadline
/// that is the first of its heap.
#[test]
fn a_short_sleep_among_long_ones_is_not_missed() {
    for procs in [1, 2, 4] {
        with_built(Builder::new().procs(procs).sysmon(false), |runtime| {
            runtime.block_on(|| {
                let long = |_| spawn(|| runtime::sleep(Duration::from_secs(600)));
                let long: Vec<_> = (0..20).map(long).collect();
                let short: Vec<_> = (0..4).map(|seed| spawn(move || short_sleeps(seed))).collect();
                short.into_iter().for_each(|thread| thread.join().unwrap());
                long.iter().for_each(|thread| thread.cancel());
            });
        });
    }
}

fn short_sleeps(seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..100 {
        let me = thread::current();
        let waker = spawn(move || me.unpark());
        thread::park_timeout(Duration::from_secs(100 + random.below(100)));
        waker.join().unwrap();
        let (time, start) = (Duration::from_micros(random.below(2_000)), Instant::now());
        if random.below(2) == 0 {
            runtime::sleep(time);
        } else {
            thread::park_timeout(time);
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{:?} instead of {time:?}", start.elapsed());
    }
}
