//! Sleeps: none is early.

use std::time::{Duration, Instant};

use tests::futures::{both, either};

use crate::actor::{Actor, not_before};
use crate::late;

pub(super) fn sleep(a: &mut Actor) {
    let time = a.micros(600);
    let due = Instant::now() + time;
    not_before(time, || runtime::sleep(time));
    count_lateness(a, due);
}

pub(super) fn sleep_until(a: &mut Actor) {
    let deadline = Instant::now() + a.micros(600);
    runtime::sleep_until(deadline);
    assert!(Instant::now() >= deadline);
    count_lateness(a, deadline);
}

fn count_lateness(a: &Actor, due: Instant) {
    if a.green {
        late::soaked(due);
    }
}

/// Sleeps that end at once.
pub(super) fn no_sleep(a: &mut Actor) {
    match a.number(0..3) {
        0 => runtime::sleep(Duration::ZERO),
        1 => runtime::sleep_until(Instant::now()),
        _ => a.block_on(runtime::time::sleep_async(Duration::ZERO)),
    }
}

pub(super) fn sleep_async(a: &mut Actor) {
    let future = slept(a);
    a.block_on(future);
}

/// Returns a future that awaits a sleep, both of two sleeps, or either of two. It checks that it was not
/// early.
pub(super) fn slept(a: &mut Actor) -> impl Future<Output = ()> + Send + use<> {
    let (first, second, kind) = (a.micros(400), a.micros(400), a.number(0..4));
    async move {
        let (start, sleep) = (Instant::now(), runtime::time::sleep_async);
        let least = match kind {
            0 => {
                both(sleep(first), sleep(second)).await;
                first.max(second)
            }
            1 => {
                either(sleep(first), sleep(second)).await;
                first.min(second)
            }
            _ => {
                sleep(first).await;
                first
            }
        };
        assert!(start.elapsed() >= least, "{least:?} ended after {:?}", start.elapsed());
    }
}
