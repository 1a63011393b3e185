//! Pinned green threads keep their OS thread, and delay no other green thread.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Cancelled, PinGuard, park, park_timeout, pin};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, JoinHandle, scope, spawn};
use tests::{Drops, Random, everywhere, on, on_each, spin, system, wait_until, with, with_built};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// The guard is of its thread alone: this is ambiguous, and does not compile, if it is `Send` (or `Sync`).
const _: fn() = || {
    trait Ambiguous<A> {
        fn check() {}
    }
    struct IsSend;
    struct IsSync;
    impl<T: ?Sized> Ambiguous<()> for T {}
    impl<T: ?Sized + Send> Ambiguous<IsSend> for T {}
    impl<T: ?Sized + Sync> Ambiguous<IsSync> for T {}
    <PinGuard as Ambiguous<_>>::check();
};

fn here() -> ThreadId {
    std::thread::current().id()
}

/// Others that keep the Ps busy and the green threads moving, until it is dropped.
struct Others {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Others {
    fn new(number: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..number).map(|seed| {
            let stop = stop.clone();
            spawn(move || {
                let (mut random, mut rounds) = (Random::new(seed), 0);
                while !stop.load(SeqCst) {
                    match random.below(5) {
                        0 => _ = spin(Duration::from_micros(random.below(100))),
                        1 => runtime::blocking(|| std::thread::sleep(Duration::from_micros(20))),
                        2 => runtime::yield_now(),
                        _ => runtime::sleep(Duration::from_micros(random.below(100))),
                    }
                    rounds += 1;
                }
                rounds
            })
        });
        Others { threads: threads.collect(), stop }
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            assert!(thread.join().unwrap() > 0);
        }
    }
}

/// Parks in every way, and counts how often it finds itself on another OS thread.
fn moves(seed: u64, rounds: usize) -> usize {
    let (mut random, mut os, mut moves) = (Random::new(seed), here(), 0);
    let me = runtime::thread::current();
    for _ in 0..rounds {
        match random.below(7) {
            0 => runtime::yield_now(),
            1 => {
                let me = me.clone();
                let waker = spawn(move || me.unpark());
                park();
                waker.join().unwrap();
            }
            2 => drop(spawn(|| runtime::sleep(Duration::from_micros(10))).join()),
            3 => runtime::blocking(|| std::thread::sleep(Duration::from_micros(10))),
            4 => park_timeout(Duration::from_micros(20)),
            5 => runtime::block_on(sleep_async(Duration::from_micros(20))),
            _ => runtime::sleep(Duration::from_micros(random.below(60))),
        }
        moves += usize::from(here() != os);
        os = here();
    }
    moves
}

#[test]
fn a_pinned_one_stays() {
    for procs in [1, 2, 8] {
        on(procs, || {
            let others = Others::new(16);
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    spawn(move || {
                        let _pinned = pin();
                        moves(seed, 1000)
                    })
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), 0, "it has moved");
            }
            others.end();
        });
    }
}

#[test]
fn one_that_is_not_pinned_moves() {
    // Or the test above shows nothing.
    on(8, || {
        let others = Others::new(16);
        let threads: Vec<_> = (0..8).map(|seed| spawn(move || moves(seed, 500))).collect();
        let moves: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(moves > 10, "{moves} moves only");
        others.end();
    });
}

#[test]
fn guards_nest_and_after_the_last_one_it_moves_again() {
    on(8, || {
        let others = Others::new(16);
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                spawn(move || {
                    let (outer, inner) = (pin(), pin());
                    assert_eq!(moves(seed, 100), 0);
                    drop(outer);
                    assert_eq!(moves(seed, 200), 0, "one guard is left");
                    drop(inner);
                    {
                        let _again = pin();
                        assert_eq!(moves(seed, 100), 0);
                    }
                    let _ = catch_unwind(|| {
                        let _unwound = pin();
                        std::panic::resume_unwind(Box::new(1));
                    });
                    moves(seed, 500)
                })
            })
            .collect();
        let moves: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(moves > 10, "{moves} moves only");
        others.end();
    });
}

#[test]
fn a_pinned_one_that_waits_leaves_its_p_to_others() {
    // Without sysmon no other thread takes the P away.
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let pinned = runtime.spawn(|| {
            let _pinned = pin();
            runtime::sleep(HOUR);
        });
        wait_until("it sleeps", || runtime.handle().metrics().timers_pending >= 1);
        runtime.block_on(|| {
            let threads: Vec<_> = (0..100).map(|_| spawn(|| runtime::sleep(MILLI))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!(!pinned.is_finished());
        pinned.cancel();
        assert!(pinned.join().unwrap_err().is::<Cancelled>());
    });
    for sysmon in [false, true] {
        with_built(Builder::new().procs(1).sysmon(sysmon), |runtime| {
            // A pinned main, whose threads need the only P.
            runtime.block_on(|| {
                let _pinned = pin();
                for i in 0..300 {
                    assert_eq!(spawn(move || i).join().unwrap(), i);
                }
                scope(|s| {
                    let me = runtime::thread::current();
                    s.spawn(move || me.unpark());
                    park();
                    s.spawn(|| runtime::sleep(MILLI));
                });
            });
        });
    }
}

#[test]
fn a_pinned_one_that_computes_lets_others_run() {
    // With one P they take turns, thanks to sysmon.
    on(1, || {
        let done = Arc::new(AtomicBool::new(false));
        let sets = done.clone();
        let _pinned = pin();
        let os = here();
        let other = spawn(move || sets.store(true, SeqCst));
        let start = Instant::now();
        while !done.load(SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(20), "the other waits for one that computes");
            spin(MILLI);
        }
        other.join().unwrap();
        assert_eq!(here(), os);
    });
}

#[test]
fn a_pinned_one_wakes_those_who_wait_for_it() {
    on_each(|| {
        let (ball, main) = (Arc::new(AtomicUsize::new(0)), runtime::thread::current());
        let theirs = ball.clone();
        let other = spawn(move || {
            let _pinned = pin();
            for round in 0..500 {
                while theirs.load(SeqCst) != 2 * round + 1 {
                    park();
                }
                theirs.store(2 * round + 2, SeqCst);
                main.unpark();
            }
        });
        let _pinned = pin();
        for round in 0..500 {
            ball.store(2 * round + 1, SeqCst);
            other.thread().unpark();
            while ball.load(SeqCst) != 2 * round + 2 {
                park();
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn many_at_once() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            let handle = runtime.handle();
            runtime.block_on(|| {
                let threads: Vec<_> = (0..100)
                    .map(|seed| {
                        spawn(move || {
                            let _pinned = pin();
                            let os = here();
                            let moves = moves(seed, 20);
                            runtime::sleep(20 * MILLI);
                            (os, moves)
                        })
                    })
                    .collect();
                for thread in threads {
                    assert_eq!(thread.join().unwrap().1, 0);
                }
            });
            // A green thread that ended has left its OS thread to the others.
            let threads = handle.metrics().threads;
            for _ in 0..5 {
                runtime.block_on(|| {
                    let threads: Vec<_> =
                        (0..50).map(|seed| spawn(move || drop((pin(), moves(seed, 5))))).collect();
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                });
            }
            let after = handle.metrics().threads;
            assert!(after <= threads + 20, "{threads} OS threads, then {after}");
        });
    }
    #[cfg(target_os = "linux")]
    tests::wait_until("their OS threads are gone with their runtimes", || system::threads() < 100);
}

#[test]
fn two_pinned_at_the_same_time_are_on_two_os_threads() {
    on_each(|| {
        let (a, b) = (
            spawn(|| {
                let _pinned = pin();
                runtime::sleep(20 * MILLI);
                here()
            }),
            spawn(|| {
                let _pinned = pin();
                runtime::sleep(20 * MILLI);
                here()
            }),
        );
        assert_ne!(a.join().unwrap(), b.join().unwrap());
    });
}

#[test]
fn a_pinned_one_is_cancelled_and_timed_out() {
    on_each(|| {
        let drops = Drops::default();
        for round in 0..60u64 {
            let token = drops.token();
            let thread = spawn(move || {
                let _token = token;
                let _pinned = pin();
                let os = here();
                let _last = tests::OnDrop(|| {
                    runtime::sleep(Duration::from_micros(100));
                    assert_eq!(here(), os);
                });
                match round % 3 {
                    0 => runtime::sleep(HOUR),
                    1 => scope(|s| drop(s.spawn(|| runtime::sleep(HOUR)))),
                    _ => loop {
                        park();
                    },
                }
            });
            match round % 4 {
                0 => {}
                1 => runtime::yield_now(),
                _ => runtime::sleep(Duration::from_micros(round * 10)),
            }
            thread.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
        }
        assert_eq!((drops.count(), drops.alive()), (60, 0));
        let _pinned = pin();
        let os = here();
        assert!(timeout(3 * MILLI, || runtime::sleep(HOUR)).is_err());
        assert!(timeout(3 * MILLI, park).is_err());
        assert_eq!(here(), os);
    });
}

#[test]
fn pinned_ones_and_sockets() {
    use std::io::{Read, Write};
    on_each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let echo = spawn(move || {
            let _pinned = pin();
            let os = here();
            let mut byte = [0];
            while server.read(&mut byte).unwrap() == 1 {
                assert_eq!(here(), os);
                server.write_all(&byte).unwrap();
            }
        });
        let _pinned = pin();
        for i in 0..200 {
            client.write_all(&[i]).unwrap();
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [i]);
        }
        drop(client);
        echo.join().unwrap();
    });
}

#[test]
fn a_runtime_that_is_dropped_ends_pinned_ones() {
    let drops = Drops::default();
    for round in 0..20u64 {
        with(2, |runtime| {
            for _ in 0..10 {
                let token = drops.token();
                runtime.spawn(move || {
                    let _token = token;
                    let _pinned = pin();
                    runtime::sleep(HOUR);
                });
            }
            std::thread::sleep(Duration::from_micros(100 * round));
        });
        assert_eq!(drops.alive(), 0);
    }
}

#[test]
fn a_guard_anywhere_does_no_harm() {
    everywhere(|| {
        let os = here();
        let guards: Vec<_> = (0..1000).map(|_| pin()).collect();
        runtime::sleep(MILLI);
        assert_eq!(here(), os);
        drop(guards);
        runtime::yield_now();
    });
    // In a future: between its polls it has no stack, and is not kept anywhere.
    on_each(|| {
        let future = spawn(async {
            let os = here();
            let pinned = pin();
            runtime::sleep(MILLI);
            assert_eq!(here(), os);
            drop(pinned);
            sleep_async(MILLI).await;
            5
        });
        assert_eq!(future.join().unwrap(), 5);
    });
}

/// An OS thread is woken for the polls that are parked on it, too. Such a wake-up may come late, when a pinned green thread
/// already waits in place there. It does not end that wait.
#[test]
fn a_pinned_wait_is_not_ended_by_a_wake_up_for_a_poll() {
    const SLEEP: Duration = Duration::from_micros(50);
    with(2, |runtime| {
        let stop = Arc::new(AtomicBool::new(false));
        let (threads, polls): (Vec<_>, Vec<_>) = (0..8)
            .map(|_| {
                let (told, thread) = std::sync::mpsc::channel();
                let poll = runtime.spawn({
                    let stop = stop.clone();
                    async move {
                        told.send(runtime::thread::current()).unwrap();
                        while !stop.load(SeqCst) {
                            park();
                        }
                    }
                });
                (thread.recv().unwrap(), poll)
            })
            .unzip();
        // More plain threads than the machine has processors: they lose theirs between any two steps of a wake-up.
        let wakers: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    while !stop.load(SeqCst) {
                        thread.unpark();
                        spin(Duration::from_micros(5));
                    }
                    thread.unpark();
                })
            })
            .collect();
        let waits = || {
            for _ in 0..2_000 {
                let _pinned = pin();
                let start = Instant::now();
                runtime::sleep(SLEEP);
                assert!(start.elapsed() >= SLEEP, "woken too early");
                runtime::yield_now();
            }
        };
        let pinned: Vec<_> = (0..4).map(|_| runtime.spawn(waits)).collect();
        let ended: Vec<_> = pinned.into_iter().map(|pinned| pinned.join()).collect();
        stop.store(true, SeqCst);
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        polls.into_iter().for_each(|poll| poll.join().unwrap());
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

/// Without sysmon, which would ask a green thread that keeps its P for it.
#[test]
fn a_yield_on_a_kept_os_thread_lets_others_run() {
    for procs in [1, 2] {
        with_built(Builder::new().procs(procs).sysmon(false), |runtime| {
            let yields_until_one_has_run = || {
                let other = spawn(|| ());
                let start = Instant::now();
                while !other.is_finished() {
                    assert!(start.elapsed() < Duration::from_secs(20), "the other has no turn");
                    runtime::yield_now();
                }
            };
            runtime.block_on(|| {
                let os = here();
                let pinned = pin();
                (0..100).for_each(|_| yields_until_one_has_run());
                assert_eq!(here(), os);
                drop(pinned);
            });
            // While it unwinds.
            let unwinds: JoinHandle<()> = runtime.spawn(move || {
                let _yields = tests::OnDrop(yields_until_one_has_run);
                std::panic::resume_unwind(Box::new(tests::ON_PURPOSE));
            });
            assert!(unwinds.join().is_err());
            assert_eq!(runtime.handle().metrics().rescues_computing, 0);
        });
    }
}
