//! `runtime::blocking` around an empty closure: its cost while no other green thread waits for the P, and
//! while another waits.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};

mod support;

fn empty(c: &mut Criterion) {
    let mut group = c.benchmark_group("blocking/empty");
    group.throughput(Throughput::Elements(1));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, block_on_nothing);
    }
    // The P always has the other green thread in its queue. Each call notifies the monitor, which takes the P
    // if it is early enough.
    support::bench(&mut group, "1 P, another waits", 1, |b| {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let other = runtime::spawn(move || {
            while !seen.load(Ordering::Acquire) {
                runtime::yield_now();
            }
        });
        block_on_nothing(b);
        stop.store(true, Ordering::Release);
        other.join().expect("the other green thread only yields");
    });
}

fn block_on_nothing(b: &mut Bencher<'_>) {
    let mut i = 0u64;
    b.iter(|| {
        i += 1;
        assert_eq!(runtime::blocking(|| black_box(i)), i);
    });
}

criterion_group!(name = blocking; config = support::settings(); targets = empty);
criterion_main!(blocking);
