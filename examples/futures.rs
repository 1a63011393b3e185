//! Futures and green threads in the same program.
//!
//! `spawn` and `block_on` take futures as well as closures. A handle can be joined or awaited. A future may
//! call blocking functions. The combinators of the crate `futures`, such as `join` and `select`, work as with
//! any executor.
//!
//! ```sh
//! cargo run --release --example futures
//! cargo run --release --example futures -- --count 1_000_000
//! ```

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{Either, join, select};
use runtime::time::sleep_async;
use support::{Args, Summary, bytes_each, commas, resident_bytes};

mod support;

const USAGE: &str = "\
usage: futures [--count N]

  --count N   number of futures that sleep at the same time in the last part (default 100000)";

fn main() {
    let mut args = Args::new(USAGE);
    let count = args.number("--count", 100_000, 1..=5_000_000) as usize;
    args.end();

    // The main body may be a future or a closure.
    runtime::block_on(async {
        spawned().await;
        combined().await;
    });
    runtime::block_on(mixed);
    runtime::block_on(|| many(count));
}

/// A spawned future runs at once; its handle can be awaited.
async fn spawned() {
    let start = Instant::now();
    let squares: Vec<_> = (1..=10_u64)
        .map(|i| {
            runtime::spawn(async move {
                sleep_async(Duration::from_millis(20)).await;
                i * i
            })
        })
        .collect();
    let mut sum = 0;
    for square in squares {
        sum += square.await.expect("the future does not panic");
    }
    assert_eq!(sum, 385);
    println!("spawn:     ten futures of 20 ms each gave {sum} after {:.1?}", start.elapsed());
}

/// Two futures combined into a single future: with the results of both, or with the first result.
async fn combined() {
    let start = Instant::now();
    let ((), name) = join(sleep_async(Duration::from_millis(10)), async {
        sleep_async(Duration::from_millis(20)).await;
        "slow"
    })
    .await;
    println!("join:      10 ms and 20 ms, the {name} future included, took {:.1?}", start.elapsed());

    // An answer computed by a green thread races a time limit. The loser is dropped: a dropped timer is
    // removed, and a dropped handle lets its green thread run on.
    for patience in [5, 500].map(Duration::from_millis) {
        let answer = runtime::spawn(|| {
            runtime::sleep(Duration::from_millis(50));
            42
        });
        match select(answer, pin!(sleep_async(patience))).await {
            Either::Left((answer, _)) => {
                println!(
                    "select:    within {patience:?} the answer was {}",
                    answer.expect("the green thread does not panic")
                );
            }
            Either::Right(_) => println!("select:    within {patience:?} there was no answer"),
        }
    }
}

/// Futures in green threads, and blocking calls in futures.
fn mixed() {
    // On a green thread, `block_on` drives a future on the same thread, which parks between polls.
    let length = runtime::block_on(async {
        sleep_async(Duration::from_millis(5)).await;
        "driven on a green thread".len()
    });
    // A blocking call inside a future parks that future together with the stack of its poll. Other futures
    // run on.
    let start = Instant::now();
    let blocked = runtime::spawn(async move {
        runtime::sleep(Duration::from_millis(30));
        runtime::blocking(|| std::thread::sleep(Duration::from_millis(30)));
        length
    });
    let quick = runtime::spawn(async { sleep_async(Duration::from_millis(10)).await });
    quick.join().expect("the future does not panic");
    let quick = start.elapsed();
    assert_eq!(blocked.join().expect("the future does not panic"), 24);
    println!(
        "mixed:     a future blocked for {:.1?}; another was done after {quick:.1?} of that time",
        start.elapsed()
    );
}

/// A waiting future has no stack. It costs its own state and its timer.
fn many(count: usize) {
    let sleep = Duration::from_secs(2);
    let asleep = Arc::new(AtomicUsize::new(0));
    let mut sleepers = Vec::with_capacity(count);

    let before = resident_bytes();
    let start = Instant::now();
    let mut own_bytes = 0;
    for _ in 0..count {
        let asleep = Arc::clone(&asleep);
        let sleeper = async move {
            let t0 = Instant::now();
            asleep.fetch_add(1, Ordering::Relaxed);
            sleep_async(sleep).await;
            t0.elapsed() - sleep
        };
        own_bytes = size_of_val(&sleeper);
        sleepers.push(runtime::spawn(sleeper));
    }
    while asleep.load(Ordering::Relaxed) < count {
        runtime::sleep(Duration::from_millis(1));
    }
    let started = start.elapsed();
    println!("many:      {} futures asleep after {started:.1?}", commas(count));
    if started < sleep {
        let all_bytes = bytes_each(before, resident_bytes(), count);
        println!("           {all_bytes}; the future itself has {own_bytes} of them");
    }
    let late =
        sleepers.into_iter().map(|sleeper| sleeper.join().expect("the future does not panic")).collect();
    let late = Summary::of(late);
    println!(
        "           they slept {sleep:?} and woke late by {:.2?} (mean), {:.2?} (p99)",
        late.mean, late.p99
    );
}
