//! Strict runtimes (`Migration::BeforeStart`): a started green thread stays on its OS thread, and nothing is
//! lost.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Thread, current, park, park_timeout, pin};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, Migration, blocking, scope, sleep, spawn, yield_now};
use tests::{OsThread, PROCS, Random, os_thread, spin, wait_until, with_built};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn strict(procs: usize) -> Builder {
    Builder::new().procs(procs).migration(Migration::BeforeStart)
}

/// Runs `main` as a green thread of a strict runtime with `procs` Ps.
fn on(procs: usize, main: impl FnOnce() + Send) {
    with_built(strict(procs), |runtime| runtime.block_on(main));
}

fn on_each(main: impl Fn() + Send + Sync) {
    PROCS.into_iter().for_each(|procs| on(procs, &main));
}

/// The OS thread on which this value was made. `check` panics on any other OS thread.
struct Home(OsThread);

impl Home {
    fn here() -> Home {
        Home(os_thread())
    }

    fn check(&self) {
        assert_eq!(self.0, os_thread(), "a started green thread has moved");
    }
}

/// A member of a pair: waits for its own flag, clears it and sets the partner's flag.
fn hand_to_and_fro(mine: &AtomicBool, other: &AtomicBool, partner: &Mutex<Option<Thread>>, rounds: usize) {
    let home = Home::here();
    let partner = loop {
        if let Some(partner) = partner.lock().unwrap().clone() {
            break partner;
        }
        yield_now();
    };
    for _ in 0..rounds {
        while !mine.swap(false, SeqCst) {
            park();
            home.check();
        }
        other.store(true, SeqCst);
        partner.unpark();
    }
}

/// Runs four pairs, which park about `parks` times in all.
fn pairs(parks: usize) {
    let threads: Vec<_> = (0..4)
        .flat_map(|_| {
            let flags = Arc::new([AtomicBool::new(true), AtomicBool::new(false)]);
            let names: Arc<[Mutex<Option<Thread>>; 2]> = Arc::default();
            [0, 1].map(|me| {
                let (flags, names) = (flags.clone(), names.clone());
                spawn(move || {
                    *names[me].lock().unwrap() = Some(current());
                    hand_to_and_fro(&flags[me], &flags[1 - me], &names[1 - me], parks / 8);
                })
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_million_parks_leave_each_thread_on_its_os_thread() {
    on(1, || pairs(600_000));
    on(2, || pairs(200_000));
    on(8, || pairs(200_000));
}

#[test]
fn every_kind_of_wake_resumes_a_thread_on_its_os_thread() {
    on_each(|| {
        let threads: Vec<_> = (0..40)
            .map(|i| {
                spawn(move || {
                    let (home, mut random) = (Home::here(), Random::new(i));
                    for _ in 0..60 {
                        match random.below(7) {
                            0 => sleep(Duration::from_micros(random.below(500))),
                            1 => yield_now(),
                            2 => park_timeout(Duration::from_micros(random.below(300))),
                            3 => drop(spawn(|| sleep(MILLI / 10)).join()),
                            4 => blocking(|| std::thread::sleep(MILLI / 10)),
                            5 => drop(timeout(MILLI / 10, || sleep(HOUR))),
                            _ => runtime::block_on(sleep_async(MILLI / 10)),
                        }
                        home.check();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn wakes_from_plain_threads_and_other_runtimes_arrive() {
    with_built(strict(2), |runtime| {
        let relaxed = tests::runtime(2);
        let stop = Arc::new(AtomicBool::new(false));
        let beats = Arc::new(AtomicUsize::new(0));
        let sleeper = runtime.spawn({
            let (stop, beats) = (stop.clone(), beats.clone());
            move || {
                let home = Home::here();
                while !stop.load(SeqCst) {
                    park();
                    home.check();
                    beats.fetch_add(1, SeqCst);
                }
            }
        });
        let wakers = [sleeper.thread().clone(), sleeper.thread().clone()];
        let [plain, green] = wakers;
        let from_green = relaxed.spawn(move || {
            for _ in 0..2_000 {
                green.unpark();
                yield_now();
            }
        });
        for _ in 0..2_000 {
            let before = beats.load(SeqCst);
            plain.unpark();
            // Each wake-up has an effect, which another waker's wake-up may share.
            wait_until("the sleeper has run", || beats.load(SeqCst) > before);
        }
        from_green.join().unwrap();
        stop.store(true, SeqCst);
        sleeper.thread().unpark();
        sleeper.join().unwrap();
    });
}

#[test]
fn unstarted_threads_are_distributed() {
    on(4, || {
        let threads = Arc::new(Mutex::new(HashSet::new()));
        scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    threads.lock().unwrap().insert(os_thread());
                    spin(2 * MILLI);
                });
            }
        });
        assert!(threads.lock().unwrap().len() >= 2, "a single OS thread ran all threads");
    });
}

#[test]
fn hogs_delay_only_threads_bound_to_their_os_thread() {
    with_built(strict(2), |runtime| {
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        // There are more hogs than Ps.
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                let (stop, running) = (stop.clone(), running.clone());
                runtime.spawn(move || {
                    running.fetch_add(1, SeqCst);
                    while !stop.load(SeqCst) {}
                })
            })
            .collect();
        wait_until("all hogs run", || running.load(SeqCst) == 4);
        // New threads start on other OS threads.
        let others: Vec<_> = (0..50).map(|_| runtime.spawn(|| sleep(MILLI))).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn os_threads_with_bound_threads_take_turns() {
    // With a single P, blocking calls make several OS threads. The threads that started on each run without
    // end.
    on(1, || {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Arc<Vec<AtomicUsize>> = Arc::new((0..6).map(|_| AtomicUsize::new(0)).collect());
        let homes = Arc::new(Mutex::new(HashSet::new()));
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let (stop, rounds, homes) = (stop.clone(), rounds.clone(), homes.clone());
                spawn(move || {
                    let home = Home::here();
                    homes.lock().unwrap().insert(os_thread());
                    blocking(|| std::thread::sleep(20 * MILLI));
                    while !stop.load(SeqCst) {
                        rounds[i].fetch_add(1, SeqCst);
                        yield_now();
                        home.check();
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let before: Vec<_> = rounds.iter().map(|rounds| rounds.load(SeqCst)).collect();
            let all_went_on = || (0..6).all(|i| rounds[i].load(SeqCst) > before[i]);
            wait_until("each thread has its turn", all_went_on);
        }
        assert!(homes.lock().unwrap().len() >= 2, "the blocking calls did not overlap");
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn references_to_std_thread_locals_are_valid_across_parks() {
    std::thread_local! { static COUNT: Cell<usize> = const { Cell::new(0) } }
    on_each(|| {
        let all = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let all = all.clone();
                spawn(move || {
                    for _ in 0..50 {
                        // A reference that lives across a park, which is not allowed in the default mode.
                        COUNT.with(|count| {
                            let before = Home::here();
                            sleep(Duration::from_micros(50));
                            before.check();
                            count.set(count.get() + 1);
                        });
                        all.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(all.load(SeqCst), 1000);
    });
}

#[test]
fn sockets_wake_a_thread_on_its_os_thread() {
    on_each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn(move || {
            for _ in 0..8 {
                let (mut stream, _) = listener.accept().unwrap();
                spawn(move || {
                    let (home, mut buffer) = (Home::here(), [0; 64]);
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        home.check();
                        stream.write_all(&buffer[..n]).unwrap();
                    }
                });
            }
        });
        scope(|scope| {
            for i in 0..8 {
                scope.spawn(move || {
                    let (home, mut stream) = (Home::here(), TcpStream::connect(address).unwrap());
                    for round in 0..100 {
                        let (sent, mut got) = ([i ^ round; 64], [0; 64]);
                        stream.write_all(&sent).unwrap();
                        stream.read_exact(&mut got).unwrap();
                        home.check();
                        assert_eq!(sent, got);
                    }
                });
            }
        });
        server.join().unwrap();
    });
}

/// Sleeps in its destructor, and counts its end.
struct SleepsInDrop(Arc<AtomicUsize>);

impl Drop for SleepsInDrop {
    fn drop(&mut self) {
        let home = Home::here();
        sleep(2 * MILLI);
        home.check();
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn threads_that_park_while_they_unwind_delay_no_other_thread() {
    on_each(|| {
        let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let (begun, dropped) = (begun.clone(), dropped.clone());
                spawn(move || {
                    let _sleeps = SleepsInDrop(dropped);
                    begun.fetch_add(1, SeqCst);
                    park();
                })
            })
            .collect();
        while begun.load(SeqCst) < 20 {
            sleep(MILLI);
        }
        threads.iter().for_each(|thread| thread.cancel());
        threads.into_iter().for_each(|thread| drop(thread.join().unwrap_err()));
        assert_eq!(dropped.load(SeqCst), 20);
        // The count of panics is zero again on every OS thread.
        scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    assert!(!std::thread::panicking());
                    spin(MILLI / 5);
                });
            }
        });
    });
}

/// A handle with a destructor that cancels its thread and joins it.
struct Worker(Option<runtime::JoinHandle<()>>);

impl Drop for Worker {
    fn drop(&mut self) {
        let worker = self.0.take().unwrap();
        worker.cancel();
        drop(worker.join());
    }
}

#[test]
fn a_destructor_may_join_a_thread_of_the_same_os_thread() {
    for procs in PROCS {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        with_built(strict(procs), |runtime| {
            for _ in 0..50 {
                let (begun, ended) = (begun.clone(), ended.clone());
                drop(runtime.spawn(move || {
                    let _worker = Worker(Some(spawn(move || {
                        let _sleeps = SleepsInDrop(ended);
                        begun.fetch_add(1, SeqCst);
                        sleep(HOUR);
                    })));
                    sleep(HOUR);
                }));
            }
            // The numbers of a snapshot are not taken at the same moment, so `waiting` alone does not show
            // that all threads have begun.
            wait_until("all threads sleep", || {
                begun.load(SeqCst) == 50 && runtime.handle().metrics().waiting >= 100
            });
        });
        assert_eq!(ended.load(SeqCst), 50);
    }
}

#[test]
fn nested_pins_change_nothing() {
    on_each(|| {
        let home = Home::here();
        let (outer, inner) = (pin(), pin());
        sleep(MILLI);
        drop(outer);
        yield_now();
        drop(inner);
        sleep(MILLI);
        home.check();
    });
}

#[test]
fn fewer_and_more_ps_lose_nothing() {
    with_built(strict(1), |runtime| {
        let handle = runtime.handle();
        let threads: Vec<_> = (0..60)
            .map(|i| {
                runtime.spawn(move || {
                    let (home, mut random) = (Home::here(), Random::new(i));
                    for _ in 0..100 {
                        match random.below(4) {
                            0 => sleep(Duration::from_micros(random.below(1000))),
                            1 => drop(spin(Duration::from_micros(random.below(300)))),
                            2 => spawn(yield_now).join().unwrap(),
                            _ => yield_now(),
                        }
                        home.check();
                    }
                })
            })
            .collect();
        for n in [8, 1, 3, 2, 8, 1, 4].into_iter().cycle() {
            handle.set_procs(n).unwrap();
            std::thread::sleep(3 * MILLI);
            if threads.iter().all(|thread| thread.is_finished()) {
                break;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_strict_runtime_ends_with_thousands_of_parked_threads() {
    for procs in PROCS {
        with_built(strict(procs), |runtime| {
            for i in 0..2_000 {
                drop(runtime.spawn(move || if i % 2 == 0 { park() } else { sleep(HOUR) }));
            }
            wait_until("all threads are parked", || runtime.handle().metrics().waiting >= 2_000);
        });
    }
}

/// The drop of another runtime parks. A thread of that runtime may need a green thread of this OS thread
/// before it can end.
#[test]
fn dropping_a_runtime_does_not_block_the_os_thread() {
    on(1, || {
        let may_end = Arc::new(AtomicBool::new(false));
        let other = Builder::new().procs(1).build().unwrap();
        let waits = may_end.clone();
        other.spawn(move || {
            // The thread ignores its cancellation until the neighbour has run.
            while !waits.load(SeqCst) {
                yield_now();
            }
        });
        let neighbour = spawn(move || {
            let home = Home::here();
            sleep(20 * MILLI);
            home.check();
            may_end.store(true, SeqCst);
        });
        // The neighbour has started, and is bound to this OS thread.
        sleep(MILLI);
        let home = Home::here();
        drop(other);
        home.check();
        neighbour.join().unwrap();
    });
}
