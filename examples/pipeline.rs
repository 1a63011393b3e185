//! A pipeline: producers, workers and a collector, connected by bounded channels, under the same context.
//!
//! The pipeline runs twice. With enough time every result must arrive. With too little time every stage must
//! stop at the deadline. Look at `select!` with `context.done()`: with it a stage notices the deadline while
//! it waits for a channel.
//!
//! `cargo run --release --example pipeline -- [PRODUCERS [WORKERS [ITEMS]]]`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, bounded};
use runtime::context::{Context, ContextError};
use runtime::select;

/// An item that a producer sends.
struct Item {
    number: u64,
}

/// The result that a worker computes from an item.
struct Outcome {
    number: u64,
    steps: u32,
}

/// A producer: sends every `stride`th item from `first` on.
fn produce(
    context: &Context,
    first: u64,
    stride: usize,
    items: u64,
    jobs: &Sender<Item>,
) -> Result<(), ContextError> {
    for number in (first..items).step_by(stride) {
        select! {
            send(jobs, Item { number }) -> sent => sent.expect("the workers end after the producers"),
            recv(context.done()) -> _ => return Err(context.err().expect("the context has ended")),
        }
    }
    Ok(())
}

/// A worker: processes items until all producers have ended.
fn work(
    context: &Context,
    pace: Duration,
    jobs: &Receiver<Item>,
    outcomes: &Sender<Outcome>,
) -> Result<(), ContextError> {
    loop {
        let item = select! {
            recv(jobs) -> item => match item {
                Ok(item) => item,
                // All producers have ended: their work is done, or the context has ended.
                Err(_) => return context.err().map_or(Ok(()), Err),
            },
            recv(context.done()) -> _ => return Err(context.err().expect("the context has ended")),
        };
        // The sleep stands for a request to another server.
        runtime::sleep(pace);
        let outcome = Outcome { number: item.number, steps: collatz(item.number + 1) };
        select! {
            send(outcomes, outcome) -> sent => sent.expect("the collector ends after the workers"),
            recv(context.done()) -> _ => return Err(context.err().expect("the context has ended")),
        }
    }
}

/// Returns the number of steps from `n` down to 1 by Collatz' rule.
fn collatz(mut n: u64) -> u32 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

struct Run {
    /// Steps by item number.
    outcomes: BTreeMap<u64, u32>,
    /// The number of producers and workers that stopped before their work was done.
    stopped: usize,
}

fn run(context: &Context, producers: usize, workers: usize, items: u64, pace: Duration) -> Run {
    let (jobs, to_do) = bounded(16);
    let (outcomes, done) = bounded(16);
    runtime::scope(|scope| {
        let mut threads = Vec::new();
        for first in 0..producers {
            let jobs = jobs.clone();
            threads.push(scope.spawn(move || produce(context, first as u64, producers, items, &jobs)));
        }
        for _ in 0..workers {
            let (to_do, outcomes) = (to_do.clone(), outcomes.clone());
            threads.push(scope.spawn(move || work(context, pace, &to_do, &outcomes)));
        }
        drop((jobs, to_do, outcomes));
        // `done` is disconnected when the last worker has ended.
        let outcomes = done.iter().map(|outcome| (outcome.number, outcome.steps)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("no stage panics"));
        Run { outcomes, stopped: ends.filter(Result::is_err).count() }
    })
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (producers, workers) = (args.next().unwrap_or(4).max(1), args.next().unwrap_or(50).max(1));
    let items = args.next().unwrap_or(5_000) as u64;
    runtime::block_on(|| {
        let start = Instant::now();
        let (context, _cancel) = Context::background().with_timeout(Duration::from_secs(60));
        let whole = run(&context, producers, workers, items, Duration::from_micros(500));
        assert_eq!((context.err(), whole.stopped), (None, 0), "a minute is enough");
        assert!(whole.outcomes.keys().copied().eq(0..items), "each item has one outcome");
        assert!(whole.outcomes.iter().all(|(&number, &steps)| steps == collatz(number + 1)));
        println!("{items} items by {producers} producers and {workers} workers: {:?}", start.elapsed());

        let start = Instant::now();
        let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(20));
        // The work is endless, so no stage can finish before the deadline.
        let part = run(&context, producers, workers, u64::MAX, Duration::from_millis(1));
        assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
        assert_eq!(part.stopped, producers + workers, "every stage stops at the deadline");
        assert!(part.outcomes.iter().all(|(&number, &steps)| steps == collatz(number + 1)));
        println!(
            "{} items until the deadline; all had stopped after {:?}",
            part.outcomes.len(),
            start.elapsed()
        );
    });
}
