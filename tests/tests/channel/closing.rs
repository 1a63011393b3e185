//! `close`, `is_closed` and `closed`: the end of a channel from the receiving side.

use std::pin::pin;

use runtime::channel::{
    RecvError, SendError, Sender, TryRecvError, TrySendError, after, bounded, never, unbounded,
};
use runtime::{block_on, scope, select, sleep, spawn, yield_now};
use tests::channels::{A_WHILE, BUFFERED, KINDS, LONG, start};
use tests::crowd::in_each;
use tests::futures::poll_once;

#[test]
fn a_closed_channel_takes_no_message_and_gives_those_that_it_has() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let held = kind.room(3);
            (0..held).for_each(|n| s.send(n).unwrap());
            assert!(!s.is_closed() && !r.is_closed(), "{kind:?}");
            r.close();
            r.close();
            assert!(s.is_closed() && r.is_closed() && r.clone().is_closed(), "{kind:?}");
            assert_eq!(s.send(9), Err(SendError(9)), "{kind:?}");
            assert_eq!(s.try_send(9), Err(TrySendError::Disconnected(9)), "{kind:?}");
            assert_eq!(block_on(s.send_async(9)), Err(SendError(9)), "{kind:?}");
            s.closed();
            assert_eq!(r.iter().collect::<Vec<_>>(), (0..held).collect::<Vec<_>>(), "{kind:?}");
            assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected), "{kind:?}");
            assert_eq!(block_on(r.recv_async()), Err(RecvError), "{kind:?}");
        }
    });
}

#[test]
fn a_close_ends_the_waits_of_both_sides() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..2 {
                let (s, r) = kind.make::<u8>();
                let other = r.clone();
                let receives = start(world, move || other.recv());
                let other = r.clone();
                let awaits = start(world, move || block_on(other.recv_async()));
                sleep(A_WHILE);
                r.close();
                assert_eq!((receives.join(), awaits.join()), (Err(RecvError), Err(RecvError)), "{kind:?}");
                drop(s);
            }
        }
        for (capacity, world) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (s, r) = bounded(capacity);
            (0..capacity).for_each(|_| s.send(0).unwrap());
            let other = s.clone();
            let sends = start(world, move || other.send(1));
            let other = s.clone();
            let awaits = start(world, move || block_on(other.send_async(2)));
            sleep(A_WHILE);
            r.close();
            assert_eq!((sends.join(), awaits.join()), (Err(SendError(1)), Err(SendError(2))));
            assert_eq!(r.iter().count(), capacity, "what was sent before stays");
        }
    });
}

#[test]
fn senders_wait_for_the_end_of_the_receivers() {
    in_each(|| {
        for kind in KINDS {
            for (world, by_call) in [(0, false), (0, true), (1, false), (1, true)] {
                let (s, r) = kind.make::<u8>();
                let other = s.clone();
                let waits = start(world, move || other.closed());
                let other = s.clone();
                let awaits = start(world, move || block_on(other.closed_async()));
                let mut dropped = Box::pin(s.closed_async());
                assert!(block_on(poll_once(&mut dropped.as_mut())).is_none(), "{kind:?}");
                drop(dropped);
                sleep(A_WHILE);
                assert!(!s.is_closed(), "{kind:?}");
                if by_call {
                    r.close()
                } else {
                    drop(r)
                }
                waits.join();
                awaits.join();
                assert!(s.is_closed(), "{kind:?}");
            }
        }
    });
}

#[test]
fn a_cancelled_wait_for_the_end_unwinds() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<u8>();
            let other = s.clone();
            let waits = spawn(move || other.closed());
            sleep(A_WHILE);
            waits.cancel();
            assert!(waits.join().is_err(), "{kind:?}");
            r.close();
            s.closed();
        }
    });
}

#[test]
fn permits_outlive_a_close() {
    in_each(|| {
        for kind in BUFFERED {
            for world in 0..2 {
                let (s, r) = kind.make();
                let permit = s.clone().reserve_owned().unwrap();
                r.close();
                assert_eq!(s.reserve().unwrap_err(), SendError(()), "{kind:?}");
                assert_eq!(r.try_recv(), Err(TryRecvError::Empty), "{kind:?}: a permit may send");
                let receives = start(world, move || (r.recv(), r.recv()));
                sleep(A_WHILE);
                drop(permit.send(1));
                assert_eq!(receives.join(), (Ok(1), Err(RecvError)), "{kind:?}");

                let (s, r) = kind.make::<u8>();
                let permit = s.clone().reserve_owned().unwrap();
                r.close();
                let receives = start(world, move || block_on(r.recv_async()));
                sleep(A_WHILE);
                drop(permit);
                assert_eq!(receives.join(), Err(RecvError), "{kind:?}");
            }
        }
    });
}

#[test]
fn the_message_of_a_permit_is_dropped_without_receivers() {
    let (s, r) = bounded(1);
    let permit = s.reserve().unwrap();
    r.close();
    drop(r);
    let message = std::sync::Arc::new(());
    permit.send(message.clone());
    assert_eq!(std::sync::Arc::strong_count(&message), 1);
}

#[test]
fn a_select_sees_a_close() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<u8>();
            let (_keeps, waits) = bounded::<u8>(0);
            let closer = r.clone();
            let closes = spawn(move || {
                sleep(A_WHILE);
                closer.close();
            });
            select! {
                recv(r) -> message => assert_eq!(message, Err(RecvError), "{kind:?}"),
                recv(waits) -> _ => unreachable!(),
            }
            select! {
                send(s, 1) -> sent => assert_eq!(sent, Err(SendError(1)), "{kind:?}"),
                recv(waits) -> _ => unreachable!(),
            }
            closes.join().unwrap();
        }
    });
}

#[test]
fn no_message_is_lost_by_a_close() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let (sent, received) = scope(|scope| {
                let send_all = |s: Sender<u64>| {
                    // In a strict runtime nothing else takes a P from a sender that has room.
                    (0..).inspect(|_| yield_now()).take_while(|&n| s.send(n).is_ok()).count()
                };
                let senders: Vec<_> = (0..4)
                    .map(|_| {
                        let s = s.clone();
                        scope.spawn(move || send_all(s))
                    })
                    .collect();
                assert_eq!(r.iter().take(20).count(), 20, "{kind:?}");
                r.close();
                let rest = r.iter().count();
                let sent: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
                (sent, 20 + rest)
            });
            assert_eq!(sent, received, "{kind:?}");
        }
    });
}

#[test]
fn channels_without_senders_do_not_close() {
    let never = never::<u8>();
    never.close();
    assert!(!never.is_closed());
    let due = after(LONG);
    due.close();
    assert!(!due.is_closed());
    assert_eq!((never.sender_strong_count(), due.sender_weak_count()), (0, 0));
    let (s, r) = unbounded::<u8>();
    let mut waits = pin!(s.closed_async());
    assert!(block_on(poll_once(&mut waits)).is_none());
    r.close();
    assert!(block_on(poll_once(&mut waits)).is_some());
}

#[test]
fn messages_come_in_batches() {
    in_each(|| {
        for kind in KINDS {
            for awaited in [false, true] {
                let (s, r) = kind.make();
                let sends = spawn(move || (0..100).for_each(|n| s.send(n).unwrap()));
                let mut batch = vec![-1];
                let mut more = |limit| match awaited {
                    true => block_on(r.recv_many_async(&mut batch, limit)),
                    false => r.recv_many(&mut batch, limit),
                };
                assert_eq!(more(0), 0, "{kind:?}");
                let mut sum = 0;
                loop {
                    let got = more(7);
                    assert!(got <= 7, "{kind:?}: {got}");
                    sum += got;
                    if got == 0 {
                        break;
                    }
                }
                sends.join().unwrap();
                assert_eq!(sum, 100, "{kind:?}");
                assert_eq!(batch, (-1..100).collect::<Vec<_>>(), "{kind:?}");
            }
        }
        let (s, r) = unbounded();
        (0..10).for_each(|n| s.send(n).unwrap());
        let mut batch = Vec::new();
        assert_eq!((r.recv_many(&mut batch, 8), r.recv_many(&mut batch, 8)), (8, 2));
    });
}
