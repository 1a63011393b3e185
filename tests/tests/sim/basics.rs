//! `runtime::sim`: simulated time, deadlocks, replays, determinism, and what a simulation refuses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use runtime::channel;
use runtime::sim::{self, Builder, Strategy};
use runtime::sync::{Condvar, Mutex, RwLock, Semaphore};
use runtime::time::{Elapsed, sleep_async, timeout};
use runtime::{scope, select, sleep, spawn, thread, yield_now};

fn strategies() -> [Strategy; 4] {
    [
        Strategy::Random,
        Strategy::Pct { depth: 3 },
        Strategy::RoundRobin,
        Strategy::Replay("3:1,9:1,20:2".parse().unwrap()),
    ]
}

#[test]
fn time_jumps_when_all_wait() {
    for strategy in strategies() {
        let real = Instant::now();
        let slept = Builder::new().strategy(strategy).run(1, || {
            let (start, date) = (Instant::now(), SystemTime::now());
            let sleepers: Vec<_> =
                (1..=24).map(|h| spawn(move || sleep(Duration::from_secs(h * 3600)))).collect();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            assert_eq!(date.elapsed().unwrap(), start.elapsed());
            start.elapsed()
        });
        assert_eq!(slept, Duration::from_secs(24 * 3600));
        assert!(real.elapsed() < Duration::from_secs(3600));
    }
}

#[test]
fn time_stands_still_while_a_thread_can_run() {
    sim::run(1, || {
        let start = Instant::now();
        let worker = spawn(|| (0..1000).for_each(|_| yield_now()));
        while !worker.is_finished() {
            yield_now();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn the_simulated_date_is_always_the_same() {
    let date = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(sim::run(1, date), sim::run(2, date));
    assert_eq!(sim::run(1, date), Duration::from_secs(1_893_456_000));
}

/// A program that uses most of what waits, and returns what it has seen.
fn busy() -> Vec<u64> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (s, r) = channel::bounded(2);
    let (never, nothing) = channel::bounded::<u64>(0);
    let (rw, turns, bell) = (RwLock::new(0), Semaphore::new(2), Condvar::new());
    scope(|scope| {
        for i in 0..4_u64 {
            let (s, seen, rw, turns) = (s.clone(), seen.clone(), &rw, &turns);
            scope.spawn(move || {
                for j in 0..3 {
                    let _turn = turns.acquire().unwrap();
                    *rw.write() += 1;
                    s.send(10 * i + j).unwrap();
                    sleep(Duration::from_micros(i));
                    seen.lock().push(*rw.read());
                }
            });
        }
        drop(s);
        let (told, nothing, bell) = (seen.clone(), &nothing, &bell);
        scope.spawn(move || {
            let mut open = true;
            while open {
                select! {
                    recv(r) -> message => match message {
                        Ok(message) => told.lock().push(message),
                        Err(_) => open = false,
                    },
                    recv(nothing) -> _ => {},
                    default(Duration::from_millis(1)) => told.lock().push(1000),
                }
            }
            bell.notify_all();
        });
        let mut seen = seen.lock();
        while seen.len() < 24 {
            bell.wait_for(&mut seen, Duration::from_millis(5));
        }
        let late = timeout(Duration::from_millis(3), || nothing.recv());
        assert_eq!(late, Err(Elapsed));
    });
    drop(never);
    let keys: HashMap<u64, ()> = (0..8).map(|n| (n, ())).collect();
    let mut seen = seen.lock().clone();
    seen.extend(keys.into_keys());
    seen.push(sim::random());
    seen
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for strategy in strategies() {
        let run = |seed| Builder::new().strategy(strategy.clone()).run(seed, busy);
        let first = run(5);
        for _ in 0..5 {
            assert_eq!(run(5), first, "{strategy:?}");
        }
    }
    let random: Vec<_> = (0..10).map(|seed| sim::run(seed, busy)).collect();
    assert!(random.iter().any(|seen| *seen != random[0]), "ten seeds give one run");
}

#[test]
fn two_runs_have_the_same_steps() {
    let report = Builder::new().check_determinism(true).explore(50, || drop(busy()));
    assert_eq!(report.runs(), 50);
    assert!(report.steps() > 50 * 20);
}

#[test]
fn a_run_that_depends_on_the_outside_is_found() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let failure = Builder::new()
        .check_determinism(true)
        .try_explore(1, || {
            let more = RUNS.fetch_add(1, Ordering::Relaxed);
            let thread = spawn(yield_now);
            (0..more).for_each(|_| yield_now());
            thread.join().unwrap();
        })
        .unwrap_err();
    assert!(failure.message().contains("two runs with the same seed differ: step "), "{failure}");
    // The stack of the first step that differs: here the scheduler chooses, because a green thread has
    // yielded.
    assert!(failure.message().contains("next_simulated"), "{failure}");
}

#[test]
fn a_deadlock_is_found_at_once() {
    let failure = Builder::new()
        .try_explore(1000, || {
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (a2, b2) = (a.clone(), b.clone());
            // A sleeper would hide the deadlock from a search that looks for timers.
            let thread = spawn(move || {
                let _a = a2.lock();
                let _b = b2.lock();
            });
            {
                let _b = b.lock();
                let _a = a.lock();
            }
            thread.join().unwrap();
        })
        .unwrap_err();
    assert!(failure.message().contains("all green threads are asleep - deadlock!"), "{failure}");
    assert!(failure.message().contains("a mutex"), "the dump says what they wait for: {failure}");
    assert!(failure.schedule().len() <= 2, "{failure}");
}

/// What a cancelled main function drops may wait for what never comes, and cannot be cancelled again.
#[test]
fn a_wait_that_does_not_unwind_fails_the_run_and_nothing_else() {
    struct Waits<'a>(&'a AtomicU64);

    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            thread::park();
            self.0.fetch_add(1000, Ordering::Relaxed);
        }
    }

    let drops = AtomicU64::new(0);
    let failure = Builder::new()
        .try_explore(3, || {
            let _waits = Waits(&drops);
            let sleeper = spawn(thread::park);
            sleeper.join().unwrap();
        })
        .unwrap_err();
    assert!(failure.message().contains("all green threads are asleep - deadlock!"), "{failure}");
    let begun = drops.load(Ordering::Relaxed);
    assert!((1..1000).contains(&begun), "a green thread that was given up has run on: {begun}");
    // What comes after works as before.
    sim::run(1, || spawn(|| sleep(Duration::from_secs(1))).join().unwrap());
    assert_eq!(runtime::block_on(|| spawn(|| 42).join().unwrap()), 42);
    assert_eq!(drops.load(Ordering::Relaxed), begun);
}

#[test]
fn a_failure_is_replayed_by_its_schedule() {
    let racy = || {
        let count = Arc::new(sim::atomic::AtomicU64::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let count = count.clone();
                spawn(move || count.store(count.load(Ordering::SeqCst) + 1, Ordering::SeqCst))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 3);
    };
    for strategy in [Strategy::Random, Strategy::Pct { depth: 2 }, Strategy::Exhaustive { preemptions: 1 }] {
        let failure = Builder::new().strategy(strategy).try_explore(1000, racy).unwrap_err();
        let text = failure.to_string();
        let (_, line) = text.rsplit_once("RUNTIME_SIM_SCHEDULE=").unwrap();
        let replay = Builder::new().strategy(Strategy::Replay(line.parse().unwrap()));
        let again = replay.shrink(false).try_explore(1, racy).unwrap_err();
        assert_eq!(again.message(), failure.message());
        assert_eq!(again.schedule(), failure.schedule());
    }
}

/// Fails with some seeds.
fn loses_increments() {
    let count = Arc::new(Mutex::new(0));
    let other = count.clone();
    let add = |count: &Mutex<i32>| {
        let read = *count.lock();
        *count.lock() = read + 1;
    };
    let thread = spawn(move || add(&other));
    (0..5).for_each(|_| yield_now());
    add(&count);
    thread.join().unwrap();
    assert_eq!(*count.lock(), 2);
}

#[test]
fn any_number_of_os_threads_finds_the_same_failure() {
    let by = |threads| {
        let failure = Builder::new().threads(threads).try_explore(1000, loses_increments).unwrap_err();
        (failure.seed(), failure.runs(), failure.schedule().clone())
    };
    let one = by(1);
    assert!(one.0 > 0, "the first seeds do not fail");
    assert_eq!([by(2), by(5)], [one.clone(), one]);
}

#[test]
fn runs_of_an_exploration_are_parallel() {
    let begun = AtomicU64::new(0);
    Builder::new().threads(3).explore(3, || {
        begun.fetch_add(1, Ordering::Relaxed);
        // Each run waits for the others, in real time.
        while begun.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn an_exhaustive_search_ends_and_finds_what_a_seed_may_miss() {
    let order = |wanted: &'static [u64]| {
        move || {
            let (s, r) = channel::unbounded();
            let threads: Vec<_> = (0..3_u64)
                .map(|i| {
                    let s = s.clone();
                    spawn(move || s.send(i).unwrap())
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_ne!(r.try_iter().collect::<Vec<_>>(), wanted);
        }
    };
    let exhaustive = Builder::new().strategy(Strategy::Exhaustive { preemptions: 1 });
    for wanted in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        exhaustive.try_explore(1, order(Box::leak(Box::new(wanted)))).unwrap_err();
    }
    let report = exhaustive.explore(1, order(&[0, 1]));
    assert!(report.runs() > 6, "{report:?}");
}

#[test]
fn a_loop_without_end_is_stopped() {
    for forever in
        [yield_now as fn(), || drop(spawn(|| ()).join()), || _ = channel::bounded::<()>(1).0.try_send(())]
    {
        let failure = Builder::new().max_steps(500).shrink(false).try_explore(1, || {
            spawn(move || {
                loop {
                    forever();
                }
            });
            loop {
                forever();
            }
        });
        assert!(failure.unwrap_err().message().contains("500 steps"));
    }
}

#[test]
fn green_threads_that_are_left_over_are_cancelled() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            sleep(Duration::from_secs(100));
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let report = sim::explore(20, || {
        for i in 0..3 {
            let counts = Counts;
            spawn(move || {
                let _counts = counts;
                sleep(Duration::from_secs(i));
                // The time does not go on while this runs.
                loop {
                    yield_now();
                }
            });
        }
        (0..20).for_each(|_| yield_now());
    });
    assert_eq!(report.runs(), 20);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 60);
}

#[test]
fn a_panic_that_is_not_seen_fails_the_run() {
    let failure = Builder::new().try_explore(1, || {
        drop(spawn(|| panic!("unseen")));
        sleep(Duration::from_secs(1));
    });
    assert!(failure.unwrap_err().message().contains("its result was dropped unseen: unseen"));
    // A panic that the runtime contains in a destructor.
    let failure = Builder::new().try_explore(1, || {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("contained");
            }
        }
        let thread = spawn(|| Bomb);
        sleep(Duration::from_secs(1));
        drop(thread);
        sleep(Duration::from_secs(1));
    });
    assert!(failure.unwrap_err().message().contains("contained"));
    // A joined panic is a result.
    sim::explore(5, || assert!(spawn(|| panic!("seen")).join().is_err()));
}

#[test]
fn a_thread_of_the_system_is_refused() {
    let failure = Builder::new().shrink(false).try_explore(1, || {
        _ = std::thread::Builder::new().spawn(|| ());
        sleep(Duration::from_secs(1));
    });
    assert!(failure.unwrap_err().message().contains("cannot control a thread of the system"));
}

#[test]
fn a_wait_for_a_real_socket_is_named() {
    let failure = Builder::new().shrink(false).try_explore(1, || {
        let listener = sim::real(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        drop(runtime::net::TcpListener::from(listener).accept());
    });
    assert!(failure.unwrap_err().message().contains("waits for a socket of the system"));
}

#[test]
fn pinned_threads_and_futures_are_simulated_too() {
    let report = sim::explore(200, || {
        let (s, r) = channel::bounded(0);
        let pinned = spawn(move || {
            let _pin = thread::pin();
            sleep(Duration::from_secs(1));
            s.send(1).unwrap();
        });
        let future = spawn(async move {
            sleep_async(Duration::from_secs(2)).await;
            r.recv_async().await.unwrap()
        });
        assert_eq!(future.join().unwrap(), 1);
        pinned.join().unwrap();
    });
    assert_eq!(report.runs(), 200);
}

#[test]
fn the_value_of_the_main_function_is_returned() {
    assert!(!sim::is_simulated());
    assert_eq!(sim::run(9, || (sim::is_simulated(), String::from("value"))), (true, "value".to_string()));
}

#[test]
#[should_panic(expected = "must be called by the code of a simulation")]
fn random_numbers_outside_are_refused() {
    _ = sim::random();
}

#[test]
fn code_beside_a_simulation_is_not_disturbed() {
    let ticks = std::thread::spawn(|| {
        let start = Instant::now();
        runtime::block_on(|| sleep(Duration::from_millis(50)));
        start.elapsed()
    });
    sim::explore(50, || sleep(Duration::from_secs(1000)));
    let took = ticks.join().unwrap();
    assert!((Duration::from_millis(50)..Duration::from_secs(900)).contains(&took), "{took:?}");
}

#[test]
fn a_sleep_of_the_os_thread_is_refused() {
    let real = Instant::now();
    let failure = Builder::new().shrink(false).try_explore(1, || {
        std::thread::sleep(Duration::from_secs(100));
        sleep(Duration::from_secs(1));
    });
    let failure = failure.unwrap_err();
    assert!(failure.message().contains("cannot control a sleep of the OS thread"), "{failure}");
    assert!(
        failure.message().contains("a_sleep_of_the_os_thread_is_refused"),
        "the stack is missing: {failure}"
    );
    assert!(real.elapsed() < Duration::from_secs(90));
    // Outside, it sleeps.
    std::thread::sleep(Duration::from_millis(20));
    assert!(real.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_device_with_random_bytes_is_refused() {
    for path in ["/dev/urandom", "/dev/random"] {
        let failure = Builder::new().shrink(false).try_explore(1, || {
            drop(std::fs::File::open(path).unwrap());
            sleep(Duration::from_secs(1));
        });
        assert!(failure.unwrap_err().message().contains("random bytes of the system"));
        drop(std::fs::File::open(path).unwrap());
    }
}

unsafe extern "C" {
    safe fn time(to: Option<&mut i64>) -> i64;
    safe fn gettimeofday(time: &mut [i64; 2], zone: Option<&mut i64>) -> i32;
    fn getentropy(bytes: *mut u8, len: usize) -> i32;
}

#[test]
fn the_other_clocks_of_libc_are_simulated_too() {
    let times = || {
        sleep(Duration::from_micros(1_500_007));
        let (mut now, mut there) = ([0; 2], 0);
        assert_eq!(gettimeofday(&mut now, None), 0);
        assert_eq!(time(Some(&mut there)), there);
        (there, now)
    };
    assert_eq!(sim::run(1, times), (1_893_456_001, [1_893_456_001, 500_007]));
    let (here, [seconds, _]) = {
        let mut now = [0; 2];
        gettimeofday(&mut now, None);
        (time(None), now)
    };
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((here - date).abs() < 5 && (seconds - date).abs() < 5);
}

#[test]
fn random_bytes_of_libc_are_simulated() {
    let bytes = || {
        let mut bytes = [0_u8; 32];
        // SAFETY: the place has 32 bytes.
        assert_eq!(unsafe { getentropy(bytes.as_mut_ptr(), 32) }, 0);
        bytes
    };
    // As the crate `getrandom` 0.2 asks.
    let by_number = || {
        let mut bytes = [0_u8; 32];
        // SAFETY: the place has 32 bytes.
        assert_eq!(unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), 32, 0) }, 32);
        bytes
    };
    for bytes in [bytes as fn() -> [u8; 32], by_number] {
        assert_eq!(sim::run(1, bytes), sim::run(1, bytes));
        assert_ne!(sim::run(1, bytes), sim::run(2, bytes));
        assert_ne!(bytes(), bytes());
    }
}

#[test]
fn a_clock_that_is_read_by_number_is_simulated() {
    let clock = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let to = &raw mut time;
        // SAFETY: the place is that of a `timespec`.
        assert_eq!(unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, to) }, 0);
        time.tv_sec
    };
    assert_eq!(sim::run(1, clock), 1_893_456_000);
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert!((clock() - date).abs() < 5, "outside, it is the system's");
    // SAFETY: the kernel refuses the clock before it looks at the place.
    let refused = unsafe { libc::syscall(libc::SYS_clock_gettime, 1234, 0) };
    assert_eq!((refused, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EINVAL)));
}

/// Waits for a lock of std that another green thread has while it sleeps. Does nothing but in a child
/// process.
#[test]
fn waits_for_a_lock_of_std() {
    if std::env::var_os(IN_CHILD).is_none() {
        return;
    }
    sim::run(1, || {
        let lock = Arc::new(std::sync::Mutex::new(()));
        let other = lock.clone();
        let holder = spawn(move || {
            let _held = other.lock().unwrap();
            sleep(Duration::from_secs(1));
        });
        sleep(Duration::from_millis(1));
        drop(lock.lock());
        holder.join().unwrap();
    });
}

const IN_CHILD: &str = "TESTS_WAITS_FOR_A_LOCK_OF_STD";

#[test]
fn a_wait_for_a_lock_of_std_is_named() {
    let mut program = tests::child::command("waits_for_a_lock_of_std");
    program.env(IN_CHILD, "1");
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("waits for a futex, such as that of std::sync::Mutex"),
        "{text}"
    );
    assert!(text.contains("sim::basics::waits_for_a_lock_of_std"), "the stack is missing: {text}");
}

#[test]
fn a_lock_of_std_that_is_free_soon_is_waited_for() {
    let lock = Arc::new(std::sync::Mutex::new(()));
    let (held, other) = (lock.lock().unwrap(), lock.clone());
    let simulation = std::thread::spawn(move || sim::run(1, move || drop(other.lock().unwrap())));
    std::thread::sleep(Duration::from_millis(100));
    drop(held);
    simulation.join().unwrap();
}

#[test]
fn dumps_of_other_threads_change_nothing() {
    let over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                drop(runtime::dump::Snapshot::take().unwrap());
            }
        });
        let result = Builder::new().check_determinism(true).try_explore(300, || drop(busy()));
        over.store(true, Ordering::Relaxed);
        result
    });
    result.unwrap();
}

#[test]
fn a_dump_in_a_simulation_tells_of_its_own_green_threads() {
    let outside = runtime::spawn(thread::park);
    let own = sim::run(1, || {
        let inside = spawn(thread::park);
        let all = runtime::dump::Snapshot::take().unwrap().green_threads;
        let expected = [thread::current().id(), inside.thread().id()].map(|id| id.as_u64().get());
        inside.thread().unpark();
        inside.join().unwrap();
        all.iter().map(|seen| seen.id).eq(expected)
    });
    outside.thread().unpark();
    outside.join().unwrap();
    assert!(own);
}

#[test]
fn a_local_set_runs_its_tasks_in_simulated_time() {
    for strategy in strategies() {
        let ends = Builder::new().strategy(strategy).run(1, || {
            let (set, start) = (thread::LocalSet::new(), Instant::now());
            let ends = Rc::new(RefCell::new(Vec::new()));
            for hours in [3, 1, 2] {
                let ends = ends.clone();
                set.spawn_local(async move {
                    sleep_async(Duration::from_secs(hours * 3600)).await;
                    ends.borrow_mut().push(start.elapsed());
                });
            }
            let other = spawn(|| sleep(Duration::from_secs(5400)));
            runtime::block_on_local(set);
            other.join().unwrap();
            ends.take()
        });
        assert_eq!(ends, [1, 2, 3].map(|hours| Duration::from_secs(hours * 3600)));
    }
}
