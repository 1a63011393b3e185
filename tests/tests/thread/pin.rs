//! Pinning: a pinned green thread stays on its OS thread, and delays no other green thread.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Cancelled, PinGuard, park, park_timeout, pin};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, JoinHandle, scope, spawn};
use tests::{Drops, Random, everywhere, on, on_each, os_thread, spin, wait_until, with, with_built};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// A pin guard belongs to its thread: this code is ambiguous, and does not compile, if the guard is `Send` or
/// `Sync`.
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

/// Green threads that keep the Ps busy and cause moves, until `end` is called.
pub(super) struct Others {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Others {
    pub(super) fn new(number: u64) -> Self {
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

    pub(super) fn end(self) {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            assert!(thread.join().unwrap() > 0);
        }
    }
}

/// Parks in every way, and returns how often the thread moved to another OS thread.
pub(super) fn moves(seed: u64, rounds: usize) -> usize {
    let (mut random, mut os, mut moves) = (Random::new(seed), os_thread(), 0);
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
        moves += usize::from(os_thread() != os);
        os = os_thread();
    }
    moves
}

#[test]
fn a_pinned_green_thread_stays() {
    for procs in [1, 2, 8] {
        on(procs, || {
            let others = Others::new(16);
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    spawn(move || {
                        let _pinned = pin();
                        moves(seed, 300)
                    })
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), 0, "a pinned green thread has moved");
            }
            others.end();
        });
    }
}

#[test]
fn guards_nest_and_without_guards_the_thread_moves_again() {
    on(8, || {
        let others = Others::new(16);
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                spawn(move || {
                    let (outer, inner) = (pin(), pin());
                    assert_eq!(moves(seed, 100), 0);
                    drop(outer);
                    assert_eq!(moves(seed, 200), 0, "a guard is left");
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
        assert!(moves > 10, "only {moves} moves");
        others.end();
    });
}

#[test]
fn a_pinned_green_thread_that_waits_passes_its_p_on() {
    // Without sysmon, which would take the P.
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let pinned = runtime.spawn(|| {
            let _pinned = pin();
            runtime::sleep(HOUR);
        });
        wait_until("the pinned thread sleeps", || runtime.handle().metrics().timers_pending >= 1);
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
            // A pinned main waits for threads that need the only P.
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
fn a_pinned_green_thread_that_computes_lets_others_run() {
    // With a single P, sysmon lets the threads take turns.
    on(1, || {
        let done = Arc::new(AtomicBool::new(false));
        let sets = done.clone();
        let _pinned = pin();
        let os = os_thread();
        let other = spawn(move || sets.store(true, SeqCst));
        let start = Instant::now();
        while !done.load(SeqCst) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the other thread waits for the computing thread"
            );
            spin(MILLI);
        }
        other.join().unwrap();
        assert_eq!(os_thread(), os);
    });
}

#[test]
fn two_pinned_green_threads_wake_each_other() {
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
fn a_hundred_pinned_green_threads() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            let handle = runtime.handle();
            runtime.block_on(|| {
                let threads: Vec<_> = (0..100)
                    .map(|seed| {
                        spawn(move || {
                            let _pinned = pin();
                            let os = os_thread();
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
            // Ended threads have left their OS threads to others, so few more are needed.
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
    tests::wait_until("the OS threads have ended with their runtimes", || tests::system::threads() < 100);
}

#[test]
fn two_pinned_green_threads_have_two_os_threads() {
    on_each(|| {
        // Both are pinned at the same time: each waits for the other.
        let both = Arc::new(runtime::sync::Barrier::new(2));
        let meets = || {
            let both = both.clone();
            spawn(move || {
                let _pinned = pin();
                both.wait();
                os_thread()
            })
        };
        let (a, b) = (meets(), meets());
        assert_ne!(a.join().unwrap(), b.join().unwrap());
    });
}

#[test]
fn pinned_green_threads_are_cancelled_and_time_out() {
    on_each(|| {
        let drops = Drops::default();
        for round in 0..60u64 {
            let token = drops.token();
            let thread = spawn(move || {
                let _token = token;
                let _pinned = pin();
                let os = os_thread();
                let _last = tests::OnDrop(|| {
                    runtime::sleep(Duration::from_micros(100));
                    assert_eq!(os_thread(), os);
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
        let os = os_thread();
        assert!(timeout(3 * MILLI, || runtime::sleep(HOUR)).is_err());
        assert!(timeout(3 * MILLI, park).is_err());
        assert_eq!(os_thread(), os);
    });
}

#[test]
fn a_pinned_green_thread_uses_sockets() {
    use std::io::{Read, Write};
    on_each(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let echo = spawn(move || {
            let _pinned = pin();
            let os = os_thread();
            let mut byte = [0];
            while server.read(&mut byte).unwrap() == 1 {
                assert_eq!(os_thread(), os);
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
fn a_dropped_runtime_ends_pinned_green_threads() {
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
fn guards_on_plain_threads_and_in_futures() {
    everywhere(|| {
        let os = os_thread();
        let guards: Vec<_> = (0..1000).map(|_| pin()).collect();
        runtime::sleep(MILLI);
        assert_eq!(os_thread(), os);
        drop(guards);
        runtime::yield_now();
    });
    // In a future: between its polls the future has no stack and may move.
    on_each(|| {
        let future = spawn(async {
            let os = os_thread();
            let pinned = pin();
            runtime::sleep(MILLI);
            assert_eq!(os_thread(), os);
            drop(pinned);
            sleep_async(MILLI).await;
            5
        });
        assert_eq!(future.join().unwrap(), 5);
    });
}

/// A wake-up for a poll that is parked on an OS thread wakes this OS thread. The wake-up may come late, when
/// a pinned green thread waits in place there. It must not end that wait.
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
        // More plain threads than the machine has processors, so the system interrupts them between the steps
        // of a wake-up.
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
                assert!(start.elapsed() >= SLEEP, "the sleep ended too early");
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

/// Without sysmon, which would ask a green thread that keeps its P to give it up.
#[test]
fn a_yield_on_a_kept_os_thread_lets_others_run() {
    for procs in [1, 2] {
        with_built(Builder::new().procs(procs).sysmon(false), |runtime| {
            let yields_until_one_has_run = || {
                let other = spawn(|| ());
                let start = Instant::now();
                while !other.is_finished() {
                    assert!(start.elapsed() < Duration::from_secs(20), "the other thread has no turn");
                    runtime::yield_now();
                }
            };
            runtime.block_on(|| {
                let os = os_thread();
                let pinned = pin();
                (0..100).for_each(|_| yields_until_one_has_run());
                assert_eq!(os_thread(), os);
                drop(pinned);
            });
            // The same in a destructor that runs while the thread unwinds.
            let unwinds: JoinHandle<()> = runtime.spawn(move || {
                let _yields = tests::OnDrop(yields_until_one_has_run);
                std::panic::resume_unwind(Box::new(tests::ON_PURPOSE));
            });
            assert!(unwinds.join().is_err());
            assert_eq!(runtime.handle().metrics().rescues_computing, 0);
        });
    }
}

/// What a pinned green thread does to its OS thread stays there: new OS threads do not inherit it.
#[cfg(target_os = "linux")]
#[test]
fn no_os_thread_inherits_what_a_pinned_thread_has_done_to_its_own() {
    tests::alone!();
    const OTHERS: usize = 16;
    fn blocks_signal() -> bool {
        // SAFETY: all zeroes is an empty set, and the calls write into places of the right size.
        unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
            libc::sigismember(&mask, libc::SIGUSR2) == 1
        }
    }
    let directory = || std::fs::read_link("/proc/thread-self/cwd").unwrap();
    let usual = directory();
    assert_ne!(usual.to_str(), Some("/proc"));
    for round in 0..8 {
        let usual = usual.clone();
        // One P for each: no P is handed on when a green thread blocks at the barrier, so the test needs no
        // sysmon.
        with(OTHERS + 1, move |runtime| {
            let pinned = runtime.spawn(move || {
                let _pin = pin();
                // SAFETY: all zeroes is an empty set, and the calls read places of the right size. The
                // directory and the mask of this OS thread alone change.
                unsafe {
                    assert_eq!(libc::unshare(libc::CLONE_FS), 0);
                    assert_eq!(libc::chdir(c"/proc".as_ptr()), 0);
                    let mut mask: libc::sigset_t = std::mem::zeroed();
                    libc::sigaddset(&mut mask, libc::SIGUSR2);
                    libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
                }
                assert!(directory().to_str() == Some("/proc") && blocks_signal());
                let all = Arc::new(std::sync::Barrier::new(OTHERS));
                let others: Vec<_> = (0..OTHERS)
                    .map(|_| {
                        let all = all.clone();
                        let other = spawn(move || {
                            // Each on an OS thread of its own.
                            runtime::blocking(|| all.wait());
                            (directory(), blocks_signal())
                        });
                        // Passes the P on, for which an OS thread may be started.
                        runtime::sleep(Duration::from_micros(200));
                        other
                    })
                    .collect();
                others.into_iter().map(|other| other.join().unwrap()).collect::<Vec<_>>()
            });
            let seen = pinned.join().unwrap();
            let changed = seen.iter().filter(|(at, blocks)| *at != usual || *blocks).count();
            assert_eq!(changed, 0, "in round {round}: {seen:?}");
        });
    }
}
