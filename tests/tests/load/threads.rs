//! OS threads: as many as block at a time, and only a few when none blocks.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, RwLock};
use std::time::{Duration, Instant};

use runtime::{Builder, Runtime, spawn};
use tests::{Watchdog, child, system, wait_until, with, with_built};

const SECOND: Duration = Duration::from_secs(1);
/// How long the tests wait: sysmon looks every five seconds, and ends a hundred OS threads a second that were
/// idle since the last look.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs `body` in a child process, with a runtime of two Ps and a watchdog with more time than usual.
fn alone(test: &str, builder: Builder, body: impl FnOnce(&Runtime)) {
    let body = || {
        let dog = Watchdog::after(3 * PATIENCE);
        let runtime = builder.procs(2).build().unwrap();
        dog.show(runtime.handle());
        body(&runtime);
        drop(runtime);
        assert_eq!(threads_of_runtimes(), 0);
    };
    child::run(test, "", body, |output| {
        assert!(output.status.success(), "{test}: {}\n{}", output.status, child::text(output));
        print!("{}", child::stderr(output));
    });
}

/// Returns the number of OS threads of runtimes, counted by name, with those of sysmon.
fn threads_of_runtimes() -> usize {
    system::threads_named("green").len()
}

/// Blocks the OS threads of `number` green threads at the same time.
fn block(runtime: &Runtime, number: usize) {
    let (begun, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(RwLock::new(())));
    let closed = open.write().unwrap();
    let blocked: Vec<_> = (0..number)
        .map(|_| {
            let (begun, open) = (begun.clone(), open.clone());
            runtime.spawn(move || {
                runtime::blocking(|| {
                    begun.fetch_add(1, SeqCst);
                    drop(open.read().unwrap());
                });
            })
        })
        .collect();
    wait_until("all threads block", || begun.load(SeqCst) == number);
    assert!(runtime.handle().metrics().threads >= number);
    drop(closed);
    blocked.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Waits until only as many OS threads are left as the runtime keeps for later.
fn threads_end(runtime: &Runtime) {
    let start = Instant::now();
    let few = runtime.handle().procs() + 8;
    while runtime.handle().metrics().threads > few {
        let metrics = runtime.handle().metrics();
        assert!(start.elapsed() < PATIENCE, "{} threads, {} idle", metrics.threads, metrics.idle_threads);
        std::thread::sleep(SECOND / 20);
    }
    eprintln!("threads_end: after {:?}", start.elapsed());
}

#[test]
fn os_threads_of_a_burst_of_blocking_calls_end() {
    alone("os_threads_of_a_burst_of_blocking_calls_end", Builder::new(), |runtime| {
        let mappings = system::mappings();
        block(runtime, 500);
        let all = || runtime.handle().metrics();
        // All OS threads are idle, except for the M in the netpoller.
        wait_until("all OS threads are idle", || {
            all().idle_threads + 1 >= all().threads && all().idle_procs == 2
        });
        let wakes = runtime.handle().metrics().sysmon_wakeups;
        threads_end(runtime);
        // No green thread ran in that time. Sysmon woke only to end OS threads, and now sleeps.
        let after = runtime.handle().metrics().sysmon_wakeups;
        assert!(after - wakes < 60, "sysmon woke {} times", after - wakes);
        wait_until("the system lists no more OS threads", || threads_of_runtimes() <= 12);
        let last = runtime.handle().metrics().sysmon_wakeups;
        std::thread::sleep(3 * SECOND);
        assert!(runtime.handle().metrics().sysmon_wakeups - last <= 1);
        // Two mappings for each kept OS thread, for each of 20 stacks that the C library keeps, and for each of 8
        // alternate stacks of ended OS threads.
        let now = system::mappings();
        // musl's `malloc` keeps small mappings, too.
        let malloc = if cfg!(target_env = "musl") { 100 } else { 0 };
        // Without marks, the guard of each stack is two mappings.
        let guards = if system::has_guard_marks() { 0 } else { 2 * 500 };
        assert!(now <= mappings + 96 + malloc + guards, "mappings: {mappings} -> {now}");
        // New OS threads are started when they are needed.
        block(runtime, 200);
        assert_eq!(runtime.block_on(|| spawn(|| 7).join().unwrap()), 7);
    });
}

#[test]
fn os_threads_end_while_others_work() {
    alone("os_threads_end_while_others_work", Builder::new(), |runtime| {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let worker = runtime.spawn(move || {
            let mut rounds = 0;
            while !stops.load(SeqCst) {
                spawn(|| runtime::sleep(Duration::from_millis(1))).join().unwrap();
                rounds += 1;
            }
            rounds
        });
        block(runtime, 300);
        threads_end(runtime);
        stop.store(true, SeqCst);
        assert!(worker.join().unwrap() > 1000);
    });
}

/// While sysmon sleeps until the next OS threads may end, a hog must wake it.
#[test]
fn a_hog_is_noticed_while_idle_os_threads_wait_to_end() {
    for procs in [1, 2] {
        with(procs, |runtime| {
            let start = Instant::now();
            block(runtime, 40);
            // All green threads have ended, and more OS threads are parked than are kept.
            std::thread::sleep(SECOND / 4);
            let stop = Arc::new(AtomicBool::new(false));
            let hogs: Vec<_> = (0..procs)
                .map(|_| {
                    let stop = stop.clone();
                    runtime.spawn(move || {
                        while !stop.load(SeqCst) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            runtime.spawn(move || stop.store(true, SeqCst)).join().unwrap();
            assert!(start.elapsed() < 9 * SECOND, "no hog was preempted");
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
    }
}

/// Ended OS threads no longer count against `max_threads`.
#[test]
fn ended_os_threads_make_room_under_the_limit() {
    alone("ended_os_threads_make_room_under_the_limit", Builder::new().max_threads(150), |runtime| {
        block(runtime, 140);
        threads_end(runtime);
        block(runtime, 140);
    });
}

/// Returns the calling thread's slice (sched_setattr(2)) in ns; 0 if the kernel does not say.
fn slice() -> u64 {
    // `struct sched_attr`: size and policy, flags, nice value and priority, runtime, deadline, period.
    let mut attr = [0u64; 6];
    // SAFETY: the kernel writes at most `size_of_val(&attr)` bytes to `attr`, which is exclusively borrowed.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of_val(&attr), 0) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    attr[3]
}

/// Returns the calling thread's slice and timer slack (prctl(2)), which threads and processes inherit.
fn attributes() -> String {
    // SAFETY: `prctl` with this option takes no pointer.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    format!("slice {} slack {slack};", slice())
}

/// The OS thread to which sysmon hands the P of a hog has a short slice, and the hog's has the usual one.
/// Each green thread here is served beside a hog, and then is the next hog on the same OS thread. Sysmon
/// hands the P to no thread if nothing is due at that moment: then the slice is the usual one.
#[test]
fn short_slices_are_for_the_threads_that_serve_beside_hogs() {
    const HOGS: usize = 20;
    let usual = slice();
    if usual == 0 {
        return println!("skipped: this kernel lets no thread set its slice (Linux 6.12 does)");
    }
    with_built(Builder::new().procs(1).sysmon(true), |runtime| {
        let served = Arc::new(AtomicUsize::new(0));
        let hogs: Vec<_> = (1..=HOGS)
            .map(|number| {
                let served = served.clone();
                runtime.spawn(move || {
                    let start = Instant::now();
                    while served.load(SeqCst) + 1 < number || slice() == usual && start.elapsed() < SECOND / 5
                    {
                        runtime::sleep(SECOND / 1000);
                    }
                    let served_in = slice();
                    served.fetch_add(1, SeqCst);
                    while served.load(SeqCst) == number && number < HOGS {
                        std::hint::spin_loop();
                    }
                    // Enters the runtime, which notices that the P is gone.
                    drop(runtime::time::after_func(3600 * SECOND, || ()));
                    (served_in, slice())
                })
            })
            .collect();
        let slices: Vec<_> = hogs.into_iter().map(|hog| hog.join().unwrap()).collect();
        let short = slices.iter().filter(|slices| slices.0 < usual).count();
        assert!(short >= HOGS / 4, "{slices:?}");
        assert!(slices[..HOGS - 1].iter().all(|slices| slices.1 == usual), "{slices:?}");
    });
}

const INHERIT: &str = "threads_and_processes_inherit_nothing_that_the_runtime_has_set";
const PRINTS: &str = "TESTS_PRINTS_ATTRIBUTES";

/// Returns a command that runs this test as a printer of its attributes, started by posix_spawn or by a fork.
fn printer(forks: bool) -> Command {
    let mut command = child::command(INHERIT);
    command.env(PRINTS, "1");
    if forks {
        // SAFETY: the closure does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
    }
    command
}

#[test]
fn threads_and_processes_inherit_nothing_that_the_runtime_has_set() {
    if std::env::var_os(PRINTS).is_some() {
        return println!("{}", attributes());
    }
    let usual = attributes();
    let check = move |of: &str| {
        assert_eq!(std::thread::spawn(attributes).join().unwrap(), usual, "a thread that {of} has started");
        for forks in [false, true] {
            let output = printer(forks).output().unwrap();
            assert!(child::text(&output).contains(&usual), "a process of {of}: {}", child::text(&output));
        }
    };
    with(2, |runtime| {
        let green = check.clone();
        runtime.spawn(move || green("a green thread")).join().unwrap();
        // Six of these threads run on OS threads that sysmon has started.
        let all = Arc::new(Barrier::new(8));
        let blocked: Vec<_> = (0..8)
            .map(|_| {
                let (check, all) = (check.clone(), all.clone());
                runtime.spawn(move || {
                    all.wait();
                    check("a green thread that has blocked")
                })
            })
            .collect();
        blocked.into_iter().for_each(|thread| thread.join().unwrap());
        // Sysmon retakes the P of each hog.
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let check = check.clone();
                runtime.spawn(move || {
                    tests::spin(Duration::from_millis(50));
                    check("a green thread that has computed")
                })
            })
            .collect();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}
