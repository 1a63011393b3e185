//! How many short queries a second the unchanged, synchronous crate `postgres` answers, with 100 threads that
//! share a pool of 20 connections: plain OS threads, green threads, and green threads that query in
//! `blocking`. They take turns of a second each, and the medians count. The package `interpose` builds the
//! same program with the line `runtime::interpose!();`.
//!
//! ```sh
//! cargo run --release --example postgres_pool
//! cargo run --release -p interpose --example postgres_pool_parking
//! ```
//!
//! Arguments: how many turns (default 8), and the only kind of thread (`plain`, `green`, `blocking`), for a
//! profiler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[allow(dead_code, unused_imports)]
#[path = "../src/lib.rs"]
mod servers;

const THREADS: usize = 100;
const CONNECTIONS: usize = 20;
const TURN: Duration = Duration::from_secs(1);
const KINDS: [&str; 3] = ["plain", "green", "blocking"];

type Pool = (runtime::channel::Sender<postgres::Client>, runtime::channel::Receiver<postgres::Client>);

/// Queries until `stop`. Returns the number of queries.
fn work(pool: &Pool, stop: &AtomicBool, in_blocking: bool) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = pool.1.recv().expect("the pool has a sender");
        let n = count as i32;
        let mut query = || client.query_one("select $1::int4 * 2", &[&n]).unwrap().get::<_, i32>(0);
        let twice = if in_blocking { runtime::blocking(query) } else { query() };
        assert_eq!(twice, n * 2);
        pool.0.send(client).expect("the pool has a receiver");
        count += 1;
    }
    count
}

/// Returns the queries of a second.
fn turn(kind: &'static str, pool: &Arc<Pool>) -> f64 {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let job = || {
        let (pool, stop, done) = (pool.clone(), stop.clone(), done.clone());
        move || {
            done.fetch_add(work(&pool, &stop, kind == "blocking"), Ordering::Relaxed);
        }
    };
    let end = || {
        std::thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
    };
    if kind == "plain" {
        let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(job())).collect();
        end();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    } else {
        let threads: Vec<_> = (0..THREADS).map(|_| runtime::spawn(job())).collect();
        end();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

pub(crate) fn main() {
    let turns = std::env::args().nth(1).map_or(8, |turns| turns.parse().expect("a number of turns"));
    let only = std::env::args().nth(2);
    let kinds: Vec<_> =
        KINDS.into_iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind)).collect();
    let Some(server) = servers::Postgres::start() else { return servers::missing("postgresql") };
    let info = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port);
    let pool: Arc<Pool> = Arc::new(runtime::channel::bounded(CONNECTIONS));
    for _ in 0..CONNECTIONS {
        let info = info.clone();
        let client = std::thread::spawn(move || postgres::Client::connect(&info, postgres::NoTls).unwrap());
        pool.0.send(client.join().unwrap()).expect("the pool has a receiver");
    }
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..turns {
        for (kind, rates) in kinds.iter().zip(&mut rates) {
            rates.push(turn(kind, &pool));
        }
    }
    for (kind, mut rates) in kinds.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        println!(
            "{kind:9} {:6.0} queries/s ({:.0} to {:.0})",
            rates[rates.len() / 2],
            rates[0],
            rates[rates.len() - 1]
        );
    }
    // The connections end before the server.
    while pool.1.try_recv().is_ok() {}
}
