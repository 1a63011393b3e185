//! `time::after_func`: for each setting of its timer, the function runs once, on a green thread of its own.
//! Otherwise `stop` or `reset` reports that it does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use runtime::channel::{TryRecvError, bounded, unbounded};
use runtime::thread;
use runtime::time::{Timer, after_func};
use tests::child::passes;
use tests::{
    Drops, ON_PURPOSE, OnDrop, Random, everywhere, on, on_each, quiet_panics_on_purpose, runtime, wait_until,
    with,
};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_function_runs_once_and_never_early() {
    everywhere(|| {
        for time in [0, 1, 4] {
            let (s, r) = unbounded();
            let start = Instant::now();
            let _timer = after_func(ms(time), move || s.send(Instant::now()).unwrap());
            assert!(r.recv().unwrap() >= start + ms(time));
            runtime::sleep(ms(2));
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        }
    });
}

/// Each run of the function resets its timer.
#[test]
fn a_function_may_reset_its_timer() {
    everywhere(|| {
        let (s, r) = bounded(0);
        let timer: Arc<OnceLock<Timer>> = Arc::default();
        let (left, its) = (AtomicUsize::new(10), Arc::downgrade(&timer));
        let f = move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                s.send(()).unwrap();
            } else {
                its.upgrade().unwrap().get().unwrap().reset(Duration::ZERO);
            }
        };
        timer.set(after_func(HOUR, f)).unwrap();
        timer.get().unwrap().reset(Duration::ZERO);
        r.recv().unwrap();
        assert!(!timer.get().unwrap().stop());
    });
}

#[test]
fn stop_returns_true_if_the_function_would_have_run() {
    everywhere(|| {
        let (s, r) = unbounded();
        let timer = after_func(HOUR, move || s.send(()).unwrap());
        assert!(timer.stop());
        assert!(!timer.stop(), "the timer is stopped");
        assert!(!timer.reset(ms(1)));
        r.recv().unwrap();
        assert!(!timer.stop(), "the function has run");
        assert!(!timer.reset(HOUR), "the function has run");
        assert!(timer.reset(ms(1)));
        r.recv().unwrap();
        assert!(timer.channel().try_recv().is_err(), "the channel has no message");
    });
}

#[test]
fn a_stopped_function_does_not_run() {
    everywhere(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let timers: Vec<_> = (0..100)
            .map(|_| {
                let its = ran.clone();
                after_func(ms(20), move || _ = its.fetch_add(1, Ordering::SeqCst))
            })
            .collect();
        // Stops all timers, unless the machine is so busy that some have fired already.
        let stopped = timers.iter().filter(|timer| timer.stop()).count();
        drop(timers);
        runtime::sleep(ms(25));
        wait_until("the other functions have run", || ran.load(Ordering::SeqCst) + stopped >= 100);
        assert_eq!(ran.load(Ordering::SeqCst) + stopped, 100, "a stopped function has run");
    });
}

#[test]
fn a_time_beyond_the_clock_never_comes_and_is_pending() {
    everywhere(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let its = ran.clone();
        let timer = after_func(Duration::MAX, move || _ = its.fetch_add(1, Ordering::SeqCst));
        runtime::sleep(ms(2));
        assert!(timer.reset(Duration::MAX));
        assert!(timer.stop());
        assert!(!timer.reset(Duration::MAX));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        assert!(timer.reset(Duration::ZERO));
        wait_until("the function runs", || ran.load(Ordering::SeqCst) == 1);
    });
}

/// A function may wait. If its timer is reset during the wait, the function runs twice at a time.
#[test]
fn each_run_is_a_green_thread_of_its_own() {
    everywhere(|| {
        let (s, r) = bounded(0);
        let (entered, runs) = unbounded();
        let timer = after_func(Duration::ZERO, move || {
            entered.send(thread::current().id()).unwrap();
            r.recv().unwrap();
        });
        let first = runs.recv().unwrap();
        assert!(!timer.reset(Duration::ZERO), "the timer has fired");
        let second = runs.recv().unwrap();
        assert!(first != second && first != thread::current().id());
        s.send(()).unwrap();
        s.send(()).unwrap();
    });
}

/// The timer is reset to an earlier time while all OS threads are idle, and an M must wake in time.
#[test]
fn a_reset_to_an_earlier_time() {
    everywhere(|| {
        for _ in 0..20 {
            let (s, r) = unbounded();
            let timer = after_func(HOUR, move || s.send(Instant::now()).unwrap());
            runtime::sleep(ms(1));
            let start = Instant::now();
            assert!(timer.reset(Duration::from_micros(500)));
            assert!(r.recv().unwrap() >= start + Duration::from_micros(500));
        }
    });
}

#[test]
fn a_reset_to_a_later_time() {
    everywhere(|| {
        let (s, r) = unbounded();
        let timer = after_func(ms(3), move || s.send(Instant::now()).unwrap());
        let start = Instant::now();
        if timer.reset(ms(9)) {
            assert!(r.recv().unwrap() >= start + ms(9));
            assert!(r.try_recv().is_err());
        }
    });
}

#[test]
fn functions_run_in_the_order_of_their_times() {
    on_each(|| {
        let (s, r) = unbounded();
        let start = Instant::now();
        let timers: Vec<_> = [8, 5, 2, 7, 1, 6, 4, 3, 9]
            .map(|time: u64| {
                let s = s.clone();
                after_func(ms(4 * time), move || s.send((start + ms(4 * time), Instant::now())).unwrap())
            })
            .into();
        drop(s);
        let ran: Vec<_> = r.iter().take(timers.len()).collect();
        assert!(ran.iter().all(|(due, now)| now >= due), "early");
        let late = ran.iter().any(|(due, now)| *now >= *due + ms(4));
        assert!(late || ran.is_sorted_by_key(|(due, _)| *due), "not in order: {ran:?}");
    });
}

/// Random resets and stops: the function runs as often as the timer was set, less the settings that a stop or
/// a reset ended.
#[test]
fn stop_and_reset_race_with_the_runs() {
    everywhere(|| {
        let (ran, armed, ended) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(1), AtomicUsize::new(0));
        let its = ran.clone();
        let timer = after_func(Duration::ZERO, move || _ = its.fetch_add(1, Ordering::SeqCst));
        let count = |pending: bool| _ = ended.fetch_add(usize::from(pending), Ordering::Relaxed);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (timer, armed, count) = (&timer, &armed, &count);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..1000 {
                        if random.below(3) == 0 {
                            count(timer.stop());
                        } else {
                            armed.fetch_add(1, Ordering::Relaxed);
                            count(timer.reset(Duration::from_micros(random.below(20))));
                        }
                        if random.below(8) == 0 {
                            runtime::sleep(Duration::from_micros(random.below(30)));
                        }
                    }
                });
            }
        });
        count(timer.stop());
        let expected = armed.into_inner() - ended.load(Ordering::Relaxed);
        wait_until("all functions have run", || ran.load(Ordering::SeqCst) == expected);
        runtime::sleep(ms(2));
        assert_eq!(ran.load(Ordering::SeqCst), expected);
    });
}

/// Thousands of timers are reset at random: each function runs once, at its last time or later.
#[test]
fn thousands_of_timers_are_reset() {
    on_each(|| {
        const N: usize = 2000;
        let due: Arc<Vec<Mutex<Option<Instant>>>> = Arc::new((0..N).map(|_| Mutex::new(None)).collect());
        let ran = Arc::new(AtomicUsize::new(0));
        let mut random = Random::new(7);
        let mut time = || Duration::from_micros(random.below(20_000));
        let timers: Vec<_> = (0..N)
            .map(|i| {
                let (due, ran) = (due.clone(), ran.clone());
                after_func(HOUR, move || {
                    let due = due[i].lock().unwrap().take().expect("the function runs once");
                    assert!(Instant::now() >= due, "early");
                    ran.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        for _ in 0..3 {
            for (timer, due) in timers.iter().zip(due.iter()) {
                let time = time();
                let mut due = due.lock().unwrap();
                if timer.stop() {
                    *due = Some(Instant::now() + time);
                    assert!(!timer.reset(time));
                }
            }
        }
        wait_until("all functions have run", || ran.load(Ordering::SeqCst) == N);
        assert!(timers.iter().all(|timer| !timer.stop()));
    });
}

/// The thread that drops a timer drops the function. Its destructor may make any call.
#[test]
fn a_dropped_timer_does_not_run_and_drops_its_function() {
    everywhere(|| {
        let drops = Drops::default();
        for i in 0..1000 {
            let (token, me) = (drops.token(), thread::current().id());
            let sleeps = OnDrop(move || {
                assert_eq!(thread::current().id(), me);
                if i % 100 == 0 {
                    runtime::sleep(Duration::from_micros(10));
                }
            });
            drop(after_func(HOUR, move || {
                _ = (&token, &sleeps);
                panic!("the hour has not passed");
            }));
            assert_eq!(drops.count(), i + 1);
        }
    });
}

#[test]
fn a_running_function_is_dropped_after_its_end() {
    everywhere(|| {
        let drops = Drops::default();
        let (s, r) = bounded::<()>(0);
        let (entered, runs) = unbounded();
        let token = drops.token();
        let timer = after_func(Duration::ZERO, move || {
            entered.send(()).unwrap();
            assert!(r.recv().is_err());
            _ = &token;
        });
        runs.recv().unwrap();
        drop(timer);
        runtime::sleep(ms(1));
        assert_eq!(drops.count(), 0, "the function still runs");
        drop(s);
        wait_until("the function is dropped", || drops.count() == 1);
    });
}

#[test]
fn a_panic_in_the_function_affects_no_other_run() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let runs = Arc::new(AtomicUsize::new(0));
        let its = runs.clone();
        let timer = after_func(Duration::ZERO, move || {
            its.fetch_add(1, Ordering::SeqCst);
            panic!("{ON_PURPOSE}");
        });
        wait_until("the function runs", || runs.load(Ordering::SeqCst) == 1);
        timer.reset(Duration::ZERO);
        wait_until("the function runs again", || runs.load(Ordering::SeqCst) == 2);
    });
}

/// A timer belongs to the runtime that made it, whichever thread resets it.
#[test]
fn a_timer_is_reset_from_other_runtimes_and_plain_threads() {
    with(2, |home| {
        let other = runtime(1);
        let (s, r) = unbounded();
        let timer = Arc::new(
            home.block_on(|| after_func(HOUR, move || s.send(runtime::Handle::current().procs()).unwrap())),
        );
        assert!(timer.reset(Duration::ZERO));
        assert_eq!(r.recv(), Ok(2));
        other.block_on(|| assert!(!timer.reset(ms(1))));
        assert_eq!(r.recv(), Ok(2));
        home.block_on(|| assert!(!timer.reset(HOUR)));
        other.block_on(|| assert!(timer.stop()));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!timer.reset(Duration::ZERO)));
        });
        assert_eq!(r.recv(), Ok(2));
        assert!(!timer.stop());
    });
}

#[test]
fn a_function_does_not_run_after_its_runtime_has_ended() {
    with(2, |here| {
        let drops = Drops::default();
        let [timer, pending] = {
            let gone = runtime(2);
            gone.block_on(|| {
                [drops.token(), drops.token()].map(|token| {
                    after_func(HOUR, move || {
                        _ = &token;
                        panic!("the function has run after the end of its runtime");
                    })
                })
            })
        };
        assert!(!timer.stop(), "the timer has ended with its runtime");
        assert!(!timer.reset(Duration::ZERO));
        here.block_on(|| runtime::sleep(ms(3)));
        assert!(timer.stop(), "the function has not run");
        drop((timer, pending));
        assert_eq!(drops.alive(), 0);
    });
}

/// Timers fire while their runtime ends.
#[test]
fn timers_fire_while_their_runtime_ends() {
    for round in 0..20 {
        let drops = Drops::default();
        let gone = runtime(2);
        let timers: Vec<_> = gone.block_on(|| {
            (0..100)
                .map(|i| {
                    let token = drops.token();
                    after_func(Duration::from_micros(i * round), move || {
                        _ = &token;
                        runtime::sleep(ms(50));
                    })
                })
                .collect()
        });
        drop(gone);
        drop(timers);
        assert_eq!(drops.alive(), 0);
    }
}

/// Timers are made and stopped while nothing else happens: stopped timers do not accumulate.
#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer keeps what is freed")]
fn stopped_timers_do_not_accumulate() {
    let churn = || {
        let kept: Vec<_> = (0..10).map(|_| after_func(HOUR, || ())).collect();
        let before = tests::system::resident_bytes();
        for _ in 0..500_000 {
            assert!(after_func(HOUR, || ()).stop());
        }
        let grown = tests::system::resident_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes more");
        assert!(kept.iter().all(Timer::stop));
    };
    // In a child process, because its memory is measured.
    passes("stopped_timers_do_not_accumulate", "", || on(1, churn));
}

/// No function waits for another, and all run.
#[test]
fn a_hundred_thousand_functions() {
    on(2, || {
        let ran = Arc::new(AtomicUsize::new(0));
        let timers: Vec<_> = (0..100_000u64)
            .map(|i| {
                let ran = ran.clone();
                after_func(Duration::from_micros(i % 5000), move || _ = ran.fetch_add(1, Ordering::Relaxed))
            })
            .collect();
        wait_until("all functions have run", || ran.load(Ordering::Relaxed) == 100_000);
        assert!(timers.iter().all(|timer| !timer.stop()));
    });
}

/// A function that `stop` or `reset` has not prevented runs, even if its timer is dropped at once.
#[test]
fn an_unprevented_function_runs_despite_the_drop_of_its_timer() {
    everywhere(|| {
        let (ran, mut to_run) = (Arc::new(AtomicUsize::new(0)), 0);
        let mut random = Random::new(7);
        for round in 0..10_000 {
            let its = ran.clone();
            let time = Duration::from_micros(random.below(40));
            let timer = after_func(time, move || _ = its.fetch_add(1, Ordering::SeqCst));
            tests::spin(Duration::from_micros(random.below(60)));
            to_run += match round % 3 {
                0 => usize::from(!timer.stop()),
                1 => usize::from(!timer.reset(HOUR)),
                _ => {
                    let first = !timer.reset(Duration::ZERO);
                    usize::from(first) + usize::from(!timer.stop())
                }
            };
            drop(timer);
        }
        let start = Instant::now();
        while ran.load(Ordering::SeqCst) < to_run && start.elapsed() < Duration::from_secs(20) {
            runtime::sleep(ms(1));
        }
        runtime::sleep(ms(5));
        assert_eq!(ran.load(Ordering::SeqCst), to_run, "the number of functions that were not stopped");
    });
}
