//! The classic test of timers: N green threads each sleep 10 ms, or 100 ms, and measure how long the sleep
//! took.
//!
//! The program prints the lengths of the sleeps, and the time from the first spawn to the last wake-up. The
//! mean length in a perfect runtime is 10.0 or 100.0 ms. It asserts that no sleep was too short.
//!
//! ```sh
//! cargo run --release --example timers                    # from 1,000 to 500,000 at once
//! cargo run --release --example timers -- --rounds 5 1_000_000
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::thread::{self, Thread};
use support::{Args, Summary, commas, ms};

mod support;

const USAGE: &str = "\
usage: timers [--rounds R] [N ...]

  --rounds R   run each size R times and show the round with the median mean (default 3)
  N ...        numbers of green threads that sleep at the same time (default 1000 10000 50000 100000 200000 500000,
               in a debug build no more than 50000)";

const SIZES: [usize; 6] = [1_000, 10_000, 50_000, 100_000, 200_000, 500_000];
/// A debug build takes a minute for the larger sizes, so by default it runs only this many sizes.
const DEBUG_SIZES: usize = 3;

fn main() {
    let mut args = Args::new(USAGE);
    let rounds = args.number("--rounds", 3, 1..=1_000);
    let mut sizes = Vec::new();
    while let Some(size) = args.positional() {
        sizes.push(args.parse("N", &size.to_string_lossy(), 1..=10_000_000) as usize);
    }
    args.end();
    if sizes.is_empty() {
        let count = if cfg!(debug_assertions) { DEBUG_SIZES } else { SIZES.len() };
        sizes = SIZES[..count].to_vec();
    }

    println!("each green thread sleeps once; the median of {rounds} round(s), all figures in ms");
    println!();
    println!("  sleep         n      mean       p50       p99       max   from first spawn to last wake");
    for sleep in [10, 100].map(Duration::from_millis) {
        for &n in &sizes {
            let mut all: Vec<_> = (0..rounds).map(|_| runtime::block_on(|| round(n, sleep))).collect();
            all.sort_by_key(|(slept, _)| slept.mean);
            let (slept, wall) = all[(all.len() - 1) / 2];
            println!(
                "{:>7} {:>9} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>31.1}",
                ms(sleep),
                commas(n),
                ms(slept.mean),
                ms(slept.p50),
                ms(slept.p99),
                ms(slept.max),
                ms(wall),
            );
        }
    }
    let total = sizes.iter().sum::<usize>() as u64 * 2 * rounds;
    println!();
    println!("{} sleeps, and no sleep was too short", commas(total));
}

/// The shared state of a round.
struct Round {
    /// The length of each sleep, in ns.
    slept: Vec<AtomicU64>,
    /// The number of sleepers that have not woken yet.
    left: AtomicUsize,
    /// The green thread that waits until all sleepers have woken.
    body: Thread,
}

/// Runs `n` sleepers at once. Returns the summary of their sleeps, and the time from the first spawn to the
/// last wake-up.
fn round(n: usize, sleep: Duration) -> (Summary, Duration) {
    let round = Arc::new(Round {
        slept: (0..n).map(|_| AtomicU64::new(0)).collect(),
        left: AtomicUsize::new(n),
        body: thread::current(),
    });
    let start = Instant::now();
    for i in 0..n {
        let round = Arc::clone(&round);
        runtime::spawn(move || {
            let t0 = Instant::now();
            runtime::sleep(sleep);
            round.slept[i].store(t0.elapsed().as_nanos() as u64, Ordering::Relaxed);
            // Release: pairs with the Acquire load below, so the reader of a zero count sees every slot.
            if round.left.fetch_sub(1, Ordering::Release) == 1 {
                round.body.unpark();
            }
        });
    }
    while round.left.load(Ordering::Acquire) > 0 {
        thread::park();
    }
    let wall = start.elapsed();

    let slept: Vec<_> =
        round.slept.iter().map(|ns| Duration::from_nanos(ns.load(Ordering::Relaxed))).collect();
    if let Some(early) = slept.iter().find(|&&slept| slept < sleep) {
        panic!("a sleep of {sleep:?} ended after {early:?}");
    }
    (Summary::of(slept), wall)
}
