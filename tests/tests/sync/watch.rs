//! `watch`: receivers see the latest value, miss no change, and see no value twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::Notify;
use runtime::sync::watch::{self, Receiver, Sender};
use runtime::thread::Cancelled;
use runtime::time::{timeout, timeout_async};
use runtime::{JoinHandle, sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each};
use tests::futures::drive_on_plain_thread;
use tests::turns::gives_turns;
use tests::{ON_PURPOSE, Random, everywhere, on, on_each, panics_with, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn the_latest_value_is_seen() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(1);
        assert_eq!((*receiver.borrow(), receiver.has_changed()), (1, Ok(false)));
        assert!(timeout(MILLI, || receiver.changed()).is_err());
        sender.send(2).unwrap();
        sender.send(3).unwrap();
        assert!(receiver.borrow().has_changed());
        assert_eq!(receiver.has_changed(), Ok(true));
        assert_eq!(receiver.changed(), Ok(()));
        assert_eq!(*receiver.borrow_and_update(), 3);
        assert!(timeout(MILLI, || receiver.changed()).is_err());
        receiver.mark_changed();
        drive_on_plain_thread(receiver.changed_async()).unwrap();
        sender.send(4).unwrap();
        receiver.mark_unchanged();
        assert_eq!(receiver.has_changed(), Ok(false));
        // A new receiver has seen the present value; a clone has its original's mark.
        assert_eq!(sender.subscribe().has_changed(), Ok(false));
        sender.send(5).unwrap();
        assert_eq!(receiver.clone().has_changed(), Ok(true));
    });
}

#[test]
fn changes_in_place() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(vec![1]);
        sender.send_modify(|list| list.push(2));
        assert_eq!(*receiver.borrow_and_update(), [1, 2]);
        assert!(!sender.send_if_modified(|list| list.is_empty()));
        assert_eq!(receiver.has_changed(), Ok(false));
        panics_with(ON_PURPOSE, || {
            sender.send_modify(|list| {
                list.push(3);
                panic!("{ON_PURPOSE}");
            });
        });
        assert_eq!(receiver.has_changed(), Ok(false), "a change that panicked is not announced");
        assert_eq!(*receiver.borrow(), [1, 2, 3]);
        assert_eq!(sender.send_replace(vec![4]), [1, 2, 3]);
        assert_eq!(*receiver.wait_for(|list| list.len() == 1).unwrap(), [4]);
        panics_with(ON_PURPOSE, || receiver.wait_for(|_| panic!("{ON_PURPOSE}")).is_ok());
        sender.send(vec![5]).unwrap();
        assert_eq!(*sender.borrow(), [5]);
    });
}

#[test]
fn a_channel_without_receivers() {
    on_each(|| {
        let (sender, receiver) = watch::channel(1);
        assert!(!sender.is_closed());
        let (a, b) = (sender.clone(), sender.clone());
        let waits = spawn(move || a.closed());
        let polls = spawn(async move { b.closed_async().await });
        until_it_waits(&waits);
        let other = receiver.clone();
        drop(receiver);
        assert!(!waits.is_finished());
        drop(other);
        waits.join().unwrap();
        polls.join().unwrap();
        assert_eq!(sender.send(2).unwrap_err().0, 2);
        assert_eq!(sender.send_replace(3), 1);
        let receiver = sender.subscribe();
        assert_eq!((sender.receiver_count(), sender.sender_count()), (1, 1));
        assert_eq!((*receiver.borrow(), sender.is_closed()), (3, false));
    });
}

#[test]
fn the_last_value_is_seen_after_the_last_sender() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(1);
        let other = sender.clone();
        drop(sender);
        assert!(!receiver.is_closed());
        other.send(2).unwrap();
        drop(other);
        assert!(receiver.is_closed() && receiver.has_changed().is_err());
        assert_eq!(receiver.changed(), Ok(()));
        assert!(receiver.changed().is_err());
        assert!(drive_on_plain_thread(receiver.changed_async()).is_err());
        assert_eq!(*receiver.wait_for(|n| *n == 2).unwrap(), 2);
        assert!(receiver.wait_for(|n| *n == 3).is_err());
        assert_eq!(*receiver.borrow(), 2);
    });
}

#[test]
fn the_end_of_the_senders_ends_each_kind_of_wait() {
    on_each(|| {
        let (sender, receiver) = watch::channel(1);
        let (mut a, mut b, mut c) = (receiver.clone(), receiver.clone(), receiver);
        let waits = spawn(move || a.changed().is_err());
        let polls = spawn(async move { b.changed_async().await.is_err() });
        let wants = spawn(async move { c.wait_for_async(|n| *n == 2).await.is_err() });
        until_it_waits(&waits);
        drop(sender);
        assert!(waits.join().unwrap() && polls.join().unwrap() && wants.join().unwrap());
    });
}

/// A `Ref` that is kept across a park parks the senders. On one P, with no sysmon to help, a blocked OS
/// thread would stop everything.
#[test]
fn a_kept_borrow_parks_others() {
    on(1, || {
        let (sender, receiver) = watch::channel(1);
        let value = receiver.borrow();
        let sends = spawn(move || sender.send(2).unwrap());
        until_it_waits(&sends);
        sleep(2 * MILLI);
        assert!(!sends.is_finished());
        assert_eq!(*value, 1);
        drop(value);
        sends.join().unwrap();
        assert_eq!(*receiver.borrow(), 2);

        // Receivers wait while a change in place parks, and can be cancelled in that time.
        let (sender, receiver) = watch::channel(1);
        let go = Arc::new(Notify::new());
        let goes = go.clone();
        let changes = spawn(move || {
            sender.send_modify(|n| {
                goes.notified();
                *n = 2;
            });
        });
        until_it_waits(&changes);
        let its = receiver.clone();
        let borrows = spawn(move || *its.borrow());
        until_it_waits(&borrows);
        borrows.cancel();
        assert!(borrows.join().unwrap_err().is::<Cancelled>());
        go.notify_one();
        assert_eq!(*receiver.borrow(), 2);
        changes.join().unwrap();
    });
}

/// Reads up to `last`. The numbers that it sees rise.
fn follow(way: usize, mut receiver: Receiver<usize>, last: usize) {
    let mut seen = 0;
    let mut rises = |n: usize| {
        assert!(n > seen, "{n} after {seen}");
        seen = n;
        n == last
    };
    match way {
        0 => loop {
            receiver.changed().unwrap();
            if rises(*receiver.borrow_and_update()) {
                break;
            }
        },
        1 => {
            let mut n = 0;
            loop {
                n = *receiver.wait_for(|now| *now > n).unwrap();
                if rises(n) {
                    break;
                }
            }
        }
        2 => {
            let follows = async {
                loop {
                    receiver.changed_async().await.unwrap();
                    if rises(*receiver.borrow_and_update()) {
                        break;
                    }
                }
            };
            runtime::block_on(follows);
        }
        3 => drop(
            spawn(async move { receiver.wait_for_async(|n| *n == last).await.map(|n| *n) }).join().unwrap(),
        ),
        _ => drop(drive_on_plain_thread(receiver.wait_for_async(|n| *n == last)).unwrap()),
    }
}

#[test]
fn no_change_is_missed_under_contention() {
    const LAST: usize = 300;
    in_each(|| {
        let sender = Sender::new(0);
        let receivers: Vec<_> = (0..11).map(|_| sender.subscribe()).collect();
        let sends = spawn(move || {
            let mut random = Random::new(3);
            for n in 1..=LAST {
                sender.send_if_modified(|value| {
                    *value = n;
                    true
                });
                match random.below(8) {
                    0 => sleep(Duration::from_micros(20)),
                    1 => yield_now(),
                    _ => {}
                }
            }
            // The end of the sender must not hide the last value.
        });
        crowd(8, 3, |i| {
            let way = if i < 8 { i % 4 } else { [0, 2, 4][i - 8] };
            follow(way, receivers[i].clone(), LAST);
        });
        sends.join().unwrap();
    });
}

/// Two threads pass a turn back and forth: each change must reach the other, or both hang.
#[test]
fn ping_pong() {
    in_each(|| {
        let (ball, counts) = (Arc::new(Sender::new(0usize)), AtomicUsize::new(0));
        crowd(2, 2, |i| {
            let (ball, mut receiver) = (ball.clone(), ball.subscribe());
            for round in 0..50 {
                let mine = round * 4 + i;
                if round % 2 == 0 {
                    drop(receiver.wait_for(|n| *n == mine).unwrap());
                } else {
                    runtime::block_on(async { drop(receiver.wait_for_async(|n| *n == mine).await.unwrap()) });
                }
                counts.fetch_add(1, SeqCst);
                ball.send(mine + 1).unwrap();
            }
        });
        assert_eq!(counts.into_inner(), 200);
    });
}

/// A wait that is cancelled or timed out has not marked the change as seen.
#[test]
fn a_cancellation_races_with_a_change() {
    in_each(|| {
        let mut random = Random::new(7);
        let (sender, receiver) = watch::channel(0);
        for round in 1..=100 {
            let its = Arc::new(runtime::sync::Mutex::new(receiver.clone()));
            its.lock().mark_unchanged();
            let waits = its.clone();
            let patience = Duration::from_micros(random.below(40));
            let thread: JoinHandle<bool> = match round % 3 {
                0 => spawn(move || waits.lock().changed().is_ok()),
                1 => spawn(move || timeout(patience, || waits.lock().changed()).is_ok()),
                _ => spawn(move || {
                    runtime::block_on(timeout_async(patience, waits.lock().changed_async())).is_ok()
                }),
            };
            sleep(Duration::from_micros(random.below(40)));
            sender.send(round).unwrap();
            thread.cancel();
            let was_seen = thread.join().unwrap_or(false);
            let is_new = its.lock().has_changed().unwrap();
            // A thread that began after the change, and was cancelled before, has not looked.
            assert_eq!(is_new, !was_seen, "the change is either seen or new");
        }
    });
}

#[test]
fn changes_do_not_keep_their_receiver_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let (sender, mut receiver) = watch::channel(0);
            loop {
                sender.send_replace(1);
                receiver.changed_async().await.unwrap();
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (_sender, mut receiver) = watch::channel(0);
            loop {
                assert_eq!(*receiver.wait_for_async(|n| *n == 0).await.unwrap(), 0);
            }
        })
    });
    gives_turns(|| {
        Box::pin(async {
            let (sender, _) = watch::channel(0);
            loop {
                sender.closed_async().await;
            }
        })
    });
}
