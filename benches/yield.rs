//! Yielding: two green threads a P, each of which yields repeatedly. The time is that of one yield on one P.

use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::JoinHandle;

mod support;

/// The number of green threads a P. A yield of a lone green thread would find no other green thread to run.
const A_P: u32 = 2;

fn yields(c: &mut Criterion) {
    let mut group = c.benchmark_group("yield");
    group.throughput(Throughput::Elements(1));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            b.iter_custom(|iters| {
                let start = Instant::now();
                let threads: Vec<JoinHandle<u64>> =
                    (0..A_P as usize * procs).map(|_| runtime::spawn(move || yield_often(iters))).collect();
                let sum: u64 = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("the green thread does not panic"))
                    .sum();
                let wall = start.elapsed();
                assert_eq!(sum, iters * u64::from(A_P) * procs as u64);
                wall / A_P
            });
        });
    }
}

fn yield_often(n: u64) -> u64 {
    let mut yielded = 0;
    for _ in 0..n {
        runtime::yield_now();
        yielded += 1;
    }
    yielded
}

criterion_group!(name = yielding; config = support::settings(); targets = yields);
criterion_main!(yielding);
