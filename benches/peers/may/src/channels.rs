//! `pingpong`, `chan`, `skynet` and `sieve`: tasks that send values to each other. may's channels are
//! unbounded. So the workloads have no rendezvous channel, and limit the capacity only by a semaphore around
//! a channel.

use std::sync::Arc;
use std::time::Instant;

use may::coroutine::JoinHandle;
use may::go;
use may::sync::{Semphore, mpmc, mpsc, spsc};
use peer_common::args::{Args, not_offered, wrong};
use peer_common::primes;
use peer_common::report::Report;

/// The value that ends a consumer.
const STOP: u64 = u64::MAX;

pub(crate) fn pingpong(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let lib = args.word("lib", &["mpsc", "spsc"]);
    let mut report = args.end();

    let start = Instant::now();
    let last = if lib == "mpsc" { pingpong_mpsc(n) } else { pingpong_spsc(n) };
    let wall = start.elapsed();

    assert_eq!(last, n, "a round trip was lost");
    report.number("ns_per_rt", wall.as_nanos() as f64 / n as f64);
    report
}

fn pingpong_mpsc(n: u64) -> u64 {
    let (to_b, from_a) = mpsc::channel();
    let (to_a, from_b) = mpsc::channel();
    let a = go!(move || {
        let mut v = 0;
        for _ in 0..n {
            to_b.send(v).expect("B receives");
            v = from_b.recv().expect("B sends");
        }
        v
    });
    let b = go!(move || {
        for _ in 0..n {
            let v: u64 = from_a.recv().expect("A sends");
            to_a.send(v + 1).expect("A receives");
        }
    });
    b.join().expect("B ends");
    a.join().expect("A ends")
}

fn pingpong_spsc(n: u64) -> u64 {
    let (to_b, from_a) = spsc::channel();
    let (to_a, from_b) = spsc::channel();
    let a = go!(move || {
        let mut v = 0;
        for _ in 0..n {
            to_b.send(v).expect("B receives");
            v = from_b.recv().expect("B sends");
        }
        v
    });
    let b = go!(move || {
        for _ in 0..n {
            let v: u64 = from_a.recv().expect("A sends");
            to_a.send(v + 1).expect("A receives");
        }
    });
    b.join().expect("B ends");
    a.join().expect("A ends")
}

pub(crate) fn chan(mut args: Args) -> Report {
    let p = args.number("p", 4).max(1);
    let c = args.count("c", 4);
    let cap = args.count("cap", 1024);
    let share = args.number("n", 8_000_000) / p;
    let bounded = args.number("bound", 0) > 0;
    let mut report = args.end();
    let (sender, receiver) = mpmc::channel();
    let permits = bounded.then(|| Arc::new(Semphore::new(cap)));

    let start = Instant::now();
    let producers: Vec<JoinHandle<()>> = (0..p)
        .map(|_| {
            let (sender, permits) = (sender.clone(), permits.clone());
            go!(move || {
                for v in 0..share {
                    if let Some(permits) = &permits {
                        permits.wait();
                    }
                    sender.send(v).expect("the channel has a receiver");
                }
            })
        })
        .collect();
    let consumers: Vec<JoinHandle<u64>> = (0..c)
        .map(|_| {
            let (receiver, permits) = (receiver.clone(), permits.clone());
            go!(move || {
                let mut sum = 0;
                loop {
                    let v = receiver.recv().expect("the body has a sender");
                    if v == STOP {
                        return sum;
                    }
                    sum += v;
                    if let Some(permits) = &permits {
                        permits.post();
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer ends");
    }
    for _ in 0..c {
        sender.send(STOP).expect("the channel has a receiver");
    }
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
    if args.number("cap", 0) != 0 {
        not_offered("its channels have no capacity");
    }
    let reps = args.count("reps", 4);
    let mut report = args.end();
    if reps < 2 || n.checked_ilog10().is_none_or(|zeros| 10u64.pow(zeros) != n) {
        wrong("--n is a power of 10, and --reps at least 2");
    }

    let mut times_ms = Vec::new();
    for _ in 0..reps {
        let start = Instant::now();
        let (root, result) = mpsc::channel();
        go!(move || node(0, n, &root));
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

fn node(number: u64, size: u64, parent: &mpsc::Sender<u64>) {
    if size == 1 {
        return parent.send(number).expect("the parent receives");
    }
    let (sender, children) = mpsc::channel();
    let size = size / 10;
    for i in 0..10 {
        let parent = sender.clone();
        go!(move || node(number + i * size, size, &parent));
    }
    let sum = (0..10).map(|_| children.recv().expect("a child sends")).sum();
    parent.send(sum).expect("the parent receives");
}

pub(crate) fn sieve(mut args: Args) -> Report {
    let n = args.count("n", 2_000);
    let limit = args.number("limit", 17_389);
    let mut report = args.end();

    let start = Instant::now();
    let (sender, mut numbers) = mpsc::channel();
    go!(move || {
        for v in 2..=limit {
            sender.send(v).expect("the channel has a receiver");
        }
    });
    let mut found = 1;
    let last = loop {
        let prime = numbers.recv().expect("the limit is above the last prime");
        if found == n {
            break prime;
        }
        found += 1;
        let (sender, filtered) = mpsc::channel();
        let unfiltered = std::mem::replace(&mut numbers, filtered);
        go!(move || filter(&unfiltered, &sender, prime));
    };
    let wall = start.elapsed();

    assert_eq!(last, primes::nth(n, limit));
    report.number("ms", wall.as_secs_f64() * 1e3);
    // The channel stays open until the process ends, so that no task sends to a closed channel.
    std::mem::forget(numbers);
    report
}

fn filter(from: &mpsc::Receiver<u64>, to: &mpsc::Sender<u64>, prime: u64) {
    while let Ok(v) = from.recv() {
        if v % prime != 0 {
            to.send(v).expect("the channel has a receiver");
        }
    }
}
