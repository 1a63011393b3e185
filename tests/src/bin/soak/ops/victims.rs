//! Victims: green threads that never end by themselves, a function for each way to wait. An operation cancels
//! them, or ends their runtime.

use std::future::pending;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use runtime::thread::{self, Cancelled, cancelled};
use runtime::time::{sleep_async, timeout, timeout_async};
use tests::OnDrop;
use tests::futures::both;

use super::net;
use crate::actor::{Actor, Child, not_before};
use crate::mode;
use crate::site::Site;

const HOUR: Duration = Duration::from_secs(3600);

/// Starts a random victim on `site`. The caller cancels it in the end.
pub(super) fn start(a: &mut Actor, site: &Arc<Site>) -> Child<()> {
    // A victim that computes without a pause would keep its OS thread from a canceller that must resume
    // there.
    let computes = if a.keeps_thread() { computes_by_turns } else { computes_alone };
    let ways: [fn(&mut Actor); 17] = [
        parks,
        sleeps,
        sleeps_for_ever,
        time_out,
        joins,
        computes,
        declared,
        undeclared,
        scoped,
        drives,
        drives_two,
        accepts,
        reads,
        pinned,
        swallows,
        parks_while_unwinding,
        asks,
    ];
    let (way, token) = (a.random.below(ways.len() as u64 + 2) as usize, a.token());
    match way {
        0 => future(a, site),
        1 => future_in_time(a, site),
        way => a.spawn_on(site, move |b| {
            let _token = token;
            ways[way - 2](b);
            unreachable!("a victim has ended by itself");
        }),
    }
}

fn future(a: &mut Actor, site: &Arc<Site>) -> Child<()> {
    // The sleep is long enough to be pending at some poll: a future that is never pending is never cancelled.
    let (token, time) = (a.token(), Duration::from_micros(50) + a.micros(200));
    a.spawn_async_on(site, move |_b| async move {
        let _token = token;
        loop {
            sleep_async(time).await;
        }
    })
}

fn future_in_time(a: &mut Actor, site: &Arc<Site>) -> Child<()> {
    let token = a.token();
    a.spawn_async_on(site, move |_b| async move {
        let _token = token;
        let _ = timeout_async(HOUR, both(sleep_async(HOUR), pending::<()>())).await;
    })
}

fn parks(_: &mut Actor) {
    loop {
        thread::park();
    }
}

fn sleeps(a: &mut Actor) {
    loop {
        runtime::sleep(a.micros(100));
        thread::park_timeout(a.micros(100));
        runtime::sleep(Duration::from_nanos(1));
    }
}

fn sleeps_for_ever(_: &mut Actor) {
    runtime::sleep(Duration::MAX);
}

fn time_out(_: &mut Actor) {
    loop {
        assert!(timeout(Duration::from_micros(50), || runtime::sleep(HOUR)).is_err());
    }
}

fn joins(a: &mut Actor) {
    let child = a.spawn(|_| parks_a_while());
    drop(child.join());
    parks(a);
}

fn parks_a_while() {
    runtime::sleep(Duration::from_micros(500));
}

/// Computes without a parking call, and polls `cancelled`.
fn computes_alone(a: &mut Actor) {
    // Without sysmon, no other thread would get the P.
    if a.keeps_thread() || !mode::has_sysmon() {
        return computes_by_turns(a);
    }
    while !cancelled() {
        tests::spin(Duration::from_micros(30));
    }
    parks(a);
}

fn computes_by_turns(a: &mut Actor) {
    while !cancelled() {
        tests::spin(Duration::from_micros(30));
        runtime::yield_now();
    }
    parks(a);
}

fn declared(a: &mut Actor) {
    loop {
        let time = a.micros(300);
        runtime::blocking(|| std::thread::sleep(time));
        runtime::sleep(Duration::from_micros(10));
    }
}

fn undeclared(a: &mut Actor) {
    loop {
        std::thread::sleep(a.micros(300));
        thread::park_timeout(Duration::from_micros(10));
    }
}

/// Parks in a scope. The scope's threads are cancelled with it.
fn scoped(a: &mut Actor) {
    let borrowed = a.token();
    runtime::scope(|s| {
        for _ in 0..2 {
            let (unborn, borrowed) = (a.offspring(), &borrowed);
            s.spawn(move || {
                let mut b = unborn.begin();
                let _borrowed = &borrowed;
                parks(&mut b);
            });
        }
    });
    // When the runtime ends, the scoped threads may be cancelled before this thread.
    parks(a);
}

fn drives(a: &mut Actor) {
    a.block_on(sleep_async(HOUR));
}

fn drives_two(a: &mut Actor) {
    let child = a.spawn(|_| parks_a_while());
    a.block_on(both(child.awaited(), pending::<()>()));
}

fn accepts(a: &mut Actor) {
    drop(net::listen(a).0.accept());
}

fn reads(a: &mut Actor) {
    let (_listener, addr) = net::listen(a);
    match net::connect(a, addr) {
        Some(mut client) => drop(client.read(&mut [0; 8])),
        None => parks(a),
    }
}

fn pinned(a: &mut Actor) {
    let _pin = thread::pin();
    sleeps(a);
}

/// Catches its cancellation. Each further wait is cancelled again.
fn swallows(a: &mut Actor) {
    for _ in 0..a.number(1..4) {
        let end = catch_unwind(AssertUnwindSafe(|| parks(a))).expect_err("the park has no waker");
        assert!(end.is::<Cancelled>() && cancelled());
        thread::yield_now();
    }
    parks(a);
}

fn parks_while_unwinding(a: &mut Actor) {
    let time = a.micros(200);
    let _parks = OnDrop(|| not_before(time, || runtime::sleep(time)));
    parks(a);
}

fn asks(a: &mut Actor) {
    loop {
        a.world.clone().desk.ask(a);
    }
}
