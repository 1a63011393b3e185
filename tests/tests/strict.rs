//! Strict mode (`Migration::BeforeStart`): a green thread that has started stays on its OS thread, and nothing is lost.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Thread, current, park, park_timeout, pin};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, Migration, blocking, scope, sleep, spawn, yield_now};
use tests::{PROCS, Random, spin, wait_until, with_built};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn strict(procs: usize) -> Builder {
    Builder::new().procs(procs).migration(Migration::BeforeStart)
}

/// Runs `main` as a green thread of a strict runtime of so many Ps.
fn on(procs: usize, main: impl FnOnce() + Send) {
    with_built(strict(procs), |runtime| runtime.block_on(main));
}

fn on_each(main: impl Fn() + Send + Sync) {
    PROCS.into_iter().for_each(|procs| on(procs, &main));
}

/// The OS thread, as std sees it.
fn os_thread() -> ThreadId {
    std::thread::current().id()
}

/// Says whether the caller is still on the OS thread where this was made.
struct Home(ThreadId);

impl Home {
    fn here() -> Home {
        Home(os_thread())
    }

    fn check(&self) {
        assert_eq!(self.0, os_thread(), "a green thread that had started was moved");
    }
}

/// One half of a pair: waits until the flag is its own, and gives it to the other.
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

/// Four pairs that make `parks` parks at least.
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
fn a_million_parks_later_each_is_where_it_began() {
    on(1, || pairs(600_000));
    on(2, || pairs(200_000));
    on(8, || pairs(200_000));
}

#[test]
fn whatever_wakes_it_it_goes_on_at_home() {
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
fn wakes_from_plain_threads_and_from_other_runtimes_reach_it() {
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
            // Each wake-up is heard, though the other waker may share it.
            wait_until("the wake-up is heard", || beats.load(SeqCst) > before);
        }
        from_green.join().unwrap();
        stop.store(true, SeqCst);
        sleeper.thread().unpark();
        sleeper.join().unwrap();
    });
}

#[test]
fn those_that_have_not_started_are_shared_out() {
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
        assert!(threads.lock().unwrap().len() >= 2, "one OS thread ran all");
    });
}

#[test]
fn hogs_hold_up_only_those_that_share_their_os_thread() {
    with_built(strict(2), |runtime| {
        let (stop, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        // More hogs than Ps.
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
        // What starts now starts on other OS threads.
        let others: Vec<_> = (0..50).map(|_| runtime.spawn(|| sleep(MILLI))).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn os_threads_with_something_to_run_take_turns() {
    // One P; blocking calls make several OS threads, and what started on each goes on for ever.
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
            wait_until("all have their turn", all_went_on);
        }
        assert!(homes.lock().unwrap().len() >= 2, "the blocking calls did not overlap");
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn thread_locals_of_the_system_hold_across_parks() {
    std::thread_local! { static COUNT: Cell<usize> = const { Cell::new(0) } }
    on_each(|| {
        let all = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let all = all.clone();
                spawn(move || {
                    for _ in 0..50 {
                        // A borrow that lives across a park: what the default mode forbids.
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
fn sockets_wake_it_at_home() {
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

/// Sleeps in its destructor, and says when it is through.
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
fn those_that_park_while_they_unwind_hold_nobody_up() {
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
        // All counts of panics are even again, on every OS thread.
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

/// Ends its thread and waits for it, as many do.
struct Worker(Option<runtime::JoinHandle<()>>);

impl Drop for Worker {
    fn drop(&mut self) {
        let worker = self.0.take().unwrap();
        worker.cancel();
        drop(worker.join());
    }
}

#[test]
fn a_destructor_may_join_one_of_the_same_os_thread() {
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
            // A snapshot's counts are not of one moment, so `waiting` alone does not say that all have begun.
            wait_until("all sleep", || begun.load(SeqCst) == 50 && runtime.handle().metrics().waiting >= 100);
        });
        assert_eq!(ended.load(SeqCst), 50);
    }
}

#[test]
fn pins_nest_and_change_nothing() {
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
fn it_ends_while_thousands_are_parked_at_home() {
    for procs in PROCS {
        with_built(strict(procs), |runtime| {
            for i in 0..2_000 {
                drop(runtime.spawn(move || if i % 2 == 0 { park() } else { sleep(HOUR) }));
            }
            wait_until("all are parked", || runtime.handle().metrics().waiting >= 2_000);
        });
    }
}

/// The wait for another runtime's end parks: a thread that ends there may first need a green thread of this OS thread.
#[test]
fn who_ends_a_runtime_holds_no_neighbour_up() {
    on(1, || {
        let may_end = Arc::new(AtomicBool::new(false));
        let other = Builder::new().procs(1).build().unwrap();
        let waits = may_end.clone();
        other.spawn(move || {
            // Whatever cancels it, it ends only when the neighbour has run.
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
        // It has started, and is bound to this OS thread.
        sleep(MILLI);
        let home = Home::here();
        drop(other);
        home.check();
        neighbour.join().unwrap();
    });
}
