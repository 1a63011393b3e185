//! Runs one operation on all Ps, and counts.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use runtime::{Builder, Handle, Runtime};

use crate::caches::{Caches, Transfer};
use crate::operations::{By, Operation, Step};

/// Rounds before the count, which fill the caches of the model.
const WARM_UP: usize = 5;
/// Operations before the model looks, by count or by time, whichever is reached first. They grow what grows
/// once, and make the samples of wake-ups as rare as they are under load.
const BURST: (usize, Duration) = (5000, Duration::from_millis(8));

/// What one run has counted.
pub(crate) struct Counted {
    pub(crate) transfers: Vec<Transfer>,
    /// The number of operations.
    pub(crate) operations: usize,
}

/// Runs one operation on a runtime of its own, `count` times on each P.
pub(crate) fn run(caches: Caches, operation: &'static Operation, procs: usize, count: usize) -> Counted {
    // Without sysmon: it would take the P of an OS thread that waits for its turn.
    let sysmon = operation.by == By::AtOnce;
    let runtime = Builder::new().procs(procs).sysmon(sysmon).build().expect("a runtime starts");
    let handle = runtime.handle();
    let operations = match operation.by {
        By::Outside => {
            let count = count * procs;
            (caches.start_turns)(1);
            in_turns(caches, operation, &handle, 0, count);
            count
        }
        By::Half => on_ps(caches, operation, &runtime, procs / 2, count),
        By::Four => on_ps(caches, operation, &runtime, procs.min(4), count),
        By::Each | By::AtOnce => on_ps(caches, operation, &runtime, procs, count),
    };
    // A green thread that waits for its driver's next operation is cancelled here.
    drop(runtime);
    Counted { transfers: caches.take(), operations }
}

/// Runs the operation on so many Ps. Returns the number of operations.
fn on_ps(
    caches: Caches,
    operation: &'static Operation,
    runtime: &Runtime,
    drivers: usize,
    count: usize,
) -> usize {
    (caches.start_turns)(drivers);
    // The barrier blocks OS threads, so each driver runs on a P of its own.
    let barrier = Arc::new(Barrier::new(drivers));
    let handle = runtime.handle();
    runtime.block_on(move || {
        let drive = |number| {
            let (barrier, handle) = (barrier.clone(), handle.clone());
            runtime::spawn(move || {
                barrier.wait();
                match operation.by {
                    By::AtOnce => at_once(caches, operation, &handle, count, &barrier),
                    _ => in_turns(caches, operation, &handle, number, count),
                }
            })
        };
        let threads: Vec<_> = (0..drivers).map(drive).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no driver panics"));
    });
    drivers * count
}

/// Performs the operation in turns. The driver of number 0 begins and ends the count, while all others wait
/// for their turn. So an operation never runs beside another: each line that it shares with them moves once.
fn in_turns(caches: Caches, operation: &Operation, handle: &Handle, number: usize, count: usize) {
    let take = || (caches.take_turn)(number);
    take();
    let mut step = (operation.prepare)(handle);
    burst(&mut step);
    (caches.pass_turn)();
    for round in 0..WARM_UP + count {
        take();
        match round {
            0 if number == 0 => (caches.begin)(false),
            WARM_UP if number == 0 => (caches.begin)(true),
            _ => {}
        }
        step();
        (caches.pass_turn)();
    }
    take();
    if number == 0 {
        caches.end();
    }
    (caches.pass_turn)();
}

/// Performs the operation on all Ps at the same time.
fn at_once(caches: Caches, operation: &Operation, handle: &Handle, count: usize, barrier: &Barrier) {
    let mut step = (operation.prepare)(handle);
    let alone = |act: &dyn Fn()| {
        if barrier.wait().is_leader() {
            act();
        }
        barrier.wait();
    };
    alone(&|| (caches.begin)(false));
    (0..WARM_UP).for_each(|_| step());
    alone(&|| (caches.begin)(true));
    (0..count).for_each(|_| step());
    alone(&|| caches.end());
}

fn burst(step: &mut Step) {
    let (most, time) = BURST;
    let begun = Instant::now();
    for _ in 0..most {
        step();
        if begun.elapsed() > time {
            break;
        }
    }
}
