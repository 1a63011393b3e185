//! Channels: one sender and one receiver, four senders and four receivers, a round trip over two channels
//! without a buffer, and a select over two channels.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::channel::{bounded, unbounded};
use runtime::select;

mod support;

const ROOM: usize = 1024;

/// A function that runs a number of iterations and returns their time.
type Bench = fn(u64) -> Duration;

/// Sends `iters` messages through one channel with a buffer.
fn through(senders: u64, receivers: u64, iters: u64) -> Duration {
    let share = iters.div_ceil(senders);
    let start = Instant::now();
    let (s, r) = bounded(ROOM);
    for _ in 0..senders {
        let s = s.clone();
        runtime::spawn(move || (0..share).for_each(|n| s.send(n).expect("the channel has a receiver")));
    }
    drop(s);
    let receivers: Vec<_> = (0..receivers)
        .map(|_| {
            let r = r.clone();
            runtime::spawn(move || r.iter().sum::<u64>())
        })
        .collect();
    let sum: u64 =
        receivers.into_iter().map(|receiver| receiver.join().expect("a receiver does not panic")).sum();
    let wall = start.elapsed();
    assert_eq!(sum, senders * (share * share.saturating_sub(1) / 2));
    wall.mul_f64(iters as f64 / (share * senders) as f64)
}

/// Sends a value there and back, `iters` times.
fn round_trips(iters: u64) -> Duration {
    let ((there, r), (s, back)) = (bounded(0), bounded(0));
    let start = Instant::now();
    let partner = runtime::spawn(move || {
        r.iter().for_each(|n: u64| s.send(n + 1).expect("the channel has a receiver"))
    });
    let mut n = 0;
    for _ in 0..iters {
        there.send(n).expect("the partner receives");
        n = back.recv().expect("the partner sends");
    }
    let wall = start.elapsed();
    assert_eq!(n, iters);
    drop(there);
    partner.join().expect("the partner plays to the end");
    wall
}

/// Receives `iters` messages from two senders, by a select that must wait for most messages.
fn select_of_two(iters: u64) -> Duration {
    let start = Instant::now();
    let channels = [0, 1].map(|i| {
        let (s, r) = bounded(0);
        let (sends, share) = (s.clone(), (iters + i) / 2);
        runtime::spawn(move || (0..share).for_each(|n| sends.send(n).expect("the channel has a receiver")));
        // This sender is kept, so that a channel is not disconnected when its share has been sent.
        (s, r)
    });
    for _ in 0..iters {
        select! {
            recv(channels[0].1) -> n => assert!(black_box(n).is_ok()),
            recv(channels[1].1) -> n => assert!(black_box(n).is_ok()),
        }
    }
    start.elapsed()
}

fn channels(c: &mut Criterion) {
    let mut group = c.benchmark_group("channel");
    group.throughput(Throughput::Elements(1));
    group.bench_function("there is room, there is a message", |b| {
        let (s, r) = unbounded();
        b.iter(|| {
            black_box(&s).send(1u64).expect("the channel has a receiver");
            black_box(&r).recv()
        });
    });
    for procs in [1, 2] {
        let ps = support::ps(procs);
        let benches: [(&str, Bench); 4] = [
            ("1 sender, 1 receiver", |iters| through(1, 1, iters)),
            ("4 senders, 4 receivers", |iters| through(4, 4, iters)),
            ("round trip", round_trips),
            ("select of two", select_of_two),
        ];
        for (name, bench) in benches {
            support::bench(&mut group, &format!("{name}, {ps}"), procs, |b| b.iter_custom(bench));
        }
    }
}

criterion_group!(name = channel; config = support::settings(); targets = channels);
criterion_main!(channel);
