//! Each message is dropped once: by its receiver, with the channel, or with the error of a failed send.

use std::panic::{AssertUnwindSafe, catch_unwind};

use runtime::channel::{Receiver, Sender, unbounded};
use runtime::{sleep, spawn};
use tests::channels::{A_WHILE, BUFFERED, KINDS, start};
use tests::crowd::in_each;
use tests::{Drops, ON_PURPOSE, OnDrop, Random, quiet_panics_on_purpose};

#[test]
fn unreceived_messages_are_dropped_with_the_last_receiver() {
    in_each(|| {
        for kind in BUFFERED {
            for taken in 0..3 {
                let drops = Drops::default();
                let (s, r) = kind.make();
                let n = kind.room(100);
                (0..n).for_each(|_| s.send(drops.token()).unwrap());
                r.try_iter().take(taken).for_each(drop);
                drop(r);
                assert_eq!(drops.alive(), 0, "{kind:?}: messages are dropped with the receiver");
                assert!(s.send(drops.token()).is_err());
                assert_eq!(drops.alive(), 0, "an unsent message is dropped with the error");
            }
        }
    });
}

#[test]
fn unreceived_messages_are_dropped_with_the_channel() {
    for kind in BUFFERED {
        let drops = Drops::default();
        let (s, r) = kind.make();
        let n = kind.room(100);
        (0..n).for_each(|_| s.send(drops.token()).unwrap());
        drop(s);
        assert_eq!(drops.alive(), n as isize);
        drop(r.recv());
        drop(r);
        assert_eq!(drops.alive(), 0);
    }
}

#[test]
fn random_sends_and_receives_lose_nothing() {
    in_each(|| {
        let mut random = Random::new(5);
        for kind in KINDS {
            for _ in 0..10 {
                let drops = Drops::default();
                let (s, r) = kind.make();
                let (sends, receives) = (random.below(300), random.below(300));
                let counted = drops.clone();
                let sender =
                    start(0, move || (0..sends).take_while(|_| s.send(counted.token()).is_ok()).count());
                let receiver = start(1, move || (0..receives).take_while(|_| r.recv().is_ok()).count());
                let (sent, received) = (sender.join(), receiver.join());
                assert!(received <= sent);
                assert_eq!(drops.alive(), 0, "{kind:?}: {sends} sent, {receives} received");
            }
        }
    });
}

#[test]
fn a_message_may_use_its_channel_while_it_is_dropped() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make::<OnDrop<Box<dyn FnMut() + Send>>>();
            let own = s.clone();
            // The destructor uses the channel that held the message.
            s.send(OnDrop(Box::new(move || assert!(own.len() <= 1 && own.is_empty())))).unwrap();
            drop(r);
            drop(s);
        }
    });
}

#[test]
fn a_panic_in_a_message_drop_drops_no_message_twice() {
    quiet_panics_on_purpose();
    in_each(|| {
        for kind in BUFFERED {
            let drops = Drops::default();
            let (s, r) = kind.make();
            for n in 0..kind.room(5) {
                let token = drops.token();
                s.send(OnDrop(move || {
                    let _ = &token;
                    if n == 0 {
                        panic!("{ON_PURPOSE}");
                    }
                }))
                .unwrap();
            }
            let panicked = catch_unwind(AssertUnwindSafe(|| drop(r)));
            assert!(panicked.is_err());
            assert!(drops.alive() >= 0, "no message is dropped twice");
            drop(s);
            assert!(drops.alive() >= 0);
        }
    });
}

#[test]
fn senders_that_wait_when_the_receiver_ends_get_their_messages_back() {
    in_each(|| {
        for kind in KINDS {
            let drops = Drops::default();
            let (s, r) = kind.make();
            let senders: Vec<_> = (0..8)
                .map(|i| {
                    let (s, drops) = (s.clone(), drops.clone());
                    start(i, move || (0..50).filter(|_| s.send(drops.token()).is_ok()).count())
                })
                .collect();
            sleep(A_WHILE);
            let received = r.iter().take(20).count();
            drop(r);
            let sent: usize = senders.into_iter().map(|sender| sender.join()).sum();
            assert!(sent >= received);
            assert_eq!((drops.count(), drops.alive()), (400, 0));
        }
    });
}

/// Each channel carries the handles of the next channel.
#[test]
fn channels_go_through_channels() {
    struct Next(Option<(Sender<Next>, Receiver<Next>)>);
    in_each(|| {
        for kind in KINDS {
            const DEPTH: usize = 300;
            let (first, r) = kind.make::<Receiver<Next>>();
            let sender = spawn(move || {
                let (mut s, r) = kind.make();
                first.send(r).unwrap();
                for _ in 0..DEPTH {
                    let (next, r) = kind.make();
                    s.send(Next(Some((next.clone(), r)))).unwrap();
                    s = next;
                }
            });
            let mut r = r.recv().unwrap();
            for _ in 0..DEPTH {
                let (s, next) = r.recv().unwrap().0.unwrap();
                drop(s);
                r = next;
            }
            sender.join().unwrap();
            assert!(r.recv().is_err());
        }
    });
}

#[test]
fn a_channel_that_holds_its_own_sender_is_freed() {
    struct Selfish(#[allow(dead_code)] Sender<Selfish>, #[allow(dead_code)] tests::Token);
    let drops = Drops::default();
    let (s, r) = unbounded();
    s.send(Selfish(s.clone(), drops.token())).unwrap();
    drop(s);
    assert!(r.recv().is_ok());
    drop(r);
    assert_eq!(drops.alive(), 0);
}

#[test]
fn blocks_of_a_long_channel_are_reused_and_freed() {
    let drops = Drops::default();
    let (s, r) = unbounded();
    for round in 0..50 {
        (0..round * 7).for_each(|_| s.send(drops.token()).unwrap());
        assert_eq!(r.try_iter().take(round * 5).count(), round * 5);
    }
    assert_eq!(r.len() as isize, drops.alive());
    drop(r);
    assert_eq!(drops.alive(), 0);
}
