//! `time::Timer` with a channel: when its message comes, what `stop` and `reset` return, and that no old
//! message is received.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::{RecvTimeoutError, TryRecvError};
use runtime::time::{Timer, at, timeout};
use runtime::{select, thread};
use tests::{Random, everywhere, on, on_each, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_timer_fires_once_and_never_early() {
    everywhere(|| {
        for time in [0, 1, 3, 10] {
            let start = Instant::now();
            let timer = Timer::new(ms(time));
            let due = timer.channel().recv().unwrap();
            assert!(due >= start + ms(time) && due <= Instant::now());
            assert_eq!(timer.channel().try_recv(), Err(TryRecvError::Empty));
            assert_eq!(timer.channel().recv_timeout(ms(2)), Err(RecvTimeoutError::Timeout));
        }
    });
}

/// The message is the due time, however late it is received.
#[test]
fn the_message_is_the_due_time() {
    everywhere(|| {
        let start = Instant::now();
        let timers: Vec<_> = [3, 1, 2].map(|time| Timer::new(ms(time))).into();
        let made = Instant::now();
        runtime::sleep(ms(10));
        for (time, timer) in [3, 1, 2].into_iter().zip(&timers) {
            let due = timer.channel().try_recv().unwrap();
            assert!((start + ms(time)..=made + ms(time)).contains(&due));
        }
    });
}

#[test]
fn stop_returns_true_if_the_timer_was_pending() {
    everywhere(|| {
        let timer = Timer::new(HOUR);
        assert!(timer.stop());
        assert!(!timer.stop(), "the timer is stopped");
        assert!(!timer.reset(Duration::ZERO), "the timer is stopped");
        assert!(timer.channel().recv().is_ok());
        assert!(!timer.stop(), "the message was received");
        assert!(!timer.reset(HOUR));
        assert!(timer.reset(HOUR));
        assert!(timer.stop());
    });
}

/// A timer that has fired without a receive counts as pending. `stop` and `reset` remove its message.
#[test]
fn an_unreceived_message_is_discarded() {
    everywhere(|| {
        let timer = Timer::new(Duration::ZERO);
        for _ in 0..1000 {
            assert_eq!(timer.channel().len(), 1);
            assert!(timer.reset(HOUR));
            assert_eq!(timer.channel().try_recv(), Err(TryRecvError::Empty), "an old message");
            assert!(timer.reset(Duration::ZERO));
            assert!(timer.stop());
            assert_eq!(timer.channel().try_recv(), Err(TryRecvError::Empty), "an old message");
            assert!(!timer.reset(Duration::ZERO));
        }
    });
}

#[test]
fn reset_counts_from_its_call() {
    everywhere(|| {
        let timer = Timer::new(ms(10));
        runtime::sleep(ms(5));
        let start = Instant::now();
        assert!(timer.reset(ms(15)));
        assert!(timer.channel().recv().unwrap() >= start + ms(15));
        let start = Instant::now();
        assert!(!timer.reset(ms(2)));
        assert!(timer.channel().recv().unwrap() >= start + ms(2));
    });
}

#[test]
fn a_time_beyond_the_clock_never_comes_and_is_pending() {
    everywhere(|| {
        let timer = Timer::new(Duration::MAX);
        assert_eq!(timer.channel().recv_timeout(ms(2)), Err(RecvTimeoutError::Timeout));
        assert!(timer.reset(Duration::MAX));
        assert!(timer.stop());
        assert!(!timer.reset(Duration::MAX));
        assert!(timer.reset(Duration::ZERO));
        assert!(timer.channel().recv().is_ok());
    });
}

#[test]
fn a_waiting_receiver_sees_an_earlier_time() {
    everywhere(|| {
        let timer = Timer::new(HOUR);
        let waiting = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                waiting.store(true, Ordering::Release);
                timer.channel().recv().unwrap()
            });
            wait_until("the receiver is about to wait", || waiting.load(Ordering::Acquire));
            runtime::sleep(ms(2));
            let start = Instant::now();
            assert!(timer.reset(ms(1)));
            assert!(receiver.join().unwrap() >= start + ms(1));
        });
    });
}

#[test]
fn a_waiting_receiver_sees_a_later_time() {
    everywhere(|| {
        let timer = Timer::new(ms(4));
        thread::scope(|scope| {
            let start = Instant::now();
            let receiver = scope.spawn(|| timer.channel().recv().unwrap());
            runtime::sleep(ms(1));
            // If the message was received before the reset, nothing can be checked.
            let pending = timer.reset(ms(12));
            let due = receiver.join().unwrap();
            assert!(!pending || due >= start + ms(13));
        });
    });
}

#[test]
fn a_receiver_of_a_stopped_timer_sees_the_next_setting() {
    everywhere(|| {
        let timer = Timer::new(HOUR);
        assert!(timer.stop());
        thread::scope(|scope| {
            let receiver = scope.spawn(|| timer.channel().recv().unwrap());
            runtime::sleep(ms(2));
            let start = Instant::now();
            assert!(!timer.reset(ms(1)));
            assert!(receiver.join().unwrap() >= start + ms(1));
        });
    });
}

#[test]
fn a_single_receiver_of_several_gets_the_message() {
    on_each(|| {
        let timer = Arc::new(Timer::new(ms(2)));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let timer = timer.clone();
                runtime::spawn(move || timer.channel().recv_timeout(ms(30)).is_ok())
            })
            .collect();
        let got: usize = threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum();
        assert_eq!(got, 1);
    });
}

/// Each setting ends in a single way: its message is received, or a `stop` or `reset` returns `true`.
#[test]
fn stop_and_reset_race_with_receivers() {
    everywhere(|| {
        let timer = Timer::new(Duration::ZERO);
        let (armed, ended, over) = (AtomicUsize::new(1), AtomicUsize::new(0), AtomicBool::new(false));
        let count = |pending: bool| _ = ended.fetch_add(usize::from(pending), Ordering::Relaxed);
        thread::scope(|scope| {
            for seed in 0..3 {
                let (timer, armed, count) = (&timer, &armed, &count);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..2000 {
                        if random.below(3) == 0 {
                            count(timer.stop());
                        } else {
                            armed.fetch_add(1, Ordering::Relaxed);
                            count(timer.reset(Duration::from_micros(random.below(20))));
                        }
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        count(timer.channel().recv_timeout(Duration::from_micros(50)).is_ok());
                    }
                });
            }
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    select! {
                        recv(timer.channel()) -> due => count(due.is_ok()),
                        default(Duration::from_micros(30)) => {}
                    }
                }
            });
            scope.spawn(|| {
                runtime::sleep(ms(20));
                over.store(true, Ordering::Relaxed);
            });
        });
        count(timer.stop());
        assert_eq!(armed.into_inner(), ended.load(Ordering::Relaxed), "settings and their ends");
    });
}

#[test]
fn timers_in_a_select() {
    everywhere(|| {
        let (first, second) = (Timer::new(ms(2)), Timer::new(HOUR));
        select! {
            recv(first.channel()) -> due => assert!(due.is_ok()),
            recv(second.channel()) -> _ => panic!("the hour has not passed"),
        }
        // The second timer is reset while the select waits.
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime::sleep(ms(2));
                assert!(second.reset(ms(1)));
            });
            select! {
                recv(first.channel()) -> _ => panic!("the first timer has fired before"),
                recv(second.channel()) -> due => assert!(due.is_ok()),
            }
        });
        select! {
            recv(second.channel()) -> _ => panic!("the second timer has fired before"),
            default => {}
        }
    });
}

#[test]
fn a_timer_in_a_future() {
    on_each(|| {
        let timer = Arc::new(Timer::new(HOUR));
        let its = timer.clone();
        let waiter = runtime::spawn(async move { its.fired_async().await });
        runtime::sleep(ms(2));
        let start = Instant::now();
        assert!(timer.reset(ms(2)));
        assert!(waiter.join().unwrap() >= start + ms(2));
        // A future that is dropped while it waits takes no message.
        let start = Instant::now();
        assert!(!timer.reset(ms(5)));
        let dropped = runtime::time::timeout_async(ms(1), timer.fired_async());
        assert!(runtime::block_on(dropped).is_err() || start.elapsed() >= ms(5));
        timer.reset(ms(1));
        runtime::block_on(async { timer.fired_async().await });
        assert!(!timer.stop());
    });
}

#[test]
fn a_cancelled_receiver_takes_no_message() {
    on_each(|| {
        let timer = Arc::new(Timer::new(ms(3)));
        let its = timer.clone();
        let receiver = runtime::spawn(move || its.channel().recv());
        runtime::sleep(ms(1));
        receiver.cancel();
        let received = receiver.join().is_ok();
        assert!(timer.channel().recv_timeout(ms(20)).is_ok() ^ received);
        assert!(timeout(ms(1), || timer.channel().recv()).is_err());
        assert!(!timer.stop());
    });
}

#[test]
fn clones_of_the_channel_get_no_message_after_the_timer_is_dropped() {
    everywhere(|| {
        let timer = Timer::new(Duration::ZERO);
        let channel = timer.channel().clone();
        drop(timer);
        assert_eq!(channel.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(channel.recv_timeout(ms(1)), Err(RecvTimeoutError::Timeout));
    });
}

/// Waiters that started in any order wake in the order of their times.
#[test]
fn at_wakes_in_the_order_of_the_times() {
    on_each(|| {
        let times: Vec<u64> = vec![8, 5, 2, 7, 1, 6, 0, 4, 3, 9];
        let (s, r) = runtime::channel::unbounded();
        let start = Instant::now() + ms(5);
        for time in times {
            let s = s.clone();
            runtime::spawn(move || {
                let due = at(start + ms(4 * time)).recv().unwrap();
                s.send((due, Instant::now())).unwrap();
            });
        }
        drop(s);
        let mut woken: Vec<_> = r.iter().collect();
        assert!(woken.iter().all(|(due, now)| now >= due), "early");
        woken.sort_by_key(|(_, now)| *now);
        let late = woken.iter().any(|(due, now)| *now >= *due + ms(4));
        assert!(late || woken.is_sorted_by_key(|(due, _)| *due), "not in order: {woken:?}");
    });
}

/// As in a server: each connection has a timer that is reset at each message and hardly ever fires.
#[test]
fn timers_that_are_reset_all_the_time() {
    on(2, || {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                runtime::spawn(|| {
                    let timer = Timer::new(HOUR);
                    for _ in 0..100 {
                        select! {
                            recv(timer.channel()) -> _ => panic!("the hour has not passed"),
                            default(Duration::from_micros(100)) => assert!(timer.reset(HOUR)),
                        }
                    }
                    assert!(timer.reset(ms(1)));
                    timer.channel().recv().unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
