//! Weak senders: they keep no channel open, and become senders while another sender lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use runtime::channel::{RecvError, SendError, WeakSender, bounded, unbounded};
use runtime::{scope, spawn, yield_now};
use tests::channels::KINDS;
use tests::crowd::in_each;
use tests::{Drops, on_each};

#[test]
fn a_weak_sender_keeps_no_channel_open() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<i32>();
            let weak = s.downgrade();
            let again = weak.upgrade().expect("a sender lives");
            assert!(again.same_channel(&s), "{kind:?}");
            drop(s);
            assert!(weak.upgrade().is_some(), "{kind:?}: the upgraded sender lives");
            drop(again);
            assert!(weak.upgrade().is_none(), "{kind:?}");
            assert_eq!(r.recv(), Err(RecvError), "{kind:?}");
            let other = weak.clone();
            drop(r);
            drop(weak);
            assert!(other.upgrade().is_none(), "{kind:?}");
        }
    });
}

#[test]
fn an_upgraded_sender_sends() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let weak = s.downgrade();
            let sends = spawn(move || weak.upgrade().map(|s| s.send(7)));
            assert_eq!(r.recv(), Ok(7), "{kind:?}");
            assert_eq!(sends.join().unwrap(), Some(Ok(())), "{kind:?}");
            drop(r);
            assert_eq!(s.downgrade().upgrade().unwrap().send(8), Err(SendError(8)), "{kind:?}");
        }
    });
}

#[test]
fn handles_are_counted() {
    let (s, _r) = unbounded::<u8>();
    assert_eq!((s.strong_count(), s.weak_count()), (1, 0));
    let (other, weak) = (s.clone(), s.downgrade());
    let weaker = weak.clone();
    assert_eq!((s.strong_count(), s.weak_count()), (2, 2));
    assert_eq!((weak.strong_count(), weak.weak_count()), (2, 2));
    drop((other, weaker));
    assert_eq!((weak.strong_count(), weak.weak_count()), (1, 1));
    drop(s);
    assert_eq!((weak.strong_count(), weak.weak_count()), (0, 1));
}

/// The channel lasts as long as its last weak sender, its messages do not.
#[test]
fn messages_are_dropped_once_and_not_kept_by_a_weak_sender() {
    for receiver_first in [true, false] {
        let drops = Drops::default();
        let (s, r) = bounded(4);
        (0..3).for_each(|_| s.send(drops.token()).unwrap());
        let weak: WeakSender<_> = s.downgrade();
        if receiver_first {
            drop(r);
            assert_eq!(drops.alive(), 0, "the last receiver drops the messages");
            drop(s);
        } else {
            drop(s);
            assert_eq!(drops.alive(), 3);
            drop(r);
        }
        assert_eq!(drops.alive(), 0);
        drop(weak);
        assert_eq!((drops.count(), drops.alive()), (3, 0));
    }
}

/// Upgrades, the end of the last sender and the end of the last receiver at one time.
#[test]
fn an_upgrade_beside_the_end_of_the_channel_has_a_sender_or_none() {
    on_each(|| {
        for round in 0..300 {
            let (s, r) = bounded(8);
            let weak = s.downgrade();
            let sent = Arc::new(AtomicUsize::new(0));
            let received = scope(|scope| {
                for _ in 0..3 {
                    let (weak, sent) = (weak.clone(), sent.clone());
                    scope.spawn(move || {
                        if let Some(s) = weak.upgrade() {
                            s.send(Box::new(round)).unwrap();
                            sent.fetch_add(1, SeqCst);
                        }
                    });
                }
                drop(weak);
                scope.spawn(move || {
                    if round % 2 == 0 {
                        yield_now();
                    }
                    drop(s);
                });
                scope.spawn(move || r.iter().inspect(|message| assert_eq!(**message, round)).count()).join()
            });
            assert_eq!(received.unwrap(), sent.load(SeqCst));
        }
    });
}
