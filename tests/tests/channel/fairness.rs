//! Fairness: selects choose each ready operation often, and waiters in a queue are served in order.

use runtime::channel::{Receiver, Select, Sender, after, bounded, never, tick, unbounded};
use runtime::{select, yield_now};
use tests::channels::{KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::on;

const ROUNDS: usize = 3000;

/// Checks that each operation has a fair share of the choices, with enough margin for chance.
#[track_caller]
fn fair(hits: &[usize]) {
    let share = hits.iter().sum::<usize>() / hits.len();
    assert!(hits.iter().all(|&n| n >= share / 4), "{hits:?}");
}

#[test]
fn select_is_fair_among_receivers_with_messages() {
    in_each(|| {
        let kinds = [Kind::Bounded(ROUNDS), Kind::Unbounded];
        let channels: Vec<_> = (0..4).map(|i| kinds[i % 2].make()).collect();
        channels.iter().for_each(|(s, _)| (0..ROUNDS).for_each(|n| s.send(n).unwrap()));
        let mut hits = [0; 4];
        let mut select = Select::new();
        channels.iter().for_each(|(_, r)| _ = select.recv(r));
        for _ in 0..ROUNDS {
            let operation = select.select();
            let i = operation.index();
            assert_eq!(operation.recv(&channels[i].1), Ok(hits[i]), "each channel in its order");
            hits[i] += 1;
        }
        fair(&hits);
    });
}

#[test]
fn select_is_fair_among_senders_with_room() {
    in_each(|| {
        let channels: Vec<_> = (0..3).map(|_| bounded(ROUNDS)).collect();
        let mut select = Select::new();
        channels.iter().for_each(|(s, _)| _ = select.send(s));
        for n in 0..ROUNDS {
            let operation = select.select();
            let i = operation.index();
            operation.send(&channels[i].0, n).unwrap();
        }
        fair(&channels.iter().map(|(_, r)| r.len()).collect::<Vec<_>>());
    });
}

#[test]
fn select_is_fair_among_arms_with_the_same_channel() {
    in_each(|| {
        let (s, r) = unbounded();
        let mut hits = [0; 5];
        (0..ROUNDS).for_each(|n| s.send(n).unwrap());
        for _ in 0..ROUNDS {
            select! {
                recv(r) -> _ => hits[0] += 1,
                recv(r) -> _ => hits[1] += 1,
                recv(r.clone()) -> _ => hits[2] += 1,
                recv(&r) -> _ => hits[3] += 1,
                recv(r) -> _ => hits[4] += 1,
            }
        }
        fair(&hits);
    });
}

#[test]
fn select_is_fair_among_channels_of_all_kinds() {
    in_each(|| {
        let always = tick(std::time::Duration::ZERO);
        let ((full_s, full_r), (s, with_room)) = (unbounded(), bounded(ROUNDS));
        (0..ROUNDS).for_each(|_| full_s.send(()).unwrap());
        let (_, disconnected) = bounded::<()>(1);
        let (waits, _r) = bounded(0);
        let (late, nothing) = (after(LONG), never::<()>());
        let mut hits = [0; 4];
        for _ in 0..ROUNDS {
            select! {
                recv(late) -> _ => unreachable!(),
                recv(always) -> _ => hits[0] += 1,
                recv(full_r) -> _ => hits[1] += 1,
                send(waits, ()) -> _ => unreachable!(),
                recv(disconnected) -> message => { assert!(message.is_err()); hits[2] += 1 }
                recv(nothing) -> _ => unreachable!(),
                send(s, ()) -> sent => { sent.unwrap(); hits[3] += 1 }
            }
        }
        fair(&hits);
        assert_eq!(with_room.len(), hits[3]);
    });
}

/// Waiters in a queue are served, although other threads arrive and succeed at once.
#[test]
fn waiters_are_served_beside_arriving_threads() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let receivers: Vec<_> = (0..4)
                .map(|i| {
                    let r = r.clone();
                    start(i, move || {
                        let (mut count, mut sum) = (0, 0);
                        for n in r.iter() {
                            count += 1;
                            sum += n;
                            yield_now();
                        }
                        (count, sum)
                    })
                })
                .collect();
            let senders: Vec<_> = (0..4)
                .map(|i| {
                    let s: Sender<usize> = s.clone();
                    start(i, move || (0..500).for_each(|n| s.send(i * 500 + n).unwrap()))
                })
                .collect();
            drop(s);
            senders.into_iter().for_each(|sender| sender.join());
            let (counts, sums): (Vec<usize>, Vec<usize>) =
                receivers.into_iter().map(|receiver| receiver.join()).unzip();
            let (count, sum): (usize, usize) = (counts.iter().sum(), sums.iter().sum());
            assert_eq!((count, sum), (2000, 1999 * 2000 / 2), "{kind:?}");
        }
    });
}

/// On a single P no other thread runs in between, so each waiter is served in turn, and the shares are exact.
/// With sysmon a thread may be preempted between two steps, and then each gets some.
#[test]
fn waiters_take_turns() {
    on(1, || {
        for kind in KINDS {
            let (s, r) = kind.make();
            let receivers: Vec<_> = (0..5)
                .map(|_| {
                    let r = r.clone();
                    runtime::spawn(move || r.iter().count())
                })
                .collect();
            for _ in 0..100 {
                // Until all receivers wait again.
                (0..20).for_each(|_| yield_now());
                (0..5).for_each(|n| s.send(n).unwrap());
            }
            drop(s);
            let counts: Vec<_> = receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 500, "{kind:?}");
            let slack = if tests::has_sysmon() { 99 } else { 0 };
            assert!(
                counts.iter().all(|count| (100 - slack..=100 + 4 * slack).contains(count)),
                "{kind:?}: {counts:?}"
            );
        }
    });
}

type Ends = (Sender<u8>, Receiver<u8>);

/// Two selects that send and receive on the same two channels get a share of each role.
#[test]
fn two_selects_share_the_roles() {
    in_each(|| {
        let (a, b) = (bounded(0), bounded(0));
        let peer = {
            let (a, b) = (a.clone(), b.clone());
            start(0, move || trade(&a, &b))
        };
        let mine = trade(&a, &b);
        let theirs = peer.join();
        // Each message that a side sends, the other side receives.
        assert_eq!(mine, [theirs[1], theirs[0], theirs[3], theirs[2]]);
        assert!(mine.iter().all(|&n| n > 0), "{mine:?}");
    });
}

/// Selects 500 times. Returns how often it sent and received on `a`, and on `b`.
fn trade(a: &Ends, b: &Ends) -> [usize; 4] {
    let mut done = [0; 4];
    for _ in 0..500 {
        select! {
            send(a.0, 0) -> sent => { sent.unwrap(); done[0] += 1 }
            recv(a.1) -> message => { message.unwrap(); done[1] += 1 }
            send(b.0, 0) -> sent => { sent.unwrap(); done[2] += 1 }
            recv(b.1) -> message => { message.unwrap(); done[3] += 1 }
        }
    }
    done
}

/// A loop over cases that are always ready never parks. It is preempted, so the others run on its only P.
#[test]
fn a_loop_over_ready_cases_is_preempted() {
    tests::on(1, || {
        let (s, r) = runtime::channel::bounded(1);
        let events = runtime::sync::Semaphore::new(1);
        let other = runtime::spawn(|| runtime::sleep(std::time::Duration::from_millis(1)));
        let mut hits = [0_usize; 3];
        // On a slow machine the other one ends after two rounds, which leave a case out.
        while !other.is_finished() || hits.iter().sum::<usize>() < 1000 {
            runtime::select! {
                send(s, ()) -> sent => { sent.unwrap(); hits[0] += 1; }
                recv(r) -> _ => hits[1] += 1,
                acquired(events) -> permit => { drop(permit.unwrap()); hits[2] += 1; }
            }
        }
        assert!(hits.iter().all(|hits| *hits > 0), "{hits:?}");
    });
}
