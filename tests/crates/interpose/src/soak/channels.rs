//! Operations on std's channels, and on what else is built on `std::thread::park`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{Random, Side};

/// Two threads that only ask and answer. (A green thread that was bound to the other's OS thread before would
/// be passed over.)
pub(super) fn rendezvous(side: Side, seed: u64) -> String {
    let (ask, asked) = mpsc::sync_channel(0);
    let (answer, answered) = mpsc::sync_channel(0);
    let rounds = 10 + seed;
    let server = side.spawn(move || asked.iter().for_each(|number: u64| answer.send(number + 1).unwrap()));
    let client = side.spawn(move || {
        let mut sum = 0;
        for round in 0..rounds {
            ask.send(round).unwrap();
            sum += answered.recv().unwrap();
        }
        sum
    });
    let sum = client.join();
    server.join();
    format!("{sum}")
}

pub(super) fn bounded(side: Side, seed: u64) -> String {
    let (sender, receiver) = mpsc::sync_channel(1 + seed as usize % 4);
    let sender = side.spawn(move || {
        let mut random = Random::new(seed);
        (0..50).for_each(|_| sender.send(random.below(1000)).unwrap());
    });
    let receiver = side.spawn(move || {
        let sum = receiver.iter().sum::<u64>();
        (sum, receiver.recv_timeout(Duration::from_millis(1)))
    });
    sender.join();
    let (sum, end) = receiver.join();
    assert_eq!(end, Err(RecvTimeoutError::Disconnected));
    format!("{sum}")
}

pub(super) fn answers(side: Side, seed: u64) -> String {
    let (ask, asked) = mpsc::channel::<(u64, mpsc::Sender<u64>)>();
    let server = std::thread::spawn(move || {
        for (number, answer) in asked {
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_micros(number));
            }
            answer.send(number * 2).unwrap();
        }
    });
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let ask = ask.clone();
            side.spawn(move || {
                let mut sum = 0;
                for round in 0..10 {
                    let (answer, answered) = mpsc::channel();
                    ask.send((seed + client + round, answer)).unwrap();
                    sum += answered.recv().unwrap();
                }
                sum
            })
        })
        .collect();
    drop(ask);
    let sum = clients.into_iter().map(|client| client.join()).sum::<u64>();
    server.join().unwrap();
    format!("{sum}")
}

pub(super) fn scope(side: Side, seed: u64) -> String {
    side.spawn(move || {
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..3 {
                let sum = &sum;
                scope.spawn(move || sum.fetch_add(number * seed, Ordering::Relaxed));
            }
        });
        format!("{}", sum.into_inner())
    })
    .join()
}
