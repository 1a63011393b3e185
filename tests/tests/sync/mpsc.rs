//! The runtime's version of std's channels: order, disconnection of both sides, time-outs and iterators,
//! between green and plain threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError, TrySendError, channel, sync_channel};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{sleep, spawn};
use tests::crowd::in_each;
use tests::{Drops, everywhere, on_each, wait_until};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn messages_arrive_in_order() {
    in_each(|| {
        let (sender, receiver) = channel();
        let other = spawn(move || (0..1000).for_each(|i| sender.send(i).unwrap()));
        assert!(receiver.iter().eq(0..1000));
        other.join().unwrap();
        assert_eq!(receiver.recv(), Err(RecvError));
        for bound in [0, 1, 7] {
            let (sender, receiver) = sync_channel(bound);
            let other = std::thread::spawn(move || (0..300).for_each(|i| sender.send(i).unwrap()));
            assert!(receiver.into_iter().eq(0..300));
            runtime::blocking(|| other.join()).unwrap();
        }
    });
}

#[test]
fn many_senders_and_a_receiver() {
    in_each(|| {
        let (sender, receiver) = sync_channel(3);
        for i in 0..10u64 {
            let sender = sender.clone();
            if i % 3 == 0 {
                std::thread::spawn(move || (0..100).for_each(|n| sender.send(i * 100 + n).unwrap()));
            } else {
                spawn(move || (0..100).for_each(|n| sender.send(i * 100 + n).unwrap()));
            }
        }
        drop(sender);
        let mut all: Vec<u64> = receiver.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    });
}

#[test]
fn non_waiting_operations() {
    everywhere(|| {
        let (sender, receiver) = sync_channel(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        drop(receiver);
        assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
        assert_eq!(sender.send(4).unwrap_err().0, 4);
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        drop(sender);
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Err(TryRecvError::Disconnected)));
        assert_eq!(format!("{receiver:?}"), "Receiver { .. }");
    });
}

#[test]
fn recv_timeout_and_timeout() {
    everywhere(|| {
        let (sender, receiver) = channel::<u32>();
        let start = Instant::now();
        assert_eq!(receiver.recv_timeout(3 * MILLI), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= 3 * MILLI, "early");
        assert_eq!(timeout(2 * MILLI, || receiver.recv()), Err(Elapsed));
        sender.send(5).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::MAX), Ok(5));
        drop(sender);
        assert_eq!(receiver.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
    });
}

#[test]
fn a_waiter_sees_the_disconnection() {
    on_each(|| {
        let (sender, receiver) = channel::<u32>();
        let waits = spawn(move || receiver.recv());
        tests::until_it_waits(&waits);
        drop(sender);
        assert_eq!(waits.join().unwrap(), Err(RecvError));
        let (sender, receiver) = sync_channel(0);
        let waits = spawn(move || sender.send(1).is_err());
        tests::until_it_waits(&waits);
        drop(receiver);
        assert!(waits.join().unwrap());
    });
}

#[test]
fn messages_are_dropped_once() {
    on_each(|| {
        let drops = Drops::default();
        let (sender, receiver) = channel();
        (0..100).for_each(|_| sender.send(drops.token()).unwrap());
        receiver.iter().take(30).for_each(drop);
        drop(receiver);
        drop(sender.send(drops.token()));
        drop(sender);
        assert_eq!((drops.count(), drops.alive()), (101, 0));
    });
}

#[test]
fn a_cancelled_receiver_takes_no_message() {
    on_each(|| {
        let (sender, receiver) = channel();
        let started = Arc::new(AtomicBool::new(false));
        let starts = started.clone();
        let waits = spawn(move || {
            starts.store(true, SeqCst);
            let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| receiver.recv()));
            (end, receiver.try_recv())
        });
        wait_until("the receiver has started", || started.load(SeqCst));
        sleep(MILLI);
        waits.cancel();
        let _ = sender.send(1);
        match waits.join().unwrap() {
            (Err(end), message) => {
                assert!(end.is::<Cancelled>());
                assert!(matches!(message, Ok(1) | Err(TryRecvError::Empty | TryRecvError::Disconnected)));
            }
            // The message arrived before the receive, which then did not wait.
            (Ok(received), message) => {
                assert_eq!(received, Ok(1));
                assert!(message.is_err());
            }
        }
    });
}
