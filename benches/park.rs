//! A green thread and a plain OS thread that wake each other in turn. Each round trip goes through the
//! system's scheduler.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rally::Rally;
use runtime::thread;

#[path = "support/rally.rs"]
mod rally;
mod support;

fn with_an_os_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("park/with an OS thread");
    group.throughput(Throughput::Elements(1));
    for procs in [1, 2] {
        support::bench(&mut group, &support::ps(procs), procs, |b| {
            b.iter_custom(|iters| {
                let ours = Arc::new(Rally::default());
                let (theirs, me) = (Arc::clone(&ours), thread::current());
                let (tell, told) = mpsc::channel();
                let partner = std::thread::spawn(move || {
                    tell.send(thread::current()).expect("the green thread waits for it");
                    theirs.answer(iters, &me, thread::park);
                });
                let other = runtime::blocking(|| told.recv()).expect("the OS thread sends its handle");
                let start = Instant::now();
                ours.serve(iters, &other, thread::park);
                let wall = start.elapsed();
                runtime::blocking(|| partner.join()).expect("the partner plays to the end");
                wall
            });
        });
    }
}

criterion_group!(name = park; config = support::settings(); targets = with_an_os_thread);
criterion_main!(park);
