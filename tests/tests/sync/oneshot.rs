//! `oneshot`: one value goes to one receiver, however the receiver waits, and is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::RecvTimeoutError;
use runtime::sync::oneshot::{self, Receiver, error::TryRecvError};
use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{JoinHandle, sleep, spawn};
use tests::crowd::{crowd, in_each};
use tests::futures::{drive_on_plain_thread, either, poll_once};
use tests::turns::gives_turns;
use tests::{Drops, Random, everywhere, on_each, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Receives in one of the ways that wait.
fn receive<T: Send + 'static>(way: usize, receiver: Receiver<T>) -> Option<T> {
    match way {
        0 => receiver.recv().ok(),
        1 => receiver.recv_timeout(HOUR).ok(),
        2 => spawn(receiver).join().unwrap().ok(),
        3 => spawn(async move { receiver.recv_async().await }).join().unwrap().ok(),
        // It blocks the OS thread, so no green thread calls it.
        _ => drive_on_plain_thread(receiver).ok(),
    }
}

#[test]
fn the_value_is_received_once() {
    everywhere(|| {
        let (sender, receiver) = oneshot::channel();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout));
        assert!(timeout(MILLI, || receiver.recv()).is_err());
        sender.send(7).unwrap();
        assert_eq!(receiver.recv(), Ok(7));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert!(receiver.recv().is_err());
        assert_eq!(receiver.recv_timeout(HOUR), Err(RecvTimeoutError::Disconnected));
        assert!(drive_on_plain_thread(receiver).is_err());
    });
}

#[test]
fn a_dropped_sender_ends_each_kind_of_wait() {
    on_each(|| {
        for way in 0..4 {
            let (sender, receiver) = oneshot::channel::<String>();
            let waits = spawn(move || receive(way, receiver));
            until_it_waits(&waits);
            drop(sender);
            assert_eq!(waits.join().unwrap(), None);
        }
    });
}

#[test]
fn a_closed_receiver_refuses_the_value() {
    on_each(|| {
        let (sender, receiver) = oneshot::channel();
        assert!(!sender.is_closed());
        let waits = spawn(move || {
            sender.closed();
            sender.send("late")
        });
        until_it_waits(&waits);
        receiver.close();
        assert_eq!(waits.join().unwrap(), Err("late"));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

        // A value that was sent before the close can still be received.
        let (sender, receiver) = oneshot::channel();
        sender.send(1).unwrap();
        receiver.close();
        assert_eq!(receiver.recv(), Ok(1));

        let (sender, receiver) = oneshot::channel::<i32>();
        let waits = spawn(async move {
            sender.closed_async().await;
            sender.is_closed()
        });
        tests::until_it_waits(&waits);
        drop(receiver);
        assert!(waits.join().unwrap());
    });
}

#[test]
fn a_close_by_another_thread_ends_a_wait() {
    on_each(|| {
        let (sender, receiver) = oneshot::channel::<i32>();
        runtime::scope(|s| {
            let waits = s.spawn(|| receiver.recv().is_err());
            sleep(MILLI);
            receiver.close();
            assert!(waits.join().unwrap());
        });
        assert_eq!(sender.send(1), Err(1));
    });
}

#[test]
fn a_receiver_is_polled_by_reference_and_moved_between_tasks() {
    on_each(|| {
        let (sender, mut receiver) = oneshot::channel();
        runtime::block_on(async {
            assert_eq!(poll_once(&mut receiver).await, None);
            let late = async {
                sleep_async(MILLI).await;
                Ok(0)
            };
            assert_eq!(either(&mut receiver, late).await, Ok(0));
        });
        // The task that polled first has ended; the waker of the next one counts.
        let waits = spawn(receiver);
        tests::until_it_waits(&waits);
        sender.send(5).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(5));
    });
}

#[test]
fn a_receiver_with_a_borrowed_value() {
    let text = String::from("borrowed");
    let (sender, mut receiver) = oneshot::channel::<&str>();
    drive_on_plain_thread(async {
        assert_eq!(poll_once(&mut receiver).await, None);
        sender.send(&text).unwrap();
        assert_eq!(receiver.await, Ok("borrowed"));
    });
}

#[test]
fn unreceived_values_are_dropped_once() {
    everywhere(|| {
        let drops = Drops::default();
        let (sender, receiver) = oneshot::channel();
        sender.send(drops.token()).unwrap();
        assert_eq!(drops.count(), 0);
        drop(receiver);
        assert_eq!(drops.count(), 1);
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        drop(sender.send(drops.token()).unwrap_err());
        assert_eq!((drops.count(), drops.alive()), (2, 0));
    });
}

/// Green threads, futures and plain OS threads answer each other, many at once.
#[test]
fn many_pairs_under_contention() {
    in_each(|| {
        let (sum, drops) = (AtomicUsize::new(0), Drops::default());
        crowd(8, 3, |i| {
            let ways = if i < 8 { 4 } else { 5 };
            let mut random = Random::new(i as u64);
            for round in 0..40 {
                let (sender, receiver) = oneshot::channel();
                let token = drops.token();
                let pause = Duration::from_micros(random.below(30));
                let sends: JoinHandle<()> = if round % 2 == 0 {
                    spawn(move || {
                        sleep(pause);
                        assert!(sender.send((round, token)).is_ok());
                    })
                } else {
                    spawn(async move {
                        sleep_async(pause).await;
                        assert!(sender.send((round, token)).is_ok());
                    })
                };
                let (got, _token) =
                    receive(random.below(ways) as usize, receiver).expect("the value was sent");
                assert_eq!(got, round);
                sum.fetch_add(got, SeqCst);
                sends.join().unwrap();
            }
        });
        assert_eq!(sum.into_inner(), 11 * (0..40).sum::<usize>());
        assert_eq!((drops.count(), drops.alive()), (11 * 40, 0));
    });
}

/// A wait that is cancelled or timed out has not taken the value: either it returned the value, or the value
/// is left.
#[test]
fn a_cancellation_races_with_the_value() {
    in_each(|| {
        let mut random = Random::new(11);
        for round in 0..120 {
            let (sender, receiver) = oneshot::channel();
            let receiver = Arc::new(receiver);
            let its = receiver.clone();
            let thread: JoinHandle<bool> = match round % 3 {
                0 => spawn(move || its.recv().is_ok()),
                1 => spawn(async move { its.recv_async().await.is_ok() }),
                _ => {
                    let patience = Duration::from_micros(random.below(40));
                    spawn(async move {
                        timeout_async(patience, its.recv_async()).await.is_ok_and(|got| got.is_ok())
                    })
                }
            };
            sleep(Duration::from_micros(random.below(40)));
            sender.send(round).unwrap();
            thread.cancel();
            let was_taken = match thread.join() {
                Ok(taken) => taken,
                Err(payload) => {
                    assert!(payload.is::<Cancelled>());
                    false
                }
            };
            assert_eq!(receiver.try_recv().is_ok(), !was_taken, "the value is either taken or left");
        }
    });
}

#[test]
fn values_do_not_keep_their_receiver_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            loop {
                let (sender, receiver) = oneshot::channel();
                sender.send(1).unwrap();
                receiver.await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            loop {
                let (sender, receiver) = oneshot::channel();
                sender.send(1).unwrap();
                receiver.recv_async().await.unwrap();
            }
        })
    });
}

#[test]
fn a_receiver_is_empty_without_a_value_and_terminated_after_its_end() {
    everywhere(|| {
        let state = |receiver: &Receiver<i32>| (receiver.is_empty(), receiver.is_terminated());
        let (sender, receiver) = oneshot::channel();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(state(&receiver), (true, false));
        sender.send(7).unwrap();
        assert_eq!(state(&receiver), (false, false));
        receiver.close();
        assert_eq!(state(&receiver), (false, false), "a value that was sent can still be received");
        assert_eq!(receiver.recv(), Ok(7));
        assert_eq!(state(&receiver), (true, true));

        let (sender, receiver) = oneshot::channel();
        drop(sender);
        assert_eq!(state(&receiver), (true, false));
        assert!(drive_on_plain_thread(receiver.recv_async()).is_err());
        assert_eq!(state(&receiver), (true, true));

        let (_sender, receiver) = oneshot::channel();
        receiver.close();
        assert_eq!(state(&receiver), (true, false));
        assert_eq!(receiver.recv_timeout(MILLI), Err(RecvTimeoutError::Disconnected));
        assert_eq!(state(&receiver), (true, true));
    });
}
