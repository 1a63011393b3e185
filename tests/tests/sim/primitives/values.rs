//! Channels for state: `watch`, `broadcast` and `oneshot`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use runtime::sync::broadcast::error::RecvError;
use runtime::sync::{broadcast, oneshot, watch};
use runtime::time::timeout;
use runtime::{scope, select, sleep, spawn, yield_now};

use super::{Counted, exhaust, explore, ms, pick};

#[test]
fn a_watcher_sees_the_last_value() {
    explore(|| {
        let (s, r) = watch::channel(0);
        scope(|scope| {
            for _ in 0..2 {
                let mut r = r.clone();
                scope.spawn(move || {
                    let mut last = 0;
                    while r.changed().is_ok() {
                        let value = *r.borrow_and_update();
                        assert!(value > last, "a change is seen once, and values do not go back");
                        last = value;
                    }
                    assert_eq!(*r.borrow(), 3);
                });
            }
            let mut waits = r.clone();
            scope.spawn(move || assert!(*waits.wait_for(|value| *value >= 2).unwrap() >= 2));
            drop(r);
            for value in 1..=3 {
                s.send(value).unwrap();
            }
            // Each watcher has seen the last value, or sees it before the end of the channel.
            drop(s);
        });
    });
}

#[test]
fn a_watcher_that_was_ended_has_seen_nothing() {
    explore(|| {
        let (s, mut r) = watch::channel(0);
        let sender = spawn(move || {
            sleep(ms(1));
            s.send(1).unwrap();
            s.closed();
        });
        let changed = timeout(ms(1), || r.changed().unwrap()).is_ok();
        if !changed {
            r.changed().unwrap();
        }
        assert_eq!(*r.borrow(), 1);
        assert!(!r.has_changed().unwrap());
        drop(r);
        sender.join().unwrap();
    });
}

#[test]
fn each_receiver_gets_what_is_broadcast_or_hears_of_its_loss() {
    explore(|| {
        let (s, r) = broadcast::channel(2);
        scope(|scope| {
            for _ in 0..2 {
                let mut r = r.resubscribe();
                scope.spawn(move || {
                    let mut next = 0;
                    loop {
                        match r.recv() {
                            Ok(n) => {
                                assert_eq!(n, next);
                                next += 1;
                            }
                            Err(RecvError::Lagged(lost)) => next += lost,
                            Err(RecvError::Closed) => return assert_eq!(next, 5),
                        }
                        if pick(2) == 0 {
                            yield_now();
                        }
                    }
                });
            }
            drop(r);
            (0..5_u64).for_each(|n| _ = s.send(n).unwrap());
            drop(s);
        });
    });
}

#[test]
fn a_broadcast_reaches_a_receiver_after_a_time_out() {
    explore(|| {
        let (s, mut r) = broadcast::channel(4);
        let live = Arc::new(AtomicUsize::new(0));
        let lives = live.clone();
        let sender = spawn(move || {
            for _ in 0..3 {
                sleep(ms(1));
                s.send(Arc::new(Counted::new(&lives))).unwrap();
            }
        });
        let mut got = 0;
        loop {
            match timeout(ms(1), || r.recv()) {
                Ok(Ok(_)) => got += 1,
                Ok(Err(_)) => break,
                Err(_) => {}
            }
        }
        sender.join().unwrap();
        drop(r);
        assert_eq!((got, live.load(Relaxed)), (3, 0));
    });
}

#[test]
fn a_oneshot_gives_its_value_to_one_side() {
    exhaust(|| {
        let live = Arc::new(AtomicUsize::new(0));
        let (s, r) = oneshot::channel();
        let value = Counted::new(&live);
        let sender = spawn(move || s.send(value).is_ok());
        let got = if pick(2) == 0 { r.recv().is_ok() } else { r.try_recv().is_ok() };
        drop(r);
        let sent = sender.join().unwrap();
        assert!(sent || !got, "what was received was sent");
        assert_eq!(live.load(Relaxed), 0);
    });
}

#[test]
fn a_oneshot_that_is_closed_still_has_its_value() {
    exhaust(|| {
        let (s, r) = oneshot::channel();
        let sender = spawn(move || s.send(1).is_ok());
        r.close();
        let got = r.try_recv().is_ok();
        assert_eq!(sender.join().unwrap(), got);
    });
}

#[test]
fn a_receiver_of_a_oneshot_that_was_ended_has_taken_nothing() {
    explore(|| {
        let (s, r) = oneshot::channel();
        let sender = spawn(move || {
            sleep(ms(1));
            s.send(1).unwrap();
        });
        let first = timeout(ms(1), || r.recv());
        let value = first.unwrap_or_else(|_| r.recv());
        assert_eq!(value, Ok(1));
        sender.join().unwrap();
    });
}

#[test]
fn the_sender_of_a_oneshot_sees_the_end_of_its_receiver() {
    explore(|| {
        let (s, r) = oneshot::channel::<u8>();
        let receiver = spawn(move || r.recv_timeout(ms(1)).is_ok());
        select! {
            future(async { s.closed_async().await }) -> () => {},
        }
        assert!(!receiver.join().unwrap());
        assert_eq!(s.send(1), Err(1));
    });
}
