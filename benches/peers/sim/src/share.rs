//! Counts the runs that find a bug, and measures how fast runs are.

// A program uses only some of these.
#![allow(dead_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// How many tasks of `yields` there are, and how often each of them yields.
pub const TASKS: usize = 10;
pub const YIELDS: usize = 10_000;
/// The most runs that look for a first failure.
const MOST: u64 = 10_000;

/// Prints how many of `runs` seeds find a bug. `run` panics if it finds it.
pub fn print(tool: &str, bug: &str, runs: u64, run: impl Fn(u64)) {
    set_hook(Box::new(|_| ()));
    let start = Instant::now();
    let fails = |&seed: &u64| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err();
    let first = (0..runs).find(fails);
    let found = first.map_or(0, |first| (first..runs).filter(fails).count());
    let first = first.map_or("-".into(), |first| (first + 1).to_string());
    println!(
        "{tool:18} {bug:16} found by {found:5} of {runs} runs, first {first:>4}, {:8.0} runs/s",
        rate(runs, start)
    );
}

/// Prints which run is the first that finds a bug. `run` makes up to so many runs, and panics if it finds it;
/// it counts its runs.
pub fn print_first(tool: &str, bug: &str, run: impl FnOnce(u64, &AtomicU64)) {
    let count = AtomicU64::new(0);
    let found = catch_unwind(AssertUnwindSafe(|| run(MOST, &count))).is_err();
    let runs = count.into_inner();
    println!("{tool:18} {bug:16} {} {runs} runs", if found { "found after" } else { "not found in" });
}

/// Prints how many times a second a task yields to another one.
pub fn print_yields(tool: &str, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    println!("{tool:18} {:.2} million yields/s", rate((TASKS * YIELDS) as u64, start) / 1e6);
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}
