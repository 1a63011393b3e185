//! `broadcast`: each receiver gets each value once and in order, or learns how many it missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::Mutex;
use runtime::sync::broadcast::error::{RecvError, RecvTimeoutError, TryRecvError};
use runtime::sync::broadcast::{self, Receiver, Sender};
use runtime::time::{timeout, timeout_async};
use runtime::{JoinHandle, sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each};
use tests::futures::drive_on_plain_thread;
use tests::turns::gives_turns;
use tests::{Drops, ON_PURPOSE, Random, Token, everywhere, on_each, panics_with, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn each_receiver_gets_each_value() {
    everywhere(|| {
        let (sender, mut one) = broadcast::channel(4);
        let mut two = sender.subscribe();
        assert_eq!((sender.receiver_count(), sender.is_empty(), one.is_empty()), (2, true, true));
        assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(one.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout));
        assert!(timeout(MILLI, || one.recv()).is_err());
        assert_eq!(sender.send("a").unwrap(), 2);
        assert_eq!(sender.send("b").unwrap(), 2);
        assert_eq!((one.recv(), one.recv_timeout(HOUR), one.len()), (Ok("a"), Ok("b"), 0));
        // A new receiver does not get what was sent before.
        let mut three = two.resubscribe();
        assert_eq!((two.len(), three.len(), sender.len()), (2, 0, 2));
        assert_eq!((two.try_recv(), drive_on_plain_thread(two.recv_async())), (Ok("a"), Ok("b")));
        assert_eq!(sender.len(), 0);
        assert_eq!(sender.send("c").unwrap(), 3);
        drop((one, two));
        assert_eq!((sender.len(), sender.receiver_count()), (1, 1));
        assert!(!three.is_closed());
        drop(sender);
        assert!(three.is_closed());
        assert_eq!((three.recv(), three.recv()), (Ok("c"), Err(RecvError::Closed)));
        assert_eq!(three.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(three.recv_timeout(HOUR), Err(RecvTimeoutError::Closed));
        assert_eq!(drive_on_plain_thread(three.recv_async()), Err(RecvError::Closed));
    });
}

#[test]
fn a_slow_receiver_learns_what_it_missed() {
    for capacity in [1, 2, 3, 8] {
        let (sender, mut slow) = broadcast::channel(capacity);
        let mut fast = sender.subscribe();
        for n in 0..20 {
            sender.send(n).unwrap();
            assert_eq!(fast.recv(), Ok(n));
        }
        let missed = 20 - capacity as u64;
        assert_eq!((slow.len(), sender.len()), (20, capacity));
        assert_eq!(slow.recv(), Err(RecvError::Lagged(missed)));
        for n in missed..20 {
            assert_eq!(slow.try_recv(), Ok(n));
        }
        assert_eq!((slow.try_recv(), sender.len()), (Err(TryRecvError::Empty), 0));
        for n in 0..=capacity as u64 {
            sender.send(n).unwrap();
        }
        assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(1)));
        assert_eq!(fast.recv_timeout(HOUR), Err(RecvTimeoutError::Lagged(1)));
    }
}

#[test]
fn without_receivers_a_send_returns_the_value() {
    on_each(|| {
        let (sender, receiver) = broadcast::channel(2);
        let (a, b) = (sender.clone(), sender.clone());
        let waits = spawn(move || a.closed());
        let polls = spawn(async move { b.closed_async().await });
        until_it_waits(&waits);
        drop(receiver);
        waits.join().unwrap();
        polls.join().unwrap();
        assert_eq!(sender.send(String::from("back")).unwrap_err().0, "back");
        let mut receiver = sender.subscribe();
        sender.send(String::from("there")).unwrap();
        assert_eq!(receiver.recv().unwrap(), "there");
    });
    panics_with("cannot be zero", || broadcast::channel::<i32>(0));
}

#[test]
fn the_end_of_the_senders_ends_each_kind_of_wait() {
    on_each(|| {
        let (sender, mut one) = broadcast::channel::<i32>(2);
        let (mut two, other) = (sender.subscribe(), sender.clone());
        let waits = spawn(move || one.recv());
        let polls = spawn(async move { two.recv_async().await });
        until_it_waits(&waits);
        drop(sender);
        assert!(!waits.is_finished());
        drop(other);
        assert_eq!(
            (waits.join().unwrap(), polls.join().unwrap()),
            (Err(RecvError::Closed), Err(RecvError::Closed))
        );
    });
}

/// A value with a counted drop. Each clone is counted, too.
#[derive(Debug)]
struct Counted {
    number: usize,
    _token: Token,
    drops: Drops,
}

impl Counted {
    fn new(number: usize, drops: &Drops) -> Self {
        Counted { number, _token: drops.token(), drops: drops.clone() }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        // A `clone` may park: it runs outside of any lock.
        yield_now();
        Counted::new(self.number, &self.drops)
    }
}

#[test]
fn values_are_dropped_after_their_last_receiver() {
    everywhere(|| {
        let drops = Drops::default();
        let (sender, mut one) = broadcast::channel(2);
        let mut two = sender.subscribe();
        sender.send(Counted::new(1, &drops)).unwrap();
        drop(one.recv().unwrap());
        assert_eq!(drops.alive(), 1);
        // The last receiver gets the value itself.
        let last = two.recv().unwrap();
        assert_eq!((drops.alive(), drops.count()), (1, 1));
        drop(last);
        // A value is dropped when it is replaced, and when its last receiver is dropped.
        for n in 0..4 {
            sender.send(Counted::new(n, &drops)).unwrap();
        }
        assert_eq!(drops.alive(), 2);
        drop(one);
        assert_eq!(drops.alive(), 2);
        drop(two);
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn a_panic_of_a_clone_reaches_the_receiver_alone() {
    #[derive(Debug)]
    struct Bomb;
    impl Clone for Bomb {
        fn clone(&self) -> Self {
            panic!("{ON_PURPOSE}");
        }
    }
    let (sender, mut one) = broadcast::channel(2);
    let mut two = sender.subscribe();
    sender.send(Bomb).unwrap();
    panics_with(ON_PURPOSE, || one.recv().is_ok());
    assert!(one.is_empty());
    assert!(two.recv().is_ok());
}

/// Receives all values. Returns how many it got or missed.
fn receive_all(way: usize, mut receiver: Receiver<Counted>) -> usize {
    let (mut got, mut last) = (0, None);
    let mut take = |received: Result<Counted, RecvError>| match received {
        Ok(Counted { number: n, .. }) => {
            assert!(last < Some(n), "{n} after {last:?}");
            last = Some(n);
            got += 1;
            true
        }
        Err(RecvError::Lagged(missed)) => {
            got += missed as usize;
            true
        }
        Err(RecvError::Closed) => false,
    };
    match way {
        0 => while take(receiver.recv()) {},
        1 => loop {
            match receiver.recv_timeout(Duration::from_micros(50)) {
                Ok(value) => drop(take(Ok(value))),
                Err(RecvTimeoutError::Lagged(missed)) => drop(take(Err(RecvError::Lagged(missed)))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
        },
        2 => runtime::block_on(async { while take(receiver.recv_async().await) {} }),
        // A future that is dropped while it waits has received nothing.
        3 => runtime::block_on(async {
            loop {
                if let Ok(received) = timeout_async(Duration::from_micros(30), receiver.recv_async()).await
                    && !take(received)
                {
                    break;
                }
            }
        }),
        // It blocks the OS thread, so no green thread calls it.
        _ => drive_on_plain_thread(async { while take(receiver.recv_async().await) {} }),
    }
    got
}

#[test]
fn no_value_is_lost_or_doubled_under_contention() {
    const SENDERS: usize = 3;
    const EACH: usize = 40;
    for capacity in [4, 1024] {
        in_each(|| {
            let drops = Drops::default();
            let (all, numbers) = (Sender::new(capacity), AtomicUsize::new(0));
            let receivers: Vec<_> = (0..11).map(|_| Mutex::new(Some(all.subscribe()))).collect();
            let senders: Vec<_> = (0..SENDERS).map(|_| Mutex::new(Some(all.clone()))).collect();
            drop(all);
            // The number of a value is taken, and the value sent, under this lock: values come in order.
            let order = Mutex::new(());
            crowd(11, 3, |i| {
                if i < SENDERS {
                    let sender = senders[i].lock().take().unwrap();
                    for _ in 0..EACH {
                        {
                            let _order = order.lock();
                            let value = Counted::new(numbers.fetch_add(1, SeqCst), &drops);
                            assert_eq!(sender.send(value).unwrap(), 11);
                        }
                        yield_now();
                    }
                    return;
                }
                let way = if i < 11 { i % 4 } else { [0, 2, 4][i - 11] };
                let receiver = receivers[i - SENDERS].lock().take().unwrap();
                assert_eq!(receive_all(way, receiver), SENDERS * EACH);
            });
            assert_eq!(drops.alive(), 0);
        });
    }
}

/// A wait that is cancelled or timed out has not received the value: it was returned, or it still waits.
#[test]
fn a_cancellation_races_with_a_value() {
    in_each(|| {
        let mut random = Random::new(13);
        let (sender, receiver) = broadcast::channel(4);
        let receiver = Arc::new(Mutex::new(receiver));
        for round in 0..100 {
            let its = receiver.clone();
            let patience = Duration::from_micros(random.below(40));
            let thread: JoinHandle<bool> = match round % 3 {
                0 => spawn(move || its.lock().recv().is_ok()),
                1 => spawn(move || timeout(patience, || its.lock().recv()).is_ok()),
                _ => {
                    spawn(move || runtime::block_on(timeout_async(patience, its.lock().recv_async())).is_ok())
                }
            };
            sleep(Duration::from_micros(random.below(40)));
            sender.send(round).unwrap();
            thread.cancel();
            let was_received = thread.join().unwrap_or(false);
            assert_eq!(receiver.lock().try_recv().is_ok(), !was_received, "the value is received once");
        }
    });
}

/// Receivers come and go while values are sent.
#[test]
fn receivers_that_come_and_go() {
    in_each(|| {
        let (drops, sender) = (Drops::default(), Sender::new(8));
        let going = AtomicUsize::new(6);
        let keeps = sender.subscribe();
        crowd(7, 1, |i| {
            let mut random = Random::new(i as u64);
            if i < 2 {
                let mut n = 0;
                while going.load(SeqCst) > 0 {
                    sender.send(Counted::new(n, &drops)).unwrap();
                    n += 1;
                    yield_now();
                }
                return;
            }
            for _ in 0..60 {
                let mut receiver = sender.subscribe();
                for _ in 0..random.below(5) {
                    let received = receiver.recv_timeout(HOUR);
                    assert!(matches!(received, Ok(_) | Err(RecvTimeoutError::Lagged(_))));
                }
            }
            going.fetch_sub(1, SeqCst);
        });
        assert_eq!(sender.receiver_count(), 1);
        drop(keeps);
        assert_eq!((sender.len(), drops.alive()), (0, 0));
    });
}

#[test]
fn values_do_not_keep_their_receiver_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let (sender, mut receiver) = broadcast::channel(8);
            loop {
                sender.send(1).unwrap();
                receiver.recv_async().await.unwrap();
            }
        })
    });
}

#[test]
fn a_weak_sender_does_not_keep_the_channel_open() {
    everywhere(|| {
        let (sender, mut receiver) = broadcast::channel(4);
        let weak = sender.downgrade();
        let other = weak.clone();
        assert_eq!((weak.strong_count(), weak.weak_count(), receiver.sender_weak_count()), (1, 2, 2));
        let strong = other.upgrade().unwrap();
        assert!(strong.same_channel(&sender));
        assert_eq!(sender.strong_count(), 2);
        drop((sender, other));
        strong.send(1).unwrap();
        assert_eq!((strong.weak_count(), receiver.is_closed()), (1, false));
        drop(strong);
        assert!(receiver.is_closed());
        assert!(weak.upgrade().is_none());
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Err(RecvError::Closed)));
    });
}

#[test]
fn an_upgrade_races_with_the_end_of_the_last_sender() {
    on_each(|| {
        for _ in 0..200 {
            let (sender, mut receiver) = broadcast::channel(4);
            let weak = sender.downgrade();
            let upgrades = spawn(move || weak.upgrade().map(|sender| sender.send(1).unwrap()).is_some());
            let ends = spawn(move || drop(sender));
            let has_sent = upgrades.join().unwrap();
            ends.join().unwrap();
            // A sender that came of the race keeps the channel open until its value is sent.
            assert_eq!(receiver.recv().is_ok(), has_sent);
            assert_eq!(receiver.recv(), Err(RecvError::Closed));
        }
    });
}

/// A waker that looks at the channel when it is called.
struct Looks(Sender<i32>, AtomicUsize);

impl std::task::Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.1.store(1 + self.0.len(), SeqCst);
    }
}

#[test]
fn a_waker_of_closed_finds_the_channel_empty() {
    everywhere(|| {
        let (sender, receiver) = broadcast::channel(4);
        sender.send(1).unwrap();
        let looks = Arc::new(Looks(sender.clone(), AtomicUsize::new(0)));
        let waker = looks.clone().into();
        let mut closed = std::pin::pin!(sender.closed_async());
        assert!(closed.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        drop(receiver);
        assert_eq!(looks.1.load(SeqCst), 1, "it was woken when no value was left");
    });
}
