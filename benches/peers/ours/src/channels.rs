//! `pingpong`, `chan`, `skynet` and `sieve`: tasks that send values to each other.

use std::time::Instant;

use peer_common::args::{Args, wrong};
use peer_common::primes;
use peer_common::report::Report;
use runtime::JoinHandle;
use runtime::channel::{Receiver, Sender, bounded};

pub(crate) fn pingpong(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let mut report = args.end();
    let ((to_b, from_a), (to_a, from_b)) = (bounded(0), bounded(0));

    let start = Instant::now();
    let a = runtime::spawn(move || {
        let mut v = 0;
        for _ in 0..n {
            to_b.send(v).expect("B receives");
            v = from_b.recv().expect("B sends");
        }
        v
    });
    let b = runtime::spawn(move || {
        for _ in 0..n {
            let v = from_a.recv().expect("A sends");
            to_a.send(v + 1).expect("A receives");
        }
    });
    let last = a.join().expect("A ends");
    b.join().expect("B ends");
    let wall = start.elapsed();

    assert_eq!(last, n, "a round trip was lost");
    report.number("ns_per_rt", wall.as_nanos() as f64 / n as f64);
    report
}

pub(crate) fn chan(mut args: Args) -> Report {
    let p = args.number("p", 4).max(1);
    let c = args.count("c", 4);
    let cap = args.count("cap", 1024);
    let share = args.number("n", 8_000_000) / p;
    let mut report = args.end();

    let start = Instant::now();
    let (sender, receiver) = bounded(cap);
    let producers: Vec<JoinHandle<()>> = (0..p)
        .map(|_| {
            let sender = sender.clone();
            runtime::spawn(move || {
                (0..share).for_each(|v| sender.send(v).expect("the channel has a receiver"))
            })
        })
        .collect();
    let consumers: Vec<JoinHandle<u64>> = (0..c)
        .map(|_| {
            let receiver = receiver.clone();
            runtime::spawn(move || receiver.iter().sum())
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer ends");
    }
    // Dropping the last sender closes the channel.
    drop(sender);
    let sum: u64 = consumers.into_iter().map(|consumer| consumer.join().expect("a consumer ends")).sum();
    let wall = start.elapsed();

    assert_eq!(sum, p * (share * (share - 1) / 2), "messages were lost");
    let messages = (p * share) as f64;
    report.number("mmsgs_per_s", messages / wall.as_secs_f64() / 1e6);
    report.number("ns_per_msg", wall.as_nanos() as f64 / messages);
    report
}

pub(crate) fn skynet(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let cap = args.number("cap", 0) as usize;
    let reps = args.count("reps", 4);
    let mut report = args.end();
    if reps < 2 || n.checked_ilog10().is_none_or(|zeros| 10u64.pow(zeros) != n) {
        wrong("--n is a power of 10, and --reps at least 2");
    }

    let mut times_ms = Vec::new();
    for _ in 0..reps {
        let start = Instant::now();
        let (root, result) = bounded(cap);
        runtime::spawn(move || node(&root, 0, n, cap));
        let sum = result.recv().expect("the root sends");
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(sum, n * (n - 1) / 2);
    }

    let first = times_ms.remove(0);
    times_ms.sort_by(f64::total_cmp);
    report.number("first_ms", first);
    report.number("warm_ms", times_ms[(times_ms.len() - 1) / 2]);
    report
}

fn node(parent: &Sender<u64>, number: u64, size: u64, cap: usize) {
    if size == 1 {
        return parent.send(number).expect("the parent receives");
    }
    let (sender, children) = bounded(cap);
    let size = size / 10;
    for i in 0..10 {
        let sender = sender.clone();
        runtime::spawn(move || node(&sender, number + i * size, size, cap));
    }
    let sum = (0..10).map(|_| children.recv().expect("a child sends")).sum();
    parent.send(sum).expect("the parent receives");
}

pub(crate) fn sieve(mut args: Args) -> Report {
    let n = args.count("n", 2_000);
    let limit = args.number("limit", 17_389);
    let mut report = args.end();

    let start = Instant::now();
    let (sender, mut primes) = bounded(0);
    // The send fails when the body has dropped the channel, after the clock has stopped.
    runtime::spawn(move || (2..=limit).all(|v| sender.send(v).is_ok()));
    let mut prime = 0;
    for found in 1..=n {
        prime = primes.recv().expect("the limit is above the last prime");
        if found < n {
            let (sender, filtered) = bounded(0);
            let numbers = std::mem::replace(&mut primes, filtered);
            runtime::spawn(move || filter(&numbers, &sender, prime));
        }
    }
    let wall = start.elapsed();

    assert_eq!(prime, primes::nth(n, limit));
    report.number("ms", wall.as_secs_f64() * 1e3);
    report
}

fn filter(numbers: &Receiver<u64>, sender: &Sender<u64>, prime: u64) {
    for v in numbers {
        if v % prime != 0 && sender.send(v).is_err() {
            return;
        }
    }
}
