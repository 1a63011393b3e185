//! Two green threads add to the same counter. `ci/tsan.sh` checks with this program that ThreadSanitizer
//! follows green threads.
//!
//! `counter racy` has a data race on purpose, which ThreadSanitizer must report. In `counter locked`,
//! `counter sent` and `counter joined` the runtime orders the additions, so ThreadSanitizer must report
//! nothing.

use std::cell::UnsafeCell;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runtime::sync::Mutex;
use runtime::{Builder, channel, spawn, thread};

const ROUNDS: u64 = 1_000;

#[derive(Default)]
struct Counter(UnsafeCell<u64>);

// SAFETY: a lock, a channel or a join orders the additions, except in `racy`. ThreadSanitizer must find the
// race there.
unsafe impl Sync for Counter {}

impl Counter {
    fn add(&self) {
        // SAFETY: see `Sync` above.
        unsafe { *self.0.get() += 1 };
    }

    fn value(&self) -> u64 {
        // SAFETY: see `Sync` above.
        unsafe { *self.0.get() }
    }
}

fn main() {
    let case: fn(Arc<Counter>) = match std::env::args().nth(1).as_deref() {
        Some("racy") => racy,
        Some("locked") => locked,
        Some("sent") => sent,
        Some("joined") => joined,
        _ => exit(2),
    };
    let counter = Arc::new(Counter::default());
    let runtime = Builder::new().procs(2).build().expect("a runtime");
    runtime.block_on(|| case(counter.clone()));
    println!("{}", counter.value());
}

/// Runs `round` repeatedly in two green threads. Each has a P before the first round.
fn in_two(round: impl Fn() + Send + Sync + 'static) {
    let (round, started) = (Arc::new(round), Arc::new(AtomicUsize::new(0)));
    let both = [(); 2].map(|()| {
        let (round, started) = (round.clone(), started.clone());
        spawn(move || {
            // Relaxed: the start orders nothing.
            started.fetch_add(1, Ordering::Relaxed);
            while started.load(Ordering::Relaxed) < 2 {
                std::hint::spin_loop();
            }
            (0..ROUNDS).for_each(|_| round());
        })
    });
    both.into_iter().for_each(|thread| thread.join().expect("the green thread returns"));
}

fn racy(counter: Arc<Counter>) {
    in_two(move || counter.add());
}

fn locked(counter: Arc<Counter>) {
    let lock = Mutex::new(());
    in_two(move || {
        let _guard = lock.lock();
        counter.add();
        thread::yield_now();
    });
}

fn sent(counter: Arc<Counter>) {
    let (sender, receiver) = channel::bounded(1);
    sender.send(counter).expect("a receiver");
    in_two(move || {
        let counter = receiver.recv().expect("a sender");
        counter.add();
        sender.send(counter).expect("a receiver");
    });
}

fn joined(counter: Arc<Counter>) {
    for _ in 0..ROUNDS {
        let counter = counter.clone();
        spawn(move || counter.add()).join().expect("the green thread returns");
    }
}
