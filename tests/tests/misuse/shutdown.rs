//! The end of a runtime in unusual places: on its own green threads, and on green threads of another runtime.
//! Also with threads that outlive the shutdown's time limit, and calls after the end.

use std::cell::RefCell;
use std::panic::{catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::thread::{Cancelled, JoinHandle};
use runtime::time::sleep_async;
use runtime::{Builder, Handle, Runtime, spawn, thread};
use tests::{Drops, ON_PURPOSE, OnDrop, PROCS, Watchdog, on};
use tests::{panics_with, quiet_panics_on_purpose, runtime, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits until no thread of the runtime is left, and checks that spawns are refused.
fn all_is_over(handle: &Handle) {
    wait_until("the runtime's OS threads have ended", || handle.metrics().threads == 0);
    let metrics = handle.metrics();
    assert_eq!(metrics.spawned, metrics.ended);
    panics_with("shut down", || handle.spawn(|| ()));
}

#[test]
fn a_handle_after_the_end() {
    let _dog = Watchdog::new();
    for procs in PROCS {
        let runtime = runtime(procs);
        let handle = runtime.handle();
        assert_eq!(handle.block_on(|| 7), 7);
        drop(runtime);
        let checks = || {
            panics_with("shut down", || handle.spawn(|| ()));
            panics_with("shut down", || handle.spawn(async {}));
            panics_with("shut down", || handle.block_on(|| ()));
            panics_with("shut down", || handle.block_on(async {}));
            assert_eq!(handle.procs(), procs);
            // The number is stored and has no effect.
            handle.set_procs(procs + 1).unwrap();
            assert_eq!(handle.procs(), procs + 1);
            handle.set_procs(procs).unwrap();
            assert!(handle.set_procs(0).is_err());
            let metrics = handle.metrics();
            assert_eq!((metrics.threads, metrics.running, metrics.waiting), (0, 0, 0));
            assert_eq!(metrics.spawned, metrics.ended);
            assert!(!format!("{handle:?}").is_empty());
        };
        checks();
        on(1, checks);
    }
}

#[test]
fn thread_handles_after_the_end() {
    let _dog = Watchdog::new();
    let runtime = runtime(2);
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let (ended, cancelled, joined) = (
        runtime.spawn(|| [5_u64; 200]),
        runtime.spawn(move || {
            begins.store(true, SeqCst);
            thread::park()
        }),
        runtime.spawn(|| runtime::sleep(HOUR)),
    );
    wait_until("the first thread has ended, the second has begun", || {
        ended.is_finished() && begun.load(SeqCst)
    });
    let (one, other) = (ended.thread().clone(), cancelled.thread().clone());
    drop(runtime);
    for _ in 0..2 {
        ended.cancel();
        cancelled.cancel();
        one.unpark();
        other.unpark();
    }
    assert!(ended.is_finished() && cancelled.is_finished());
    assert_ne!(one.id(), other.id());
    assert_eq!(ended.join().unwrap(), [5; 200]);
    assert!(runtime::block_on(cancelled).unwrap_err().is::<Cancelled>());
    assert!(joined.join().unwrap_err().is::<Cancelled>());
}

/// A green thread goes on after its runtime's shutdown has timed out. Each wait unwinds, destructors may
/// wait, and the thread ends in the background.
#[test]
fn a_thread_that_outlives_a_shutdown_timeout() {
    let _dog = Watchdog::new();
    for procs in PROCS {
        let runtime = runtime(procs);
        let handle = runtime.handle();
        let (begun, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, tells, seen) = (begun.clone(), told.clone(), Arc::new(AtomicUsize::new(0)));
        let sees = seen.clone();
        let survivor = runtime.spawn(move || {
            begins.store(true, SeqCst);
            while !tells.load(SeqCst) {
                std::hint::spin_loop();
            }
            assert!(thread::cancelled());
            let waits: [fn(); 4] = [
                || runtime::sleep(HOUR),
                thread::park,
                || runtime::block_on(sleep_async(HOUR)),
                || drop(spawn(|| ()).join()),
            ];
            for wait in waits {
                assert!(catch_unwind(wait).unwrap_err().is::<Cancelled>());
            }
            // Calls that do not wait work.
            (0..10).for_each(|_| thread::yield_now());
            runtime::blocking(|| std::thread::sleep(MILLI));
            assert_eq!(Handle::current().procs(), procs);
            drop(spawn(|| unreachable!("the new thread is cancelled before its start")));
            let _last = OnDrop(move || {
                let start = Instant::now();
                runtime::sleep(2 * MILLI);
                assert!(start.elapsed() >= 2 * MILLI);
                thread::yield_now();
                assert!(spawn(|| ()).join().unwrap_err().is::<Cancelled>());
                sees.fetch_add(1, SeqCst);
            });
            thread::park();
        });
        wait_until("the thread computes", || begun.load(SeqCst));
        assert!(!runtime.shutdown_timeout(5 * MILLI));
        // A spawn from outside, while the last thread still runs.
        assert!(handle.spawn(|| ()).join().unwrap_err().is::<Cancelled>());
        assert!(!survivor.is_finished());
        told.store(true, SeqCst);
        assert!(survivor.join().unwrap_err().is::<Cancelled>());
        assert_eq!(seen.load(SeqCst), 1);
        all_is_over(&handle);
    }
}

#[test]
fn a_shutdown_timeout_of_zero_cancels_at_once() {
    let _dog = Watchdog::new();
    let runtime = runtime(1);
    let handle = runtime.handle();
    let sleeper = runtime.spawn(|| runtime::sleep(HOUR));
    // The shutdown may or may not end in time.
    runtime.shutdown_timeout(Duration::ZERO);
    assert!(sleeper.join().unwrap_err().is::<Cancelled>());
    all_is_over(&handle);
}

/// Ways to end a runtime on its own green thread: each gets the runtime, and a token that this thread drops.
type Ends = fn(Runtime, tests::Token) -> JoinHandle<()>;

fn spawned_in(runtime: Runtime, f: impl FnOnce(Runtime) + Send + 'static) -> JoinHandle<()> {
    let handle = runtime.handle();
    handle.spawn(move || f(runtime))
}

/// Called after a runtime was dropped on its own green thread: the drop has not waited, and has cancelled
/// this thread.
fn cancelled_now() {
    assert!(thread::cancelled());
    thread::yield_now();
    runtime::sleep(HOUR);
    unreachable!("a sleep of a cancelled thread unwinds");
}

const WAYS: [Ends; 8] = [
    |runtime, token| {
        spawned_in(runtime, |runtime| {
            let _token = token;
            drop(runtime);
            cancelled_now();
        })
    },
    |runtime, token| {
        spawned_in(runtime, |runtime| {
            let _token = token;
            assert!(!runtime.shutdown_timeout(HOUR), "the shutdown cannot wait for its own thread");
            cancelled_now();
        })
    },
    // In a poll.
    |runtime, token| {
        let handle = runtime.handle();
        handle.spawn(async move {
            let _token = token;
            drop(runtime);
            sleep_async(MILLI).await;
            unreachable!("a cancelled future is not polled again");
        })
    },
    // While it unwinds.
    |runtime, token| {
        spawned_in(runtime, |runtime| {
            let (_token, _runtime) = (token, runtime);
            panic_any(ON_PURPOSE);
        })
    },
    // In `blocking`.
    |runtime, token| {
        spawned_in(runtime, |runtime| {
            let _token = token;
            runtime::blocking(|| drop(runtime));
            cancelled_now();
        })
    },
    // In a destructor of the thread's own values.
    |runtime, token| {
        runtime::thread_local! {
            static LAST: RefCell<Option<(Runtime, tests::Token)>> = const { RefCell::new(None) };
        }
        spawned_in(runtime, |runtime| {
            LAST.set(Some((runtime, token)));
            panic_any(ON_PURPOSE);
        })
    },
    // With the captures of a thread that never begins.
    |runtime, token| {
        let handle = runtime.handle();
        let never = handle.spawn(move || {
            let (_token, _runtime) = (token, runtime);
            runtime::sleep(HOUR);
        });
        never.cancel();
        never
    },
    // In a thread of a scope.
    |runtime, token| {
        spawned_in(runtime, |runtime| {
            let _token = token;
            runtime::scope(|s| {
                s.spawn(|| drop(runtime));
                s.spawn(|| runtime::sleep(HOUR));
            });
            unreachable!("the scope's spawner is cancelled too");
        })
    },
];

#[test]
fn a_runtime_ended_on_its_own_green_thread() {
    quiet_panics_on_purpose();
    for (i, way) in WAYS.into_iter().enumerate() {
        for procs in PROCS {
            let _dog = Watchdog::new();
            let drops = Drops::default();
            let runtime = Builder::new().procs(procs).thread_name("own").build().unwrap();
            let handle = runtime.handle();
            let others: Vec<_> = (0..10)
                .map(|i| {
                    let token = drops.token();
                    handle.spawn(move || {
                        let _token = token;
                        if i % 2 == 0 { runtime::sleep(HOUR) } else { thread::park() }
                    })
                })
                .collect();
            let own = way(runtime, drops.token());
            assert!(own.join().is_err(), "way {i}");
            for other in others {
                assert!(other.join().unwrap_err().is::<Cancelled>());
            }
            assert_eq!(drops.alive(), 0);
            all_is_over(&handle);
        }
    }
}

/// The runtime is the result of its own green thread: the thread drops it, unless a joiner takes it.
#[test]
fn a_runtime_as_the_result_of_its_own_green_thread() {
    let _dog = Watchdog::new();
    for wanted in [false, true] {
        let runtime = runtime(2);
        let handle = runtime.handle();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let gives = handle.spawn(move || {
            begins.store(true, SeqCst);
            while begins.load(SeqCst) {
                thread::yield_now();
            }
            runtime
        });
        wait_until("the thread has begun", || begun.load(SeqCst));
        if wanted {
            begun.store(false, SeqCst);
            // The joiner gets the runtime and ends it.
            drop(gives.join().unwrap());
        } else {
            drop(gives);
            begun.store(false, SeqCst);
        }
        all_is_over(&handle);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn ended_runtimes_leave_no_threads_or_descriptors() {
    tests::child::passes("ended_runtimes_leave_no_threads_or_descriptors", "", || {
        let count = || (tests::system::threads(), tests::system::descriptors());
        let before = count();
        for i in 0..100 {
            let runtime = runtime(1 + i % 3);
            let handle = runtime.handle();
            drop(handle.spawn(move || {
                spawn(|| runtime::sleep(HOUR));
                drop(runtime);
            }));
            wait_until("the runtime's OS threads have ended", || handle.metrics().threads == 0);
        }
        // The closer thread ends a moment after the others.
        wait_until("threads and descriptors are as before", || count() == before);
    });
}

/// Dropping a runtime blocks the dropping green thread only, and no other green thread of that runtime.
#[test]
fn a_runtime_dropped_on_a_green_thread_of_another() {
    with(1, |outer| {
        let stop = Arc::new(AtomicBool::new(false));
        let (hogs, inner, begun) = (stop.clone(), runtime(1), Arc::new(AtomicBool::new(false)));
        let begins = begun.clone();
        let hog = inner.spawn(move || {
            begins.store(true, SeqCst);
            while !hogs.load(SeqCst) {}
        });
        wait_until("the thread computes", || begun.load(SeqCst));
        let sleeper = inner.spawn(|| runtime::sleep(HOUR));
        let ticks = Arc::new(AtomicUsize::new(0));
        let counts = ticks.clone();
        outer.spawn(move || {
            loop {
                runtime::sleep(MILLI);
                if counts.fetch_add(1, SeqCst) == 20 {
                    stop.store(true, SeqCst);
                }
            }
        });
        let dropped = outer.spawn(move || drop(inner));
        // The hog ends only after the ticker has run beside the drop.
        dropped.join().unwrap();
        assert!(ticks.load(SeqCst) >= 20 && hog.is_finished());
        assert!(sleeper.join().unwrap_err().is::<Cancelled>());
    });
}

/// Two runtimes are dropped on green threads of each other. Each waits for the other until both threads are
/// cancelled.
#[test]
fn two_runtimes_dropped_on_green_threads_of_each_other() {
    for procs in PROCS {
        for _ in 0..5 {
            let _dog = Watchdog::new();
            let (a, b) = (runtime(procs), runtime(procs));
            let (of_a, of_b) = (a.handle(), b.handle());
            let both = Arc::new(AtomicUsize::new(0));
            let drops = |other: Runtime| {
                let both = both.clone();
                move || {
                    both.fetch_add(1, SeqCst);
                    while both.load(SeqCst) < 2 {
                        thread::yield_now();
                    }
                    drop(other);
                    cancelled_now();
                }
            };
            let (one, other) = (of_a.spawn(drops(b)), of_b.spawn(drops(a)));
            assert!(one.join().unwrap_err().is::<Cancelled>());
            assert!(other.join().unwrap_err().is::<Cancelled>());
            all_is_over(&of_a);
            all_is_over(&of_b);
        }
    }
}
