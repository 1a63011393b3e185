//! `set_procs` under load: nothing is lost, no sleep is early, and at the end all counts match.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{park, pin};
use runtime::time::sleep_async;
use runtime::{Builder, Handle, JoinHandle, Runtime, scope, spawn};
use tests::{Drops, Random, spin, wait_until, with, with_built};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

fn sleeps_at_least(time: Duration) {
    let start = Instant::now();
    runtime::sleep(time);
    assert!(start.elapsed() >= time, "{:?} instead of {time:?}", start.elapsed());
}

#[test]
fn as_many_green_threads_run_as_there_are_ps() {
    // Without sysmon: a P that sysmon retakes from a computing thread would add a running thread for a
    // moment.
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        // The threads never park, so no P becomes idle by itself.
        let threads: Vec<_> = (0..12)
            .map(|_| {
                let (now, most, stop) = (now.clone(), most.clone(), stop.clone());
                runtime.spawn(move || {
                    while !stop.load(SeqCst) {
                        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                        spin(Duration::from_micros(200));
                        now.fetch_sub(1, SeqCst);
                        runtime::yield_now();
                    }
                })
            })
            .collect();
        for n in [1, 8, 2, 1, 3] {
            runtime.handle().set_procs(n).unwrap();
            assert_eq!((runtime.handle().procs(), runtime.handle().metrics().procs), (n, n));
            // A running thread goes on until it yields, and a busy machine may delay that.
            let (start, mut seen) = (Instant::now(), 0);
            while seen == 0 || seen > n || (n > 1 && seen == 1) {
                assert!(start.elapsed() < Duration::from_secs(20), "{seen} at once on {n} Ps");
                std::thread::sleep(5 * MILLI);
                most.store(0, SeqCst);
                std::thread::sleep(60 * MILLI);
                seen = most.load(SeqCst);
            }
        }
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Work of several kinds, which counts what it has done.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    rounds: [AtomicUsize; 7],
    drops: Drops,
    begun: AtomicUsize,
}

impl Load {
    fn run(self: &Arc<Self>, seed: u64) {
        let (mut random, kind) = (Random::new(seed), seed as usize % 7);
        self.begun.fetch_add(1, SeqCst);
        while !self.stop.load(SeqCst) {
            let time = Duration::from_micros(random.below(400));
            let _token = self.drops.token();
            match kind {
                0 => sleeps_at_least(time),
                1 => (0..10).for_each(|_| runtime::yield_now()),
                2 => {
                    spin(time);
                    runtime::sleep(time);
                }
                3 => {
                    runtime::blocking(|| std::thread::sleep(time));
                    runtime::sleep(time);
                }
                4 => {
                    let token = self.drops.token();
                    let thread = spawn(move || {
                        let _token = token;
                        park();
                        5
                    });
                    runtime::yield_now();
                    thread.thread().unpark();
                    assert_eq!(thread.join().unwrap(), 5);
                }
                5 => {
                    let start = Instant::now();
                    spawn(sleep_async(time)).join().unwrap();
                    assert!(start.elapsed() >= time);
                }
                _ => {
                    let _pinned = seed.is_multiple_of(2).then(pin);
                    scope(|s| (0..3).for_each(|_| drop(s.spawn(|| sleeps_at_least(time)))));
                }
            }
            self.rounds[kind].fetch_add(1, SeqCst);
        }
    }

    fn echo(&self, mut stream: TcpStream) {
        let mut buffer = [0; 256];
        while let n @ 1.. = stream.read(&mut buffer).unwrap() {
            stream.write_all(&buffer[..n]).unwrap();
        }
    }

    fn ask(&self, mut stream: TcpStream, seed: u64) {
        let mut random = Random::new(seed);
        loop {
            let question: Vec<u8> = (0..random.below(200) + 1).map(|_| random.number() as u8).collect();
            let mut answer = vec![0; question.len()];
            stream.write_all(&question).unwrap();
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(question, answer);
            if self.stop.load(SeqCst) {
                return;
            }
        }
    }

    fn start(self: &Arc<Self>, runtime: &Runtime) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for seed in 0..42 {
            let load = self.clone();
            threads.push(runtime.spawn(move || load.run(seed)));
        }
        for seed in 0..4 {
            let (client, server) = runtime.block_on(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (client, listener.accept().unwrap().0)
            });
            let load = self.clone();
            threads.push(runtime.spawn(move || load.echo(server)));
            let load = self.clone();
            threads.push(runtime.spawn(move || load.ask(client, seed)));
        }
        threads
    }

    /// Ends the work and checks that nothing is missing.
    fn end(&self, runtime: &Runtime, threads: Vec<JoinHandle<()>>) {
        wait_until("each kind of work has run", || self.rounds.iter().all(|rounds| rounds.load(SeqCst) > 0));
        self.stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(self.drops.alive(), 0);
        wait_until("all counts match", || {
            let now = runtime.handle().metrics();
            now.spawned == now.ended
                && (now.running, now.runnable, now.waiting, now.timers_pending) == (0, 0, 0, 0)
                && now.global_queue == 0
                && now.local_queues.iter().all(|&n| n == 0)
        });
    }
}

fn changes_under_load(sysmon: bool, mut next: impl FnMut(&mut Random) -> (usize, Duration), changes: usize) {
    with_built(Builder::new().procs(1).sysmon(sysmon), |runtime| {
        let load = Arc::new(Load::default());
        let threads = load.start(runtime);
        let mut random = Random::new(changes as u64);
        for _ in 0..changes {
            let (n, pause) = next(&mut random);
            runtime.handle().set_procs(n).unwrap();
            assert_eq!(runtime.handle().procs(), n);
            std::thread::sleep(pause);
        }
        load.end(runtime, threads);
        // Every P is available, and no surplus P is.
        let handle = runtime.handle();
        for n in [8, 2] {
            handle.set_procs(n).unwrap();
            wait_until("all Ps are idle", || handle.metrics().idle_procs == n);
        }
    });
}

#[test]
fn changes_in_turn_at_random_and_without_pauses_under_load() {
    for sysmon in [true, false] {
        let mut numbers = [1, 8, 2].into_iter().cycle();
        changes_under_load(sysmon, |_| (numbers.next().unwrap(), 10 * MILLI), 30);
        let next =
            |random: &mut Random| (random.below(12) as usize + 1, Duration::from_micros(random.below(2000)));
        changes_under_load(sysmon, next, 300);
    }
    changes_under_load(true, |random| (random.below(5) as usize + 1, Duration::ZERO), 5000);
}

#[test]
fn plain_threads_change_the_number_concurrently() {
    with(4, |runtime| {
        let load = Arc::new(Load::default());
        let threads = load.start(runtime);
        std::thread::scope(|s| {
            for seed in 0..3 {
                s.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..300 {
                        runtime.handle().set_procs(random.below(9) as usize + 1).unwrap();
                        std::thread::sleep(Duration::from_micros(random.below(200)));
                    }
                });
            }
        });
        load.end(runtime, threads);
        runtime.handle().set_procs(3).unwrap();
        wait_until("all Ps are idle", || runtime.handle().metrics().idle_procs == 3);
    });
}

#[test]
fn green_threads_change_the_number() {
    for procs in [1, 8] {
        with(procs, |runtime| {
            let load = Arc::new(Load::default());
            let threads = load.start(runtime);
            runtime.block_on(|| {
                scope(|s| {
                    for seed in 0..3 {
                        s.spawn(move || {
                            let mut random = Random::new(seed);
                            for _ in 0..200 {
                                Handle::current().set_procs(random.below(9) as usize + 1).unwrap();
                                match random.below(3) {
                                    0 => runtime::yield_now(),
                                    1 => runtime::sleep(Duration::from_micros(random.below(200))),
                                    _ => drop(spawn(|| ()).join()),
                                }
                            }
                        });
                    }
                });
                // The caller's own P may retire.
                for n in [8, 1, 8, 1] {
                    Handle::current().set_procs(n).unwrap();
                    sleeps_at_least(MILLI);
                }
            });
            load.end(runtime, threads);
        });
    }
}

#[test]
fn timers_of_retired_ps_fire_in_time() {
    for sysmon in [true, false] {
        with_built(Builder::new().procs(8).sysmon(sysmon), |runtime| {
            for round in 0..5 {
                runtime.handle().set_procs(8).unwrap();
                let awake = Arc::new(AtomicUsize::new(0));
                let threads: Vec<_> = (0..400u64)
                    .map(|i| {
                        let awake = awake.clone();
                        runtime.spawn(move || {
                            // The threads compute before they sleep, so they run on all Ps.
                            spin(Duration::from_micros(20));
                            sleeps_at_least(Duration::from_millis(20 + i % 30));
                            awake.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                let futures: Vec<_> = (0..100u64)
                    .map(|i| runtime.spawn(sleep_async(Duration::from_millis(20 + i % 30))))
                    .collect();
                wait_until("the threads sleep", || {
                    runtime.handle().metrics().timers_pending >= 500 || awake.load(SeqCst) > 0
                });
                runtime.handle().set_procs(1 + round % 2).unwrap();
                let start = Instant::now();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                futures.into_iter().for_each(|future| future.join().unwrap());
                assert!(start.elapsed() < Duration::from_secs(20), "late: {:?}", start.elapsed());
            }
        });
    }
}

#[test]
fn the_timer_of_a_retired_idle_p_is_watched() {
    // All green threads sleep, and an M waits in the netpoller for the first deadline.
    for round in 0..30 {
        with_built(Builder::new().procs(4).sysmon(false), |runtime| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    runtime.spawn(|| {
                        spin(Duration::from_micros(50));
                        sleeps_at_least(10 * MILLI);
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_micros(200 * round));
            let start = Instant::now();
            runtime.handle().set_procs(1).unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(start.elapsed() < Duration::from_secs(20), "late: {:?}", start.elapsed());
        });
    }
}

#[test]
fn the_queue_of_a_retired_p_runs_elsewhere() {
    for sysmon in [true, false] {
        with_built(Builder::new().procs(8).sysmon(sysmon), |runtime| {
            for _ in 0..20 {
                runtime.handle().set_procs(8).unwrap();
                let ran = AtomicUsize::new(0);
                runtime.block_on(|| {
                    scope(|s| {
                        for _ in 0..8 {
                            s.spawn(|| {
                                // These threads are in the queue of this thread's P.
                                for _ in 0..200 {
                                    s.spawn(|| ran.fetch_add(1, SeqCst));
                                }
                                spin(Duration::from_micros(100));
                            });
                        }
                        runtime::yield_now();
                        Handle::current().set_procs(1).unwrap();
                    });
                });
                assert_eq!(ran.load(SeqCst), 1600);
            }
        });
    }
}

#[test]
fn a_hog_on_a_retired_p_runs_on() {
    with(4, |runtime| {
        let (stop, hogs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (stop, hogs) = (stop.clone(), hogs.clone());
                runtime.spawn(move || {
                    hogs.fetch_add(1, SeqCst);
                    while !stop.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    sleeps_at_least(MILLI);
                })
            })
            .collect();
        wait_until("all threads compute", || hogs.load(SeqCst) == 4);
        runtime.handle().set_procs(1).unwrap();
        // Other threads run beside the hogs, on the remaining P.
        for i in 0..5 {
            assert_eq!(runtime.block_on(|| spawn(move || i).join().unwrap()), i);
        }
        runtime.handle().set_procs(6).unwrap();
        runtime.block_on(|| sleeps_at_least(MILLI));
        runtime.handle().set_procs(2).unwrap();
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        wait_until("all Ps are idle", || runtime.handle().metrics().idle_procs == 2);
    });
}

#[test]
fn more_ps_run_waiting_threads() {
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let (stop, others) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stops, count) = (stop.clone(), others.clone());
        let hog = runtime.spawn(move || {
            for _ in 0..20 {
                let count = count.clone();
                spawn(move || count.fetch_add(1, SeqCst));
            }
            while !stops.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        wait_until("the other threads are spawned", || runtime.handle().metrics().spawned >= 21);
        std::thread::sleep(5 * MILLI);
        assert_eq!(others.load(SeqCst), 0, "the only P computes");
        runtime.handle().set_procs(2).unwrap();
        wait_until("the other P runs the threads", || others.load(SeqCst) == 20);
        stop.store(true, SeqCst);
        hog.join().unwrap();
    });
}

#[test]
fn a_runtime_dropped_after_changes_leaves_nothing() {
    let drops = Drops::default();
    for round in 0..30usize {
        with(1 + round % 3, |runtime| {
            for i in 0..50 {
                let token = drops.token();
                runtime.spawn(move || {
                    let _token = token;
                    runtime::sleep(if i % 2 == 0 { HOUR } else { MILLI });
                    runtime::sleep(HOUR);
                });
            }
            for n in [8, 1, 1 + round % 5] {
                runtime.handle().set_procs(n).unwrap();
                std::thread::sleep(Duration::from_micros(100 * round as u64 % 700));
            }
        });
        assert_eq!(drops.alive(), 0);
    }
}

/// Retiring Ps have timers that need an M to watch them. No further M can be started, so the P for that M
/// must retire too.
#[test]
fn fewer_ps_while_no_further_os_thread_is_allowed() {
    const PS: usize = 4;
    for _ in 0..20 {
        with_built(Builder::new().procs(PS).max_threads(PS), |runtime| {
            let (begun, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let handle = runtime.handle();
            let threads: Vec<_> = (0..PS)
                .map(|i| {
                    let (begun, go, handle) = (begun.clone(), go.clone(), handle.clone());
                    runtime.spawn(move || {
                        begun.fetch_add(1, SeqCst);
                        // Each thread has a P and an M of its own, with a timer on that P.
                        spin_until(|| begun.load(SeqCst) == PS);
                        let timer = runtime::time::after_func(HOUR, || ());
                        if i > 0 {
                            runtime::blocking(|| {
                                while !go.load(SeqCst) {
                                    std::thread::sleep(MILLI);
                                }
                            });
                        } else {
                            // The Ps of the other threads are idle, and their Ms are in `blocking`.
                            spin_until(|| handle.metrics().idle_procs == PS - 1);
                            for n in [1, PS, 2, 1, PS] {
                                handle.set_procs(n).unwrap();
                            }
                            go.store(true, SeqCst);
                        }
                        drop(timer);
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(runtime.handle().procs(), PS);
            wait_until("all Ps are idle", || runtime.handle().metrics().idle_procs == PS);
        });
    }
}

/// No thief takes what a green thread of a lone P has woken last. Thieves do from the second P on, also while
/// that green thread computes. Without sysmon no other thread would run it.
#[test]
fn what_was_woken_last_is_stolen_once_there_is_a_second_p() {
    for round in 0..20 {
        with_built(Builder::new().procs(1).sysmon(false), |runtime| {
            let computes = runtime.spawn(move || {
                let ran = Arc::new(AtomicBool::new(false));
                let woken = spawn({
                    let ran = ran.clone();
                    move || {
                        (0..2).for_each(|_| park());
                        ran.store(true, SeqCst);
                    }
                });
                runtime::yield_now();
                woken.thread().unpark();
                // In every other round it is still there when the second P comes.
                if round % 2 == 0 {
                    runtime::yield_now();
                }
                Handle::current().set_procs(2).unwrap();
                // The holder of the P looks around in one of these rounds.
                (0..200).for_each(|_| runtime::yield_now());
                woken.thread().unpark();
                spin_until(|| ran.load(SeqCst));
                woken.join().unwrap();
            });
            computes.join().unwrap();
        });
    }
}

fn spin_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
}
