//! Time-outs: `timeout` and `timeout_async` end any wait inside them, and no other wait.

use std::cell::Cell;
use std::future::pending;
use std::io::{Read, Write};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{self, Cancelled};
use runtime::time::{Elapsed, sleep_async, timeout, timeout_async};
use runtime::{scope, spawn};
use tests::futures::{drive_on_plain_thread, either};
use tests::turns::gives_turns;
use tests::{Drops, OnDrop, Random, child, everywhere, on, on_each, spin, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// Checks that a time-out ends `f`, which waits without end, and that it does not do so early.
fn is_ended<T: std::fmt::Debug>(f: impl FnOnce() -> T) {
    let (start, drops) = (Instant::now(), Drops::default());
    let token = drops.token();
    let result = timeout(3 * MILLI, || {
        let _token = token;
        f()
    });
    assert_eq!(result.expect_err("the closure waits without end"), Elapsed);
    assert!(start.elapsed() >= 3 * MILLI, "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "late: {:?}", start.elapsed());
    assert_eq!(drops.count(), 1, "the destructors have run");
}

fn sleeps_at_least(time: Duration) {
    let start = Instant::now();
    runtime::sleep(time);
    assert!(start.elapsed() >= time, "{:?} instead of {time:?}", start.elapsed());
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_timeout_ends_sleeps_parks_and_block_on() {
    everywhere(|| {
        is_ended(|| runtime::sleep(HOUR));
        is_ended(|| runtime::sleep(Duration::MAX));
        is_ended(|| runtime::sleep_until(Instant::now() + HOUR));
        is_ended(|| {
            loop {
                runtime::sleep(Duration::from_micros(100));
            }
        });
        is_ended(|| {
            loop {
                thread::park();
            }
        });
        is_ended(|| {
            loop {
                thread::park_timeout(HOUR);
            }
        });
        // A park that timed out neither keeps nor loses a token.
        thread::current().unpark();
        thread::park();
        let start = Instant::now();
        while start.elapsed() < MILLI {
            thread::park_timeout(MILLI);
        }
    });
    on_each(|| {
        is_ended(|| runtime::block_on(pending::<()>()));
        is_ended(|| runtime::block_on(sleep_async(HOUR)));
    });
}

#[test]
fn a_timeout_ends_a_join_and_leaves_the_joined_thread_alone() {
    everywhere(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let drops = Drops::default();
        let token = drops.token();
        let thread = spawn(move || {
            let _token = token;
            while !stops.load(SeqCst) {
                runtime::sleep(Duration::from_micros(200));
            }
        });
        is_ended(|| thread.join());
        assert_eq!(drops.count(), 0);
        stop.store(true, SeqCst);
        wait_until("the joined thread has ended", || drops.count() == 1);
    });
}

#[test]
fn a_timeout_ends_socket_calls_without_losing_bytes() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        is_ended(|| listener.accept());
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = timeout(HOUR, || listener.accept()).unwrap().unwrap();
        let mut buffer = [0; 4];
        for _ in 0..3 {
            is_ended(|| server.read(&mut buffer));
        }
        client.write_all(b"here").unwrap();
        assert_eq!(
            timeout(HOUR, || server.read_exact(&mut buffer).map(|()| buffer)).unwrap().unwrap(),
            *b"here"
        );
        // A writer with a peer that does not read.
        is_ended(|| {
            loop {
                client.write_all(&[7; 65_536]).unwrap();
            }
        });
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert!(all.len() > 10_000 && all.iter().all(|&byte| byte == 7), "{} bytes", all.len());
    });
}

#[test]
fn a_timeout_ends_a_scope_and_its_threads() {
    everywhere(|| {
        let (drops, begun, ended) = (Drops::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        is_ended(|| {
            scope(|s| {
                for _ in 0..10 {
                    let token = drops.token();
                    s.spawn(|| {
                        let _token = token;
                        begun.fetch_add(1, SeqCst);
                        let _last = OnDrop(|| _ = ended.fetch_add(1, SeqCst));
                        runtime::sleep(HOUR);
                    });
                }
            });
        });
        assert_eq!((drops.count(), drops.alive()), (10, 0));
        // On a busy machine some threads were cancelled before they began.
        assert_eq!(ended.load(SeqCst), begun.load(SeqCst));
        // Inside the scope's closure, before the scope waits.
        is_ended(|| {
            scope(|s| {
                let token = drops.token();
                s.spawn(|| {
                    let _token = token;
                    runtime::sleep(HOUR);
                });
                runtime::sleep(HOUR);
            });
        });
        assert_eq!((drops.count(), drops.alive()), (11, 0));
    });
}

#[test]
fn a_scope_that_times_out_waits_for_its_threads() {
    on_each(|| {
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let result = timeout(3 * MILLI, || {
            scope(|s| {
                s.spawn(|| {
                    begun.store(true, SeqCst);
                    spin(30 * MILLI);
                    ended.store(true, SeqCst);
                });
                while !begun.load(SeqCst) {
                    thread::yield_now();
                }
            });
        });
        assert!(ended.load(SeqCst), "the scope has ended before its thread");
        assert_eq!(result, Err(Elapsed));
    });
}

#[test]
fn a_timeout_does_not_interrupt_blocking_or_computing_code() {
    everywhere(|| {
        let blocked = timeout(MILLI, || {
            runtime::blocking(|| std::thread::sleep(20 * MILLI));
            5
        });
        assert_eq!(blocked, Ok(5));
        let computed = timeout(MILLI, || {
            spin(20 * MILLI);
            runtime::yield_now();
            6
        });
        assert_eq!(computed, Ok(6));
        let plain = timeout(MILLI, || {
            std::thread::sleep(20 * MILLI);
            7
        });
        assert_eq!(plain, Ok(7));
        // After that code, the next park is ended.
        is_ended(|| {
            spin(5 * MILLI);
            runtime::sleep(Duration::from_nanos(1));
        });
        is_ended(|| {
            runtime::blocking(|| std::thread::sleep(5 * MILLI));
            thread::park();
        });
        // Blocking code that is in time.
        assert_eq!(timeout(HOUR, || runtime::blocking(|| 8)), Ok(8));
    });
}

#[test]
fn code_that_is_in_time_returns_its_value() {
    everywhere(|| {
        for i in 0..200u64 {
            let value = timeout(HOUR, || {
                runtime::sleep(Duration::from_micros(i % 20));
                thread::current().unpark();
                thread::park();
                thread::park_timeout(Duration::from_micros(i % 7));
                spawn(move || i).join().unwrap()
            });
            assert_eq!(value, Ok(i));
        }
    });
}

#[test]
fn the_earlier_of_nested_timeouts_expires_first() {
    everywhere(|| {
        // The inner one.
        let result = timeout(HOUR, || {
            let inner = timeout(3 * MILLI, || runtime::sleep(HOUR));
            assert_eq!(inner, Err(Elapsed));
            // The outer time-out has not expired.
            sleeps_at_least(5 * MILLI);
            5
        });
        assert_eq!(result, Ok(5));
        // The outer one.
        let went_on = Cell::new(false);
        let result = timeout(3 * MILLI, || {
            let _ = timeout(HOUR, || runtime::sleep(HOUR));
            went_on.set(true);
        });
        assert_eq!(result, Err(Elapsed));
        assert!(!went_on.get(), "the inner time-out had not expired");
        // Three nested time-outs, of which the middle expires first.
        let result = timeout(HOUR, || {
            let middle = timeout(3 * MILLI, || {
                let _ = timeout(HOUR, || runtime::sleep(HOUR));
                went_on.set(true);
            });
            assert_eq!(middle, Err(Elapsed));
            sleeps_at_least(MILLI);
            7
        });
        assert_eq!((result, went_on.get()), (Ok(7), false));
        // Longer time-outs inside give no more time, although their code is in time.
        let start = Instant::now();
        is_ended(|| {
            loop {
                let _ = timeout(HOUR, || runtime::sleep(Duration::from_micros(100)));
            }
        });
        assert!(start.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn both_timeouts_expire() {
    everywhere(|| {
        let inner = Cell::new(None);
        let result = timeout(3 * MILLI, || {
            inner.set(Some(timeout(2 * MILLI, || {
                spin(10 * MILLI);
                runtime::sleep(HOUR);
            })));
            runtime::sleep(HOUR);
        });
        assert_eq!((inner.get(), result), (Some(Err(Elapsed)), Err(Elapsed)));
        // Both have expired, and no park follows the inner time-out: the outer closure returns its value.
        let result = timeout(3 * MILLI, || {
            timeout(2 * MILLI, || {
                spin(10 * MILLI);
                runtime::sleep(HOUR);
            })
        });
        assert_eq!(result, Ok(Err(Elapsed)));
    });
}

#[test]
fn destructors_may_wait_during_a_timeout() {
    everywhere(|| {
        let (slept, joined) = (Cell::new(false), Cell::new(0));
        is_ended(|| {
            let _last = OnDrop(|| {
                sleeps_at_least(5 * MILLI);
                slept.set(true);
                joined.set(spawn(|| 5).join().unwrap());
                // A time-out inside a destructor does not unwind, and its waits last their full time.
                assert_eq!(timeout(MILLI, || sleeps_at_least(3 * MILLI)), Ok(()));
            });
            runtime::sleep(HOUR);
        });
        assert_eq!((slept.get(), joined.get()), (true, 5));
        assert!(!std::thread::panicking());
    });
}

#[test]
fn an_expired_timeout_ends_all_waits_inside_and_none_outside() {
    everywhere(|| {
        let ends = Cell::new(0);
        let result = timeout(2 * MILLI, || {
            let parks: [fn(); 6] = [
                || runtime::sleep(HOUR),
                || runtime::sleep(Duration::from_nanos(1)),
                || runtime::sleep(Duration::ZERO),
                || thread::park_timeout(MILLI),
                thread::park,
                || drop(spawn(|| runtime::sleep(5 * MILLI)).join()),
            ];
            for park in parks {
                ends.set(ends.get() + usize::from(catch_unwind(park).is_err()));
            }
            5
        });
        // The code caught each unwind and returned a value, so `timeout` returns this value.
        assert_eq!((result, ends.get()), (Ok(5), 6));
        for _ in 0..3 {
            sleeps_at_least(MILLI);
        }
        spawn(|| sleeps_at_least(MILLI)).join().unwrap();
        // Code that catches the unwind and parks again is ended by that park.
        is_ended(|| {
            assert!(catch_unwind(|| runtime::sleep(HOUR)).is_err());
            runtime::sleep(HOUR);
        });
        sleeps_at_least(MILLI);
    });
}

#[test]
fn a_panic_passes_out_of_a_timeout() {
    everywhere(|| {
        for up in [false, true] {
            let result = catch_unwind(|| {
                timeout(if up { MILLI } else { HOUR }, || {
                    spin(if up { 3 * MILLI } else { Duration::ZERO });
                    resume_unwind(Box::new(7u32));
                })
            });
            assert_eq!(result.unwrap_err().downcast_ref::<u32>(), Some(&7));
            // The time-out has no effect after the panic.
            sleeps_at_least(5 * MILLI);
        }
    });
}

#[test]
fn a_cancellation_passes_out_of_a_timeout() {
    on_each(|| {
        let drops = Drops::default();
        for time in [HOUR, Duration::MAX, 2 * MILLI] {
            let (token, begun) = (drops.token(), Arc::new(AtomicBool::new(false)));
            let begins = begun.clone();
            let thread = spawn(move || {
                let _token = token;
                begins.store(true, SeqCst);
                let _ = timeout(time, || runtime::sleep(HOUR));
                let _ = timeout(time, thread::park);
                runtime::sleep(HOUR);
            });
            wait_until("the thread runs", || begun.load(SeqCst));
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
        }
        assert_eq!((drops.count(), drops.alive()), (3, 0));
        // The thread is cancelled and its time-out has expired. The cancellation ends the whole thread.
        let thread = spawn(|| {
            let _ = timeout(MILLI, || {
                while !thread::cancelled() {
                    thread::yield_now();
                }
                spin(2 * MILLI);
                runtime::sleep(HOUR);
            });
            panic!("the thread was not cancelled");
        });
        thread.cancel();
        assert!(thread.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn the_shortest_and_longest_timeouts() {
    everywhere(|| {
        assert_eq!(timeout(Duration::ZERO, || 5), Ok(5));
        assert_eq!(timeout(Duration::ZERO, thread::park), Err(Elapsed));
        assert_eq!(timeout(Duration::ZERO, || runtime::sleep(HOUR)), Err(Elapsed));
        assert_eq!(timeout(Duration::from_nanos(1), || runtime::sleep(HOUR)), Err(Elapsed));
        for time in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX)] {
            assert_eq!(timeout(time, || sleeps_at_least(MILLI)), Ok(()));
        }
        assert_eq!(timeout(Duration::MAX, || timeout(MILLI, || runtime::sleep(HOUR))), Ok(Err(Elapsed)));
        assert_eq!(timeout(MILLI, || timeout(Duration::MAX, || runtime::sleep(HOUR))), Err(Elapsed));
    });
}

#[test]
fn threads_spawned_inside_do_not_time_out() {
    everywhere(|| {
        let thread = timeout(MILLI, || {
            let thread = spawn(|| {
                sleeps_at_least(5 * MILLI);
                9
            });
            spin(2 * MILLI);
            thread
        });
        assert_eq!(thread.unwrap().join().unwrap(), 9);
    });
    // A closure that another runtime runs for the caller may borrow from the caller, so the caller waits for
    // it.
    with(2, |other| {
        let done = AtomicBool::new(false);
        let _ = timeout(MILLI, || {
            other.block_on(|| {
                sleeps_at_least(10 * MILLI);
                done.store(true, SeqCst);
            });
        });
        assert!(done.load(SeqCst), "block_on has returned before its closure");
    });
}

#[test]
fn a_timeout_prints_nothing() {
    let test = "a_timeout_prints_nothing";
    let body = || {
        everywhere(|| {
            assert!(timeout(MILLI, || runtime::sleep(HOUR)).is_err());
            assert!(timeout(MILLI, || scope(|s| drop(s.spawn(|| runtime::sleep(HOUR))))).is_err());
            assert!(runtime::block_on(timeout_async(MILLI, pending::<()>())).is_err());
            let thread = spawn(|| timeout(HOUR, || runtime::sleep(HOUR)));
            thread.cancel();
            assert!(thread.join().is_err());
        });
    };
    child::run(test, "", body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
        assert_eq!(child::stderr(output), "");
    });
}

#[test]
fn elapsed_is_an_error() {
    let fails = || -> std::io::Result<u32> { Ok(timeout(MILLI, || runtime::sleep(HOUR)).map(|()| 1)?) };
    assert_eq!(fails().unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(Elapsed);
    assert_eq!(error.to_string(), "the time was up");
}

#[test]
fn random_timeouts_are_never_early() {
    on_each(|| {
        let threads: Vec<_> = (0..200)
            .map(|seed| {
                spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..30 {
                        let micros = |n| Duration::from_micros(n);
                        let (limit, time) = (micros(random.below(3000)), micros(random.below(3000)));
                        let start = Instant::now();
                        let result = timeout(limit, || match random.below(4) {
                            0 => drop(spawn(move || runtime::sleep(time)).join()),
                            1 => runtime::block_on(sleep_async(time)),
                            2 => drop(timeout(time, thread::park)),
                            _ => runtime::sleep(time),
                        });
                        let least = if result.is_ok() { time } else { limit };
                        assert!(
                            start.elapsed() >= least,
                            "{result:?} after {:?} of {limit:?}, {time:?}",
                            start.elapsed()
                        );
                        sleeps_at_least(micros(random.below(300)));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn sockets_that_time_out_repeatedly_lose_no_byte() {
    on_each(|| {
        let pairs: Vec<_> = (0..20u64)
            .map(|seed| {
                let (mut client, mut server) = connected();
                let writer = spawn(move || {
                    let mut random = Random::new(seed);
                    for i in 0..200u32 {
                        client.write_all(&i.to_le_bytes()).unwrap();
                        if random.below(3) == 0 {
                            runtime::sleep(Duration::from_micros(random.below(400)));
                        }
                    }
                });
                let reader = spawn(move || {
                    let (mut all, mut buffer) = (Vec::new(), [0; 64]);
                    loop {
                        match timeout(Duration::from_micros(100), || server.read(&mut buffer).unwrap()) {
                            Ok(0) => break,
                            Ok(n) => all.extend_from_slice(&buffer[..n]),
                            Err(Elapsed) => {}
                        }
                    }
                    let expected: Vec<u8> = (0..200u32).flat_map(u32::to_le_bytes).collect();
                    assert_eq!(all, expected);
                });
                (writer, reader)
            })
            .collect();
        for (writer, reader) in pairs {
            writer.join().unwrap();
            reader.join().unwrap();
        }
    });
}

#[test]
fn timeouts_leave_no_pending_timer() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            let pending = || runtime.handle().metrics().timers_pending;
            let before = pending();
            runtime.block_on(|| {
                let threads: Vec<_> = (0..100u64)
                    .map(|i| {
                        spawn(move || {
                            for _ in 0..5 {
                                timeout(HOUR, || {
                                    runtime::sleep(Duration::from_micros(i));
                                    thread::current().unpark();
                                    thread::park_timeout(HOUR);
                                    spawn(|| runtime::sleep(Duration::from_micros(50))).join().unwrap();
                                })
                                .unwrap();
                                assert!(timeout(Duration::from_micros(i), || runtime::sleep(HOUR)).is_err());
                                let early = timeout_async(HOUR, sleep_async(Duration::from_micros(50)));
                                runtime::block_on(early).unwrap();
                                let late = timeout_async(Duration::from_micros(50), sleep_async(HOUR));
                                runtime::block_on(late).unwrap_err();
                            }
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            let none_is_left = || {
                let start = Instant::now();
                while pending() > before {
                    let now = pending();
                    assert!(
                        start.elapsed() < Duration::from_secs(10),
                        "{now} timers are pending, {before} were at the beginning"
                    );
                    std::thread::sleep(MILLI);
                }
            };
            none_is_left();
            // Threads that live on, and wait for something else, have no pending timer either.
            let begun = Arc::new(AtomicUsize::new(0));
            let parked: Vec<_> = (0..20)
                .map(|_| {
                    let begun = begun.clone();
                    runtime.spawn(move || {
                        let other = spawn(|| runtime::sleep(MILLI));
                        timeout(HOUR, || other.join().unwrap()).unwrap();
                        begun.fetch_add(1, SeqCst);
                        thread::park();
                    })
                })
                .collect();
            wait_until("the threads park", || begun.load(SeqCst) == 20);
            none_is_left();
            parked.iter().for_each(|thread| thread.thread().unpark());
            parked.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn futures_time_out_or_return_their_value() {
    everywhere(|| {
        let drops = Drops::default();
        let token = drops.token();
        let start = Instant::now();
        runtime::block_on(async {
            let late = timeout_async(3 * MILLI, async move {
                let _token = token;
                pending::<()>().await;
            });
            assert_eq!(late.await, Err(Elapsed));
            assert!(start.elapsed() >= 3 * MILLI);
            assert_eq!(timeout_async(HOUR, async { 5 }).await, Ok(5));
            assert_eq!(timeout_async(Duration::ZERO, async { 6 }).await, Ok(6), "the future is polled first");
            assert_eq!(timeout_async(Duration::ZERO, pending::<()>()).await, Err(Elapsed));
            assert_eq!(timeout_async(Duration::ZERO, sleep_async(HOUR)).await, Err(Elapsed));
            assert_eq!(timeout_async(Duration::MAX, sleep_async(MILLI)).await, Ok(()));
            let nested = timeout_async(HOUR, timeout_async(MILLI, pending::<()>())).await;
            assert_eq!(nested, Ok(Err(Elapsed)));
            let nested = timeout_async(MILLI, timeout_async(HOUR, pending::<()>())).await;
            assert_eq!(nested, Err(Elapsed));
            // A type that implements `IntoFuture`, and a time-out as part of a race.
            assert_eq!(timeout_async(HOUR, std::future::ready(7)).await, Ok(7));
            let first =
                either(timeout_async(HOUR, pending::<()>()), timeout_async(MILLI, pending::<()>())).await;
            assert_eq!(first, Err(Elapsed));
            let joined = timeout_async(HOUR, spawn(async { 8 })).await.unwrap().unwrap();
            assert_eq!(joined, 8);
        });
        assert_eq!(drops.count(), 1, "the future is dropped");
        let spawned = spawn(async {
            let late = timeout_async(MILLI, sleep_async(HOUR)).await;
            (late, timeout_async(HOUR, sleep_async(MILLI)).await)
        });
        assert_eq!(spawned.join().unwrap(), (Err(Elapsed), Ok(())));
    });
    assert_eq!(drive_on_plain_thread(timeout_async(MILLI, pending::<()>())), Err(Elapsed));
    assert_eq!(drive_on_plain_thread(timeout_async(HOUR, sleep_async(MILLI))), Ok(()));
}

#[test]
fn the_time_of_timeout_async_counts_from_its_call() {
    on(2, || {
        let late = timeout_async(3 * MILLI, pending::<()>());
        runtime::sleep(5 * MILLI);
        assert_eq!(runtime::block_on(tests::futures::both(late, async { 5 })), (Err(Elapsed), 5));
    });
}

#[test]
fn a_timeout_inside_a_poll() {
    on_each(|| {
        let threads: Vec<_> = (0..50)
            .map(|i| {
                spawn(async move {
                    sleep_async(Duration::from_micros(i)).await;
                    let result = timeout(MILLI, || runtime::sleep(HOUR));
                    sleep_async(2 * MILLI).await;
                    // The time-out has no effect on later waits.
                    sleeps_at_least(MILLI);
                    result
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Err(Elapsed)));
    });
}

#[test]
fn a_sleep_future_beside_a_timeout_of_the_same_g() {
    on_each(|| {
        runtime::block_on(async {
            let start = Instant::now();
            let mut sleep = sleep_async(50 * MILLI);
            // After its first poll, the sleep uses the green thread's timer, which the park with a time-out
            // needs too.
            assert!(tests::futures::poll_once(&mut sleep).await.is_none());
            assert_eq!(timeout(MILLI, || runtime::sleep(HOUR)), Err(Elapsed));
            sleep.await;
            assert!(start.elapsed() >= 50 * MILLI);
        });
    });
}

#[test]
fn times_that_are_over_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            loop {
                sleep_async(Duration::ZERO).await;
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            loop {
                assert_eq!(timeout_async(Duration::ZERO, pending::<()>()).await, Err(Elapsed));
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            loop {
                assert_eq!(timeout_async(HOUR, sleep_async(Duration::ZERO)).await, Ok(()));
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let timer = runtime::time::Timer::new(Duration::ZERO);
            loop {
                timer.fired_async().await;
                timer.reset(Duration::ZERO);
            }
        })
    });
}

/// A time-out around a mask ends the next wait after the mask. A time-out inside ends waits inside.
#[test]
fn uncancellable_code_is_not_timed_out() {
    everywhere(|| {
        let start = Instant::now();
        let (slept, inner) = (Cell::new(false), Cell::new(None));
        let result = timeout(MILLI, || {
            thread::uncancellable(|| {
                sleeps_at_least(3 * MILLI);
                slept.set(true);
                inner.set(Some(timeout(MILLI, || runtime::sleep(HOUR))));
                sleeps_at_least(MILLI);
                // A longer time-out inside than outside, and a mask in that.
                let nested = timeout(2 * MILLI, || {
                    thread::uncancellable(|| sleeps_at_least(3 * MILLI));
                    runtime::sleep(HOUR);
                });
                assert_eq!(nested, Err(Elapsed));
                sleeps_at_least(MILLI);
            });
            runtime::sleep(HOUR);
        });
        assert_eq!((result, slept.get(), inner.get()), (Err(Elapsed), true, Some(Err(Elapsed))));
        assert!(start.elapsed() < Duration::from_secs(20));
        // What the masked code returns late is not lost.
        let late = timeout(MILLI, || {
            thread::uncancellable(|| {
                runtime::sleep(2 * MILLI);
                7
            })
        });
        assert_eq!(late, Ok(7));
        // A panic passes out, and the time-out holds again.
        let caught = timeout(MILLI, || {
            let payload =
                catch_unwind(|| thread::uncancellable(|| resume_unwind(Box::new(7u32)))).unwrap_err();
            assert_eq!(payload.downcast_ref::<u32>(), Some(&7));
            runtime::sleep(HOUR);
        });
        assert_eq!(caught, Err(Elapsed));
        sleeps_at_least(MILLI);
    });
}
