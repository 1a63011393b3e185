//! A program with four faults, to be found by looking inside while it runs. The page `runtime::docs::inside`
//! walks through that.
//!
//! - A *leak*: each second ten green threads begin to wait for replies that never come.
//! - A *crosswise lock*: two green threads took two locks in opposite order. The rest of the program goes on.
//! - A *hog*: a green thread computes for a third of a second, each second.
//! - A *slow handler*: one of the handlers keeps a lock while it waits for its database, and the others wait
//!   for that lock.
//!
//! ```sh
//! cargo run --release -p examples --features debug --example inside -- --secs 600 --page 127.0.0.1:6060
//! ```
//!
//! Then open the page at the address that it prints.

use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::process::exit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, Sender, bounded};
use runtime::sync::Mutex;
use runtime::{JoinHandle, sleep, spawn, thread};
use support::Args;

mod support;

const USAGE: &str = "\
usage: inside [--secs S] [--page ADDRESS]

  --secs S         how long the program runs, in seconds (default 2)
  --page ADDRESS   where the page is served (default 127.0.0.1:0, which is any free port)";

fn main() {
    let mut args = Args::new(USAGE);
    let secs = args.number("--secs", 2, 1..=86_400);
    let page = args.option("--page").unwrap_or_else(|| "127.0.0.1:0".into());
    args.end();
    if let Err(error) = runtime::block_on(|| run(&page, Duration::from_secs(secs))) {
        eprintln!("inside: {error}");
        exit(1);
    }
}

fn run(page: &str, time: Duration) -> io::Result<()> {
    let server = runtime::debug::serve(page)?;
    println!("look inside: http://{}/", server.local_addr());
    let faults = [named("shop", sells), named("reports", reports), named("site", serves)];
    let transfers = crosswise();
    sleep(time);
    faults.iter().chain(&transfers).for_each(JoinHandle::cancel);
    Ok(())
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).expect("a green thread")
}

// The leak.

/// The orders that wait for their replies.
#[derive(Default)]
struct Orders(Mutex<HashMap<u64, Sender<&'static str>>>);

impl Orders {
    fn send(&self, order: u64) -> Receiver<&'static str> {
        let (reply, replies) = bounded(1);
        self.0.lock().insert(order, reply);
        replies
    }

    fn reply(&self, order: u64) {
        // The fault: the replies to orders that end in 7 are forgotten, and their senders are kept.
        if order % 10 != 7
            && let Some(reply) = self.0.lock().remove(&order)
        {
            let _ = reply.send("delivered");
        }
    }
}

/// Sells a hundred things a second.
fn sells() {
    let orders = Arc::new(Orders::default());
    for order in 0.. {
        let its_orders = orders.clone();
        spawn(move || awaits_reply(&its_orders, order));
        sleep(Duration::from_millis(10));
        orders.reply(order);
    }
}

fn awaits_reply(orders: &Orders, order: u64) {
    let _ = orders.send(order).recv();
}

// The crosswise lock.

struct Account(Mutex<i64>);

/// The fault: two transfers in opposite directions lock the same accounts in opposite order.
fn transfer(from: &Account, to: &Account, amount: i64) {
    let mut from = from.0.lock();
    sleep(Duration::from_millis(20));
    *to.0.lock() += amount;
    *from -= amount;
}

fn crosswise() -> [JoinHandle<()>; 2] {
    let (a, b) = (Arc::new(Account(Mutex::new(100))), Arc::new(Account(Mutex::new(100))));
    let (a2, b2) = (a.clone(), b.clone());
    [
        named("transfer there", move || transfer(&a, &b, 10)),
        named("transfer back", move || transfer(&b2, &a2, 20)),
    ]
}

// The hog.

fn reports() {
    loop {
        black_box(builds_report(Duration::from_millis(333)));
        sleep(Duration::from_millis(667));
    }
}

/// The fault: it computes without a call into the runtime.
#[inline(never)]
fn builds_report(time: Duration) -> u64 {
    let (start, mut sum) = (Instant::now(), 0);
    while start.elapsed() < time {
        sum = black_box((0..10_000).fold(sum, |sum: u64, n| sum.rotate_left(5) ^ n));
    }
    sum
}

// The slow handler.

/// Answers twenty requests a second.
fn serves() {
    let cache = Arc::new(Mutex::new(HashMap::new()));
    for request in 0.. {
        let cache = cache.clone();
        spawn(move || {
            if request % 20 == 0 { handles_search(&cache, request) } else { handles_page(&cache, request) }
        });
        sleep(Duration::from_millis(50));
    }
}

type Cache = Mutex<HashMap<u64, String>>;

fn handles_page(cache: &Cache, request: u64) {
    black_box(cache.lock().get(&(request / 20 * 20)));
}

/// The fault: it asks its database under the lock that each handler needs.
fn handles_search(cache: &Cache, request: u64) {
    let mut cache = cache.lock();
    let found = asks_database(request);
    cache.insert(request, found);
}

fn asks_database(request: u64) -> String {
    sleep(Duration::from_millis(800));
    format!("found {request}")
}
