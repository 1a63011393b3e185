//! Many threads at a channel: each message is received once, and the order of each sender is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::{RecvTimeoutError, SendTimeoutError, TryRecvError, bounded, unbounded};
use runtime::{sleep, spawn, yield_now};
use tests::channels::{KINDS, Kind, start};
use tests::crowd::in_each;
use tests::{Random, on};

#[test]
fn one_sender_to_one_receiver_in_order() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..3 {
                const COUNT: u64 = 3000;
                let (s, r) = kind.make();
                let sender = start(world, move || (0..COUNT).for_each(|n| s.send(n).unwrap()));
                let receiver = start(world / 2, move || {
                    (0..COUNT).for_each(|n| assert_eq!(r.recv(), Ok(n)));
                    assert!(r.recv().is_err());
                });
                sender.join();
                receiver.join();
            }
        }
    });
}

#[test]
fn many_senders_to_many_receivers() {
    in_each(|| {
        for kind in KINDS {
            const COUNT: usize = 1500;
            const THREADS: usize = 4;
            let (s, r) = kind.make::<usize>();
            let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..COUNT).map(|_| AtomicUsize::new(0)).collect());
            let threads: Vec<_> = (0..2 * THREADS)
                .map(|i| {
                    let (s, r, seen) = (s.clone(), r.clone(), Arc::clone(&seen));
                    let green = if kind == Kind::Bounded(0) { 2 * i } else { i };
                    start(green, move || {
                        for n in 0..COUNT {
                            if i < THREADS {
                                s.send(n).unwrap();
                            } else {
                                seen[r.recv().unwrap()].fetch_add(1, SeqCst);
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join());
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            assert!(seen.iter().all(|n| n.load(SeqCst) == THREADS), "{kind:?}");
        }
    });
}

/// Each receiver sees the messages of each sender in the order in which they were sent.
#[test]
fn the_order_of_each_sender_is_kept() {
    in_each(|| {
        for kind in KINDS {
            const COUNT: usize = 1000;
            let (s, r) = kind.make();
            let senders: Vec<_> = (0..3)
                .map(|i| {
                    let s = s.clone();
                    spawn(move || (0..COUNT).for_each(|n| s.send((i, n)).unwrap()))
                })
                .collect();
            drop(s);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || {
                        let mut next = [0; 3];
                        let mut count = 0;
                        for (i, n) in r {
                            assert!(n >= next[i], "{kind:?}: {n} of sender {i} after {}", next[i]);
                            next[i] = n + 1;
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let count: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
            assert_eq!(count, 3 * COUNT);
        }
    });
}

#[test]
fn a_single_message_and_the_disconnection() {
    in_each(|| {
        for kind in [Kind::Bounded(0), Kind::Bounded(1), Kind::Unbounded] {
            for i in 0..300 {
                let (s, r) = kind.make();
                let sender = spawn(move || s.send(i));
                let receiver = spawn(move || r.recv());
                let received = receiver.join().unwrap();
                assert_eq!(received, Ok(i));
                assert_eq!(sender.join().unwrap(), Ok(()));
            }
        }
    });
}

#[test]
fn both_ends_are_dropped_while_in_use() {
    in_each(|| {
        let mut random = Random::new(9);
        for kind in KINDS {
            for _ in 0..100 {
                let (s, r) = kind.make();
                let (a, b) = (random.below(4), random.below(4));
                let sender =
                    start(random.below(2) as usize, move || (0..a).filter(|n| s.send(*n).is_ok()).count());
                let receiver =
                    start(random.below(2) as usize, move || (0..b).filter(|_| r.recv().is_ok()).count());
                let (sent, received) = (sender.join(), receiver.join());
                assert!(received <= sent && sent <= a as usize);
                if kind == Kind::Bounded(0) {
                    assert_eq!(sent, received, "each send of a rendezvous has its receive");
                }
            }
        }
    });
}

#[test]
fn time_outs_on_both_sides_lose_nothing() {
    in_each(|| {
        for kind in [Kind::Bounded(0), Kind::Bounded(2)] {
            const COUNT: u32 = 40;
            let (s, r) = kind.make();
            let sender = start(0, move || {
                for n in 0..COUNT {
                    if n % 2 == 0 {
                        sleep(Duration::from_micros(700));
                    }
                    while let Err(error) = s.send_timeout(n, Duration::from_micros(300)) {
                        assert_eq!(error, SendTimeoutError::Timeout(n));
                    }
                }
            });
            let receiver = start(1, move || {
                for n in 0..COUNT {
                    if n % 3 == 0 {
                        sleep(Duration::from_micros(700));
                    }
                    loop {
                        match r.recv_timeout(Duration::from_micros(300)) {
                            Ok(got) => break assert_eq!(got, n, "{kind:?}"),
                            Err(error) => assert_eq!(error, RecvTimeoutError::Timeout),
                        }
                    }
                }
            });
            sender.join();
            receiver.join();
        }
    });
}

/// A message that was sent before a receive is visible to that receive: each thread sends, and must then find
/// a message.
#[test]
fn a_sent_message_is_visible_to_a_later_receive() {
    in_each(|| {
        for kind in [Kind::Bounded(1), Kind::Unbounded] {
            let (s, r) = kind.make();
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let (s, r) = (s.clone(), r.clone());
                    start(i, move || {
                        for _ in 0..500 {
                            s.send(0).unwrap();
                            // At this point more messages were sent than received, so a message is left for
                            // this thread.
                            r.try_recv().expect("each thread sends before it receives");
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join());
        }
    });
}

#[test]
fn the_length_stays_within_the_capacity() {
    in_each(|| {
        const CAPACITY: usize = 50;
        let (s, r) = bounded(CAPACITY);
        let watcher = {
            let s = s.clone();
            spawn(move || {
                for _ in 0..2000 {
                    assert!(s.len() <= CAPACITY);
                    yield_now();
                }
            })
        };
        let sender = start(1, move || (0..5000).for_each(|n| s.send(n).unwrap()));
        let mut count = 0;
        while let Ok(n) = r.recv() {
            assert_eq!(n, count);
            assert!(r.len() <= CAPACITY);
            count += 1;
        }
        sender.join();
        watcher.join().unwrap();
        assert_eq!(count, 5000);
    });
}

/// Thousands of green threads, each waiting at its own channel, form a chain.
#[test]
fn a_long_chain_of_green_threads() {
    in_each(|| {
        const LENGTH: u64 = 3000;
        let (first, mut r) = bounded(0);
        for _ in 0..LENGTH {
            let (s, next) = bounded(0);
            spawn(move || s.send(r.recv().unwrap() + 1u64).unwrap());
            r = next;
        }
        first.send(0).unwrap();
        assert_eq!(r.recv(), Ok(LENGTH));
    });
}

#[test]
fn handles_are_cloned_and_dropped_in_use() {
    in_each(|| {
        let (s, r) = unbounded();
        let sum = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let (s, r, sum) = (s.clone(), r.clone(), Arc::clone(&sum));
                start(i, move || {
                    for n in 0..300 {
                        s.clone().send(n).unwrap();
                        sum.fetch_add(r.clone().recv().unwrap(), SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
        assert_eq!(sum.load(SeqCst), 6 * 299 * 150);
        assert!(r.is_empty());
    });
}

#[test]
fn twenty_thousand_round_trips() {
    on(2, || {
        let (there, r) = bounded::<u32>(0);
        let (s, back) = bounded(0);
        let pong = spawn(move || r.iter().for_each(|n| s.send(n + 1).unwrap()));
        for n in 0..20_000 {
            there.send(n).unwrap();
            assert_eq!(back.recv(), Ok(n + 1));
        }
        drop(there);
        pong.join().unwrap();
    });
}
