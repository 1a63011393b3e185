//! `reserve`, `try_reserve` and `reserve_async`: reserved room is kept, and goes on when it is not used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use runtime::channel::{OwnedPermit, SendError, Sender, TryRecvError, TrySendError, bounded};
use runtime::{block_on, scope, sleep, spawn};
use tests::channels::{A_WHILE, BUFFERED, start};
use tests::crowd::in_each;
use tests::futures::poll_once;

#[test]
fn reserved_room_is_kept_for_its_message() {
    in_each(|| {
        let (s, r) = bounded(2);
        let permit = s.try_reserve().unwrap();
        s.try_send(1).unwrap();
        assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(s.try_reserve().unwrap_err(), TrySendError::Full(()));
        assert_eq!((s.len(), s.is_full()), (1, true));
        permit.send(3);
        assert_eq!((r.recv(), r.recv(), r.try_recv()), (Ok(1), Ok(3), Err(TryRecvError::Empty)));
    });
}

#[test]
fn a_dropped_permit_wakes_a_sender_of_each_kind() {
    in_each(|| {
        for world in 0..2 {
            let (s, r) = bounded(1);
            let permit = s.reserve().unwrap();
            let other = s.clone();
            let sends = start(world, move || other.send(1));
            sleep(A_WHILE);
            drop(permit);
            assert_eq!((r.recv(), sends.join()), (Ok(1), Ok(())));

            let permit = s.reserve().unwrap();
            let other = s.clone();
            let reserves = start(world, move || other.reserve().map(|permit| permit.send(2)));
            sleep(A_WHILE);
            drop(permit);
            assert_eq!((r.recv(), reserves.join()), (Ok(2), Ok(())));

            let permit = s.reserve().unwrap();
            let other = s.clone();
            let awaits = start(world, move || {
                block_on(async { other.reserve_async().await.map(|room| room.send(3)) })
            });
            sleep(A_WHILE);
            drop(permit);
            assert_eq!((r.recv(), awaits.join()), (Ok(3), Ok(())));
        }
    });
}

#[test]
fn a_permit_meets_a_waiting_receiver() {
    in_each(|| {
        for kind in BUFFERED {
            for world in 0..2 {
                let (s, r) = kind.make();
                let permit = s.reserve().unwrap();
                let receives = start(world, move || r.recv());
                sleep(A_WHILE);
                permit.send(1);
                assert_eq!(receives.join(), Ok(1), "{kind:?}");
            }
        }
    });
}

#[test]
fn the_end_of_the_receivers_ends_a_wait_for_room() {
    in_each(|| {
        for world in 0..2 {
            let (s, r) = bounded::<Arc<()>>(1);
            let permit = s.reserve().unwrap();
            let other = s.clone();
            let waits = start(world, move || other.reserve().map(drop));
            sleep(A_WHILE);
            drop(r);
            assert_eq!(waits.join(), Err(SendError(())));
            let message = Arc::new(());
            permit.send(message.clone());
            assert_eq!(Arc::strong_count(&message), 1, "the message was not dropped");
            assert_eq!(s.try_reserve().unwrap_err(), TrySendError::Disconnected(()));
        }
    });
}

#[test]
fn a_future_that_is_dropped_passes_its_room_on() {
    in_each(|| {
        let (s, r) = bounded(1);
        let permit = s.reserve().unwrap();
        let other = s.clone();
        let sends = {
            let mut future = pin!(s.reserve_async());
            assert!(block_on(poll_once(&mut future)).is_none());
            let sends = spawn(move || other.send(1));
            sleep(A_WHILE);
            // The future is the first in the queue and is woken for the room. It is dropped without a poll.
            drop(permit);
            sends
        };
        assert_eq!((r.recv(), sends.join().unwrap()), (Ok(1), Ok(())));
    });
}

#[test]
fn a_cancelled_wait_reserves_nothing() {
    in_each(|| {
        let (s, r) = bounded(1);
        let permit = s.reserve().unwrap();
        let other = s.clone();
        let waits = spawn(move || other.reserve().map(drop));
        sleep(A_WHILE);
        waits.cancel();
        assert!(waits.join().is_err());
        drop(permit);
        s.try_send(1).unwrap();
        assert_eq!(r.recv(), Ok(1));
    });
}

#[test]
fn messages_in_room_and_in_flight_never_exceed_the_bound() {
    in_each(|| {
        let (s, r) = bounded(2);
        let held = AtomicUsize::new(0);
        let (s, held) = (&s, &held);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for n in 0..50 {
                        let permit = s.reserve().unwrap();
                        assert!(held.fetch_add(1, SeqCst) < 2, "a third permit for two rooms");
                        runtime::yield_now();
                        held.fetch_sub(1, SeqCst);
                        if n % 5 == 0 { drop(permit) } else { permit.send(n) }
                    }
                });
            }
            for _ in 0..4 * 40 {
                r.recv().unwrap();
            }
        });
        assert!(s.is_empty());
    });
}

#[test]
fn a_channel_without_room_refuses_to_reserve() {
    let (s, _r) = bounded::<u8>(0);
    assert!(catch_unwind(AssertUnwindSafe(|| s.try_reserve().map(drop))).is_err());
}

/// Reserves room of `s` in one of three ways.
fn reserve_owned<T: Send + 'static>(s: &Sender<T>, way: usize) -> OwnedPermit<T> {
    match way {
        0 => s.clone().reserve_owned().unwrap(),
        1 => s.clone().try_reserve_owned().unwrap(),
        _ => block_on(s.clone().reserve_owned_async()).unwrap(),
    }
}

#[test]
fn an_owned_permit_keeps_its_room_and_its_sender() {
    in_each(|| {
        for way in 0..3 {
            let (s, r) = bounded(1);
            let permit = reserve_owned(&s, way);
            assert_eq!(s.strong_count(), 2, "the permit has a sender");
            assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
            let back = s.clone().try_reserve_owned().unwrap_err();
            assert!(matches!(&back, TrySendError::Full(sender) if sender.same_channel(&s)));
            drop(back);
            let sent = spawn(move || permit.send(2)).join().unwrap();
            assert!(sent.same_channel(&s));
            assert_eq!((r.recv(), s.strong_count()), (Ok(2), 2));
            drop((s, sent));
            assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
        }
    });
}

#[test]
fn room_of_an_owned_permit_goes_to_the_next_sender() {
    in_each(|| {
        for (way, released) in [(0, true), (1, false), (2, true), (2, false)] {
            let (s, r) = bounded(1);
            let permit = reserve_owned(&s, way);
            let other = s.clone();
            let sends = spawn(move || other.send(1));
            sleep(A_WHILE);
            if released {
                assert!(permit.release().same_channel(&s));
            } else {
                drop(permit);
            }
            assert_eq!((r.recv(), sends.join().unwrap()), (Ok(1), Ok(())));
            assert_eq!(s.strong_count(), 1);
        }
    });
}

#[test]
fn an_owned_permit_is_refused_without_receivers() {
    let (s, r) = bounded::<u8>(1);
    let permit = s.clone().reserve_owned().unwrap();
    drop(r);
    let back = s.clone().try_reserve_owned().unwrap_err();
    assert!(matches!(back, TrySendError::Disconnected(_)));
    assert_eq!(s.clone().reserve_owned().unwrap_err(), SendError(()));
    // No receiver is left: the message is dropped.
    permit.send(1);
}
