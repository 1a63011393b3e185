//! Channels and `select!`: no message is lost or doubled, each sender's messages stay in order, and a wait
//! that ends early takes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use runtime::channel::{self, Receiver, Select, SendTimeoutError, Sender, TrySendError};
use runtime::sync::Mutex;
use runtime::time::{timeout, timeout_async};
use runtime::{scope, select, sleep, spawn};

use super::{Counted, exhaust, explore, ms, pick};

/// A rendezvous, two bounded channels and an unbounded one.
const CAPACITIES: [Option<usize>; 4] = [Some(0), Some(1), Some(2), None];

fn make<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    capacity.map_or_else(channel::unbounded, channel::bounded)
}

type Seen = Arc<Mutex<Vec<u32>>>;

fn sorted(seen: &Seen) -> Vec<u32> {
    let mut seen = seen.lock().clone();
    seen.sort_unstable();
    seen
}

#[test]
fn messages_arrive_once_and_in_order() {
    for capacity in CAPACITIES {
        explore(|| {
            let (s, r) = make(capacity);
            let seen = Seen::default();
            scope(|scope| {
                for sender in 0..2 {
                    let s = s.clone();
                    scope.spawn(move || (0..3).for_each(|n| s.send(10 * sender + n).unwrap()));
                }
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mine: Vec<u32> = r.iter().collect();
                        for sender in 0..2 {
                            let of_sender = mine.iter().filter(|&&n| n / 10 == sender);
                            assert!(of_sender.is_sorted(), "{mine:?}");
                        }
                        seen.lock().extend(mine);
                    });
                }
                drop(s);
            });
            assert_eq!(sorted(&seen), [0, 1, 2, 10, 11, 12]);
        });
    }
}

#[test]
fn one_message_meets_one_receiver_in_all_schedules() {
    for capacity in CAPACITIES {
        exhaust(|| {
            let (s, r) = make(capacity);
            let other = r.clone();
            let (one, two) = (spawn(move || r.recv()), spawn(move || other.recv()));
            s.send(7).unwrap();
            drop(s);
            let got = [one, two].map(|thread| thread.join().unwrap());
            assert_eq!(got.iter().filter(|got| **got == Ok(7)).count(), 1, "{got:?}");
        });
    }
}

#[test]
fn a_cancelled_receiver_takes_nothing() {
    for capacity in CAPACITIES {
        explore(|| {
            let (s, r) = make(capacity);
            let (seen, victims) = (Seen::default(), r.clone());
            let sees = seen.clone();
            let victim = spawn(move || {
                loop {
                    let Ok(n) = victims.recv() else { return };
                    // Pushed without a wait, so that a cancellation comes before the message or after it.
                    sees.try_lock().expect("one thread at a time").push(n);
                }
            });
            let sender = spawn(move || (0..4).for_each(|n| s.send(n).unwrap()));
            let canceller = victim.abort_handle();
            spawn(move || canceller.cancel());
            // The victim has ended before the rest is received.
            let _ = victim.join();
            let rest: Vec<u32> = r.iter().collect();
            sender.join().unwrap();
            seen.lock().extend(rest);
            assert_eq!(*seen.lock(), [0, 1, 2, 3]);
        });
    }
}

#[test]
fn a_cancelled_sender_sends_nothing_more() {
    for capacity in CAPACITIES {
        explore(|| {
            let (s, r) = make(capacity);
            let (live, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (counts, lives) = (sent.clone(), live.clone());
            let victim = spawn(move || {
                for _ in 0..4 {
                    s.send(Counted::new(&lives)).unwrap();
                    counts.fetch_add(1, Relaxed);
                }
            });
            let canceller = victim.abort_handle();
            let cancels = spawn(move || canceller.cancel());
            let received = r.iter().inspect(|message| assert!(message.0.load(Relaxed) > 0)).count();
            let _ = victim.join();
            cancels.join().unwrap();
            assert_eq!(received, sent.load(Relaxed), "what was sent, and only that, is received");
            assert_eq!(live.load(Relaxed), 0, "the message of the cancelled send is dropped");
        });
    }
}

#[test]
fn both_sides_of_a_rendezvous_agree_on_a_time_out() {
    exhaust(|| {
        let (s, r) = channel::bounded(0);
        let sender = spawn(move || s.send_timeout(1, ms(5)));
        sleep(ms(pick(2) as u64 * 5));
        let received = r.recv_timeout(ms(pick(2) as u64 * 5));
        drop(r);
        match (sender.join().unwrap(), received) {
            (Ok(()), Ok(1)) => {}
            // The sender may also see the end of the receiver, and the receiver that of the sender.
            (Err(SendTimeoutError::Timeout(1) | SendTimeoutError::Disconnected(1)), Err(_)) => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_end_of_one_side_wakes_the_other() {
    for capacity in CAPACITIES {
        explore(|| {
            let live = Arc::new(AtomicUsize::new(0));
            let (s, r) = make(capacity);
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || _ = r.recv())
                })
                .collect();
            drop(r);
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let (s, message) = (s.clone(), Counted::new(&live));
                    spawn(move || s.send(message).is_ok())
                })
                .collect();
            drop(s);
            let sent = senders.into_iter().map(|sender| sender.join().unwrap()).filter(|sent| *sent).count();
            receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
            // Without a buffer each sent message was received.
            assert!(sent >= 2 && (sent == 2 || capacity != Some(0)), "{sent} were sent");
            assert_eq!(
                live.load(Relaxed),
                0,
                "all messages are dropped, also those that were never received"
            );
        });
    }
}

#[test]
fn a_try_succeeds_if_there_is_room() {
    exhaust(|| {
        let (s, r) = channel::bounded(1);
        let other = s.clone();
        let thread = spawn(move || other.try_send(1));
        let mine = s.try_send(2);
        let received = r.try_recv();
        let theirs = thread.join().unwrap();
        let full = [&mine, &theirs].iter().filter(|sent| matches!(sent, Err(TrySendError::Full(_)))).count();
        let rest = r.try_iter().count();
        assert!(received.is_ok(), "mine or theirs is there");
        assert_eq!(full + rest, 1, "{mine:?}, {theirs:?}");
    });
}

#[test]
fn a_select_takes_one_message_and_leaves_the_others() {
    for capacity in CAPACITIES {
        explore(|| {
            let ((s1, r1), (s2, r2)) = (make(capacity), make(capacity));
            let seen = Seen::default();
            scope(|scope| {
                scope.spawn(move || (0..3).for_each(|n| s1.send(n).unwrap()));
                scope.spawn(move || (10..13).for_each(|n| s2.send(n).unwrap()));
                for _ in 0..2 {
                    let (r1, r2, seen) = (r1.clone(), r2.clone(), seen.clone());
                    scope.spawn(move || {
                        let (mut first, mut second) = (true, true);
                        while first || second {
                            let none = channel::never();
                            select! {
                                recv(if first { &r1 } else { &none }) -> n => match n {
                                    Ok(n) => seen.lock().push(n),
                                    Err(_) => first = false,
                                },
                                recv(if second { &r2 } else { &none }) -> n => match n {
                                    Ok(n) => seen.lock().push(n),
                                    Err(_) => second = false,
                                },
                            }
                        }
                    });
                }
            });
            assert_eq!(sorted(&seen), [0, 1, 2, 10, 11, 12]);
        });
    }
}

#[test]
fn selects_meet_selects() {
    for capacity in [Some(0), Some(1)] {
        explore(|| {
            let ((s1, r1), (s2, r2)) = (make(capacity), make(capacity));
            let (sums, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            scope(|scope| {
                for start in [1, 100] {
                    let (s1, s2, sums) = (&s1, &s2, &sums);
                    scope.spawn(move || {
                        for n in start..start + 2 {
                            select! {
                                send(s1, n) -> sent => sent.unwrap(),
                                send(s2, n) -> sent => sent.unwrap(),
                            }
                            sums.fetch_add(n, Relaxed);
                        }
                    });
                    let (r1, r2, seen) = (&r1, &r2, &seen);
                    scope.spawn(move || {
                        for _ in 0..2 {
                            let n = select! {
                                recv(r1) -> n => n.unwrap(),
                                recv(r2) -> n => n.unwrap(),
                            };
                            seen.fetch_add(n, Relaxed);
                        }
                    });
                }
            });
            assert_eq!((sums.load(Relaxed), seen.load(Relaxed)), (204, 204));
        });
    }
}

#[test]
fn a_select_that_ends_early_takes_nothing() {
    for capacity in CAPACITIES {
        explore(|| {
            let ((s1, r1), (s2, r2)) = (make(capacity), make(capacity));
            let (seen, left) = (Seen::default(), (r1.clone(), r2.clone()));
            let how = pick(3);
            let sees = seen.clone();
            let victim = spawn(move || {
                let take = || {
                    loop {
                        let n = select! {
                            recv(r1) -> n => n,
                            recv(r2) -> n => n,
                            default(ms(5)) => Ok(99),
                        };
                        match n {
                            Ok(99) => {}
                            Ok(n) => sees.try_lock().expect("one thread at a time").push(n),
                            Err(_) => return,
                        }
                    }
                };
                match how {
                    0 => _ = timeout(ms(5), take),
                    _ => take(),
                }
            });
            let senders = [
                spawn(move || (0..2).for_each(|n| s1.send(n).unwrap())),
                spawn(move || {
                    sleep(ms(5));
                    (10..12).for_each(|n| s2.send(n).unwrap());
                }),
            ];
            if how == 1 {
                sleep(ms(5 * pick(2) as u64));
                victim.cancel();
            }
            let _ = victim.join();
            seen.lock().extend(left.0.iter());
            seen.lock().extend(left.1.iter());
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert_eq!(sorted(&seen), [0, 1, 10, 11]);
        });
    }
}

#[test]
fn ready_names_an_operation_that_can_go_on() {
    for capacity in CAPACITIES {
        explore(|| {
            let ((s1, r1), (s2, r2)) = (make(capacity), make(capacity));
            let senders = [spawn(move || s1.send(1)), spawn(move || s2.send(2))];
            let mut sum = 0;
            while sum < 3 {
                let mut watcher = Select::new();
                watcher.recv(&r1);
                watcher.recv(&r2);
                // Nothing else receives, so that what is ready stays so. A closed channel is ready, too.
                let got = if watcher.ready() == 0 { r1.try_recv() } else { r2.try_recv() };
                match got {
                    Ok(n) => sum += n,
                    Err(error) => assert!(error.is_disconnected()),
                }
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
        });
    }
}

#[test]
fn a_dropped_future_of_a_receive_takes_nothing() {
    for capacity in CAPACITIES {
        explore(|| {
            let (s, r) = make(capacity);
            let sender = spawn(move || {
                for n in 0..4_u64 {
                    s.send(n).unwrap();
                    sleep(ms(pick(2) as u64));
                }
            });
            let future = spawn(async move {
                let mut seen = Vec::new();
                loop {
                    match timeout_async(ms(1), r.recv_async()).await {
                        Ok(Ok(n)) => seen.push(n),
                        Ok(Err(_)) => return seen,
                        Err(_) => {}
                    }
                }
            });
            sender.join().unwrap();
            assert_eq!(future.join().unwrap(), [0, 1, 2, 3]);
        });
    }
}

#[test]
fn a_dropped_future_of_a_send_sends_nothing() {
    for capacity in [Some(0), Some(1)] {
        explore(|| {
            let (s, r) = make(capacity);
            let sender = spawn(async move {
                let mut sent = Vec::new();
                for n in 0..4_u32 {
                    if let Ok(Ok(())) = timeout_async(ms(1), s.send_async(n)).await {
                        sent.push(n);
                    }
                }
                sent
            });
            let mut seen = Vec::new();
            while let Ok(n) = r.recv() {
                seen.push(n);
                sleep(ms(pick(3) as u64));
            }
            assert_eq!(sender.join().unwrap(), seen);
        });
    }
}

#[test]
fn channels_of_time_send_when_they_are_due() {
    explore(|| {
        let start = std::time::Instant::now();
        let (after, tick) = (channel::after(ms(7)), channel::tick(ms(3)));
        let mut ticks = 0_u32;
        loop {
            select! {
                recv(tick) -> due => {
                    ticks += 1;
                    assert_eq!(due.unwrap(), start + ms(3) * ticks);
                }
                recv(after) -> due => {
                    assert_eq!(due.unwrap(), start + ms(7));
                    break;
                }
            }
        }
        assert_eq!((ticks, start.elapsed()), (2, Duration::from_millis(7)));
    });
}
