//! Timers that never fire. Each is the time-out of a wait that ends before, and is deleted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use rally::Rally;
use runtime::{thread, time};

#[path = "support/rally.rs"]
mod rally;
mod support;

/// The time-out. No wait of this benchmark lasts so long.
const TIME: Duration = Duration::from_secs(1);

fn park_timeout(c: &mut Criterion) {
    let mut group = c.benchmark_group("timer_churn/park_timeout");
    group.throughput(Throughput::Elements(1));
    // The token is set before the park, so the park needs no timer. This is the smallest cost of a call.
    support::bench(&mut group, "token there", 1, |b| {
        let me = thread::current();
        let start = Instant::now();
        b.iter(|| {
            me.unpark();
            thread::park_timeout(TIME);
        });
        none_fired_and_none_left(start.elapsed());
    });
    // Two green threads wake each other in turn. Each round trip creates and deletes two timers.
    for procs in [1, 2] {
        let name = format!("woken by another, a pair, {}", support::ps(procs));
        support::bench(&mut group, &name, procs, |b| {
            b.iter_custom(|iters| {
                let ours = Arc::new(Rally::default());
                let (theirs, me) = (Arc::clone(&ours), thread::current());
                let start = Instant::now();
                let partner = runtime::spawn(move || theirs.answer(iters, &me, park_with_timer));
                ours.serve(iters, partner.thread(), park_with_timer);
                let wall = start.elapsed();
                partner.join().expect("the partner plays to the end");
                none_fired_and_none_left(wall);
                wall
            });
        });
    }
}

fn park_with_timer() {
    thread::park_timeout(TIME);
}

fn sleep_async(c: &mut Criterion) {
    let mut group = c.benchmark_group("timer_churn/sleep_async polled once");
    group.throughput(Throughput::Elements(1));
    support::bench(&mut group, "in its green thread", 1, |b| {
        runtime::block_on(poll_fn(|cx| {
            poll_and_drop(b, cx);
            Poll::Ready(())
        }));
    });
    // The sleep is polled inside another future, and then needs its own timer.
    support::bench(&mut group, "with another waker", 1, |b| {
        poll_and_drop(b, &mut Context::from_waker(Waker::noop()));
    });
}

fn poll_and_drop(b: &mut Bencher<'_>, cx: &mut Context<'_>) {
    let start = Instant::now();
    b.iter(|| {
        let sleep = pin!(time::sleep_async(TIME));
        assert!(sleep.poll(cx).is_pending(), "a sleep of {TIME:?} ended at once");
    });
    none_fired_and_none_left(start.elapsed());
}

/// Checks that no timer has fired and none is left. A timer fires if a wake-up was lost, or if the machine
/// stood still. `wall`, the time of the run, helps to tell these apart.
fn none_fired_and_none_left(wall: Duration) {
    let now = runtime::metrics::snapshot();
    assert_eq!(now.timers_fired, 0, "waits of {TIME:?} timed out, within {wall:?} in all");
    assert_eq!(now.timers_pending, 0, "waits that have ended left timers behind");
}

criterion_group!(name = timer_churn; config = support::settings(); targets = park_timeout, sleep_async);
criterion_main!(timer_churn);
