//! A mutex: locked and unlocked by one green thread; by eight green threads (the time is that of one lock and
//! unlock); by two green threads that wait for each other with a condition variable.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::sync::{Condvar, Mutex};

mod support;

const TASKS: u64 = 8;

/// Eight green threads lock and unlock the mutex, `iters` times in all.
fn contended(iters: u64) -> Duration {
    let count = Arc::new(Mutex::new(0));
    let share = iters.div_ceil(TASKS);
    let start = Instant::now();
    let threads: Vec<_> = (0..TASKS)
        .map(|_| {
            let count = Arc::clone(&count);
            runtime::spawn(move || (0..share).for_each(|_| *count.lock() += 1))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("the green thread does not panic"));
    let wall = start.elapsed();
    assert_eq!(*count.lock(), share * TASKS);
    wall.mul_f64(iters as f64 / (share * TASKS) as f64)
}

/// Two green threads wait for each other's turn, for `iters` round trips.
fn to_and_fro(iters: u64) -> Duration {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let plays = move |turn: &(Mutex<u64>, Condvar), who: u64| {
        for _ in 0..iters {
            let mut now = turn.0.lock();
            turn.1.wait_while(&mut now, |now| *now % 2 != who);
            *now += 1;
            turn.1.notify_one();
        }
    };
    let start = Instant::now();
    let other = Arc::clone(&turn);
    let partner = runtime::spawn(move || plays(&other, 1));
    plays(&turn, 0);
    partner.join().expect("the partner plays to the end");
    start.elapsed()
}

fn mutexes(c: &mut Criterion) {
    let mut group = c.benchmark_group("mutex");
    group.throughput(Throughput::Elements(1));
    group.bench_function("free", |b| {
        let count = Mutex::new(0u64);
        b.iter(|| *black_box(&count).lock() += 1);
    });
    for procs in [1, 2] {
        support::bench(&mut group, &format!("8 threads, {}", support::ps(procs)), procs, |b| {
            b.iter_custom(contended)
        });
        support::bench(&mut group, &format!("condition, {}", support::ps(procs)), procs, |b| {
            b.iter_custom(to_and_fro)
        });
    }
}

criterion_group!(name = mutex; config = support::settings(); targets = mutexes);
criterion_main!(mutex);
