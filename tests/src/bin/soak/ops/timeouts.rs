//! `timeout` and `timeout_async`: a wait that lasts too long is unwound, and never too early.

use std::future::pending;
use std::time::{Duration, Instant};

use runtime::thread;
use runtime::time::{Elapsed, sleep_async, timeout, timeout_async};

use tests::OnDrop;

use crate::actor::{Actor, not_before};

const HOUR: Duration = Duration::from_secs(3600);

/// A wait of any kind times out.
pub(super) fn runs_out(a: &mut Actor) {
    let time = a.micros(500);
    let token = a.token();
    not_before(time, || {
        let result = timeout(time, || {
            let _token = token;
            waits(a);
            a.check(false, "a wait without end has ended");
        });
        assert_eq!(result, Err(Elapsed));
    });
}

fn waits(a: &mut Actor) {
    match a.random.below(8) {
        0 => runtime::sleep(HOUR),
        1 => loop {
            thread::park();
        },
        2 => loop {
            thread::park_timeout(Duration::from_micros(20));
        },
        3 => {
            drop(a.spawn(|_| runtime::sleep(Duration::from_millis(1))).join());
            runtime::sleep(HOUR);
        }
        4 => drop(super::net::listen(a).0.accept()),
        5 => runtime::scope(|s| {
            let unborn = a.offspring();
            s.spawn(move || {
                let _b = unborn.begin();
                runtime::sleep(HOUR);
            });
        }),
        6 => {
            // A destructor parks during the unwinding.
            let time = a.micros(200);
            let _waits = OnDrop(|| not_before(time, || runtime::sleep(time)));
            runtime::sleep(HOUR);
        }
        // On a plain thread, a green thread drives the future, and no time-out of the plain thread reaches
        // that green thread.
        _ if a.green => a.block_on(pending()),
        _ => runtime::sleep(HOUR),
    }
}

/// Nested time-outs: the first to expire ends all waits inside it.
pub(super) fn nested(a: &mut Actor) {
    let (outer, inner, start) = (a.micros(500), a.micros(500), Instant::now());
    let result = timeout(outer, || {
        let result = timeout(inner, || runtime::sleep(HOUR));
        assert!(result.is_err() && start.elapsed() >= inner, "the inner time-out was early");
        thread::park_timeout(Duration::from_micros(50));
        runtime::sleep(Duration::from_micros(50));
    });
    assert!(result.is_ok() || start.elapsed() >= outer, "the outer time-out was early");
    assert!(start.elapsed() >= outer.min(inner));
}

/// A time-out that does not expire has no effect.
pub(super) fn in_time(a: &mut Actor) {
    let value = a.random.number();
    let result = timeout(HOUR, || {
        a.anything();
        value
    });
    assert_eq!(result, Ok(value));
}

/// A time-out interrupts any operation at any moment.
pub(super) fn anything(a: &mut Actor) {
    let (time, start) = (a.micros(1500), Instant::now());
    if timeout(time, || a.anything()).is_err() {
        assert!(start.elapsed() >= time);
    }
    // After `timeout` has returned, its deadline ends no further wait.
    a.pause();
}

pub(super) fn for_futures(a: &mut Actor) {
    let (time, start, kind) = (a.micros(500), Instant::now(), a.number(0..4));
    let child = a.spawn(|b| b.pause());
    let result = a.block_on(async {
        match kind {
            0 => timeout_async(time, pending::<()>()).await,
            1 => timeout_async(time, sleep_async(HOUR)).await,
            2 => timeout_async(time, sleep_async(time / 2)).await,
            _ => timeout_async(time, child.awaited()).await,
        }
    });
    assert!(result.is_ok() || start.elapsed() >= time);
    assert!(kind >= 2 || result.is_err());
}
