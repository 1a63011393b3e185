//! Channels: each message is received once and in order, or dropped with its channel, also when threads are
//! interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{
    Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError, after, at,
    bounded, never, tick, unbounded,
};
use runtime::select;
use runtime::thread::Cancelled;
use tests::Token;

use crate::actor::{Actor, Child, described, not_before};

const HOUR: Duration = Duration::from_secs(3600);

/// A message, with its number.
struct Letter {
    number: u64,
    _token: Token,
}

type Ends = (Sender<Letter>, Receiver<Letter>);

fn channel(a: &mut Actor) -> Ends {
    match a.number(0..6) {
        0..=1 => bounded(0),
        2..=4 => bounded(a.number(1..5) as usize),
        _ => unbounded(),
    }
}

/// Sends a letter in a random way. Returns `false` if there is no receiver.
fn send(a: &mut Actor, s: &Sender<Letter>, number: u64) -> bool {
    let mut letter = Letter { number, _token: a.token() };
    match a.number(0..6) {
        0..=1 => s.send(letter).is_ok(),
        2 => loop {
            match s.send_timeout(letter, a.micros(100)) {
                Ok(()) => break true,
                Err(SendTimeoutError::Timeout(back)) => letter = back,
                Err(SendTimeoutError::Disconnected(_)) => break false,
            }
        },
        // Capacity 0: `try_send` needs a waiting receiver, and a receiver in `Select::ready` does not count
        // as waiting.
        3 if s.capacity() != Some(0) => loop {
            match s.try_send(letter) {
                Ok(()) => break true,
                Err(TrySendError::Full(back)) => letter = back,
                Err(TrySendError::Disconnected(_)) => break false,
            }
            a.pause();
        },
        3..=4 => select! {
            send(s, letter) -> sent => sent.is_ok(),
            recv(never::<()>()) -> _ => unreachable!("the channel never has a message"),
        },
        _ => loop {
            select! {
                send(s, { if a.one_in(4) { a.pause(); } letter }) -> sent => break sent.is_ok(),
                default(a.micros(100)) => {}
            }
        },
    }
}

/// Sends to a channel that must have a receiver.
fn posts(a: &mut Actor, s: &Sender<Letter>, number: u64) {
    let sent = send(a, s, number);
    a.check(sent, "the channel has a receiver");
}

/// Receives a letter in a random way. Returns `None` if the channel is empty and has no sender.
fn receive(a: &mut Actor, r: &Receiver<Letter>) -> Option<Letter> {
    match a.number(0..6) {
        0..=1 => r.recv().ok(),
        2 => loop {
            match r.recv_timeout(a.micros(100)) {
                Ok(letter) => break Some(letter),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        },
        3 => {
            let mut select = Select::new();
            select.recv(r);
            loop {
                select.ready();
                match r.try_recv() {
                    Ok(letter) => break Some(letter),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => break None,
                }
            }
        }
        4 => loop {
            select! {
                recv(r) -> letter => break letter.ok(),
                recv(after(a.micros(100))) -> _ => {}
            }
        },
        _ => r.iter().next(),
    }
}

/// A thread sends and the caller receives, in order.
pub(super) fn pipe(a: &mut Actor) {
    let ((s, r), count) = (channel(a), a.number(0..40));
    let sender = a.spawn(move |b| {
        for number in 0..count {
            posts(b, &s, number);
            if b.one_in(8) {
                b.pause();
            }
        }
    });
    let mut next = 0;
    while let Some(letter) = receive(a, &r) {
        assert_eq!(letter.number, next, "in order");
        next += 1;
    }
    a.check(next == count, "all letters came");
    sender.value();
}

/// Futures send and receive; the sender has a green thread of its own.
pub(super) fn futures(a: &mut Actor) {
    let ((s, r), count) = (channel(a), a.number(0..40));
    let sender = a.spawn_async(move |b| async move {
        for number in 0..count {
            let letter = Letter { number, _token: b.token() };
            b.check(s.send_async(letter).await.is_ok(), "the channel has a receiver");
        }
    });
    let received = a.block_on(async {
        let mut next = 0;
        while let Ok(letter) = r.recv_async().await {
            assert_eq!(letter.number, next, "in order");
            next += 1;
        }
        next
    });
    a.check(received == count, "all letters came");
    sender.value();
}

/// Several senders and receivers, of which some are cancelled.
pub(super) fn crowd(a: &mut Actor) {
    let (s, r) = channel(a);
    let (sent, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut people: Vec<Child<()>> = Vec::new();
    for _ in 0..a.number(1..5) {
        let ((s, sent), count) = ((s.clone(), sent.clone()), a.number(0..20));
        people.push(a.spawn(move |b| {
            for number in 0..count {
                posts(b, &s, number);
                sent.fetch_add(1, SeqCst);
            }
        }));
    }
    drop(s);
    for _ in 0..a.number(0..4) {
        let (r, received) = (r.clone(), received.clone());
        people.push(a.spawn(move |b| {
            while receive(b, &r).is_some() {
                received.fetch_add(1, SeqCst);
            }
        }));
    }
    for person in &people {
        if a.one_in(3) {
            a.pause();
            person.cancel();
        }
    }
    // Receives what the others leave.
    let mut left = 0;
    while receive(a, &r).is_some() {
        left += 1;
    }
    for person in people {
        if let Err(end) = person.join() {
            assert!(end.is::<Cancelled>(), "the child ended with {}", described(&*end));
        }
    }
    assert_eq!(sent.load(SeqCst), received.load(SeqCst) + left, "letters sent and received");
}

/// A thread waits at a channel on which nothing happens, and is cancelled. It takes no letter and leaves
/// none.
pub(super) fn victim(a: &mut Actor) {
    let (s, r) = channel(a);
    let room = s.capacity().unwrap_or(0) as u64;
    let sends = s.capacity().is_some() && a.one_in(2);
    if sends {
        (0..room).for_each(|number| posts(a, &s, number));
    }
    let ends = (s.clone(), r.clone());
    let victim = a.spawn(move |b| {
        if sends {
            send(b, &ends.0, room);
        } else {
            receive(b, &ends.1);
        }
    });
    a.pause();
    victim.cancel();
    victim.was_cancelled();
    if sends {
        assert!(r.try_iter().map(|letter| letter.number).eq(0..room), "the channel still has its letters");
    }
    drop(r);
    assert!(!send(a, &s, 0), "the channel has no receiver");
}

/// A select over several channels, each with a sender of its own, until all senders have ended.
pub(super) fn several(a: &mut Actor) {
    let count = a.number(0..20);
    let (receivers, senders): (Vec<_>, Vec<_>) = (0..a.number(1..7))
        .map(|_| {
            let (s, r) = channel(a);
            let sender = a.spawn(move |b| {
                for number in 0..count {
                    posts(b, &s, number);
                }
            });
            (r, sender)
        })
        .unzip();
    let (mut next, mut open) = (vec![0; receivers.len()], receivers.len());
    let mut select = if a.one_in(4) { Select::new_biased() } else { Select::new() };
    receivers.iter().for_each(|r| _ = select.recv(r));
    while open > 0 {
        let operation = match a.number(0..4) {
            0 => select.select_timeout(a.micros(200)).ok(),
            1 => select.try_select().ok(),
            _ => Some(select.select()),
        };
        let Some(operation) = operation else {
            a.pause();
            continue;
        };
        let i = operation.index();
        match operation.recv(&receivers[i]) {
            Ok(letter) => {
                assert_eq!(letter.number, next[i], "in order");
                next[i] += 1;
            }
            Err(_) => {
                select.remove(i);
                open -= 1;
            }
        }
    }
    a.check(next.iter().all(|&next| next == count), "all letters came");
    senders.into_iter().for_each(Child::value);
}

/// Threads that send and receive in the same select, and trade with each other. No select may meet its own
/// other case.
pub(super) fn trade(a: &mut Actor) {
    let ((s1, r1), (s2, r2)) = (channel(a), channel(a));
    let traders: Vec<Child<i64>> = (0..a.number(2..6))
        .map(|_| {
            let (s1, r1, s2, r2) = (s1.clone(), r1.clone(), s2.clone(), r2.clone());
            a.spawn(move |b| {
                let mut balance = 0;
                for number in 0..30 {
                    let (time, world) = (b.micros(300), b.world.clone());
                    let letter = || Letter { number, _token: world.drops.token() };
                    select! {
                        send(s1, letter()) -> sent => balance += i64::from(sent.is_ok()),
                        recv(r1) -> letter => balance -= i64::from(letter.is_ok()),
                        send(s2, letter()) -> sent => balance += i64::from(sent.is_ok()),
                        recv(r2) -> letter => balance -= i64::from(letter.is_ok()),
                        default(time) => {}
                    }
                }
                balance
            })
        })
        .collect();
    let balance: i64 = traders.into_iter().map(Child::value).sum();
    assert_eq!(balance, (r1.len() + r2.len()) as i64, "letters sent and not received are in the channels");
}

/// Timer channels: `after`, `at` and `tick` are not early.
pub(super) fn timed(a: &mut Actor) {
    let time = a.micros(500);
    match a.number(0..4) {
        0 => not_before(time, || _ = after(time).recv()),
        1 => {
            let when = Instant::now() + time;
            assert_eq!(at(when).recv(), Ok(when));
        }
        2 => not_before(time, || {
            select! {
                recv(after(time)) -> due => assert!(due.is_ok()),
                recv(after(HOUR)) -> _ => unreachable!("an hour has passed"),
            }
        }),
        _ => not_before(3 * time, || {
            let ticks = tick(time);
            (0..3).for_each(|_| assert!(ticks.recv().is_ok()));
        }),
    }
}
