//! `Select::ready` and its variants: they report an operation that can be done, and do not begin it.

use std::time::Instant;

use runtime::channel::{
    ReadyTimeoutError, Receiver, RecvError, Select, TryReadyError, TryRecvError, TrySendError, after,
    bounded, never, unbounded,
};
use runtime::{sleep, spawn, yield_now};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;

#[test]
fn ready_names_an_operation_that_can_be_done() {
    in_each(|| {
        for kind in BUFFERED {
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let mut select = Select::new();
            let (first, second) = (select.recv(&r1), select.recv(&r2));
            assert_eq!(select.try_ready(), Err(TryReadyError));
            s2.send(2).unwrap();
            for _ in 0..3 {
                assert_eq!(select.try_ready(), Ok(second), "try_ready takes no message");
                assert_eq!(select.ready(), second);
                assert_eq!(select.ready_deadline(Instant::now()), Ok(second));
            }
            assert_eq!(r2.try_recv(), Ok(2));
            s1.send(1).unwrap();
            assert_eq!(select.ready_timeout(LONG), Ok(first));
            assert_eq!(r1.try_recv(), Ok(1));
        }
    });
}

#[test]
fn ready_follows_the_room_of_a_sender() {
    let (s, r) = bounded(1);
    let mut select = Select::new();
    let send = select.send(&s);
    for n in 0..5 {
        assert_eq!(select.try_ready(), Ok(send));
        s.try_send(n).unwrap();
        assert_eq!(select.try_ready(), Err(TryReadyError));
        assert_eq!(r.try_recv(), Ok(n));
    }
    let (s, _r) = unbounded::<u8>();
    let mut select = Select::new();
    assert_eq!((select.send(&s), select.ready()), (0, 0));
}

#[test]
fn a_disconnected_channel_is_ready() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<u8>();
            let (_quiet, waits) = bounded::<u8>(0);
            let mut select = Select::new();
            select.recv(&waits);
            let gone = select.recv(&r);
            assert!(select.ready_timeout(A_WHILE / 3).is_err());
            let ending = start(1, move || {
                std::thread::sleep(A_WHILE);
                drop(s);
            });
            assert_eq!(select.ready(), gone);
            assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
            ending.join();

            let (s, r) = kind.make();
            (0..kind.room(7)).for_each(|_| s.send(0).unwrap());
            let (full, _r) = bounded::<u8>(0);
            let mut select = Select::new();
            select.send(&full);
            let gone = select.send(&s);
            let ending = start(0, move || {
                sleep(A_WHILE);
                drop(r);
            });
            assert_eq!(select.ready(), gone);
            ending.join();
            assert_eq!(select.ready(), gone);
            assert_eq!(s.try_send(9), Err(TrySendError::Disconnected(9)));
        }
    });
}

#[test]
fn ready_times_out() {
    in_each(|| {
        for kind in KINDS {
            let (_s, r) = kind.make::<u8>();
            let (full, _r) = bounded::<u8>(0);
            let mut select = Select::new();
            select.recv(&r);
            select.send(&full);
            let begin = Instant::now();
            assert_eq!(select.ready_timeout(A_WHILE), Err(ReadyTimeoutError));
            assert!(begin.elapsed() >= A_WHILE);
            assert_eq!(select.ready_deadline(begin), Err(ReadyTimeoutError));
            assert_eq!(select.try_ready(), Err(TryReadyError));
        }
        let begin = Instant::now();
        assert!(Select::new().try_ready().is_err());
        assert!(Select::new().ready_timeout(A_WHILE).is_err());
        assert!(begin.elapsed() >= A_WHILE);
    });
}

#[test]
fn a_watcher_is_woken_by_senders_and_receivers() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..2 {
                let ((s, r), (_quiet, other)) = (kind.make(), kind.make::<u8>());
                let watching = start(world, move || {
                    let mut select = Select::new();
                    select.recv(&other);
                    let recv = select.recv(&r);
                    loop {
                        // `ready` may be outdated: another thread may have taken the message.
                        assert_eq!(select.ready(), recv);
                        if let Ok(message) = r.try_recv() {
                            return message;
                        }
                    }
                });
                sleep(A_WHILE);
                s.send(7).unwrap();
                assert_eq!(watching.join(), 7, "{kind:?}");
            }
            if kind == Kind::Unbounded {
                continue;
            }
            let (s, r) = kind.make();
            (0..kind.room(7)).for_each(|n| s.send(n).unwrap());
            let watching = start(0, move || {
                let mut select = Select::new();
                select.send(&s);
                while select.ready() != 0 || s.try_send(100).is_err() {}
            });
            sleep(A_WHILE);
            assert_eq!(r.iter().last(), Some(100));
            watching.join();
        }
    });
}

/// Threads in `ready` take no message from receivers.
#[test]
fn watchers_do_not_hinder_receivers() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let watchers: Vec<_> = (0..3)
                .map(|i| {
                    let r = r.clone();
                    start(i, move || {
                        let mut select = Select::new();
                        select.recv(&r);
                        select.ready()
                    })
                })
                .collect();
            sleep(A_WHILE);
            let receiver = start(0, move || r.iter().sum::<u32>());
            sleep(A_WHILE);
            (0..100).for_each(|n| s.send(n).unwrap());
            drop(s);
            assert_eq!(receiver.join(), 4950, "{kind:?}");
            assert!(watchers.into_iter().all(|watcher| watcher.join() == 0));
        }
    });
}

/// A thread in `ready` on each end of a rendezvous channel: neither counts as a sender or receiver.
#[test]
fn watchers_do_not_meet() {
    in_each(|| {
        let (s, r) = bounded::<u8>(0);
        let watching = {
            let s = s.clone();
            spawn(move || {
                let mut select = Select::new();
                select.send(&s);
                select.ready_timeout(3 * A_WHILE)
            })
        };
        let mut select = Select::new();
        select.recv(&r);
        assert!(select.ready_timeout(A_WHILE).is_err());
        assert_eq!(watching.join().unwrap(), Err(ReadyTimeoutError));
        assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
    });
}

#[test]
fn each_of_several_equal_operations_is_named() {
    let (s, r) = unbounded();
    s.send(1).unwrap();
    let mut select = Select::new();
    (0..4).for_each(|i| assert_eq!(select.recv(&r), i));
    let mut named = [0; 4];
    (0..400).for_each(|_| named[select.ready()] += 1);
    assert!(named.iter().all(|&n| n > 20), "{named:?}");
}

#[test]
fn timer_channels_become_ready() {
    in_each(|| {
        let begin = Instant::now();
        let (soon, nothing) = (after(A_WHILE), never::<u8>());
        let mut select = Select::new();
        select.recv(&nothing);
        let due = select.recv(&soon);
        assert_eq!(select.ready(), due);
        assert!(begin.elapsed() >= A_WHILE);
        assert!(soon.try_recv().is_ok());
        assert!(select.ready_timeout(A_WHILE).is_err());
    });
}

/// A server that receives only with `ready` and `try_recv`.
#[test]
fn a_loop_of_ready_receives_everything() {
    in_each(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) = KINDS.into_iter().map(|kind| kind.make::<u64>()).unzip();
        let sending: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(i, s)| {
                start(i, move || {
                    for n in 0..100 {
                        s.send(n).unwrap();
                        if n % 10 == 0 {
                            yield_now();
                        }
                    }
                })
            })
            .collect();
        let (mut sum, mut open) = (0, receivers.len());
        let mut select = Select::new();
        receivers.iter().for_each(|r| _ = select.recv(r));
        while open > 0 {
            let i = select.ready();
            let r: &Receiver<u64> = &receivers[i];
            match r.try_recv() {
                Ok(n) => sum += n,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    assert_eq!(r.recv(), Err(RecvError));
                    select.remove(i);
                    open -= 1;
                }
            }
        }
        sending.into_iter().for_each(|sender| sender.join());
        assert_eq!(sum, 4950 * KINDS.len() as u64);
    });
}
