//! Many selects at once: no message is lost or duplicated, and no select hangs.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::{Receiver, Select, Sender, bounded, never, unbounded};
use runtime::{select, sleep};
use tests::channels::{KINDS, Kind, start};
use tests::crowd::{crowd, in_each};
use tests::{Drops, Random, on, on_each};

const MICRO: Duration = Duration::from_micros(1);

fn any<T>(receivers: &[Receiver<T>]) -> T {
    let mut select = Select::new();
    receivers.iter().for_each(|receiver| _ = select.recv(receiver));
    let operation = select.select();
    let index = operation.index();
    operation.recv(&receivers[index]).unwrap()
}

#[test]
fn a_select_receives_from_all_kinds() {
    in_each(|| {
        const COUNT: usize = 400;
        let (senders, receivers): (Vec<_>, Vec<_>) = KINDS.into_iter().map(|kind| kind.make()).unzip();
        let sending: Vec<_> = senders
            .iter()
            .cloned()
            .enumerate()
            .map(|(i, s)| start(i, move || (0..COUNT).for_each(|n| s.send((i, n)).unwrap())))
            .collect();
        let mut next = [0; KINDS.len()];
        for _ in 0..COUNT * KINDS.len() {
            let (i, n) = any(&receivers);
            assert_eq!(n, next[i], "in order");
            next[i] += 1;
        }
        sending.into_iter().for_each(|sender| sender.join());
    });
}

#[test]
fn a_select_sends_to_all_kinds() {
    in_each(|| {
        const COUNT: usize = 400;
        let (senders, receivers): (Vec<_>, Vec<_>) = KINDS.into_iter().map(|kind| kind.make()).unzip();
        let receiving: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(i, r)| {
                start(i, move || r.iter().fold(0, |last, n| if n > last { n } else { panic!("{n}") }))
            })
            .collect();
        for n in 1..=COUNT {
            select! {
                send(senders[0], n) -> sent => sent.unwrap(),
                send(senders[1], n) -> sent => sent.unwrap(),
                send(senders[2], n) -> sent => sent.unwrap(),
                send(senders[3], n) -> sent => sent.unwrap(),
            }
        }
        drop(senders);
        assert_eq!(receiving.into_iter().map(|receiver| receiver.join()).max(), Some(COUNT));
    });
}

#[test]
fn a_select_sends_and_receives_with_a_peer() {
    in_each(|| {
        for kind in KINDS {
            const COUNT: usize = 300;
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let peer = start(1, move || {
                for n in 0..COUNT {
                    s2.send(n).unwrap();
                    assert_eq!(r1.recv(), Ok(n));
                }
            });
            let (mut sent, mut received) = (0, 0);
            let (nothing, nowhere) = (never(), bounded(0));
            while sent < COUNT || received < COUNT {
                select! {
                    send(if sent < COUNT { &s1 } else { &nowhere.0 }, sent) -> done => { done.unwrap(); sent += 1 }
                    recv(if received < COUNT { &r2 } else { &nothing }) -> n => { assert_eq!(n, Ok(received)); received += 1 }
                }
            }
            peer.join();
        }
    });
}

/// Twenty threads, each with a select that sends or receives on the same channel. No thread receives its own
/// message.
#[test]
fn every_select_pairs_with_another() {
    in_each(|| {
        const THREADS: usize = 20;
        for kind in [Kind::Bounded(0), Kind::Bounded(THREADS / 2), Kind::Unbounded] {
            let (s, r) = kind.make();
            let sent = AtomicUsize::new(0);
            let received = AtomicUsize::new(0);
            crowd(THREADS - 4, 4, |i| {
                select! {
                    recv(r) -> who => { assert_ne!(who.unwrap(), i); received.fetch_add(1, SeqCst); }
                    send(s, i) -> done => { done.unwrap(); sent.fetch_add(1, SeqCst); }
                }
            });
            let left = r.try_iter().count();
            assert_eq!(sent.load(SeqCst), received.load(SeqCst) + left);
            assert_eq!(sent.load(SeqCst) + received.load(SeqCst), THREADS);
            if kind == Kind::Bounded(0) {
                assert_eq!(sent.load(SeqCst), THREADS / 2);
            }
        }
    });
}

/// An odd number of selects on a rendezvous channel: a single select is left without a partner.
#[test]
fn an_odd_select_waits_for_a_partner() {
    in_each(|| {
        let (s, r) = bounded(0);
        let (s, r) = (&s, &r);
        runtime::scope(|scope| {
            for i in 0..21 {
                scope.spawn(move || {
                    select! {
                        recv(r) -> who => assert_ne!(who.unwrap(), i),
                        send(s, i) -> done => done.unwrap(),
                    }
                });
            }
            // This message goes to the select without a partner, whenever that select comes.
            assert!(s.send(99).is_ok());
        });
        assert!(r.try_recv().is_err());
    });
}

/// A thread that sends and then selects without waiting always finds a message.
#[test]
fn a_non_waiting_select_finds_a_message_that_is_there() {
    in_each(|| {
        for kind in [Kind::Bounded(4), Kind::Unbounded] {
            let channels = [kind.make(), kind.make()];
            crowd(3, 1, |i| {
                let [(s1, r1), (s2, r2)] = &channels;
                for n in 0..300 {
                    if (n + i) % 2 == 0 { s1 } else { s2 }.send(n).unwrap();
                    // More messages were sent than taken, so one channel has a message. It may be in the
                    // channel that `try_select` does not look at, but never in neither.
                    let mut select = Select::new();
                    select.recv(r1);
                    select.recv(r2);
                    let operation = select.try_select().expect("each thread sends before it receives");
                    let r = if operation.index() == 0 { r1 } else { r2 };
                    assert!(operation.recv(r).is_ok());
                }
            });
            assert!(channels.iter().all(|(s, _)| s.is_empty()));
        }
    });
}

#[test]
fn time_outs_on_both_sides() {
    in_each(|| {
        for kind in [Kind::Bounded(0), Kind::Bounded(2)] {
            const COUNT: u32 = 60;
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let _both_stay = (s1.clone(), s2.clone());
            let sender = start(0, move || {
                for n in 0..COUNT {
                    if n % 3 == 0 {
                        sleep(500 * MICRO);
                    }
                    while select! {
                        send(s1, n) -> sent => sent.is_err(),
                        send(s2, n) -> sent => sent.is_err(),
                        default(200 * MICRO) => true,
                    } {}
                }
            });
            let receiver = start(1, move || {
                let (mut count, mut sum) = (0, 0);
                while count < COUNT {
                    if count % 4 == 0 {
                        sleep(500 * MICRO);
                    }
                    select! {
                        recv(r1) -> n => { sum += n.unwrap(); count += 1 }
                        recv(r2) -> n => { sum += n.unwrap(); count += 1 }
                        default(200 * MICRO) => {}
                    }
                }
                sum
            });
            sender.join();
            assert_eq!(receiver.join(), COUNT * (COUNT - 1) / 2, "{kind:?}");
        }
    });
}

/// Random operations of many threads on channels of all kinds. Every message is accounted for.
#[test]
fn random_operations_of_many_threads() {
    in_each(|| {
        let drops = Drops::default();
        let channels: Vec<_> = KINDS.into_iter().map(|kind| kind.make::<(u64, tests::Token)>()).collect();
        let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
        crowd(8, 3, |i| {
            let mut random = Random::new(i as u64);
            let mut pick = |channels: &[(Sender<_>, Receiver<_>)]| channels[random.below(4) as usize].clone();
            for round in 0..300u64 {
                let ((s, r), (s2, r2)) = (pick(&channels), pick(&channels));
                let is_sent = |ok: bool| _ = sent.fetch_add(usize::from(ok), SeqCst);
                let is_received = |ok: bool| _ = received.fetch_add(usize::from(ok), SeqCst);
                match round % 6 {
                    0 => is_sent(s.try_send((round, drops.token())).is_ok()),
                    1 => is_received(r.try_recv().is_ok()),
                    2 => is_sent(s.send_timeout((round, drops.token()), 50 * MICRO).is_ok()),
                    3 => is_received(r.recv_timeout(50 * MICRO).is_ok()),
                    4 => select! {
                        send(s, (round, drops.token())) -> done => is_sent(done.is_ok()),
                        recv(r2) -> message => is_received(message.is_ok()),
                        send(s2, (round, drops.token())) -> done => is_sent(done.is_ok()),
                        default => {}
                    },
                    _ => select! {
                        recv(r) -> message => is_received(message.is_ok()),
                        send(s2, (round, drops.token())) -> done => is_sent(done.is_ok()),
                        recv(r2) -> message => is_received(message.is_ok()),
                        default(50 * MICRO) => {}
                    },
                }
            }
        });
        let left: usize = channels.iter().map(|(_, r)| r.len()).sum();
        assert_eq!(sent.load(SeqCst), received.load(SeqCst) + left);
        assert_eq!(drops.alive(), left as isize);
        drop(channels);
        assert_eq!(drops.alive(), 0);
    });
}

/// Thousands of green threads wait in selects on the same two channels. A message or the disconnection ends
/// each select.
#[test]
fn thousands_of_selects_end_by_a_message_or_a_disconnection() {
    on_each(|| {
        let (stop, stopped) = bounded::<()>(0);
        let (s, r) = bounded::<()>(0);
        let threads: Vec<_> = (0..3000)
            .map(|_| {
                let (stopped, r) = (stopped.clone(), r.clone());
                runtime::spawn(move || {
                    select! {
                        recv(stopped) -> end => end.is_err(),
                        recv(r) -> message => message.is_err(),
                    }
                })
            })
            .collect();
        (0..1000).for_each(|_| s.send(()).unwrap());
        drop(stop);
        let stopped = threads.into_iter().map(|thread| thread.join().unwrap());
        assert_eq!(stopped.filter(|&is_end| is_end).count(), 2000);
    });
}

/// A ring of selects that pass two messages round.
#[test]
fn a_ring_of_selects() {
    on(2, || {
        const MEMBERS: usize = 50;
        let channels: Vec<_> = (0..MEMBERS).map(|_| bounded::<u32>(0)).collect();
        let (done, finished) = unbounded();
        let (stop, stopped) = bounded::<()>(0);
        for i in 0..MEMBERS {
            let (left, right) = (channels[i].1.clone(), channels[(i + 1) % MEMBERS].0.clone());
            let (done, stopped) = (done.clone(), stopped.clone());
            runtime::spawn(move || {
                loop {
                    let n = select! {
                        recv(left) -> n => n.unwrap(),
                        recv(stopped) -> _ => return,
                    };
                    if n == 20 * MEMBERS as u32 {
                        done.send(i).unwrap();
                        continue;
                    }
                    select! {
                        send(right, n + 1) -> sent => sent.unwrap(),
                        recv(stopped) -> _ => return,
                    }
                }
            });
        }
        channels[3].0.send(0).unwrap();
        channels[17].0.send(0).unwrap();
        let mut ended = [finished.recv().unwrap(), finished.recv().unwrap()];
        ended.sort_unstable();
        assert_eq!(ended, [3, 17]);
        drop(stop);
        assert!(finished.recv_timeout(Duration::from_millis(5)).is_err());
    });
}
