//! `pingpong`, `chan`, `skynet` and `sieve`: tasks that send values to each other. tokio has no rendezvous
//! channel. Instead of a rendezvous channel this program uses capacity 1.

use std::time::Instant;

use peer_common::args::{Args, wrong};
use peer_common::primes;
use peer_common::report::Report;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) async fn pingpong(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let mut report = args.end();
    let (to_b, mut from_a) = mpsc::channel::<u64>(1);
    let (to_a, mut from_b) = mpsc::channel::<u64>(1);

    let start = Instant::now();
    let a = tokio::spawn(async move {
        let mut v = 0;
        for _ in 0..n {
            to_b.send(v).await.expect("B receives");
            v = from_b.recv().await.expect("B sends");
        }
        v
    });
    let b = tokio::spawn(async move {
        for _ in 0..n {
            let v = from_a.recv().await.expect("A sends");
            to_a.send(v + 1).await.expect("A receives");
        }
    });
    let last = a.await.expect("A ends");
    b.await.expect("B ends");
    let wall = start.elapsed();

    assert_eq!(last, n, "a round trip was lost");
    report.number("ns_per_rt", wall.as_nanos() as f64 / n as f64);
    report
}

pub(crate) async fn chan(mut args: Args) -> Report {
    let p = args.number("p", 4).max(1);
    let c = args.count("c", 4);
    let cap = args.count("cap", 1024);
    let share = args.number("n", 8_000_000) / p;
    let lib = args.word("lib", &["default", "flume"]);
    let mut report = args.end();

    let start = Instant::now();
    let (producers, consumers) = match (lib, c) {
        ("flume", _) => flume(p, c, cap, share),
        (_, 1) => tokio_mpsc(p, cap, share),
        _ => async_channel(p, c, cap, share),
    };
    for producer in producers {
        producer.await.expect("a producer ends");
    }
    let mut sum = 0;
    for consumer in consumers {
        sum += consumer.await.expect("a consumer ends");
    }
    let wall = start.elapsed();

    assert_eq!(sum, p * (share * (share - 1) / 2), "messages were lost");
    let messages = (p * share) as f64;
    report.number("mmsgs_per_s", messages / wall.as_secs_f64() / 1e6);
    report.number("ns_per_msg", wall.as_nanos() as f64 / messages);
    report
}

/// The producers and the consumers. The channel is closed when all producers have ended. A consumer returns
/// its sum.
type Both = (Vec<JoinHandle<()>>, Vec<JoinHandle<u64>>);

fn tokio_mpsc(p: u64, cap: usize, share: u64) -> Both {
    let (sender, mut receiver) = mpsc::channel(cap);
    let producers = (0..p).map(|_| {
        let sender = sender.clone();
        tokio::spawn(async move {
            for v in 0..share {
                sender.send(v).await.expect("the channel has a receiver");
            }
        })
    });
    let producers = producers.collect();
    let consumer = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(v) = receiver.recv().await {
            sum += v;
        }
        sum
    });
    (producers, vec![consumer])
}

fn async_channel(p: u64, c: usize, cap: usize, share: u64) -> Both {
    let (sender, receiver) = async_channel::bounded(cap);
    let producers = (0..p).map(|_| {
        let sender = sender.clone();
        tokio::spawn(async move {
            for v in 0..share {
                sender.send(v).await.expect("the channel has a receiver");
            }
        })
    });
    let consumers = (0..c).map(|_| {
        let receiver = receiver.clone();
        tokio::spawn(async move {
            let mut sum = 0;
            while let Ok(v) = receiver.recv().await {
                sum += v;
            }
            sum
        })
    });
    (producers.collect(), consumers.collect())
}

fn flume(p: u64, c: usize, cap: usize, share: u64) -> Both {
    let (sender, receiver) = flume::bounded(cap);
    let producers = (0..p).map(|_| {
        let sender = sender.clone();
        tokio::spawn(async move {
            for v in 0..share {
                sender.send_async(v).await.expect("the channel has a receiver");
            }
        })
    });
    let consumers = (0..c).map(|_| {
        let receiver = receiver.clone();
        tokio::spawn(async move {
            let mut sum = 0;
            while let Ok(v) = receiver.recv_async().await {
                sum += v;
            }
            sum
        })
    });
    (producers.collect(), consumers.collect())
}

pub(crate) async fn skynet(mut args: Args) -> Report {
    let n = args.number("n", 1_000_000);
    let cap = args.number("cap", 0).max(1) as usize;
    let reps = args.count("reps", 4);
    let lib = args.word("lib", &["default", "oneshot"]);
    let mut report = args.end();
    if reps < 2 || n.checked_ilog10().is_none_or(|zeros| 10u64.pow(zeros) != n) {
        wrong("--n is a power of 10, and --reps at least 2");
    }

    let mut times_ms = Vec::new();
    for _ in 0..reps {
        let start = Instant::now();
        let sum = if lib == "oneshot" {
            let (root, result) = oneshot::channel();
            spawn_oneshot_node(0, n, root);
            result.await.expect("the root sends")
        } else {
            let (root, mut result) = mpsc::channel(cap);
            spawn_node(0, n, cap, root);
            result.recv().await.expect("the root sends")
        };
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(sum, n * (n - 1) / 2);
    }

    let first = times_ms.remove(0);
    times_ms.sort_by(f64::total_cmp);
    report.number("first_ms", first);
    report.number("warm_ms", times_ms[(times_ms.len() - 1) / 2]);
    report
}

/// Boxes the future of a node, because a future cannot contain a future of its own type.
fn spawn_node(number: u64, size: u64, cap: usize, parent: mpsc::Sender<u64>) {
    tokio::spawn(node(number, size, cap, parent));
}

async fn node(number: u64, size: u64, cap: usize, parent: mpsc::Sender<u64>) {
    if size == 1 {
        return parent.send(number).await.expect("the parent receives");
    }
    let (sender, mut children) = mpsc::channel(cap);
    let size = size / 10;
    for i in 0..10 {
        spawn_node(number + i * size, size, cap, sender.clone());
    }
    let mut sum = 0;
    for _ in 0..10 {
        sum += children.recv().await.expect("a child sends");
    }
    parent.send(sum).await.expect("the parent receives");
}

fn spawn_oneshot_node(number: u64, size: u64, parent: oneshot::Sender<u64>) {
    tokio::spawn(oneshot_node(number, size, parent));
}

/// A node with a oneshot channel for each child, which sends one value.
async fn oneshot_node(number: u64, size: u64, parent: oneshot::Sender<u64>) {
    if size == 1 {
        return parent.send(number).expect("the parent receives");
    }
    let size = size / 10;
    let children: [_; 10] = std::array::from_fn(|i| {
        let (sender, child) = oneshot::channel();
        spawn_oneshot_node(number + i as u64 * size, size, sender);
        child
    });
    let mut sum = 0;
    for child in children {
        sum += child.await.expect("a child sends");
    }
    parent.send(sum).expect("the parent receives");
}

pub(crate) async fn sieve(mut args: Args) -> Report {
    let n = args.count("n", 2_000);
    let limit = args.number("limit", 17_389);
    let mut report = args.end();

    let start = Instant::now();
    let (sender, mut numbers) = mpsc::channel(1);
    tokio::spawn(async move {
        for v in 2..=limit {
            sender.send(v).await.expect("the channel has a receiver");
        }
    });
    let mut found = 1;
    let last = loop {
        let prime = numbers.recv().await.expect("the limit is above the last prime");
        if found == n {
            break prime;
        }
        found += 1;
        let (sender, filtered) = mpsc::channel(1);
        let unfiltered = std::mem::replace(&mut numbers, filtered);
        tokio::spawn(filter(unfiltered, sender, prime));
    };
    let wall = start.elapsed();

    assert_eq!(last, primes::nth(n, limit));
    report.number("ms", wall.as_secs_f64() * 1e3);
    // The channel stays open until the process ends, so that no task sends to a closed channel.
    std::mem::forget(numbers);
    report
}

async fn filter(mut from: mpsc::Receiver<u64>, to: mpsc::Sender<u64>, prime: u64) {
    while let Some(v) = from.recv().await {
        if v % prime != 0 {
            to.send(v).await.expect("the channel has a receiver");
        }
    }
}
