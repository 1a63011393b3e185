//! The stacks in dumps: each parked closure shows the functions in which it is parked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
#[cfg(target_arch = "x86_64")]
use std::{
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
};

use runtime::channel::{Receiver, bounded, unbounded};
use runtime::dump::{Snapshot, State};
use runtime::sync::Mutex;
use runtime::{Builder, JoinHandle, Migration, Runtime, spawn, thread};
use tests::{Random, Watchdog, on, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

fn dumped() -> String {
    let mut text = Vec::new();
    runtime::dump(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

/// Returns the functions on the stack of the thread with this name, innermost first; none while it does not
/// wait.
fn stack(name: &str) -> Vec<String> {
    let text = dumped();
    let mut lines = text.lines().skip_while(|line| !line.contains(&format!("'{name}': waits for ")));
    lines.next();
    let frames = lines.take_while(|line| line.starts_with("    "));
    frames.filter(|line| !line.trim_start().starts_with("at ")).map(|line| line.trim().to_owned()).collect()
}

fn wait_for_stack(name: &str) -> Vec<String> {
    wait_until("the thread is parked", || !stack(name).is_empty());
    stack(name)
}

const SLEEP_LINE: u32 = line!() + 4;

#[inline(never)]
fn parks_in_a_sleep() {
    runtime::sleep(HOUR);
}

#[inline(never)]
fn parks_in_a_mutex(mutex: &Mutex<u32>) -> u32 {
    *mutex.lock()
}

#[inline(never)]
fn parks_in_a_channel(channel: &Receiver<u32>) -> u32 {
    inlined_receive(channel) + 1
}

#[inline(always)]
fn inlined_receive(channel: &Receiver<u32>) -> u32 {
    channel.recv().unwrap_or_default()
}

#[inline(never)]
fn parks_in_a_join(thread: JoinHandle<()>) {
    let _ = thread.join();
}

#[inline(never)]
fn parks_deep(depth: u32) -> u32 {
    if depth == 0 {
        thread::park();
        return 0;
    }
    // Else an optimised build makes a loop of it.
    std::hint::black_box(parks_deep(std::hint::black_box(depth) - 1)) + depth
}

fn each_shows_its_functions() {
    let mutex = Arc::new(Mutex::new(1));
    let held = mutex.lock();
    let its_mutex = mutex.clone();
    let (sender, receiver) = unbounded();
    let sleeper = named("sleeps", parks_in_a_sleep);
    let all = [
        ("locks", named("locks", move || assert_eq!(parks_in_a_mutex(&its_mutex), 1)), "parks_in_a_mutex"),
        ("receives", named("receives", move || _ = parks_in_a_channel(&receiver)), "parks_in_a_channel"),
        ("joins", named("joins", move || parks_in_a_join(sleeper)), "parks_in_a_join"),
        ("deep", named("deep", || assert_eq!(parks_deep(50), 1275)), "parks_deep"),
    ];
    assert!(wait_for_stack("sleeps")[0].ends_with("parks_in_a_sleep"), "{}", dumped());
    for (name, _, function) in &all {
        let stack = wait_for_stack(name);
        // The user's call comes first, and the closure with which the thread began comes last.
        assert!(stack.iter().any(|frame| frame.ends_with(function)), "{name}: {stack:#?}");
        assert!(stack[0].ends_with(function) || stack[0].ends_with("inlined_receive"), "{name}: {stack:#?}");
        assert!(stack.last().unwrap().contains("closure"), "{name}: {stack:#?}");
    }
    assert!(stack("receives")[0].ends_with("inlined_receive"), "inlined calls have frames");
    assert_eq!(stack("deep").iter().filter(|frame| frame.ends_with("parks_deep")).count(), 51);
    let place = format!("{}:{}", file!(), SLEEP_LINE);
    assert!(
        dumped().lines().any(|line| line.trim_start().starts_with("at ") && line.ends_with(&place)),
        "{}",
        dumped()
    );
    drop((held, sender));
    let [locks, receives, joins, deep] = all.map(|(_, thread, _)| thread);
    locks.join().unwrap();
    receives.join().unwrap();
    joins.cancel();
    let _ = joins.join();
    deep.thread().unpark();
    deep.join().unwrap();
}

#[test]
fn parked_closures_show_their_functions() {
    on(2, each_shows_its_functions);
}

#[test]
fn parked_closures_show_their_functions_in_strict_mode() {
    let _dog = Watchdog::new();
    let runtime = Builder::new().procs(2).migration(Migration::BeforeStart).build().unwrap();
    runtime.block_on(each_shows_its_functions);
}

/// Green threads park and are woken, time out and are cancelled all the time, while a plain and a green
/// thread take dumps. No wake-up gets lost, and none comes twice.
fn dumps_and_wakes(runtime: &Runtime, rounds: u64) {
    let over = AtomicBool::new(false);
    std::thread::scope(|plain| {
        let (over, handle) = (&over, runtime.handle());
        plain.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                dumped();
            }
        });
        runtime.block_on(|| {
            thread::scope(|s| {
                let dumper = s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        dumped();
                        runtime::yield_now();
                    }
                });
                let sum = Arc::new(AtomicU64::new(0));
                let pairs: Vec<_> = (0..8).map(|seed| pair(seed, rounds, sum.clone())).collect();
                pairs.into_iter().flatten().for_each(|thread| thread.join().unwrap());
                assert_eq!(sum.load(Ordering::Relaxed), 8 * rounds * (rounds - 1) / 2);
                over.store(true, Ordering::Relaxed);
                dumper.join().unwrap();
            });
        });
        drop(handle);
    });
}

/// Spawns two threads that pass each other messages, and a third with waits that time out or are cancelled.
fn pair(seed: u64, rounds: u64, sum: Arc<AtomicU64>) -> [JoinHandle<()>; 3] {
    let (ask, asked) = bounded(0);
    let (answer, answered) = bounded(1);
    let asks = spawn(move || {
        for i in 0..rounds {
            ask.send(i).unwrap();
            assert_eq!(answered.recv(), Ok(i));
        }
    });
    let answers = spawn(move || {
        for i in asked {
            sum.fetch_add(i, Ordering::Relaxed);
            answer.send(i).unwrap();
        }
    });
    let others = spawn(move || {
        let mut random = Random::new(seed);
        for _ in 0..rounds / 20 {
            let parked = spawn(|| parks_deep(3));
            runtime::sleep(Duration::from_micros(random.number() % 200));
            if random.number().is_multiple_of(2) {
                parked.thread().unpark();
                assert_eq!(parked.join().unwrap(), 6);
            } else {
                parked.cancel();
                assert!(parked.join().is_err());
            }
            let _ = runtime::time::timeout(Duration::from_micros(random.number() % 200), thread::park);
        }
    });
    [asks, answers, others]
}

#[test]
fn no_wake_up_is_lost_to_a_dump() {
    for migration in [Migration::default(), Migration::BeforeStart] {
        let _dog = Watchdog::new();
        let runtime = Builder::new().procs(2).migration(migration).build().unwrap();
        dumps_and_wakes(&runtime, 400);
    }
}

#[inline(never)]
fn computes_until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Returns the functions on the stack of the thread with this name, whatever it does.
fn any_stack(name: &str) -> Vec<String> {
    let text = dumped();
    let lines = text.lines().skip_while(|line| !line.contains(&format!(" '{name}': "))).skip(1);
    let frames = lines.take_while(|line| line.starts_with("    "));
    frames.filter(|line| !line.trim_start().starts_with("at ")).map(|line| line.trim().to_owned()).collect()
}

/// A closure that computes, a future that computes in its poll, a pinned closure that sleeps, and the one
/// that asks for the dump.
#[test]
fn those_on_their_os_threads_show_their_functions() {
    on(3, || {
        let stop = Arc::new(AtomicBool::new(false));
        let (stops, polls) = (stop.clone(), stop.clone());
        let builder = |name: &str| thread::Builder::new().name(name.into());
        let all = [
            named("computes", move || computes_until(&stops)),
            builder("polls").spawn(async move { computes_until(&polls) }).unwrap(),
            named("pinned", || {
                let _pinned = thread::pin();
                parks_in_a_sleep();
            }),
        ];
        for (name, function) in
            [("computes", "computes_until"), ("polls", "computes_until"), ("pinned", "parks_in_a_sleep")]
        {
            let is_seen = || any_stack(name).first().is_some_and(|line| line.contains(function));
            wait_until("its function is shown", is_seen);
        }
        let asks = named("asks", || {
            let own = any_stack("asks");
            assert!(own.iter().any(|line| line.contains("any_stack")), "{own:?}");
        });
        asks.join().unwrap();
        all[2].cancel();
        stop.store(true, Ordering::Relaxed);
        all.into_iter().for_each(|thread| drop(thread.join()));
    });
}

/// Green threads that are interrupted for dumps compute right results, and std's calls do not end early.
#[test]
fn dumps_do_not_disturb_those_that_run() {
    on(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4u32)
            .map(|n| {
                let stop = stop.clone();
                spawn(move || {
                    let mut rounds = 0;
                    while !stop.load(Ordering::Relaxed) {
                        if n == 0 {
                            let (start, nap) = (Instant::now(), Duration::from_micros(300));
                            std::thread::sleep(nap);
                            assert!(start.elapsed() >= nap);
                            assert_eq!(std::fs::read("/proc/self/comm").unwrap().last(), Some(&b'\n'));
                        }
                        let sum: f64 = (1..1000).map(|i| f64::from(i * n).sqrt()).sum();
                        let again: f64 = (1..1000).map(|i| f64::from(i * n).sqrt()).sum();
                        assert_eq!(sum.to_bits(), again.to_bits());
                        rounds += 1;
                        if rounds % 10 == 0 {
                            runtime::yield_now();
                        }
                    }
                    rounds
                })
            })
            .collect();
        for _ in 0..100 {
            assert!(dumped().contains(": running, "));
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
}

macro_rules! yields {
    ($name:ident) => {
        /// Yields below `depth` calls of its own.
        #[inline(never)]
        fn $name(depth: u32) -> u32 {
            if depth == 0 {
                runtime::yield_now();
                return std::hint::black_box(stringify!($name).len() as u32);
            }
            std::hint::black_box($name(std::hint::black_box(depth) - 1)) + 1
        }
    };
}

yields!(yields_in_one_way);
yields!(yields_in_other_way);

/// Green threads yield all the time, now in one function and now in another with the same frames. What a dump
/// shows of one that is ready is the one or the other, never both.
#[test]
fn those_that_are_ready_show_where_they_go_on() {
    const DEPTH: u32 = 20;
    let _dog = Watchdog::new();
    let (stop, runtime) = (Arc::new(AtomicBool::new(false)), Builder::new().procs(2).build().unwrap());
    let _stops = Stops(stop.clone());
    let yielders: Vec<_> = (0..60)
        .map(|_| {
            let stop = stop.clone();
            runtime.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    yields_in_one_way(DEPTH);
                    yields_in_other_way(DEPTH);
                }
            })
        })
        .collect();
    let (mut ready, mut shown, start) = (0, 0, Instant::now());
    while shown < 2_000 && start.elapsed() < Duration::from_secs(20) {
        let snapshot = Snapshot::take().unwrap();
        for thread in snapshot.green_threads.iter().filter(|thread| thread.state == State::Ready) {
            ready += 1;
            let stack = snapshot.stack(thread);
            let count = |name| stack.iter().filter(|frame| frame.function.ends_with(name)).count();
            let (one, other) = (count("yields_in_one_way"), count("yields_in_other_way"));
            assert_eq!(one.min(other), 0, "{stack:#?}");
            // Without a stack: one that has not begun, or was resumed at that moment. Some ran a moment
            // before.
            assert!(stack.last().is_none_or(|frame| frame.function.contains("closure")), "{stack:#?}");
            shown += usize::from(one.max(other) == DEPTH as usize + 1);
        }
    }
    stop.store(true, Ordering::Relaxed);
    yielders.into_iter().for_each(|thread| thread.join().unwrap());
    // How many are resumed before their copy depends on what else the machine does: here up to four of five.
    assert!(shown >= 2_000 && shown * 10 > ready, "{shown} of {ready}");
}

/// Lets the green threads of a test end, also if it fails.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Green threads that wait for a P behind hogs stay ready for some time.
#[test]
fn those_that_wait_behind_a_hog_show_where_they_go_on() {
    let _dog = Watchdog::new();
    let runtime = Builder::new().procs(1).sysmon(false).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (sent, received) = unbounded();
    let waits = runtime.block_on(|| {
        let waits: Vec<_> =
            (0..20).map(|_| received.clone()).map(|r| spawn(move || _ = parks_in_a_channel(&r))).collect();
        waits.iter().for_each(tests::until_it_waits);
        waits
    });
    let (stops, begun) = (stop.clone(), Arc::new(AtomicBool::new(false)));
    let began = begun.clone();
    let hog = runtime.spawn(move || {
        began.store(true, Ordering::Relaxed);
        computes_until(&stops);
    });
    wait_until("the hog runs", || begun.load(Ordering::Relaxed));
    drop(sent);
    let snapshot = Snapshot::take().unwrap();
    for wait in &waits {
        let thread = snapshot.get(wait.thread().id().as_u64().get()).unwrap();
        assert_eq!(thread.state, State::Ready);
        assert!(
            snapshot.stack(thread)[0].function.ends_with("inlined_receive"),
            "{:#?}",
            snapshot.stack(thread)
        );
    }
    stop.store(true, Ordering::Relaxed);
    waits.into_iter().chain([hog]).for_each(|thread| thread.join().unwrap());
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn blocks_in_a_read(mut from: &UnixStream) -> u8 {
    let mut byte = [0];
    from.read_exact(&mut byte).unwrap();
    byte[0]
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn blocks_in_a_poll(from: &UnixStream) -> i32 {
    let mut fd = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `fd` is one record, which outlives the call.
    unsafe { libc::poll(&raw mut fd, 1, 60_000) }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn blocks_in_std(lock: &std::sync::Mutex<u32>) -> u32 {
    *lock.lock().unwrap()
}

/// Green threads that block their OS threads, in functions of std, which keep frame pointers, and in one of
/// the C library. No call ends early by a dump.
#[cfg(target_arch = "x86_64")]
#[test]
fn those_that_are_blocked_show_their_functions() {
    on(2, || {
        let ((mut here, there), (mut polled_by, polled)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let lock = Arc::new(std::sync::Mutex::new(1));
        let locked = lock.clone();
        let held = lock.lock().unwrap();
        let all = [
            named("blocks_in_a_poll", move || assert_eq!(blocks_in_a_poll(&polled), 1)),
            named("blocks_in_a_read", move || assert_eq!(blocks_in_a_read(&there), 7)),
            named("blocks_in_std", move || assert_eq!(blocks_in_std(&locked), 1)),
        ];
        for name in ["blocks_in_a_poll", "blocks_in_a_read", "blocks_in_std"] {
            wait_until("its function is shown", || any_stack(name).iter().any(|frame| frame.ends_with(name)));
            let stack = any_stack(name);
            assert!(stack.last().unwrap().contains("closure"), "{name}: {stack:#?}");
        }
        for _ in 0..50 {
            dumped();
        }
        drop(held);
        here.write_all(&[7]).unwrap();
        polled_by.write_all(&[7]).unwrap();
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
