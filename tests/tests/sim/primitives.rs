//! The primitives of this crate under simulation, over their public API. Each program asserts what its
//! primitive promises, in every order that is tried. Random walks and PCT try orders, and for small programs
//! an exhaustive search. `SIM_SEEDS=100000` tries more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use runtime::sim::{Builder, Strategy};

mod channels;
mod ends;
mod locks;
mod values;

/// How many runs each strategy makes, unless `SIM_SEEDS` says so.
const SEEDS: u64 = 1000;

/// Runs a program under random schedules, and under schedules by priority.
#[track_caller]
fn explore(program: impl Fn() + Send + Sync) {
    let seeds = std::env::var("SIM_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
        Builder::new().strategy(strategy).explore(seeds, &program);
    }
}

/// Runs a small program under all schedules with up to two preemptions, too.
#[track_caller]
fn exhaust(program: impl Fn() + Send + Sync) {
    let report = Builder::new().strategy(Strategy::Exhaustive { preemptions: 2 }).explore(1, &program);
    println!("all {} schedules", report.runs());
    explore(program);
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns one of 0 to `n` - 1, by the seed.
fn pick(n: usize) -> usize {
    (runtime::sim::random() % n as u64) as usize
}

/// A value that is counted while it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(live: &Arc<AtomicUsize>) -> Counted {
        live.fetch_add(1, Relaxed);
        Counted(live.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
