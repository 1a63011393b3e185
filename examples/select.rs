//! `select!`: a green thread waits for several channels at once and acts on the first that is ready.
//!
//! A dispatcher takes jobs from two sources, gives them to a pool of workers and adds up their results. The
//! dispatcher also prints a report at regular intervals and stops at a deadline. After the deadline it drains
//! the pool and checks the sum.
//!
//! Look at `dispatch`: the dispatcher goes on receiving results while it waits for a free worker, so the pool
//! cannot deadlock.
//!
//! ```sh
//! cargo run --release --example select             # runs for 100 ms
//! cargo run --release --example select -- 2000     # runs for 2,000 ms
//! ```

use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, after, bounded, tick};
use runtime::{select, sleep, spawn};

/// Starts a source: a green thread that offers a new job every `period` until the receiver is dropped.
fn source(period: Duration) -> Receiver<u64> {
    let (sender, jobs) = bounded(0);
    spawn(move || {
        for job in 0.. {
            if sender.send(job).is_err() {
                return;
            }
            sleep(period);
        }
    });
    jobs
}

/// Starts `count` workers that square numbers. Dropping the sender ends them; then the receiver is
/// disconnected.
fn start_workers(count: usize) -> (Sender<u64>, Receiver<u64>) {
    let (to_workers, jobs) = bounded::<u64>(2);
    let (to_dispatcher, results) = bounded(2);
    for _ in 0..count {
        let (jobs, to_dispatcher) = (jobs.clone(), to_dispatcher.clone());
        spawn(move || {
            for job in jobs {
                sleep(Duration::from_micros(300));
                to_dispatcher.send(job * job).expect("the dispatcher receives every result");
            }
        });
    }
    (to_workers, results)
}

/// The dispatcher's counts.
#[derive(Debug, Default)]
struct Counts {
    dispatched: u64,
    finished: u64,
    sum: u64,
}

impl Counts {
    fn add_result(&mut self, square: u64) {
        self.finished += 1;
        self.sum += square;
    }
}

/// Gives `job` to a worker. While all workers are busy, it receives their results.
fn dispatch(job: u64, to_workers: &Sender<u64>, results: &Receiver<u64>, counts: &mut Counts) {
    loop {
        select! {
            send(to_workers, job) -> sent => {
                sent.expect("the workers run until the sender is dropped");
                counts.dispatched += 1;
                return;
            }
            recv(results) -> square => counts.add_result(square.expect("the workers run")),
        }
    }
}

fn main() {
    let millis = std::env::args().nth(1).map_or(100, |arg| arg.parse().expect("a number of milliseconds"));
    runtime::block_on(|| {
        let start = Instant::now();
        let deadline = after(Duration::from_millis(millis));
        let report = tick(Duration::from_millis(millis / 4 + 1));
        let fast = source(Duration::from_micros(700));
        let slow = source(Duration::from_micros(1100));
        let (to_workers, results) = start_workers(4);

        let mut counts = Counts::default();
        let mut expected_sum = 0;
        loop {
            let job = select! {
                recv(fast) -> job => job.expect("a source runs until its receiver is dropped"),
                recv(slow) -> job => job.expect("a source runs until its receiver is dropped"),
                recv(results) -> square => {
                    counts.add_result(square.expect("the workers run"));
                    continue;
                }
                recv(report) -> _ => {
                    println!("{:>8.1?}: {counts:?}", start.elapsed());
                    continue;
                }
                recv(deadline) -> _ => break,
            };
            dispatch(job, &to_workers, &results, &mut counts);
            expected_sum += job * job;
        }

        // The workers finish their jobs and end. The end of the last worker disconnects `results`.
        drop(to_workers);
        results.iter().for_each(|square| counts.add_result(square));

        assert!(start.elapsed() >= Duration::from_millis(millis), "the deadline came early");
        assert_eq!(counts.finished, counts.dispatched, "a result was lost or came twice");
        assert_eq!(counts.sum, expected_sum);
        println!("stopped after {:.1?}: {counts:?}, no result lost", start.elapsed());
    });
}
