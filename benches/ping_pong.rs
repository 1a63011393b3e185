//! Two green threads that wake each other in turn by park and unpark; the time is that of a round trip.

use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rally::Rally;
use runtime::thread;

#[path = "support/rally.rs"]
mod rally;
mod support;

fn round_trips(c: &mut Criterion) {
    let mut group = c.benchmark_group("ping_pong");
    group.throughput(Throughput::Elements(1));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            b.iter_custom(|iters| {
                let ours = Arc::new(Rally::default());
                let (theirs, me) = (Arc::clone(&ours), thread::current());
                let start = Instant::now();
                let partner = runtime::spawn(move || theirs.answer(iters, &me, thread::park));
                ours.serve(iters, partner.thread(), thread::park);
                let wall = start.elapsed();
                partner.join().expect("the partner plays to the end");
                wall
            });
        });
    }
}

criterion_group!(name = ping_pong; config = support::settings(); targets = round_trips);
criterion_main!(ping_pong);
