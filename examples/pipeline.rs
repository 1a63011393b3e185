//! A pipeline: producers, workers and one who gathers, joined by bounded channels, all under one context. It is run twice:
//! with time enough, when every result must be there, and with too little, when everybody must stop by the deadline.
//!
//! `cargo run --release --example pipeline -- [PRODUCERS [WORKERS [ITEMS]]]`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, bounded};
use runtime::context::{Context, ContextError};
use runtime::select;

/// What a producer makes, and what a worker makes of it.
struct Item {
    number: u64,
}

struct Outcome {
    number: u64,
    steps: u32,
}

/// Sends every `stride`th item.
fn produce(
    context: &Context,
    first: u64,
    stride: usize,
    items: u64,
    jobs: &Sender<Item>,
) -> Result<(), ContextError> {
    for number in (first..items).step_by(stride) {
        select! {
            send(jobs, Item { number }) -> sent => sent.expect("workers go last"),
            recv(context.done()) -> _ => return Err(context.err().expect("it is over")),
        }
    }
    Ok(())
}

/// Works until there are no more jobs.
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
                // The producers have gone: done, or told to stop.
                Err(_) => return context.err().map_or(Ok(()), Err),
            },
            recv(context.done()) -> _ => return Err(context.err().expect("it is over")),
        };
        // A request to somebody else, say.
        runtime::sleep(pace);
        let outcome = Outcome { number: item.number, steps: collatz(item.number + 1) };
        select! {
            send(outcomes, outcome) -> sent => sent.expect("who gathers goes last"),
            recv(context.done()) -> _ => return Err(context.err().expect("it is over")),
        }
    }
}

/// The steps from `n` down to 1 by Collatz' rule.
fn collatz(mut n: u64) -> u32 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

struct Run {
    /// By number.
    outcomes: BTreeMap<u64, u32>,
    /// Those who stopped before their work was done.
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
        // It ends when the last worker has gone.
        let outcomes = done.iter().map(|outcome| (outcome.number, outcome.steps)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("nobody panics"));
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
        // Endless work: nobody is done in time.
        let part = run(&context, producers, workers, u64::MAX, Duration::from_millis(1));
        assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
        assert_eq!(part.stopped, producers + workers, "all of them heard of the deadline");
        assert!(part.outcomes.iter().all(|(&number, &steps)| steps == collatz(number + 1)));
        println!(
            "{} items until the deadline; all had stopped after {:?}",
            part.outcomes.len(),
            start.elapsed()
        );
    });
}
