//! `park` and `unpark`: each thread has a single token, as in std, for green and plain threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

use runtime::{spawn, thread};
use tests::{Random, on, on_each, with};

const SHORT: Duration = Duration::from_millis(5);

fn an_unpark_is_kept_and_only_one() {
    let me = thread::current();
    me.unpark();
    thread::park();
    for _ in 0..3 {
        me.unpark();
    }
    thread::park();
    let start = Instant::now();
    thread::park_timeout(SHORT);
    assert!(start.elapsed() >= SHORT, "three unparks left more than one token");
}

#[test]
fn an_unpark_before_the_park_is_kept() {
    on_each(|| spawn(an_unpark_is_kept_and_only_one).join().unwrap());
    std::thread::spawn(an_unpark_is_kept_and_only_one).join().unwrap();
}

#[test]
fn an_unpark_before_the_first_run_is_kept() {
    with(1, |runtime| {
        for _ in 0..1000 {
            let thread = runtime.spawn(thread::park);
            thread.thread().unpark();
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_new_green_thread_has_no_token_of_an_earlier_thread() {
    on_each(|| {
        for _ in 0..50 {
            let marked: Vec<_> = (0..20).map(|_| spawn(|| thread::current().unpark())).collect();
            marked.into_iter().for_each(|thread| thread.join().unwrap());
            let fresh: Vec<_> = (0..20)
                .map(|_| {
                    spawn(|| {
                        let start = Instant::now();
                        thread::park_timeout(Duration::from_millis(1));
                        assert!(start.elapsed() >= Duration::from_millis(1));
                    })
                })
                .collect();
            fresh.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

/// Returns a function that parks until `count` is `all`. It hangs if an unpark is lost. It returns the number
/// of parks.
fn parks_until(count: Arc<AtomicU64>, all: u64) -> impl FnOnce() -> u64 + Send {
    move || {
        let mut parks = 0;
        while count.load(SeqCst) < all {
            thread::park();
            parks += 1;
        }
        parks
    }
}

#[test]
fn eight_plain_threads_unpark_one_green_thread() {
    for procs in tests::PROCS {
        with(procs, |runtime| {
            for _ in 0..10 {
                let count = Arc::new(AtomicU64::new(0));
                let parker = runtime.spawn(parks_until(count.clone(), 8000));
                std::thread::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| {
                            for _ in 0..1000 {
                                count.fetch_add(1, SeqCst);
                                parker.thread().unpark();
                            }
                        });
                    }
                });
                assert!(parker.join().unwrap() <= 8001, "a park returned without an unpark");
            }
        });
    }
}

#[test]
fn a_park_returns_only_by_a_token() {
    on_each(|| {
        let count = Arc::new(AtomicU64::new(0));
        let parker = spawn(parks_until(count.clone(), 10));
        for _ in 0..10 {
            runtime::sleep(Duration::from_micros(300));
            count.fetch_add(1, SeqCst);
            parker.thread().unpark();
        }
        assert!(parker.join().unwrap() <= 10);
    });
}

#[test]
fn park_timeout_is_never_early_unless_unparked() {
    fn timed_parks(seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..50 {
            let time = Duration::from_micros(random.below(2000));
            let start = Instant::now();
            thread::park_timeout(time);
            assert!(start.elapsed() >= time, "{:?} instead of {time:?}", start.elapsed());
        }
    }
    on_each(|| {
        let threads: Vec<_> = (0..50).map(|seed| spawn(move || timed_parks(seed))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    timed_parks(7);
}

#[test]
fn an_unpark_ends_a_long_park_timeout() {
    on_each(|| {
        for time in [Duration::from_secs(3600), Duration::MAX] {
            let thread = spawn(move || thread::park_timeout(time));
            runtime::sleep(Duration::from_millis(1));
            thread.thread().unpark();
            thread.join().unwrap();
        }
    });
    let me = thread::current();
    spawn(move || me.unpark());
    thread::park_timeout(Duration::MAX);
}

#[test]
fn unparks_race_with_time_outs_and_none_is_lost() {
    on_each(|| {
        let rounds = 3000;
        let said = Arc::new(AtomicU64::new(0));
        let heard = Arc::new(AtomicU64::new(0));
        let (says, hears) = (said.clone(), heard.clone());
        let parker = spawn(move || {
            for round in 1..=rounds {
                while said.load(SeqCst) < round {
                    thread::park_timeout(Duration::from_micros(round % 50));
                }
                heard.store(round, SeqCst);
            }
        });
        let mut random = Random::new(3);
        for round in 1..=rounds {
            if random.below(3) == 0 {
                runtime::sleep(Duration::from_micros(random.below(60)));
            }
            says.store(round, SeqCst);
            parker.thread().unpark();
            while hears.load(SeqCst) < round {
                thread::yield_now();
            }
        }
        parker.join().unwrap();
    });
}

#[test]
fn an_ended_thread_may_be_unparked() {
    on_each(|| {
        let dead: Vec<_> = (0..500).map(|_| spawn(|| ())).collect();
        let mut handles = Vec::new();
        for thread in dead {
            handles.push(thread.thread().clone());
            thread.join().unwrap();
        }
        let plain = std::thread::spawn(thread::current).join().unwrap();
        let alive: Vec<_> = (0..500)
            .map(|_| {
                spawn(|| {
                    let start = Instant::now();
                    thread::park_timeout(SHORT);
                    assert!(start.elapsed() >= SHORT, "woken by the unpark of an ended thread");
                })
            })
            .collect();
        for _ in 0..3 {
            handles.iter().chain([&plain]).for_each(thread::Thread::unpark);
            thread::yield_now();
        }
        drop(handles);
        alive.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two threads of any kind pass a number back and forth.
fn ping_pong(
    rounds: u64,
    start_other: impl FnOnce(Box<dyn FnOnce() + Send>, &mut dyn FnMut(thread::Thread)),
) {
    let ball = Arc::new(AtomicU64::new(0));
    let me = thread::current();
    let others = ball.clone();
    let play = move |ball: &AtomicU64, mine: u64, other: &thread::Thread| {
        for round in 0..rounds {
            while ball.load(SeqCst) != 2 * round + mine {
                thread::park();
            }
            ball.store(2 * round + mine + 1, SeqCst);
            other.unpark();
        }
    };
    start_other(Box::new(move || play(&others, 1, &me)), &mut |other| play(&ball, 0, &other));
    assert_eq!(ball.load(SeqCst), 2 * rounds);
}

fn with_a_green_one(rounds: u64) {
    ping_pong(rounds, |other, play| {
        let other = spawn(other);
        play(other.thread().clone());
        other.join().unwrap();
    });
}

#[test]
fn two_green_threads_play_ping_pong() {
    on_each(|| with_a_green_one(100_000));
}

#[test]
fn many_pairs_play_ping_pong() {
    on_each(|| {
        let pairs: Vec<_> = (0..20).map(|_| spawn(|| with_a_green_one(2000))).collect();
        pairs.into_iter().for_each(|pair| pair.join().unwrap());
    });
}

#[test]
fn a_plain_and_a_green_thread_play_ping_pong() {
    with_a_green_one(3000);
}

#[test]
fn a_green_and_a_plain_thread_play_ping_pong() {
    on_each(|| {
        ping_pong(2000, |other, play| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let plain = std::thread::spawn(move || {
                sender.send(thread::current()).unwrap();
                other();
            });
            play(receiver.recv().unwrap());
            plain.join().unwrap();
        });
    });
}

#[test]
fn two_runtimes_play_ping_pong() {
    with(1, |one| {
        let two = tests::runtime(1);
        one.block_on(|| {
            ping_pong(3000, |other, play| {
                let other = two.spawn(other);
                play(other.thread().clone());
                other.join().unwrap();
            });
        });
    });
}

#[test]
fn a_park_in_a_poll_keeps_the_wake_up_of_the_future() {
    on_each(|| {
        for late in [false, true] {
            let (polls, flag) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (counted, raised) = (polls.clone(), flag.clone());
            let future = std::future::poll_fn(move |cx| {
                if counted.fetch_add(1, SeqCst) > 0 {
                    return Poll::Ready(());
                }
                let (waker, me, raised) = (cx.waker().clone(), thread::current(), raised.clone());
                let flag = raised.clone();
                spawn(move || {
                    if late {
                        runtime::sleep(Duration::from_millis(1));
                    }
                    // The waker is called while the poll is parked. The future must be polled again after
                    // that poll.
                    waker.wake();
                    runtime::sleep(Duration::from_millis(1));
                    flag.store(true, SeqCst);
                    me.unpark();
                });
                while !raised.load(SeqCst) {
                    thread::park();
                }
                Poll::Pending
            });
            spawn(future).join().unwrap();
            assert!(flag.load(SeqCst) && polls.load(SeqCst) == 2);
        }
    });
}

#[test]
fn the_token_of_a_future_stays_until_its_next_park() {
    on(2, || {
        let future = async {
            thread::current().unpark();
            // The await is no park, so the token stays.
            runtime::time::sleep_async(Duration::from_millis(1)).await;
            thread::park();
        };
        spawn(future).join().unwrap();
    });
}

#[test]
fn a_plain_thread_has_a_token_besides_that_of_std() {
    let me = thread::current();
    std::thread::current().unpark();
    let start = Instant::now();
    thread::park_timeout(SHORT);
    assert!(start.elapsed() >= SHORT, "the token of std has ended the park");
    me.unpark();
    std::thread::park();
    thread::park();
}
