//! A foreman with many ears: jobs from two desks, results from workers, a tick that reports, a deadline that ends the day;
//! one `select!` waits for all of them.
//!
//! `cargo run --release --example select -- [MILLISECONDS]`

use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, after, bounded, never, tick, unbounded};
use runtime::{select, sleep, spawn};

/// A desk brings a job now and then, until nobody takes them.
fn desk(name: &'static str, pause: Duration) -> Receiver<(&'static str, u64)> {
    let (sender, jobs) = bounded(0);
    spawn(move || {
        for number in 0.. {
            if sender.send((name, number)).is_err() {
                return;
            }
            sleep(pause);
        }
    });
    jobs
}

/// Workers square what they are given.
fn workers(count: usize) -> (Sender<u64>, Receiver<u64>) {
    let (to_workers, jobs) = bounded::<u64>(2);
    let (results, done) = unbounded();
    for _ in 0..count {
        let (jobs, results) = (jobs.clone(), results.clone());
        spawn(move || {
            for job in jobs {
                sleep(Duration::from_micros(300));
                results.send(job * job).expect("the foreman waits for all results");
            }
        });
    }
    (to_workers, done)
}

fn main() {
    let day = std::env::args().nth(1).map_or(100, |arg| arg.parse().expect("milliseconds"));
    runtime::block_on(|| {
        let (left, right) =
            (desk("left", Duration::from_micros(700)), desk("right", Duration::from_micros(1100)));
        let (to_workers, done) = workers(4);
        let (start, deadline, reports) =
            (Instant::now(), after(Duration::from_millis(day)), tick(Duration::from_millis(day / 4 + 1)));
        let nobody = never();

        let (mut taken, mut sent, mut received) = ([0u64; 2], 0u64, 0u64);
        let (mut wanted, mut sum) = (0u64, 0u64);
        // The job that no worker has room for yet: until it is gone, no other is taken.
        let mut waiting: Option<u64> = None;
        loop {
            let free = waiting.is_none();
            select! {
                recv(if free { &left } else { &nobody }) -> job => {
                    let (_, number) = job.expect("the desk is open");
                    taken[0] += 1;
                    waiting = Some(number);
                }
                recv(if free { &right } else { &nobody }) -> job => {
                    let (_, number) = job.expect("the desk is open");
                    taken[1] += 1;
                    waiting = Some(number);
                }
                // Asked only if there is a job to be given away.
                send(if free { &FULL } else { &to_workers }, waiting.unwrap_or(0)) -> given => {
                    given.expect("the workers live");
                    let number = waiting.take().expect("it was there");
                    (sent, wanted) = (sent + 1, wanted + number * number);
                }
                recv(done) -> square => {
                    sum += square.expect("the workers live");
                    received += 1;
                }
                recv(reports) -> _ => {
                    println!("{:>5.1?}: {taken:?} jobs taken, {received} done", start.elapsed());
                }
                recv(deadline) -> _ => break,
            }
        }
        // The evening: the workers get no more, and what they still have comes to its end.
        drop(to_workers);
        for square in done {
            sum += square;
            received += 1;
        }
        assert!(start.elapsed() >= Duration::from_millis(day), "the day was cut short");
        assert_eq!((received, sum), (sent, wanted), "a result was lost, or came twice");
        assert_eq!(taken[0] + taken[1], sent + u64::from(waiting.is_some()), "a job was lost");
        println!("the day is over: {sent} jobs done, none lost");
    });
}

/// A channel into which nothing goes.
static FULL: std::sync::LazyLock<Sender<u64>> = std::sync::LazyLock::new(|| {
    let (sender, receiver) = bounded(0);
    // It is kept, so that it is not disconnected.
    std::mem::forget(receiver);
    sender
});
