//! One green thread spawns thousands of green threads that each compute for about a microsecond. The other P
//! must steal its share.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use runtime::JoinHandle;

mod support;

const THREADS: u64 = 10_000;
/// Computes for about a microsecond. Each step depends on the step before, so that a compiler cannot shorten
/// the computation.
const STEPS: u64 = 800;

fn spread(c: &mut Criterion) {
    let expected = (0..THREADS).map(compute).fold(0, u64::wrapping_add);
    let mut group = c.benchmark_group("steal/10,000 that compute 1 us");
    group.throughput(Throughput::Elements(THREADS));
    // The run with one P is the baseline, without stealing.
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            b.iter(|| {
                let threads: Vec<JoinHandle<u64>> =
                    (0..THREADS).map(|i| runtime::spawn(move || compute(i))).collect();
                let results =
                    threads.into_iter().map(|thread| thread.join().expect("the green thread does not panic"));
                assert_eq!(results.fold(0, u64::wrapping_add), expected);
            });
        });
    }
}

fn compute(seed: u64) -> u64 {
    let mut x = black_box(0x9E37_79B9_7F4A_7C15 + seed);
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

criterion_group!(name = steal; config = support::settings(); targets = spread);
criterion_main!(steal);
