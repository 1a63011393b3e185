//! Cancellation and time-outs in each call that waits at a channel: the waiter leaves the queue, and no
//! message is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Select, Sender, TryRecvError, after, bounded, never, tick};
use runtime::thread::{self, Cancelled};
use runtime::time::{Elapsed, timeout};
use runtime::{select, sleep, spawn, yield_now};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::{Drops, ON_PURPOSE, OnDrop, Random, on, quiet_panics_on_purpose, wait_until};

type Ends = (Sender<u32>, Receiver<u32>);
/// A call, with its name.
type Call<T> = (&'static str, fn(&Ends) -> T);

/// Calls that wait to receive, and return the message.
const RECEIVES: &[Call<u32>] = &[
    ("recv", |(_, r)| r.recv().unwrap()),
    ("recv_timeout", |(_, r)| r.recv_timeout(LONG).unwrap()),
    ("recv_deadline", |(_, r)| r.recv_deadline(Instant::now() + LONG).unwrap()),
    ("iter", |(_, r)| r.iter().next().unwrap()),
    ("into_iter", |(_, r)| r.clone().into_iter().next().unwrap()),
    ("select! of one", |(_, r)| select! { recv(r) -> n => n.unwrap() }),
    (
        "select! of two",
        |(_, r)| select! { recv(r) -> n => n.unwrap(), recv(never::<u8>()) -> _ => unreachable!() },
    ),
    (
        "select! with a time-out",
        |(_, r)| select! { recv(r) -> n => n.unwrap(), recv(r) -> n => n.unwrap(), default(LONG) => unreachable!() },
    ),
    ("Select::select", |(_, r)| {
        let mut select = Select::new();
        select.recv(r);
        select.select().recv(r).unwrap()
    }),
    ("Select::select_timeout", |(_, r)| {
        let mut select = Select::new();
        (0..9).for_each(|_| _ = select.recv(r));
        select.select_timeout(LONG).unwrap().recv(r).unwrap()
    }),
    ("Select::ready", |(_, r)| {
        let mut select = Select::new();
        select.recv(r);
        loop {
            select.ready();
            if let Ok(n) = r.try_recv() {
                return n;
            }
        }
    }),
];

/// Calls that wait to send a 1.
const SENDS: &[Call<()>] = &[
    ("send", |(s, _)| s.send(1).unwrap()),
    ("send_timeout", |(s, _)| s.send_timeout(1, LONG).unwrap()),
    ("send_deadline", |(s, _)| s.send_deadline(1, Instant::now() + LONG).unwrap()),
    ("select! of one", |(s, _)| select! { send(s, 1) -> sent => sent.unwrap() }),
    (
        "select! of two",
        |(s, _)| select! { send(s, 1) -> sent => sent.unwrap(), send(s, 1) -> sent => sent.unwrap() },
    ),
    ("Select::select_timeout", |(s, _)| {
        let mut select = Select::new();
        select.send(s);
        select.select_timeout(LONG).unwrap().send(s, 1).unwrap();
    }),
    ("Select::ready", |(s, _)| {
        let mut select = Select::new();
        select.send(s);
        while select.ready() != 0 || s.try_send(1).is_err() {}
    }),
];

const FULL: [Kind; 3] = [Kind::Bounded(0), Kind::Bounded(1), Kind::Bounded(7)];

/// Returns a channel without room.
fn full(kind: Kind) -> Ends {
    let (s, r) = kind.make();
    (0..kind.room(7)).for_each(|_| s.send(0).unwrap());
    (s, r)
}

#[test]
fn a_cancelled_receiver_takes_no_message() {
    in_each(|| {
        for kind in KINDS {
            for &(name, receive) in RECEIVES {
                let ends = kind.make();
                let its = ends.clone();
                let waiting = spawn(move || receive(&its));
                for _ in 0..5 {
                    yield_now();
                }
                waiting.cancel();
                assert!(waiting.join().unwrap_err().is::<Cancelled>(), "{name} on {kind:?}");
                // The cancelled waiter has left the queue, so a message goes to the next receiver.
                let its = ends.clone();
                let next = start(1, move || its.1.recv());
                ends.0.send(5).unwrap();
                assert_eq!(next.join(), Ok(5), "{name} on {kind:?}");
                assert!(ends.1.is_empty());
            }
        }
    });
}

#[test]
fn a_cancelled_sender_sends_nothing() {
    in_each(|| {
        for kind in FULL {
            for &(name, send) in SENDS {
                let ends = full(kind);
                let its = ends.clone();
                let waiting = spawn(move || send(&its));
                for _ in 0..5 {
                    yield_now();
                }
                waiting.cancel();
                assert!(waiting.join().unwrap_err().is::<Cancelled>(), "{name} on {kind:?}");
                (0..kind.room(7)).for_each(|_| assert_eq!(ends.1.try_recv(), Ok(0)));
                assert_eq!(ends.1.try_recv(), Err(TryRecvError::Empty), "{name} on {kind:?}");
                // The room is the same as before.
                (0..kind.room(7)).for_each(|_| ends.0.try_send(2).unwrap());
                assert!(ends.0.try_send(2).is_err());
            }
        }
    });
}

#[test]
fn a_timeout_ends_each_call() {
    in_each(|| {
        for kind in FULL {
            for &(name, receive) in RECEIVES {
                let (ends, begin) = (kind.make(), Instant::now());
                assert_eq!(timeout(A_WHILE / 3, || receive(&ends)), Err(Elapsed), "{name}");
                assert!(begin.elapsed() >= A_WHILE / 3);
                assert!(
                    ends.0.try_send(1).is_ok() == (kind != Kind::Bounded(0)),
                    "{name}: the waiter has left the queue"
                );
            }
            for &(name, send) in SENDS {
                let ends = full(kind);
                assert_eq!(timeout(A_WHILE / 3, || send(&ends)), Err(Elapsed), "{name}");
                assert_eq!(ends.1.try_iter().filter(|&n| n == 1).count(), 0, "{name}: nothing was sent");
            }
        }
        let begin = Instant::now();
        assert_eq!(timeout(A_WHILE, || never::<u8>().recv()), Err(Elapsed));
        assert_eq!(timeout(A_WHILE, || after(LONG).recv()), Err(Elapsed));
        assert_eq!(timeout(A_WHILE, || tick(LONG).iter().next()), Err(Elapsed));
        assert_eq!(timeout(A_WHILE, || Select::new().select_timeout(LONG).is_err()), Err(Elapsed));
        assert!(begin.elapsed() >= 4 * A_WHILE);
    });
}

#[test]
fn cancels_waits_at_timer_channels() {
    in_each(|| {
        let waits: [fn(); 5] = [
            || _ = never::<u8>().recv(),
            || _ = after(LONG).recv(),
            || _ = tick(LONG).recv_timeout(LONG),
            || _ = Select::new().select_timeout(LONG),
            || select! { recv(after(LONG)) -> _ => {}, recv(never::<u8>()) -> _ => {} },
        ];
        for waits in waits {
            let waiting = spawn(waits);
            sleep(A_WHILE / 3);
            waiting.cancel();
            assert!(waiting.join().unwrap_err().is::<Cancelled>());
        }
    });
}

#[test]
fn a_cancelled_thread_completes_operations_that_need_no_wait() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            let own = s.clone();
            let started = Arc::new(AtomicBool::new(false));
            let flag = started.clone();
            let done = spawn(move || {
                flag.store(true, SeqCst);
                while !thread::cancelled() {
                    yield_now();
                }
                s.send(1).unwrap();
                assert_eq!(r.recv(), Ok(1));
                select! { send(s, 2) -> sent => sent.unwrap(), recv(r) -> _ => unreachable!() }
                assert_eq!(select! { recv(r) -> n => n, recv(never()) -> n => n }, Ok(2));
                let end = catch_unwind(AssertUnwindSafe(|| r.recv()));
                assert!(end.unwrap_err().is::<Cancelled>());
                let end =
                    catch_unwind(AssertUnwindSafe(|| select! { recv(r) -> _ => {}, recv(r) -> _ => {} }));
                assert!(end.unwrap_err().is::<Cancelled>(), "each wait is cancelled");
                (s, r)
            });
            wait_until("the thread has started", || started.load(SeqCst));
            done.cancel();
            let (_s, r) = done.join().unwrap();
            own.send(3).unwrap();
            assert_eq!(r.recv(), Ok(3));
        }
    });
}

/// Cancels senders and receivers at random moments. A message is received or still in the channel; an unsent
/// message is dropped.
#[test]
fn cancelled_senders_and_receivers_lose_nothing() {
    in_each(|| {
        let mut random = Random::new(77);
        for kind in KINDS {
            let drops = Drops::default();
            let (s, r) = kind.make();
            let (sent, received) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            for round in 0..25 {
                let workers: Vec<_> = (0..6u32)
                    .map(|i| {
                        let (s, r, drops) = (s.clone(), r.clone(), drops.clone());
                        let (sent, received) = (sent.clone(), received.clone());
                        spawn(move || {
                            loop {
                                match (i + round) % 6 {
                                    0 => s.send(drops.token()).unwrap(),
                                    1 => select! {
                                        send(s, drops.token()) -> sent => sent.unwrap(),
                                        recv(never::<u8>()) -> _ => unreachable!(),
                                    },
                                    2 => {
                                        while s
                                            .send_timeout(drops.token(), Duration::from_micros(50))
                                            .is_err()
                                        {}
                                    }
                                    3 => drop(r.recv().unwrap()),
                                    4 => select! {
                                        recv(r) -> token => drop(token.unwrap()),
                                        recv(never::<u8>()) -> _ => unreachable!(),
                                    },
                                    _ => while r.recv_timeout(Duration::from_micros(50)).is_err() {},
                                }
                                // No call parks between the operation and its count.
                                if (i + round) % 6 < 3 { &sent } else { &received }.fetch_add(1, SeqCst);
                                yield_now();
                                if thread::cancelled() {
                                    // Ends a worker with operations that never have to wait.
                                    sleep(LONG);
                                }
                            }
                        })
                    })
                    .collect();
                sleep(Duration::from_micros(random.below(400)));
                workers.iter().for_each(|worker| worker.cancel());
                for worker in workers {
                    assert!(worker.join().unwrap_err().is::<Cancelled>());
                }
                let there = sent.load(SeqCst) - received.load(SeqCst);
                if kind == Kind::Bounded(0) {
                    assert_eq!(there, 0, "a rendezvous channel holds no message");
                } else {
                    assert_eq!(r.len(), there, "{kind:?}");
                }
                assert_eq!(drops.alive(), there as isize);
            }
            drop((s, r));
            assert_eq!(drops.alive(), 0, "{kind:?}");
        }
    });
}

/// Cancels selects over several channels at the moment when an operation is chosen.
#[test]
fn cancelled_selects_lose_nothing() {
    in_each(|| {
        let mut random = Random::new(3);
        for kind in KINDS {
            let channels: Vec<_> = (0..3).map(|_| kind.make::<usize>()).collect();
            let received = Arc::new(AtomicUsize::new(0));
            let mut sent = 0;
            for _ in 0..60 {
                let rs: Vec<_> = channels.iter().map(|(_, r)| r.clone()).collect();
                let count = received.clone();
                let receiving = spawn(move || {
                    loop {
                        let n = select! {
                            recv(rs[0]) -> n => n,
                            recv(rs[1]) -> n => n,
                            recv(rs[2]) -> n => n,
                        };
                        count.fetch_add(n.unwrap(), SeqCst);
                    }
                });
                if random.below(2) == 0 {
                    yield_now();
                }
                for i in 0..random.below(6) {
                    // On a rendezvous channel `try_send` succeeds only if a receiver waits.
                    sent += usize::from(channels[i as usize % 3].0.try_send(1).is_ok());
                }
                receiving.cancel();
                assert!(receiving.join().unwrap_err().is::<Cancelled>());
            }
            let left: usize = channels.iter().flat_map(|(_, r)| r.try_iter()).sum();
            assert_eq!(received.load(SeqCst) + left, sent, "{kind:?}");
        }
    });
}

/// A select has chosen to send on a rendezvous channel, and its message expression runs. The receiver that it
/// meets is cancelled while the expression runs. That receiver gets the message, so the select need not wait
/// for another receiver.
#[test]
fn a_receiver_that_arrives_at_a_chosen_send_gets_its_message() {
    in_each(|| {
        let (s, r) = bounded(0);
        let receiver = spawn(move || {
            sleep(A_WHILE);
            // Meets the chosen send and waits for its message.
            let message = r.recv();
            (message, thread::cancelled())
        });
        select! {
            recv(never::<u8>()) -> _ => unreachable!(),
            send(s, { receiver.cancel(); sleep(A_WHILE); 7 }) -> sent => assert_eq!(sent, Ok(())),
            default(LONG) => unreachable!(),
        }
        assert_eq!(receiver.join().unwrap(), (Ok(7), true));
    });
}

/// A receiver that waited before the select began is cancelled after the select has chosen it. The receiver
/// gets the message.
#[test]
fn a_waiting_receiver_that_was_chosen_gets_its_message() {
    on(1, || {
        let (s, r) = bounded(0);
        let receiver = spawn(move || r.recv());
        yield_now();
        select! {
            recv(never::<u8>()) -> _ => unreachable!(),
            send(s, { receiver.cancel(); sleep(A_WHILE / 3); 7 }) -> sent => sent.unwrap(),
        }
        assert_eq!(receiver.join().unwrap(), Ok(7));
    });
}

/// A cancellation ends no wait of a thread that unwinds, so destructors may use channels.
#[test]
fn destructors_send_and_receive_while_unwinding() {
    quiet_panics_on_purpose();
    in_each(|| {
        for cancel in [true, false] {
            let ((there, r), (s, back)) = (bounded(0), bounded(0));
            let (started, starts) = bounded(1);
            let panicking = spawn(move || {
                started.send(()).unwrap();
                let _goes_last = OnDrop(move || {
                    there.send(1).unwrap();
                    assert_eq!(back.recv(), Ok(2));
                    select! { send(there, 3) -> sent => sent.unwrap(), recv(back) -> _ => unreachable!() }
                });
                if cancel { sleep(LONG) } else { panic!("{ON_PURPOSE}") }
            });
            if cancel {
                starts.recv().unwrap();
                sleep(A_WHILE / 3);
                panicking.cancel();
            }
            assert_eq!(r.recv(), Ok(1));
            s.send(2).unwrap();
            assert_eq!(r.recv(), Ok(3));
            assert_eq!(panicking.join().unwrap_err().is::<Cancelled>(), cancel);
        }
    });
}
