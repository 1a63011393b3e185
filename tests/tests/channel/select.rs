//! `Select`: which operation is chosen, what has begun by then, and which event wakes a select.

use std::time::{Duration, Instant};

use runtime::channel::{
    Receiver, RecvError, Select, SelectTimeoutError, SendError, Sender, TryRecvError, TrySelectError,
    TrySendError, after, at, bounded, never, tick, unbounded,
};
use runtime::{sleep, spawn, yield_now};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::{Drops, Random};

/// Selects among receives, in the order of the slice, and completes the chosen receive.
fn recv_any<T>(receivers: &[Receiver<T>]) -> (usize, Result<T, RecvError>) {
    let mut select = Select::new();
    receivers.iter().for_each(|receiver| _ = select.recv(receiver));
    let operation = select.select();
    let index = operation.index();
    (index, operation.recv(&receivers[index]))
}

/// Selects among sends, and completes the chosen send.
fn send_any<T>(senders: &[Sender<T>], message: T) -> (usize, Result<(), SendError<T>>) {
    let mut select = Select::new();
    senders.iter().for_each(|sender| _ = select.send(sender));
    let operation = select.select();
    let index = operation.index();
    (index, operation.send(&senders[index], message))
}

#[test]
fn the_only_ready_operation_is_chosen() {
    in_each(|| {
        for kind in BUFFERED {
            let channels = [kind.make(), kind.make(), kind.make()];
            for (i, (s, _)) in channels.iter().enumerate() {
                s.send(i).unwrap();
                let receivers = channels.each_ref().map(|(_, r)| r.clone());
                assert_eq!(recv_any(&receivers), (i, Ok(i)), "{kind:?}");
            }
            if let Kind::Bounded(capacity) = kind {
                // Only the middle channel has room.
                let senders = channels.each_ref().map(|(s, _)| s.clone());
                for i in [0, 2] {
                    (0..capacity).for_each(|_| senders[i].send(0).unwrap());
                }
                assert_eq!(send_any(&senders, 7), (1, Ok(())));
                assert_eq!(channels[1].1.try_recv(), Ok(7));
            }
        }
    });
}

#[test]
fn a_disconnected_channel_is_ready_behind_its_messages() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<u8>();
            let (_quiet, waits) = bounded(0);
            if kind != Kind::Bounded(0) {
                s.send(1).unwrap();
            }
            drop(s);
            let receivers = [waits, r];
            if kind != Kind::Bounded(0) {
                assert_eq!(recv_any(&receivers), (1, Ok(1)));
            }
            assert_eq!(recv_any(&receivers), (1, Err(RecvError)));
            let (s, r) = kind.make();
            let (full, _r) = bounded(0);
            drop(r);
            assert_eq!(send_any(&[full, s], 5), (1, Err(SendError(5))), "the error returns the message");
        }
    });
}

#[test]
fn no_operation_is_chosen_after_the_timeout() {
    in_each(|| {
        for kind in KINDS {
            let ((_s, empty), (full, r)) = (kind.make::<usize>(), bounded(1));
            full.send(0).unwrap();
            let mut select = Select::new();
            select.recv(&empty);
            select.send(&full);
            assert_eq!(select.try_select().unwrap_err(), TrySelectError);
            let begin = Instant::now();
            assert_eq!(select.select_timeout(A_WHILE).unwrap_err(), SelectTimeoutError);
            assert_eq!(select.select_deadline(begin + 2 * A_WHILE).unwrap_err(), SelectTimeoutError);
            assert!(begin.elapsed() >= 2 * A_WHILE);
            assert_eq!(select.select_deadline(begin).unwrap_err(), SelectTimeoutError);
            assert_eq!(r.len(), 1, "no operation has begun");
            assert_eq!(full.try_send(1), Err(TrySendError::Full(1)));
        }
    });
}

#[test]
fn a_ready_operation_is_chosen_despite_a_past_deadline() {
    for kind in BUFFERED {
        let (s, r) = kind.make();
        let mut select = Select::new();
        select.send(&s);
        select.try_select().unwrap().send(&s, 1).unwrap();
        let mut select = Select::new();
        select.recv(&r);
        assert_eq!(select.select_deadline(Instant::now()).unwrap().recv(&r), Ok(1));
    }
}

#[test]
fn an_empty_list_times_out() {
    in_each(|| {
        assert!(Select::new().try_select().is_err());
        let begin = Instant::now();
        assert!(Select::new().select_timeout(A_WHILE).is_err());
        assert!(begin.elapsed() >= A_WHILE);
        assert!(Select::new().select_deadline(begin).is_err());
    });
}

#[test]
fn a_waiting_select_is_woken_by_a_sender() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..2 {
                let ((s, r), (_quiet, other)) = (kind.make(), kind.make());
                let selecting = start(world, move || recv_any(&[other, r]));
                sleep(A_WHILE);
                s.send(3).unwrap();
                assert_eq!(selecting.join(), (1, Ok(3)), "{kind:?}");
            }
        }
    });
}

#[test]
fn a_waiting_select_is_woken_by_a_receiver() {
    in_each(|| {
        for kind in [Kind::Bounded(0), Kind::Bounded(1)] {
            for world in 0..2 {
                let ((s, r), (other, quiet)) = (kind.make(), kind.make());
                (0..kind.room(1)).for_each(|n| [&s, &other].into_iter().for_each(|s| s.send(n).unwrap()));
                let selecting = start(world, move || send_any(&[other, s], 9));
                sleep(A_WHILE);
                let received: Vec<_> = (0..=kind.room(1)).map(|_| r.recv().unwrap()).collect();
                assert_eq!(received.last(), Some(&9));
                assert_eq!(selecting.join(), (1, Ok(())), "{kind:?}");
                assert_eq!(quiet.len(), kind.room(1), "the other channel is unchanged");
            }
        }
    });
}

#[test]
fn a_waiting_select_is_woken_by_a_disconnection() {
    in_each(|| {
        for kind in KINDS {
            for world in 0..2 {
                let ((s, r), (_quiet, other)) = (kind.make::<u8>(), kind.make());
                let receiving = start(world, move || recv_any(&[other, r]));
                sleep(A_WHILE);
                drop(s);
                assert_eq!(receiving.join(), (1, Err(RecvError)));
                if kind == Kind::Unbounded {
                    continue;
                }
                let ((s, r), (full, _quiet)) = (kind.make(), bounded(0));
                (0..kind.room(100)).for_each(|_| s.send(0).unwrap());
                let sending = start(world, move || send_any(&[full, s], 4));
                sleep(A_WHILE);
                drop(r);
                assert_eq!(sending.join(), (1, Err(SendError(4))));
            }
        }
    });
}

/// The channel is disconnected at any moment while the select enters its wait queues.
#[test]
fn a_disconnection_while_the_select_enters_is_seen() {
    in_each(|| {
        for i in 0..200 {
            let kind = KINDS[i % KINDS.len()];
            let ((s, r), (other, never_sent)) = (kind.make::<u8>(), kind.make::<u8>());
            let ending = start(i / 8, move || drop(s));
            let (chosen, result) = recv_any(&[r, never_sent]);
            assert_eq!((chosen, result), (0, Err(RecvError)));
            ending.join();
            drop(other);
        }
    });
}

/// Other handles are cloned and dropped while a select waits.
#[test]
fn clones_come_and_go_while_a_select_waits() {
    in_each(|| {
        for kind in KINDS {
            let ((s1, r1), (s2, r2)) = (kind.make::<u8>(), kind.make::<u8>());
            let selecting = start(0, move || recv_any(&[r1, r2]));
            for _ in 0..20 {
                let clones = (s1.clone(), s2.clone());
                yield_now();
                drop(clones);
            }
            sleep(A_WHILE);
            s2.send(1).unwrap();
            assert_eq!(selecting.join(), (1, Ok(1)));
            drop(s1);
        }
    });
}

#[test]
fn a_sending_and_a_receiving_select() {
    in_each(|| {
        for kind in KINDS {
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let sending = start(1, move || {
                let mut sent = [0; 2];
                for n in 0..200 {
                    let (channel, result) = send_any(&[s1.clone(), s2.clone()], n);
                    result.unwrap();
                    sent[channel] += n;
                }
                sent
            });
            let mut received = [0; 2];
            loop {
                let (channel, message) = recv_any(&[r1.clone(), r2.clone()]);
                let Ok(n) = message else { break };
                received[channel] += n;
            }
            // The other channel may still have messages after the first is disconnected.
            received[0] += r1.iter().sum::<usize>();
            received[1] += r2.iter().sum::<usize>();
            assert_eq!(sending.join(), received, "{kind:?}");
        }
    });
}

#[test]
fn a_select_does_not_pair_with_itself() {
    in_each(|| {
        let (s, r) = bounded::<u8>(0);
        let mut select = Select::new();
        select.send(&s);
        select.recv(&r);
        select.recv(&r);
        select.send(&s);
        assert!(select.try_select().is_err());
        assert!(select.select_timeout(A_WHILE).is_err());
        assert!(select.try_ready().is_err());
        assert!(select.ready_timeout(A_WHILE).is_err());
        // Two selects do pair with each other.
        let peer = {
            let (s, r) = (s.clone(), r.clone());
            spawn(move || send_or_recv(&s, &r))
        };
        let mine = send_or_recv(&s, &r);
        assert_ne!(mine, peer.join().unwrap(), "a select sent and the other received");
    });
}

/// Selects between a send and a receive. Returns `true` if it sent.
fn send_or_recv(s: &Sender<u8>, r: &Receiver<u8>) -> bool {
    let mut select = Select::new();
    let (send, recv) = (select.send(s), select.recv(r));
    let operation = select.select();
    match operation.index() {
        i if i == send => operation.send(s, 8).map(|()| true).unwrap(),
        i if i == recv => operation.recv(r).map(|n| n != 8).unwrap(),
        i => unreachable!("there is no operation {i}"),
    }
}

#[test]
fn sending_and_receiving_on_one_buffered_channel() {
    let (s, r) = bounded(1);
    for n in 0..20 {
        let mut select = Select::new();
        let (send, recv) = (select.send(&s), select.recv(&r));
        let operation = select.try_select().unwrap();
        if n % 2 == 0 {
            assert_eq!(operation.index(), send);
            operation.send(&s, n).unwrap();
        } else {
            assert_eq!(operation.index(), recv);
            assert_eq!(operation.recv(&r), Ok(n - 1));
        }
    }
}

#[test]
fn a_list_is_reused_and_cloned() {
    in_each(|| {
        let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
        let mut select = Select::new();
        let (first, second) = (select.recv(&r1), select.recv(&r2));
        let mut clone = select.clone();
        for n in 0..10 {
            s1.send(n).unwrap();
            let operation = select.select();
            assert_eq!(operation.index(), first);
            assert_eq!(operation.recv(&r1), Ok(n));
            s2.send(n).unwrap();
            let operation = clone.select();
            assert_eq!(operation.index(), second);
            assert_eq!(operation.recv(&r2), Ok(n));
        }
        clone.remove(second);
        s2.send(1).unwrap();
        assert!(clone.try_select().is_err());
        assert_eq!(select.try_select().unwrap().recv(&r2), Ok(1), "the clone has a list of its own");
        // A list is used on other threads.
        let (here, there) = (select.clone(), select);
        runtime::scope(|scope| {
            for (mut select, channel) in [(here, &s1), (there, &s2)] {
                scope.spawn(move || assert!(select.ready_timeout(LONG).is_ok()));
                channel.send(2).unwrap();
            }
        });
    });
}

#[test]
fn indices_stay_when_operations_are_removed() {
    let channels: Vec<_> = (0..6).map(|_| unbounded()).collect();
    let mut select = Select::new();
    for (i, (_, r)) in channels.iter().enumerate() {
        assert_eq!(select.recv(r), i);
    }
    for gone in [0, 3, 5] {
        select.remove(gone);
        channels[gone].0.send(gone).unwrap();
    }
    assert!(select.try_select().is_err(), "the remaining channels are empty");
    assert_eq!(select.recv(&channels[0].1), 6, "an index is not used twice");
    channels[4].0.send(4).unwrap();
    for _ in 0..2 {
        let operation = select.select();
        match operation.index() {
            4 => assert_eq!(operation.recv(&channels[4].1), Ok(4)),
            6 => assert_eq!(operation.recv(&channels[0].1), Ok(0)),
            i => panic!("{i} was removed"),
        }
    }
    [1, 2, 4, 6].into_iter().for_each(|i| select.remove(i));
    assert!(select.try_select().is_err());
}

#[test]
fn disconnected_channels_are_removed_in_turn() {
    in_each(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            KINDS.into_iter().map(|kind| kind.make::<usize>()).unzip();
        let sending: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(i, s)| start(i, move || (0..=10 * i).for_each(|n| s.send(n).unwrap())))
            .collect();
        let mut select = Select::new();
        receivers.iter().for_each(|r| _ = select.recv(r));
        let (mut left, mut next) = (receivers.len(), [0; KINDS.len()]);
        while left > 0 {
            let operation = select.select();
            let i = operation.index();
            match operation.recv(&receivers[i]) {
                Ok(n) => {
                    assert_eq!(n, next[i]);
                    next[i] += 1;
                }
                Err(RecvError) => {
                    select.remove(i);
                    left -= 1;
                }
            }
        }
        sending.into_iter().for_each(|sender| sender.join());
        assert_eq!(next, std::array::from_fn(|i| 10 * i + 1));
    });
}

#[test]
fn a_biased_list_prefers_the_first_operation() {
    let ((s1, r1), (s2, r2)) = (unbounded(), unbounded());
    for n in 0..100 {
        s1.send(n).unwrap();
        s2.send(n).unwrap();
    }
    let mut select = Select::new_biased();
    select.recv(&r2);
    select.recv(&r1);
    for n in 0..100 {
        let operation = select.select();
        assert_eq!(operation.index(), 0);
        assert_eq!(operation.recv(&r2), Ok(n));
        assert_eq!(select.ready(), usize::from(n == 99));
    }
    assert_eq!(select.select().recv(&r1), Ok(0));
}

/// More operations than the array on the stack holds, on channels of every kind.
#[test]
fn a_long_list() {
    in_each(|| {
        let channels: Vec<_> = (0..60).map(|i| KINDS[i % KINDS.len()].make::<[usize; 40]>()).collect();
        let receivers: Vec<_> = channels.iter().map(|(_, r)| r.clone()).collect();
        for (i, (s, _)) in channels.iter().enumerate() {
            let s = s.clone();
            let sender = start(i % 7, move || s.send([i; 40]).unwrap());
            let (chosen, message) = recv_any(&receivers);
            assert_eq!((chosen, message), (i, Ok([i; 40])), "large messages too");
            sender.join();
        }
        let senders: Vec<_> =
            channels.iter().filter(|(s, _)| s.capacity() == Some(0)).map(|(s, _)| s.clone()).collect();
        let r = senders.iter().position(|s| s.same_channel(&channels[8].0)).unwrap();
        let receiver = {
            let r = receivers[8].clone();
            spawn(move || r.recv())
        };
        assert_eq!(send_any(&senders, [1; 40]), (r, Ok(())));
        assert_eq!(receiver.join().unwrap(), Ok([1; 40]));
    });
}

#[test]
fn timer_channels_in_a_list() {
    in_each(|| {
        let begin = Instant::now();
        let (soon, late, ticks) = (at(begin + A_WHILE), after(LONG), tick(LONG));
        let nothing = never();
        let mut select = Select::new();
        let due = select.recv(&soon);
        select.recv(&late);
        select.recv(&ticks);
        select.recv(&nothing);
        let operation = select.select();
        assert_eq!(operation.index(), due);
        assert_eq!(operation.recv(&soon), Ok(begin + A_WHILE));
        assert!(begin.elapsed() >= A_WHILE);
        assert!(select.select_timeout(A_WHILE).is_err(), "the message comes once");
        let _: Receiver<Instant> = nothing;
    });
}

/// Between its choice and its completion, a send owns its room.
#[test]
fn chosen_room_is_kept_for_the_select() {
    in_each(|| {
        let (s, r) = bounded(1);
        let mut select = Select::new();
        select.send(&s);
        let operation = select.select();
        assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
        assert!(s.is_full() && s.is_empty());
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        let waiting = {
            let s = s.clone();
            spawn(move || s.send(2).unwrap())
        };
        yield_now();
        operation.send(&s, 0).unwrap();
        assert_eq!((r.recv(), r.recv()), (Ok(0), Ok(2)));
        waiting.join().unwrap();
    });
}

/// A chosen send completes although its thread performs other selects in between.
#[test]
fn operations_nest() {
    fn chain(channels: &[(Sender<usize>, Receiver<usize>)], message: usize) -> usize {
        let Some(((s, r), rest)) = channels.split_first() else { return message };
        let mut select = Select::new();
        select.send(s);
        let sending = select.select();
        let inner = chain(rest, message + 1);
        sending.send(s, inner).unwrap();
        let mut select = Select::new();
        select.recv(r);
        select.select().recv(r).unwrap()
    }
    for kind in BUFFERED {
        let channels: Vec<_> = (0..20).map(|_| kind.make()).collect();
        assert_eq!(chain(&channels, 0), 20);
        assert!(channels.iter().all(|(s, _)| s.is_empty()));
    }
}

/// Each message is the receiver of the next channel, sent and received by selects.
#[test]
fn receivers_are_sent_through_selects() {
    struct Next(Receiver<Next>);
    in_each(|| {
        for kind in KINDS {
            let (first, mut r) = kind.make();
            let sender = spawn(move || {
                let mut s: Sender<Next> = first;
                for _ in 0..200 {
                    let (next, r) = kind.make();
                    let mut select = Select::new();
                    select.send(&s);
                    assert!(select.select().send(&s, Next(r)).is_ok());
                    s = next;
                }
            });
            let mut count = 0;
            loop {
                let mut select = Select::new();
                select.recv(&r);
                let Ok(Next(next)) = select.select().recv(&r) else { break };
                r = next;
                count += 1;
            }
            assert_eq!(count, 200);
            sender.join().unwrap();
        }
    });
}

#[test]
fn messages_of_a_select_are_dropped_once() {
    in_each(|| {
        let mut random = Random::new(21);
        for kind in KINDS {
            let drops = Drops::default();
            let ((s1, r1), (s2, r2)) = (kind.make(), kind.make());
            let (sends, receives) = (random.below(150), random.below(150));
            let (counted, senders) = (drops.clone(), [s1, s2]);
            let sender = start(0, move || {
                (0..sends).take_while(|_| send_any(&senders, counted.token()).1.is_ok()).count()
            });
            let receivers = [r1, r2];
            let receiver =
                start(1, move || (0..receives).take_while(|_| recv_any(&receivers).1.is_ok()).count());
            let (sent, received) = (sender.join(), receiver.join());
            assert!(received <= sent);
            assert_eq!(drops.alive(), 0, "{kind:?}: {sent} sent, {received} received");
        }
    });
}

#[test]
fn a_timeout_beyond_the_clock_never_expires() {
    let (s, r) = bounded(0);
    let sender = spawn(move || {
        sleep(A_WHILE);
        s.send(1)
    });
    let mut select = Select::new();
    select.recv(&r);
    assert_eq!(select.select_timeout(Duration::MAX).unwrap().recv(&r), Ok(1));
    assert_eq!(sender.join().unwrap(), Ok(()));
}
