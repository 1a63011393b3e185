//! Runtimes: several in a process, and the end of a runtime, which leaves nothing behind.

use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::{Builder, Handle, spawn, thread};
use tests::{Drops, Watchdog, runtime, wait_until, with, with_built};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn several_runtimes_side_by_side() {
    let _dog = Watchdog::new();
    let runtimes: Vec<_> = (1..=4).map(runtime).collect();
    let handles: Vec<Handle> = runtimes.iter().map(|runtime| runtime.handle()).collect();
    let threads: Vec<_> = runtimes
        .iter()
        .map(|runtime| {
            let handles = handles.clone();
            runtime.spawn(move || {
                let mine = Handle::current().procs();
                let others = handles.iter().map(|other| {
                    let asked = other.spawn(|| {
                        runtime::sleep(Duration::from_micros(200));
                        Handle::current().procs()
                    });
                    asked.join().unwrap()
                });
                (mine, others.collect::<Vec<_>>())
            })
        })
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), (i + 1, vec![1, 2, 3, 4]));
    }
}

#[test]
fn block_on_crosses_runtimes() {
    with(1, |one| {
        let two = runtime(2);
        let (to_two, to_one) = (two.handle(), one.handle());
        let procs = one.block_on(move || {
            let there = to_two
                .block_on(|| to_one.block_on(|| Handle::current().procs()) * 10 + Handle::current().procs());
            there * 10 + Handle::current().procs()
        });
        assert_eq!(procs, 121);
    });
}

#[test]
fn dropping_a_runtime_cancels_its_green_threads_and_runs_destructors() {
    let _dog = Watchdog::new();
    for procs in tests::PROCS {
        let (drops, parked) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let runtime = runtime(procs);
        for i in 0..300 {
            let (token, parked) = (drops.token(), parked.clone());
            runtime.spawn(move || {
                let _token = token;
                parked.fetch_add(1, SeqCst);
                match i % 4 {
                    0 => thread::park(),
                    1 => runtime::sleep(HOUR),
                    2 => drop(spawn(|| runtime::sleep(HOUR)).join()),
                    _ => runtime::block_on(std::future::pending()),
                }
            });
        }
        wait_until("all threads wait", || parked.load(SeqCst) == 300);
        drop(runtime);
        assert_eq!((drops.count(), drops.alive()), (300, 0));
    }
}

#[test]
fn dropping_a_runtime_at_once_drops_what_never_began() {
    let _dog = Watchdog::new();
    for round in 0..30 {
        let drops = Drops::default();
        let runtime = runtime(1 + round % 3);
        for _ in 0..100 {
            let (closure, future) = (drops.token(), drops.token());
            runtime.spawn(move || drop(closure));
            runtime.spawn(async move { drop(future) });
        }
        drop(runtime);
        assert_eq!((drops.count(), drops.alive()), (200, 0));
    }
}

#[test]
fn waits_for_sockets_are_cancelled_with_their_runtime() {
    let _dog = Watchdog::new();
    for _ in 0..20 {
        let runtime = runtime(2);
        let waits = Arc::new(AtomicUsize::new(0));
        let listener = runtime.block_on(|| TcpListener::bind("127.0.0.1:0").unwrap());
        let addr = listener.local_addr().unwrap();
        let counts = waits.clone();
        runtime.spawn(move || {
            let client = TcpStream::connect(addr).unwrap();
            counts.fetch_add(1, SeqCst);
            std::io::Read::read(&mut &client, &mut [0])
        });
        let counts = waits.clone();
        runtime.spawn(move || {
            let (_kept, _) = listener.accept().unwrap();
            counts.fetch_add(1, SeqCst);
            listener.accept().map(drop)
        });
        wait_until("both threads wait", || waits.load(SeqCst) == 2);
        drop(runtime);
    }
}

#[test]
fn shutdown_timeout_returns_true_if_all_have_ended() {
    let _dog = Watchdog::new();
    // A time beyond the clock never expires.
    for time in [Duration::from_secs(30), Duration::MAX] {
        let quiet = runtime(2);
        quiet.spawn(|| runtime::sleep(HOUR));
        assert!(quiet.shutdown_timeout(time));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for procs in [1, 2] {
        let hogged = runtime(procs);
        let (begun, told) = (Arc::new(AtomicBool::new(false)), stop.clone());
        let begins = begun.clone();
        let hog = hogged.spawn(move || {
            begins.store(true, SeqCst);
            while !told.load(SeqCst) {
                std::hint::spin_loop();
            }
            11
        });
        wait_until("the thread computes", || begun.load(SeqCst));
        let start = Instant::now();
        assert!(!hogged.shutdown_timeout(Duration::from_millis(30)), "a hog does not end");
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert!(!hog.is_finished());
    }
    stop.store(true, SeqCst);
}

#[test]
fn a_drop_waits_for_a_thread_that_catches_its_cancellation() {
    let _dog = Watchdog::new();
    let runtime = runtime(1);
    let (parked, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (parks, ends) = (parked.clone(), ended.clone());
    runtime.spawn(move || {
        for _ in 0..5 {
            parks.store(true, SeqCst);
            let _ = std::panic::catch_unwind(thread::park);
        }
        // The thread spawns another thread, which is cancelled in turn.
        let late = spawn(|| runtime::sleep(HOUR));
        let _ = std::panic::catch_unwind(AssertUnwindSafe(move || late.join()));
        tests::spin(Duration::from_millis(20));
        ends.store(true, SeqCst);
    });
    wait_until("the thread is parked", || parked.load(SeqCst));
    drop(runtime);
    assert!(ended.load(SeqCst));
}

#[test]
fn invalid_settings_are_refused_with_an_explanation() {
    let page = 4096;
    for (what, builder) in [
        ("no Ps", Builder::new().procs(0)),
        ("too many Ps", Builder::new().procs(usize::MAX)),
        ("no stack", Builder::new().stack_size(0)),
        ("less than a page", Builder::new().stack_size(page - 1)),
        ("an endless stack", Builder::new().stack_size(usize::MAX)),
        ("no threads", Builder::new().max_threads(0)),
        ("no blocking threads", Builder::new().blocking_threads(0)),
        ("an impossible name", Builder::new().thread_name("a\0b")),
    ] {
        let error = builder.build().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert!(error.to_string().len() > 20, "{what}: {error}");
    }
}

#[test]
fn extreme_settings_work() {
    for builder in [
        Builder::new().procs(64),
        Builder::new().procs(1).max_threads(1),
        Builder::new().procs(4).max_threads(2),
        Builder::new().stack_size(64 << 20),
        Builder::new().stack_size(64 << 10).thread_name(""),
        Builder::new().thread_name("a name that is much longer than the system keeps"),
    ] {
        with_built(builder, |runtime| {
            let sum = runtime.block_on(|| {
                let threads: Vec<_> = (0..100)
                    .map(|i| {
                        spawn(move || {
                            runtime::sleep(Duration::from_micros(i));
                            i
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
            });
            assert_eq!(sum, 4950);
        });
    }
}

#[test]
fn many_blocking_threads_with_few_os_threads() {
    for max in [1, 2, 4] {
        with_built(Builder::new().procs(2).max_threads(max), |runtime| {
            runtime.block_on(|| {
                let threads: Vec<_> = (0..16)
                    .map(|i| {
                        spawn(move || {
                            if i % 2 == 0 {
                                runtime::blocking(|| std::thread::sleep(Duration::from_millis(5)));
                            } else {
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            runtime::sleep(Duration::from_micros(100));
                            i
                        })
                    })
                    .collect();
                assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>(), 120);
            });
            assert!(runtime.handle().metrics().threads <= max);
        });
    }
}

#[test]
fn destructors_that_wait_with_few_os_threads() {
    tests::quiet_panics_on_purpose();
    with_built(Builder::new().procs(2).max_threads(4), |runtime| {
        runtime.block_on(|| {
            // Each destructor keeps its OS thread while it waits. Three at a time leave an OS thread for the
            // others.
            for _ in 0..10 {
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        spawn(|| {
                            let _waits = tests::OnDrop(|| runtime::sleep(Duration::from_micros(500)));
                            panic!("{}", tests::ON_PURPOSE)
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| assert!(thread.join().is_err()));
            }
        });
    });
}

/// Does work of all kinds.
#[cfg(target_os = "linux")]
fn work(runtime: &runtime::Runtime) {
    runtime.block_on(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let client = spawn(move || TcpStream::connect(addr).unwrap());
        drop(listener.accept().unwrap());
        let threads: Vec<_> = (0..30)
            .map(|i| {
                spawn(move || match i % 3 {
                    0 => runtime::sleep(Duration::from_micros(5 * i)),
                    1 => runtime::blocking(|| std::thread::sleep(Duration::from_micros(5 * i))),
                    _ => spawn(runtime::time::sleep_async(Duration::from_micros(5 * i))).join().unwrap(),
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(client.join().unwrap());
        thread::Builder::new().stack_size(1 << 20).spawn(|| ()).unwrap().join().unwrap();
        // These threads are left behind, to be cancelled.
        spawn(|| runtime::sleep(HOUR));
        spawn(runtime::time::sleep_async(HOUR));
        drop(spawn(thread::park));
    });
}

/// What a runtime might leave behind in its process.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Belongings {
    threads: usize,
    descriptors: usize,
    mappings: usize,
    resident_bytes: usize,
}

#[cfg(target_os = "linux")]
impl Belongings {
    fn now() -> Belongings {
        Belongings {
            threads: tests::system::threads(),
            descriptors: tests::system::descriptors(),
            mappings: tests::system::mappings(),
            resident_bytes: tests::system::resident_bytes(),
        }
    }
}

/// A thousand runtimes with work of all kinds, some in turn and some at the same time.
#[test]
#[cfg(target_os = "linux")]
fn a_thousand_runtimes_leave_nothing_behind() {
    // Starting and ending thousands of OS threads takes minutes on a busy machine.
    let patient = || tests::Watchdog::after(Duration::from_secs(600));
    tests::child::passes_under(patient, "a_thousand_runtimes_leave_nothing_behind", "", || {
        let rounds = |n: usize| {
            for i in 0..n / 4 {
                work(&runtime(1 + i % 3));
                let together: Vec<_> = (0..3).map(|j| runtime(1 + (i + j) % 3)).collect();
                together.iter().for_each(work);
            }
        };
        rounds(60);
        let before = Belongings::now();
        rounds(1000);
        let after = Belongings::now();
        eprintln!("a_thousand_runtimes_leave_nothing_behind: {before:?} -> {after:?}");
        assert_eq!((after.threads, after.descriptors), (before.threads, before.descriptors));
        // The C library keeps the stacks of up to 20 ended threads, in two mappings each.
        assert!(after.mappings <= before.mappings + 48, "{before:?} -> {after:?}");
        // AddressSanitizer keeps freed memory.
        let more = if cfg!(asan) { 300 << 20 } else { 4 << 20 };
        assert!(after.resident_bytes < before.resident_bytes + more, "{before:?} -> {after:?}");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn os_threads_have_ended_when_the_drop_returns() {
    tests::child::passes("os_threads_have_ended_when_the_drop_returns", "", || {
        for i in 0..100 {
            let runtime = Builder::new().procs(1 + i % 8).thread_name("leaves").build().unwrap();
            runtime.block_on(|| {
                let threads: Vec<_> =
                    (0..10).map(|_| spawn(|| runtime::sleep(Duration::from_micros(100)))).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            drop(runtime);
            assert_eq!(tests::system::threads_named("leaves"), Vec::<String>::new());
        }
    });
}

#[test]
fn a_socket_of_another_runtime() {
    use std::io::{Read, Write};
    for procs in [1, 2] {
        with(procs, |runtime| {
            let echo = |mut stream: TcpStream| {
                let (home, mut byte) = (Handle::current().procs(), [0]);
                while stream.read(&mut byte).unwrap() == 1 {
                    assert_eq!(Handle::current().procs(), home, "the thread stays in its own runtime");
                    runtime::sleep(Duration::from_micros(50));
                    stream.write_all(&byte).unwrap();
                }
            };
            with(7, |other| {
                let pairs: Vec<_> = (0..10)
                    .map(|_| {
                        other.block_on(|| {
                            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                            (client, listener.accept().unwrap().0)
                        })
                    })
                    .collect();
                let threads: Vec<_> = pairs
                    .into_iter()
                    .map(|(mut client, server)| {
                        let server = runtime.spawn(move || echo(server));
                        let client = other.spawn(move || {
                            for i in 0..100 {
                                client.write_all(&[i]).unwrap();
                                let mut byte = [0];
                                client.read_exact(&mut byte).unwrap();
                                assert_eq!(byte, [i]);
                            }
                        });
                        (client, server)
                    })
                    .collect();
                for (client, server) in threads {
                    client.join().unwrap();
                    server.join().unwrap();
                }
            });
            let handle = runtime.handle();
            wait_until("each thread has ended in its own runtime", || {
                handle.metrics().ended == handle.metrics().spawned
            });
        });
    }
}

/// After the end of its runtime, no thread polls the socket. Every waiter, green or plain, gets an error;
/// later waiters too.
#[test]
fn a_socket_whose_runtime_ends_fails_its_waiters() {
    let owner = Builder::new().procs(1).build().unwrap();
    let user = Builder::new().procs(1).build().unwrap();
    let (listener, idle) = owner
        .block_on(|| (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()));
    let listener = Arc::new(listener);
    let green = user.spawn({
        let listener = listener.clone();
        move || listener.accept().unwrap_err().kind()
    });
    let plain = std::thread::spawn(move || listener.accept().unwrap_err().kind());
    std::thread::sleep(Duration::from_millis(20));
    assert!(!green.is_finished() && !plain.is_finished());
    drop(owner);
    assert_eq!(green.join().unwrap(), ErrorKind::NotConnected);
    assert_eq!(plain.join().unwrap(), ErrorKind::NotConnected);
    assert_eq!(user.block_on(|| idle.accept().unwrap_err().kind()), ErrorKind::NotConnected);
}

/// A spawn from outside during the end of a runtime gives a thread that ends, or panics with the reason. No
/// spawned thread is left without running or ending.
#[test]
fn outside_spawns_during_the_end_are_cancelled_or_refused() {
    for round in 0..50 {
        let runtime = Builder::new().procs(2).build().unwrap();
        let handle = runtime.handle();
        let spawner = std::thread::spawn(move || {
            tests::quiet_panics_on_purpose();
            for spawned in 0.. {
                let handle = &handle;
                let thread =
                    std::panic::catch_unwind(AssertUnwindSafe(|| handle.spawn(|| runtime::sleep(HOUR))));
                match thread {
                    Ok(thread) if spawned % 3 == 0 => {
                        assert!(thread.join().is_err(), "the sleep lasts an hour")
                    }
                    Ok(_) => {}
                    Err(panic) => return panic.downcast_ref::<String>().unwrap().contains("shut down"),
                }
            }
            false
        });
        std::thread::sleep(Duration::from_micros(round * 40));
        drop(runtime);
        assert!(spawner.join().unwrap());
    }
}
