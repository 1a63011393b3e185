//! Spawning green threads and joining them: one at a time, and batches that are joined in order.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::JoinHandle;

mod support;

const BATCHES: [(&str, u64); 2] = [("1,000", 1_000), ("100,000", 100_000)];

fn one(c: &mut Criterion) {
    let mut group = c.benchmark_group("spawn/one");
    group.throughput(Throughput::Elements(1));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            let mut i = 0u64;
            b.iter(|| {
                i += 1;
                let sent = i;
                let joined =
                    runtime::spawn(move || black_box(sent)).join().expect("the green thread does not panic");
                assert_eq!(joined, i);
            });
        });
    }
}

fn batch(c: &mut Criterion) {
    for procs in [1, 2] {
        let mut group = c.benchmark_group(format!("spawn/batch, {}", support::ps(procs)));
        for (name, n) in BATCHES {
            group.throughput(Throughput::Elements(n));
            support::bench(&mut group, name, procs, |b| b.iter(|| spawn_and_join(n)));
        }
    }
}

fn spawn_and_join(n: u64) {
    let threads: Vec<JoinHandle<u64>> = (0..n).map(|i| runtime::spawn(move || i)).collect();
    let sum: u64 =
        threads.into_iter().map(|thread| thread.join().expect("the green thread does not panic")).sum();
    assert_eq!(sum, n * (n - 1) / 2);
}

criterion_group!(name = spawn; config = support::settings(); targets = one, batch);
criterion_main!(spawn);
