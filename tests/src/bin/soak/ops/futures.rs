//! Futures: spawned, awaited, driven, moved, and dropped while pending.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use runtime::thread;
use runtime::time::sleep_async;
use tests::OnDrop;
use tests::futures::{Flag, both, drive_on_plain_thread, poll_once};

use super::sleeping::slept;
use crate::actor::{Actor, by_itself};

/// A spawned future that sleeps, and at times performs a blocking operation in its poll.
pub(super) fn spawned(a: &mut Actor) {
    let value = a.random.number();
    let child = a.spawn_async(move |mut b| async move {
        for _ in 0..b.number(1..4) {
            slept(&mut b).await;
            if b.one_in(3) {
                b.anything();
            }
        }
        value
    });
    let got = if a.one_in(2) { a.block_on(child.awaited()) } else { child.value() };
    assert_eq!(got, value);
}

/// A chain of futures, each of which awaits the next.
pub(super) fn chain(a: &mut Actor) {
    let links = a.number(1..8);
    let first = link(a, links);
    assert_eq!(first.value(), links);
}

fn link(a: &mut Actor, left: u64) -> crate::actor::Child<u64> {
    a.spawn_async(move |mut b| {
        Box::pin(async move {
            if left == 0 {
                slept(&mut b).await;
                return 0;
            }
            link(&mut b, left - 1).awaited().await + 1
        }) as std::pin::Pin<Box<dyn Future<Output = u64> + Send>>
    })
}

/// A future that wakes itself while it is polled, several times.
pub(super) fn wakes_itself(a: &mut Actor) {
    let mut left = a.number(1..30);
    let future = poll_fn(move |cx| {
        cx.waker().wake_by_ref();
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    match a.number(0..2) {
        0 => a.block_on(future),
        _ => a.spawn_async(move |_b| future).value(),
    }
}

/// A future waits for a flag that another thread sets.
pub(super) fn flag(a: &mut Actor) {
    let (flag, kind) = (Flag::default(), a.number(0..3));
    let waits = flag.clone();
    let time = a.micros(300);
    let waiter = a.spawn_async(move |_b| async move {
        match kind {
            0 => waits.wait().await,
            _ => drop(both(waits.wait(), sleep_async(time)).await),
        }
    });
    a.pause();
    match kind {
        1 => a.spawn(move |_| flag.set()).value(),
        _ => flag.set(),
    }
    waiter.value();
}

/// A sleep that is begun by a future here, and awaited by another thread, or dropped.
pub(super) fn moved(a: &mut Actor) {
    let (time, start) = (a.micros(500), Instant::now());
    let goes_on = !a.one_in(4);
    let mut sleep = sleep_async(time);
    let (sleep, done) = a.block_on(async move {
        let done = poll_once(&mut sleep).await.is_some();
        (sleep, done)
    });
    if done || !goes_on {
        return drop(sleep);
    }
    let child = match a.number(0..2) {
        0 => a.spawn_async(move |_b| sleep),
        _ => a.spawn(move |b| b.block_on(sleep)),
    };
    child.value();
    assert!(start.elapsed() >= time);
}

/// A join handle that is polled for a while, and then joined, awaited or dropped.
pub(super) fn half_joined(a: &mut Actor) {
    let (value, polls) = (a.random.number(), a.number(1..4));
    let mut child = a.spawn(move |b| {
        b.pause();
        value
    });
    for _ in 0..polls {
        let polled = a.poll_once(&mut child);
        if let Some(ended) = polled {
            return assert_eq!(by_itself(ended), value);
        }
        a.pause();
    }
    match a.number(0..3) {
        0 => child.detach(),
        1 => assert_eq!(a.block_on(child.awaited()), value),
        _ => assert_eq!(child.value(), value),
    }
}

/// The waker of a future is kept, and used after the future has ended.
pub(super) fn stale_waker(a: &mut Actor) {
    let (world, mut polls) = (a.world.clone(), a.number(1..5));
    let child = a.spawn_async(move |_b| {
        poll_fn(move |cx| {
            world.stale.keep(cx.waker().clone());
            cx.waker().wake_by_ref();
            polls -= 1;
            if polls == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
    });
    child.value();
    a.world.clone().stale.wake_some(&mut a.random);
}

/// A future that performs a blocking operation in its poll, beside a sleep.
pub(super) fn blocks_in_its_poll(a: &mut Actor) {
    let time = a.micros(300);
    let child = a.spawn_async(move |mut b| async move {
        let blocks = poll_fn(|_| {
            b.anything();
            Poll::Ready(())
        });
        both(sleep_async(time), blocks).await;
    });
    child.value();
}

/// A future driven within the poll of another future.
pub(super) fn nested(a: &mut Actor) {
    let (outer, inner) = (a.micros(300), a.micros(300));
    let start = Instant::now();
    a.block_on(async {
        let within = poll_fn(|_| {
            runtime::block_on(async { both(sleep_async(inner), sleep_async(inner / 2)).await });
            Poll::Ready(())
        });
        both(sleep_async(outer), within).await;
    });
    assert!(start.elapsed() >= outer.max(inner));
}

/// A future on an executor that knows nothing of the runtime and parks its OS thread.
pub(super) fn on_a_plain_executor(a: &mut Actor) {
    if a.site.mode.keeps_thread {
        // The child may be bound to the OS thread that the executor blocks.
        return a.pause();
    }
    let _pin = thread::pin();
    let child = a.spawn(|b| b.pause());
    let flag = Arc::new(Flag::default());
    let (time, sets) = (a.micros(300), flag.clone());
    // A cancelled setter sets the flag too: the executor's OS thread waits for it.
    let sets = OnDrop(move || sets.set());
    let setter = a.spawn(move |_| drop(sets));
    runtime::blocking(|| {
        drive_on_plain_thread(async {
            sleep_async(time).await;
            flag.wait().await;
            child.awaited().await;
        });
    });
    setter.value();
}
