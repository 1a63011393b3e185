//! Waiting at a channel: which event wakes a waiter, in what order, on green and plain threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use runtime::channel::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, bounded};
use runtime::{sleep, spawn, yield_now};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::on;

#[test]
fn a_waiting_receiver_gets_the_message() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..2 {
                let (s, r) = kind.make();
                let receiver = start(world, move || (r.recv(), r.recv_timeout(LONG), r.recv()));
                for n in 1..=2 {
                    sleep(A_WHILE);
                    s.send(n).unwrap();
                }
                sleep(A_WHILE);
                drop(s);
                assert_eq!(receiver.join(), (Ok(1), Ok(2), Err(RecvError)), "{kind:?}");
            }
        }
    });
}

#[test]
fn a_waiting_sender_is_woken_by_room() {
    in_each(|| {
        for kind in [Kind::Bounded(0), Kind::Bounded(1), Kind::Bounded(7)] {
            for world in 0..2 {
                let (s, r) = kind.make();
                let room = kind.room(100);
                (0..room).for_each(|n| s.send(n).unwrap());
                let sent = Arc::new(AtomicUsize::new(0));
                let counted = Arc::clone(&sent);
                let sender = start(world, move || {
                    s.send(room).unwrap();
                    counted.fetch_add(1, SeqCst);
                    s.send_timeout(room + 1, LONG).unwrap();
                });
                sleep(A_WHILE);
                assert_eq!(sent.load(SeqCst), 0, "{kind:?} had no room");
                for n in 0..room + 2 {
                    assert_eq!(r.recv(), Ok(n));
                }
                sender.join();
                assert_eq!(r.recv(), Err(RecvError));
            }
        }
    });
}

#[test]
fn a_disconnection_wakes_all_waiters() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<usize>();
            let receivers: Vec<_> = (0..6)
                .map(|i| {
                    let r = r.clone();
                    start(i, move || match i % 3 {
                        0 => r.recv().is_err(),
                        1 => r.recv_timeout(LONG) == Err(RecvTimeoutError::Disconnected),
                        _ => r.iter().next().is_none(),
                    })
                })
                .collect();
            sleep(A_WHILE);
            drop(s);
            assert!(receivers.into_iter().all(|receiver| receiver.join()));

            let (s, r) = kind.make();
            let room = kind.room(0);
            let full = kind.room(100);
            if kind == Kind::Unbounded {
                continue;
            }
            (room..full).for_each(|n| s.send(n).unwrap());
            let senders: Vec<_> = (0..4)
                .map(|i| {
                    let s = s.clone();
                    start(i, move || match i / 2 {
                        0 => s.send(i) == Err(SendError(i)),
                        _ => s.send_timeout(i, LONG) == Err(SendTimeoutError::Disconnected(i)),
                    })
                })
                .collect();
            sleep(A_WHILE);
            drop(r);
            assert!(senders.into_iter().all(|sender| sender.join()));
        }
    });
}

/// Lets all other threads run until they wait. On a single P, yields do that; the number of waiters is not
/// visible.
fn settle() {
    for _ in 0..20 {
        yield_now();
    }
}

#[test]
fn receivers_are_served_in_order_of_arrival() {
    on(1, || {
        for kind in KINDS {
            let (s, r) = kind.make();
            let receivers: Vec<_> = (0..10)
                .map(|i| {
                    let r = r.clone();
                    let receiver = spawn(move || assert_eq!(r.recv(), Ok(i), "{kind:?}"));
                    settle();
                    receiver
                })
                .collect();
            (0..10).for_each(|n| s.send(n).unwrap());
            receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        }
    });
}

#[test]
fn senders_are_served_in_order_of_arrival() {
    on(1, || {
        for kind in [Kind::Bounded(0), Kind::Bounded(1), Kind::Bounded(7)] {
            let (s, r) = kind.make();
            let senders: Vec<_> = (0..20)
                .map(|n| {
                    let s = s.clone();
                    let sender = spawn(move || s.send(n).unwrap());
                    settle();
                    sender
                })
                .collect();
            for n in 0..20 {
                assert_eq!(r.recv(), Ok(n), "{kind:?}");
                settle();
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        }
    });
}

#[test]
fn a_rendezvous_send_returns_after_the_receive_began() {
    in_each(|| {
        let (s, r) = bounded(0);
        let received = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&received);
        let receiver = spawn(move || {
            sleep(A_WHILE);
            // The sender waits until the receive below.
            counted.store(1, SeqCst);
            r.recv()
        });
        s.send(5).unwrap();
        assert_eq!(received.load(SeqCst), 1);
        assert_eq!(receiver.join().unwrap(), Ok(5));
    });
}

#[test]
fn a_timed_out_waiter_has_left_the_queue() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            for _ in 0..3 {
                assert_eq!(r.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
            }
            let room = kind.room(5);
            (0..room).for_each(|n| s.send(n).unwrap());
            if kind != Kind::Unbounded && kind.room(100) == room {
                for _ in 0..3 {
                    assert_eq!(s.send_timeout(99, A_WHILE), Err(SendTimeoutError::Timeout(99)));
                }
            }
            (0..room).for_each(|n| assert_eq!(r.try_recv(), Ok(n)));
            assert!(r.try_recv().is_err(), "no sender is in the queue");
            assert_eq!(s.try_send(7).is_ok(), kind != Kind::Bounded(0), "no receiver is in the queue");
        }
    });
}

#[test]
fn threads_of_two_runtimes_share_a_channel() {
    for kind in KINDS {
        let (one, other) = (tests::runtime(1), tests::runtime(2));
        let (there, r) = kind.make();
        let (s, back) = kind.make();
        let pong = one.spawn(move || r.iter().for_each(|n: u32| s.send(n + 1).unwrap()));
        let ping = other.spawn(move || {
            for n in 0..500 {
                there.send(n).unwrap();
                assert_eq!(back.recv(), Ok(n + 1));
            }
        });
        ping.join().unwrap();
        pong.join().unwrap();
    }
}

#[test]
fn a_waiting_receiver_and_an_iterator_share_the_messages() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            let waiting = r.clone();
            let first = spawn(move || waiting.recv().unwrap());
            tests::until_it_waits(&first);
            let sender = spawn(move || (0..20).for_each(|n| s.send(n).unwrap()));
            let rest: u32 = r.iter().sum();
            sender.join().unwrap();
            assert_eq!(first.join().unwrap() + rest, 190);
        }
    });
}

/// Each taken message offers its room to a waiting sender. A sender that hands its message directly to a
/// waiting receiver passes the room on to the next sender.
#[test]
fn unneeded_room_is_offered_to_the_next_sender() {
    for procs in [1, 2] {
        on(procs, || {
            for capacity in [1, 2, 3] {
                for senders in 1..12 {
                    let (s, r) = bounded(capacity);
                    let threads: Vec<_> = (0..senders)
                        .map(|n| {
                            let s = s.clone();
                            spawn(move || s.send(n).unwrap())
                        })
                        .collect();
                    settle();
                    let mut all: Vec<_> = (0..senders).map(|_| r.recv().unwrap()).collect();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..senders));
                    threads.into_iter().for_each(|thread| thread.join().unwrap());
                }
            }
        });
    }
}
