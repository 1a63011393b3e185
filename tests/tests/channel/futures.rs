//! `send_async` and `recv_async`: futures beside threads at the same channels, and futures that are dropped
//! at any moment.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, RecvError, SendError, TryRecvError, TrySendError, after, never, tick};
use runtime::time::{sleep_async, timeout_async};
use runtime::{block_on, select, sleep, spawn, yield_now};
use tests::Drops;
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, start};
use tests::crowd::in_each;
use tests::futures::{both, drive_on_plain_thread, either, poll_once};
use tests::turns::{Hog, gives_turns};

/// A waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls futures by hand, with a counting waker.
struct Hand(Arc<Count>, Waker);

impl Hand {
    fn new() -> Self {
        let count = Arc::<Count>::default();
        Hand(count.clone(), Waker::from(count))
    }

    fn poll<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(&self.1))
    }

    fn woken(&self) -> usize {
        self.0.0.load(SeqCst)
    }
}

#[test]
fn futures_and_threads_at_one_channel() {
    in_each(|| {
        for kind in KINDS {
            const EACH: u64 = 100;
            let (s, r) = kind.make();
            let futures: Vec<_> = (0..4)
                .map(|_| {
                    let s = s.clone();
                    spawn(async move {
                        for n in 0..EACH {
                            s.send_async(n).await.unwrap();
                        }
                    })
                })
                .collect();
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let s = s.clone();
                    start(i, move || (0..EACH).for_each(|n| s.send(n).unwrap()))
                })
                .collect();
            drop(s);
            let its = r.clone();
            let receiving = spawn(async move {
                let mut sum = 0;
                while let Ok(n) = its.recv_async().await {
                    sum += n;
                }
                sum
            });
            let sum: u64 = r.iter().sum();
            futures.into_iter().for_each(|future| future.join().unwrap());
            threads.into_iter().for_each(|thread| thread.join());
            assert_eq!(sum + receiving.join().unwrap(), 8 * 4950, "{kind:?}");
        }
    });
}

#[test]
fn futures_driven_by_plain_threads() {
    for kind in KINDS {
        let (s, r) = kind.make();
        let sender = std::thread::spawn(move || {
            drive_on_plain_thread(async {
                for n in 0..200 {
                    s.send_async(n).await.unwrap();
                }
            });
        });
        drive_on_plain_thread(async {
            for n in 0..200 {
                assert_eq!(r.recv_async().await, Ok(n));
            }
            assert_eq!(r.recv_async().await, Err(RecvError));
        });
        sender.join().unwrap();
    }
}

#[test]
fn a_disconnection_wakes_futures() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<usize>();
            let receiving = spawn(async move { r.recv_async().await });
            sleep(A_WHILE / 3);
            drop(s);
            assert_eq!(receiving.join().unwrap(), Err(RecvError));
            if kind != Kind::Unbounded {
                let (s, r) = kind.make();
                (0..kind.room(9)).for_each(|n| s.send(n).unwrap());
                let sending = spawn(async move { s.send_async(77).await });
                sleep(A_WHILE / 3);
                drop(r);
                assert_eq!(sending.join().unwrap(), Err(SendError(77)), "the error returns the message");
            }
        }
    });
}

#[test]
fn an_unpolled_future_has_no_effect() {
    for kind in KINDS {
        let (s, r) = kind.make();
        drop(s.send_async(1));
        drop(r.recv_async());
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    }
}

#[test]
fn a_dropped_receive_takes_no_message() {
    for kind in KINDS {
        let (s, r) = kind.make();
        let hand = Hand::new();
        // Dropped while waiting: no receiver is left in the queue.
        let mut waiting = Box::pin(r.recv_async());
        assert!(hand.poll(waiting.as_mut()).is_pending());
        drop(waiting);
        assert_eq!(s.try_send(1).is_ok(), kind != Kind::Bounded(0));
        r.try_iter().for_each(drop);
        // Dropped after the message was handed to this future: the next receiver gets the message.
        let (mut first, mut second) = (Box::pin(r.recv_async()), Box::pin(r.recv_async()));
        assert!(hand.poll(first.as_mut()).is_pending() && hand.poll(second.as_mut()).is_pending());
        s.try_send(2).unwrap();
        assert_eq!(hand.woken(), 1);
        drop(first);
        assert_eq!(hand.woken(), 2);
        assert_eq!(hand.poll(second.as_mut()), Poll::Ready(Ok(2)), "{kind:?}");
        drop(second);
        // Without another waiter, the message goes to the next receive call.
        let mut last = Box::pin(r.recv_async());
        assert!(hand.poll(last.as_mut()).is_pending());
        s.try_send(3).unwrap();
        drop(last);
        assert_eq!(r.try_recv(), Ok(3), "{kind:?}");
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    }
}

/// A dropped receive returns its message to the front of the channel, even if the channel is disconnected by
/// then.
#[test]
fn a_message_of_a_dropped_receive_is_the_first_again() {
    for kind in KINDS {
        let (s, r) = kind.make();
        let hand = Hand::new();
        let mut waiting = Box::pin(r.recv_async());
        assert!(hand.poll(waiting.as_mut()).is_pending());
        s.try_send(1).unwrap();
        if kind != Kind::Bounded(0) {
            s.try_send(2).unwrap();
        }
        drop(waiting);
        drop(s);
        assert_eq!(r.recv(), Ok(1));
        assert_eq!(r.recv(), if kind == Kind::Bounded(0) { Err(RecvError) } else { Ok(2) }, "{kind:?}");
        assert_eq!(r.recv(), Err(RecvError));
    }
}

#[test]
fn a_dropped_send_sends_nothing() {
    for kind in [Kind::Bounded(0), Kind::Bounded(1)] {
        let drops = Drops::default();
        let (s, r) = kind.make();
        let room = kind.room(9);
        (0..room).for_each(|_| s.try_send(drops.token()).unwrap());
        let hand = Hand::new();
        let mut waiting = Box::pin(s.send_async(drops.token()));
        assert!(hand.poll(waiting.as_mut()).is_pending());
        drop(waiting);
        assert_eq!(drops.alive(), room as isize);
        assert_eq!(r.try_iter().count(), room);
        assert!(matches!(r.try_recv(), Err(TryRecvError::Empty)));
    }
}

/// Room was offered to a future that is dropped. The next waiting send gets the room.
#[test]
fn the_room_of_a_dropped_send_is_passed_on() {
    for kind in [Kind::Bounded(1), Kind::Bounded(7)] {
        let (s, r) = kind.make();
        let room = kind.room(9);
        (0..room).for_each(|n| s.try_send(n).unwrap());
        let hand = Hand::new();
        let (mut first, mut second) = (Box::pin(s.send_async(50)), Box::pin(s.send_async(60)));
        assert!(hand.poll(first.as_mut()).is_pending() && hand.poll(second.as_mut()).is_pending());
        assert_eq!(r.recv(), Ok(0));
        assert_eq!(hand.woken(), 1, "a message makes room for a single send");
        drop(first);
        assert_eq!(hand.woken(), 2);
        assert_eq!(hand.poll(second.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(s.try_send(70), Err(TrySendError::Full(70)));
        assert_eq!(r.try_iter().last(), Some(60));
    }
}

/// Room was offered to a future, which hands its message to a waiting receiver. The next waiting send gets
/// the room.
#[test]
fn the_room_of_a_handed_over_send_is_passed_on() {
    let (s, r) = Kind::Bounded(1).make();
    s.try_send(0).unwrap();
    let hand = Hand::new();
    let (mut first, mut second) = (Box::pin(s.send_async(1)), Box::pin(s.send_async(2)));
    assert!(hand.poll(first.as_mut()).is_pending() && hand.poll(second.as_mut()).is_pending());
    assert_eq!(r.try_recv(), Ok(0));
    let mut receiving = Box::pin(r.recv_async());
    assert!(hand.poll(receiving.as_mut()).is_pending());
    assert_eq!(hand.poll(first.as_mut()), Poll::Ready(Ok(())));
    assert_eq!(hand.poll(receiving.as_mut()), Poll::Ready(Ok(1)));
    assert_eq!(hand.woken(), 3, "both senders and the receiver are woken");
    assert_eq!(hand.poll(second.as_mut()), Poll::Ready(Ok(())));
    assert_eq!(r.try_recv(), Ok(2));
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    for kind in KINDS {
        let (s, r) = kind.make();
        let (before, after) = (Hand::new(), Hand::new());
        let mut waiting = pin!(r.recv_async());
        assert!(before.poll(waiting.as_mut()).is_pending());
        assert!(after.poll(waiting.as_mut()).is_pending());
        s.try_send(1).unwrap();
        assert_eq!((before.woken(), after.woken()), (0, 1));
        assert_eq!(after.poll(waiting.as_mut()), Poll::Ready(Ok(1)));
    }
}

#[test]
fn a_race_of_two_receives_loses_no_message() {
    in_each(|| {
        for kind in KINDS {
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let senders = [s1, s2].map(|s| start(0, move || (0..100).filter(|&n| s.send(n).is_ok()).count()));
            let received = spawn(async move {
                let mut count = 0;
                while either(r1.recv_async(), r2.recv_async()).await.is_ok() {
                    count += 1;
                }
                // A channel is disconnected. The other may still have messages.
                while r1.recv_async().await.is_ok() || r2.recv_async().await.is_ok() {
                    count += 1;
                }
                count
            });
            let sent: usize = senders.into_iter().map(|sender| sender.join()).sum();
            assert_eq!((sent, received.join().unwrap()), (200, 200), "{kind:?}");
        }
    });
}

#[test]
fn a_send_and_a_receive_joined_in_one_green_thread() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let (sent, sum) = block_on(both(
                async {
                    for n in 1..=50 {
                        s.send_async(n).await.unwrap();
                    }
                },
                async {
                    let mut sum = 0;
                    for _ in 1..=50 {
                        sum += r.recv_async().await.unwrap();
                    }
                    sum
                },
            ));
            assert_eq!((sent, sum), ((), 1275), "{kind:?}");
        }
    });
}

#[test]
fn timed_out_receives_of_futures_lose_nothing() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let sender = start(1, move || {
                for n in 0..60 {
                    s.send(n).unwrap();
                    if n % 4 == 0 {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            });
            let received = block_on(async move {
                let mut received = Vec::new();
                loop {
                    match timeout_async(Duration::from_micros(100), r.recv_async()).await {
                        Ok(Ok(n)) => received.push(n),
                        Ok(Err(RecvError)) => break received,
                        Err(_) => sleep_async(Duration::from_micros(50)).await,
                    }
                }
            });
            sender.join();
            assert!(received.into_iter().eq(0..60), "{kind:?}");
        }
    });
}

#[test]
fn a_select_and_futures_exchange_messages() {
    in_each(|| {
        for kind in KINDS {
            let ((s, r), (back, replies)) = (kind.make(), kind.make());
            let server = spawn(async move {
                while let Ok(n) = r.recv_async().await {
                    back.send_async(n + 1).await.unwrap();
                }
            });
            for n in 0..100 {
                select! {
                    send(s, { if n % 10 == 0 { yield_now(); } n }) -> sent => sent.unwrap(),
                    recv(replies) -> _ => unreachable!(),
                }
                select! {
                    recv(replies) -> reply => assert_eq!(reply, Ok(n + 1), "{kind:?}"),
                    recv(never::<u8>()) -> _ => unreachable!(),
                }
            }
            drop(s);
            server.join().unwrap();
        }
    });
}

/// A select has chosen to send to a future of a rendezvous channel. The future is dropped while the message
/// expression runs.
#[test]
fn a_message_for_a_dropped_receive_goes_to_the_next_receiver() {
    in_each(|| {
        let (s, r) = Kind::Bounded(0).make();
        let hand = Hand::new();
        let mut waiting = Some(Box::pin(r.recv_async()));
        assert!(hand.poll(waiting.as_mut().unwrap().as_mut()).is_pending());
        let next: Receiver<u8> = r.clone();
        let next = spawn(async move {
            sleep_async(A_WHILE).await;
            next.recv_async().await
        });
        select! {
            recv(never::<u8>()) -> _ => unreachable!(),
            send(s, { drop(waiting.take()); 9 }) -> sent => sent.unwrap(),
        }
        assert_eq!(next.join().unwrap(), Ok(9));
    });
}

#[test]
fn timer_channels_as_futures() {
    in_each(|| {
        block_on(async {
            let begin = Instant::now();
            assert!(after(A_WHILE).recv_async().await.unwrap() >= begin + A_WHILE);
            let ticks = tick(A_WHILE / 3);
            for _ in 0..3 {
                ticks.recv_async().await.unwrap();
            }
            assert!(begin.elapsed() >= 2 * A_WHILE);
            assert!(timeout_async(A_WHILE / 3, never::<u8>().recv_async()).await.is_err());
        });
    });
}

#[test]
fn a_long_chain_of_futures() {
    in_each(|| {
        for kind in BUFFERED {
            let (first, mut r) = kind.make::<u64>();
            for _ in 0..1000 {
                let (s, next) = kind.make();
                spawn(async move {
                    while let Ok(n) = r.recv_async().await {
                        s.send_async(n + 1).await.unwrap();
                    }
                });
                r = next;
            }
            let sender = spawn(async move {
                for n in 0..3 {
                    first.send_async(n).await.unwrap();
                }
            });
            assert_eq!(r.iter().collect::<Vec<_>>(), [1000, 1001, 1002]);
            sender.join().unwrap();
        }
    });
}

#[test]
fn channels_do_not_keep_their_users_from_a_time_out() {
    fn receives(kind: Kind) -> Hog {
        Box::pin(async move {
            let (s, r) = kind.make();
            loop {
                s.try_send(1).unwrap();
                r.recv_async().await.unwrap();
            }
        })
    }
    gives_turns(|| receives(Kind::Unbounded));
    gives_turns(|| receives(Kind::Bounded(7)));
    // There is room.
    gives_turns(|| {
        Box::pin(async {
            let (s, r) = Kind::Bounded(7).make();
            loop {
                s.send_async(1).await.unwrap();
                r.try_recv().unwrap();
            }
        })
    });
    // A sender waits.
    gives_turns(|| {
        Box::pin(async {
            let (s, r) = Kind::Bounded(0).make();
            loop {
                let mut send = Box::pin(s.send_async(1));
                assert!(poll_once(&mut send).await.is_none());
                r.recv_async().await.unwrap();
                send.await.unwrap();
            }
        })
    });
    // A receiver waits.
    gives_turns(|| {
        Box::pin(async {
            let (s, r) = Kind::Bounded(0).make();
            loop {
                let mut recv = Box::pin(r.recv_async());
                assert!(poll_once(&mut recv).await.is_none());
                s.send_async(1).await.unwrap();
                recv.await.unwrap();
            }
        })
    });
    // The other end is gone.
    gives_turns(|| {
        Box::pin(async {
            let (_, r) = Kind::Unbounded.make::<i32>();
            while r.recv_async().await.is_err() {}
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (s, _) = Kind::Bounded(0).make();
            while s.send_async(1).await.is_err() {}
        })
    });
    // A time that is over.
    gives_turns(|| {
        Box::pin(async {
            loop {
                after(Duration::ZERO).recv_async().await.unwrap();
            }
        })
    });
}

/// An operation that is refused for the lack of a budget has taken nothing.
#[test]
fn a_refused_operation_takes_nothing() {
    tests::on_each(|| {
        block_on(async {
            let (s, r) = Kind::Unbounded.make();
            (0..1000).for_each(|n| s.send(n).unwrap());
            let mut received = Vec::new();
            while received.len() < 1000 {
                // Each future is dropped after its first poll, ready or not.
                match poll_once(&mut Box::pin(r.recv_async())).await {
                    Some(n) => received.push(n.unwrap()),
                    None => runtime::yield_now_async().await,
                }
            }
            assert!(received.into_iter().eq(0..1000));
        });
    });
}
