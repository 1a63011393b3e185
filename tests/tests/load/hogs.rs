//! Hogs: green threads that compute, or block with or without `blocking`, do not stop other green threads.

use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use runtime::metrics::Rescue;
use runtime::{Builder, Runtime, spawn, thread};
use tests::{ON_PURPOSE, on, quiet_panics_on_purpose, wait_until, with, with_built};

/// What a hog does until it is stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Computes,
    Sleeps,
    ReadsAPipe,
    WaitsForALock,
}

const KINDS: [Kind; 4] = [Kind::Computes, Kind::Sleeps, Kind::ReadsAPipe, Kind::WaitsForALock];

/// Hogs that run until they are stopped.
struct Hogs {
    stop: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
    ends: Vec<runtime::JoinHandle<()>>,
    pipes: Vec<std::io::PipeWriter>,
    lock: Arc<Mutex<()>>,
}

impl Hogs {
    fn start(runtime: &Runtime, kinds: &[Kind], holder: &Arc<Mutex<()>>) -> Hogs {
        let mut hogs = Hogs {
            stop: Arc::default(),
            begun: Arc::default(),
            ends: Vec::new(),
            pipes: Vec::new(),
            lock: holder.clone(),
        };
        for &kind in kinds {
            let (stop, begun, lock) = (hogs.stop.clone(), hogs.begun.clone(), hogs.lock.clone());
            let (mut reader, writer) = std::io::pipe().unwrap();
            hogs.pipes.push(writer);
            hogs.ends.push(runtime.spawn(move || {
                begun.fetch_add(1, SeqCst);
                match kind {
                    Kind::Computes => while !stop.load(SeqCst) {},
                    Kind::Sleeps => {
                        while !stop.load(SeqCst) {
                            std::thread::sleep(Duration::from_millis(30));
                        }
                    }
                    Kind::ReadsAPipe => assert_eq!(reader.read(&mut [0]).unwrap(), 1),
                    Kind::WaitsForALock => drop(lock.lock().unwrap()),
                }
            }));
        }
        hogs
    }

    fn have_begun(&self, number: usize) -> bool {
        self.begun.load(SeqCst) == number
    }

    fn stop(mut self) {
        self.stop.store(true, SeqCst);
        // Hogs that do not read have closed their end of the pipe.
        self.pipes.iter_mut().for_each(|pipe| drop(pipe.write_all(b"x")));
        self.ends.into_iter().for_each(|hog| hog.join().unwrap());
    }
}

/// Returns `true` if other green threads end within `patience`, beside as many hogs as there are Ps.
fn others_go_on(sysmon: bool, kinds: &[Kind], patience: Duration) -> bool {
    let mut went_on = false;
    with_built(Builder::new().procs(kinds.len()).sysmon(sysmon), |runtime| {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock().unwrap();
        let hogs = Hogs::start(runtime, kinds, &lock);
        wait_until("all Ps are hogged", || hogs.have_begun(kinds.len()));
        let others: Vec<_> = (0..10)
            .map(|_| {
                runtime.spawn(|| {
                    for _ in 0..3 {
                        runtime::sleep(Duration::from_millis(1));
                        thread::yield_now();
                        spawn(|| ()).join().unwrap();
                    }
                })
            })
            .collect();
        let start = Instant::now();
        while !others.iter().all(|other| other.is_finished()) && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        went_on = others.iter().all(|other| other.is_finished());
        drop(held);
        hogs.stop();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    went_on
}

#[test]
fn as_many_hogs_as_ps_do_not_stop_others() {
    let alone = KINDS.map(|kind| vec![kind]);
    let twice = KINDS.map(|kind| vec![kind; 2]);
    for kinds in alone.into_iter().chain(twice).chain([vec![Kind::Computes, Kind::ReadsAPipe]]) {
        assert!(others_go_on(true, &kinds, Duration::from_secs(30)), "{kinds:?}");
    }
}

#[test]
fn without_sysmon_hogs_stop_others() {
    for kind in KINDS {
        assert!(!others_go_on(false, &[kind], Duration::from_millis(150)), "{kind:?}");
        assert!(!others_go_on(false, &[kind; 2], Duration::from_millis(150)), "{kind:?} twice");
    }
}

#[test]
fn two_computing_and_two_blocked_hogs_do_not_stop_others() {
    for procs in [1, 2] {
        with(procs, |runtime| {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock().unwrap();
            let hogs = Hogs::start(runtime, &KINDS, &lock);
            wait_until("all four hogs have begun", || hogs.have_begun(4));
            let start = Instant::now();
            runtime.block_on(|| {
                let others: Vec<_> =
                    (0..100).map(|i| spawn(move || runtime::sleep(Duration::from_micros(i * 50)))).collect();
                others.into_iter().for_each(|other| other.join().unwrap());
            });
            assert!(start.elapsed() < Duration::from_secs(30));
            drop(held);
            hogs.stop();
        });
    }
}

#[test]
fn a_hog_that_calls_the_runtime_without_parking_does_not_stop_others() {
    for procs in [1, 2] {
        with(procs, |runtime| {
            let stop = Arc::new(AtomicBool::new(false));
            let hogs: Vec<_> = (0..procs)
                .map(|_| {
                    let stop = stop.clone();
                    runtime.spawn(move || {
                        let me = thread::current();
                        while !stop.load(SeqCst) {
                            me.unpark();
                            thread::park();
                            drop(spawn(|| ()));
                            tests::spin(Duration::from_micros(50));
                        }
                    })
                })
                .collect();
            for _ in 0..5 {
                runtime.spawn(|| runtime::sleep(Duration::from_millis(1))).join().unwrap();
            }
            stop.store(true, SeqCst);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
    }
}

#[test]
fn more_hogs_than_ps_all_end() {
    for procs in [1, 2, 8] {
        on(procs, || {
            let done = Arc::new(AtomicUsize::new(0));
            let hogs: Vec<_> = (0..20)
                .map(|i| {
                    let done = done.clone();
                    spawn(move || {
                        if i % 2 == 0 {
                            tests::spin(Duration::from_millis(12));
                        } else {
                            std::thread::sleep(Duration::from_millis(12));
                        }
                        // The hog may have no P by now.
                        runtime::sleep(Duration::from_micros(100));
                        spawn(|| ()).join().unwrap();
                        done.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
            assert_eq!(done.load(SeqCst), 20);
        });
    }
}

fn leaders(threads: Vec<runtime::JoinHandle<bool>>) -> usize {
    threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
}

#[test]
fn two_hundred_threads_are_in_blocking_at_the_same_time() {
    for procs in [1, 2] {
        on(procs, || {
            // No thread leaves before all have arrived, so each was handed a P to arrive with.
            let all = Arc::new(Barrier::new(200));
            let threads: Vec<_> = (0..200)
                .map(|_| {
                    let all = all.clone();
                    spawn(move || {
                        runtime::blocking(|| {
                            std::thread::sleep(Duration::from_millis(50));
                            all.wait().is_leader()
                        })
                    })
                })
                .collect();
            assert_eq!(leaders(threads), 1);
        });
    }
}

#[test]
fn thirty_threads_block_outside_of_blocking_at_the_same_time() {
    on(2, || {
        let all = Arc::new(Barrier::new(30));
        let threads: Vec<_> = (0..30)
            .map(|_| {
                let all = all.clone();
                spawn(move || all.wait().is_leader())
            })
            .collect();
        assert_eq!(leaders(threads), 1);
    });
}

#[test]
fn blocking_returns_its_value_and_may_be_nested() {
    for procs in tests::PROCS {
        on(procs, || {
            let text = String::from("borrowed");
            assert_eq!(runtime::blocking(|| text.len()), 8);
            let others: Vec<_> = (0..50)
                .map(|i| {
                    spawn(move || {
                        runtime::blocking(|| {
                            std::thread::sleep(Duration::from_micros(100));
                            let inner = runtime::blocking(|| {
                                std::thread::sleep(Duration::from_micros(100));
                                // Code inside `blocking` may make any call.
                                runtime::sleep(Duration::from_micros(100));
                                thread::yield_now();
                                spawn(move || i).join().unwrap()
                            });
                            std::thread::sleep(Duration::from_micros(100));
                            inner + 1
                        })
                    })
                })
                .collect();
            let sum: u64 = others.into_iter().map(|other| other.join().unwrap()).sum();
            assert_eq!(sum, 1275);
        });
    }
    assert_eq!(runtime::blocking(|| 3), 3, "on a plain thread");
}

#[test]
fn a_panic_passes_out_of_blocking() {
    quiet_panics_on_purpose();
    for procs in tests::PROCS {
        on(procs, || {
            let threads: Vec<_> = (0..50)
                .map(|i| {
                    spawn(move || {
                        let caught = std::panic::catch_unwind(|| {
                            runtime::blocking(|| {
                                std::thread::sleep(Duration::from_micros(i * 10));
                                panic!("{ON_PURPOSE}")
                            })
                        });
                        assert!(caught.is_err());
                        runtime::sleep(Duration::from_micros(100));
                        runtime::blocking(|| {
                            std::thread::sleep(Duration::from_micros(i * 10));
                            panic!("{ON_PURPOSE}")
                        })
                    })
                })
                .collect();
            for thread in threads {
                assert!(thread.join().is_err());
            }
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
        });
    }
}

#[test]
fn rescues_are_counted_with_the_name_of_the_hog() {
    with(1, |runtime| {
        let mut line = 0;
        for (name, kind) in [("computing hog", Kind::Computes), ("blocked hog", Kind::Sleeps)] {
            let stop = Arc::new(AtomicBool::new(false));
            let told = stop.clone();
            let hog = runtime.block_on(|| {
                line = line!() + 2;
                let named = thread::Builder::new().name(name.into());
                named.spawn(move || {
                    while !told.load(SeqCst) {
                        if kind == Kind::Sleeps {
                            std::thread::sleep(Duration::from_millis(100));
                        }
                    }
                })
            });
            let hog = hog.unwrap();
            wait_until("the hog runs", || runtime.handle().metrics().running > 0);
            runtime.spawn(|| ()).join().unwrap();
            let seen: Vec<Rescue> = runtime.handle().metrics().rescues;
            stop.store(true, SeqCst);
            hog.join().unwrap();
            let rescue = seen.iter().find(|rescue| rescue.name.as_deref() == Some(name));
            let rescue = rescue.unwrap_or_else(|| panic!("{name} is not among {seen:?}"));
            assert!(rescue.spawned_at.ends_with(&format!("hogs.rs:{line}")), "{rescue:?}, not line {line}");
            assert!(rescue.away < Duration::from_secs(30));
        }
        let now = runtime.handle().metrics();
        assert!(now.rescues_computing + now.rescues_blocked >= 2, "{now:?}");
    });
}

#[test]
fn hand_offs_from_blocking_are_counted() {
    with(1, |runtime| {
        runtime.block_on(|| {
            let threads: Vec<_> = (0..20)
                .map(|_| spawn(|| runtime::blocking(|| std::thread::sleep(Duration::from_millis(5)))))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!(runtime.handle().metrics().hand_offs > 0);
    });
}

/// The name of a hog, and its body, which ends when the flag is set.
type Hog = (&'static str, fn(&AtomicBool));

/// Hogs that call the runtime all the time and never park, until they are stopped.
const CALLS: [Hog; 5] = [
    ("spawns", |stop| {
        while !stop.load(SeqCst) {
            drop(spawn(|| ()));
        }
    }),
    ("spawns futures", |stop| {
        while !stop.load(SeqCst) {
            drop(spawn(async {}));
        }
    }),
    ("resets a timer", |stop| {
        let timer = runtime::time::after_func(Duration::from_secs(3600), || ());
        while !stop.load(SeqCst) {
            timer.reset(Duration::from_secs(3600));
        }
    }),
    ("sends", |stop| {
        let (tx, rx) = runtime::channel::unbounded();
        let receiver = spawn(move || rx.iter().count());
        while !stop.load(SeqCst) {
            tx.send(1u8).unwrap();
        }
        drop(tx);
        receiver.join().unwrap();
    }),
    ("unparks another", |stop| {
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let other = spawn(move || {
            while !told.load(SeqCst) {
                thread::park();
            }
        });
        while !stop.load(SeqCst) {
            other.thread().unpark();
        }
        ended.store(true, SeqCst);
        other.thread().unpark();
        other.join().unwrap();
    }),
];

/// Returns the median lateness of a sleep of a millisecond, beside as many of these hogs as there are Ps.
fn lateness_beside(procs: usize, hog: fn(&AtomicBool)) -> Duration {
    let mut median = Duration::ZERO;
    with(procs, |runtime| {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..procs)
            .map(|_| {
                let stop = stop.clone();
                runtime.spawn(move || hog(&stop))
            })
            .collect();
        let ticker = runtime.spawn(|| {
            let mut late: Vec<_> = (0..50)
                .map(|_| {
                    let start = Instant::now();
                    runtime::sleep(Duration::from_millis(1));
                    start.elapsed() - Duration::from_millis(1)
                })
                .collect();
            late.sort_unstable();
            late[late.len() / 2]
        });
        median = ticker.join().unwrap();
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
    median
}

#[test]
#[cfg_attr(asan, ignore = "calls of the runtime are many times slower there, computing is not")]
fn a_hog_that_calls_the_runtime_is_preempted_like_a_computing_hog() {
    for procs in [1, 2] {
        for (name, hog) in CALLS {
            // On a busy machine a comparison may fail, so both are measured next to each other, up to eight
            // times.
            let mut seen = Vec::new();
            let close = (0..8).any(|_| {
                let computing = lateness_beside(procs, |stop| while !stop.load(SeqCst) {});
                let calling = lateness_beside(procs, hog);
                seen.push((computing, calling));
                calling <= 3 * computing + Duration::from_millis(3)
            });
            assert!(close, "a hog that {name} on {procs} Ps, computing and calling: {seen:?}");
        }
    }
}

/// The documented bound (`Builder::max_threads`): an OS thread for each P and each hog, a watcher and a
/// spare. `ON_THEIR_WAY` allows for OS threads that are about to park.
#[test]
fn hogs_take_an_os_thread_each_and_a_few_more() {
    const HOGS: usize = 24;
    const ON_THEIR_WAY: usize = 8;
    for procs in [1, 2] {
        with(procs, |runtime| {
            let (begun, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let ticker = runtime.spawn({
                let stop = stop.clone();
                move || {
                    while !stop.load(SeqCst) {
                        runtime::sleep(Duration::from_millis(1));
                    }
                }
            });
            let hogs: Vec<_> = (0..HOGS)
                .map(|_| {
                    let (begun, stop) = (begun.clone(), stop.clone());
                    runtime.spawn(move || {
                        begun.fetch_add(1, SeqCst);
                        while !stop.load(SeqCst) {}
                    })
                })
                .collect();
            let most = Cell::new(0);
            wait_until("all hogs have begun", || {
                most.set(most.get().max(runtime.handle().metrics().threads));
                begun.load(SeqCst) == HOGS
            });
            stop.store(true, SeqCst);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
            ticker.join().unwrap();
            let bound = procs + HOGS + 2 + ON_THEIR_WAY;
            assert!(most.get() <= bound, "{procs} Ps: {} OS threads, more than {bound}", most.get());
        });
    }
}

#[test]
fn hogs_that_call_the_runtime_end_without_further_os_threads() {
    for (procs, most) in [(1, 1), (1, 2), (2, 2), (2, 3)] {
        with_built(Builder::new().procs(procs).max_threads(most), |runtime| {
            let stop = Arc::new(AtomicBool::new(false));
            let hogs: Vec<_> = (0..10)
                .map(|i| {
                    let stop = stop.clone();
                    runtime.spawn(move || {
                        let pinned = (i % 3 == 0).then(thread::pin);
                        for _ in 0..20_000 {
                            if stop.load(SeqCst) {
                                break;
                            }
                            drop(spawn(|| ()));
                        }
                        drop(pinned);
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, SeqCst);
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
    }
}

#[test]
fn blocking_lasts_across_calls_into_the_runtime() {
    for inner in [|| drop(spawn(|| ())), || runtime::sleep(Duration::from_micros(100)), thread::yield_now] {
        with(1, |runtime| {
            let blocker = runtime.spawn(move || {
                runtime::blocking(|| {
                    for _ in 0..20 {
                        inner();
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
            });
            let id = format!("{:?}", blocker.thread().id());
            let id: u64 = id.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            while !blocker.is_finished() {
                runtime.spawn(|| runtime::sleep(Duration::from_micros(100))).join().unwrap();
            }
            blocker.join().unwrap();
            // No rescue: code that blocks outside of `blocking` is noticed by sysmon only after a
            // millisecond.
            let metrics = runtime.handle().metrics();
            let of_it: Vec<_> = metrics.rescues.iter().filter(|rescue| rescue.id == id).collect();
            assert!(metrics.hand_offs > 0 && of_it.is_empty(), "{} {of_it:?}", metrics.hand_offs);
        });
    }
}

#[test]
fn sysmon_sleeps_while_a_thread_is_in_blocking_after_a_call() {
    with(2, |runtime| {
        let (stop, told) = std::sync::mpsc::channel();
        let blocker = runtime.spawn(move || {
            runtime::blocking(|| {
                drop(spawn(|| ()));
                told.recv().unwrap();
                // The same after the P was handed off.
                drop(spawn(|| ()));
                told.recv().unwrap();
            });
        });
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(200));
            let before = runtime.handle().metrics().sysmon_wakeups;
            std::thread::sleep(Duration::from_millis(300));
            let looks = runtime.handle().metrics().sysmon_wakeups - before;
            assert!(looks < 10, "{looks} looks in 300 ms");
            stop.send(()).unwrap();
        }
        blocker.join().unwrap();
    });
}

/// Returns how many OS threads of this process run or wait for a processor.
#[cfg(target_os = "linux")]
fn runnable_os_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats.filter(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" R"))).count()
}

/// A crowd of computing green threads, which also allocate, runs by turns. All begin, most are paused, others
/// go on, and all end.
#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(
    any(asan, target_feature = "crt-static"),
    ignore = "malloc is part of the program, so no hog is paused: it may have a lock of malloc"
)]
#[cfg_attr(portable, ignore = "the system has no signal for hogs, so none is paused")]
fn a_crowd_of_hogs_runs_by_turns() {
    const HOGS: usize = 60;
    with(2, |runtime| {
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let hogs: Vec<_> = (0..HOGS)
            .map(|i| {
                let (stop, begun) = (stop.clone(), begun.clone());
                runtime.spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    let (mut rounds, mut kept) = (0, Vec::new());
                    while !stop.load(SeqCst) {
                        rounds += 1;
                        if i % 2 == 0 {
                            kept.push(vec![1_u8; rounds % 3000]);
                            kept.truncate(rounds % 50);
                        }
                    }
                    rounds
                })
            })
            .collect();
        wait_until("all hogs have begun", || begun.load(SeqCst) == HOGS);
        wait_until("most hogs are paused", || runnable_os_threads() < HOGS / 2);
        // Others allocate and sleep at the same time.
        let sleeper = runtime.spawn(|| {
            for i in 0..20 {
                runtime::sleep(Duration::from_millis(1));
                std::hint::black_box(vec![0_u8; 100 * i]);
            }
        });
        sleeper.join().unwrap();
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| assert!(hog.join().unwrap() > 0));
    });
}

/// Each hog of a crowd has its turn, so a lock that a paused hog has is released in the end.
#[test]
fn a_crowd_of_hogs_shares_a_lock_of_std() {
    const HOGS: usize = 40;
    with(2, |runtime| {
        let total = Arc::new(Mutex::new(0_u64));
        let hogs: Vec<_> = (0..HOGS)
            .map(|_| {
                let total = total.clone();
                runtime.spawn(move || {
                    for _ in 0..5 {
                        let mut total = total.lock().unwrap();
                        *total += 1;
                        tests::spin(Duration::from_millis(1));
                        drop(total);
                        tests::spin(Duration::from_millis(4));
                    }
                })
            })
            .collect();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
        assert_eq!(*total.lock().unwrap(), 5 * HOGS as u64);
    });
}
