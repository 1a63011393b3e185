//! Mistakes in programs of std are found by a seed, and the seed repeats them.

runtime::interpose!(sim);

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use runtime::sim::{self, Failure};

const SEEDS: u64 = 500;

/// Returns the first failure of `program`, which the same seed repeats.
fn failure(program: impl Fn() + Send + Sync + Copy) -> Box<Failure> {
    let failure = sim::Builder::new().try_explore(SEEDS, program).expect_err("no seed has found the mistake");
    let again = catch_unwind(AssertUnwindSafe(|| sim::run(failure.seed(), program)))
        .expect_err("the seed does not repeat");
    let text = again.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(failure.message()), "{text}");
    failure
}

/// Explores `program` until all its threads wait for each other. The waits cannot unwind, so the threads
/// stay.
fn deadlocks(program: impl Fn() + Send + Sync + Copy) {
    let failure =
        sim::Builder::new().try_explore(SEEDS, program).expect_err("no seed has found the deadlock");
    let is_deadlock = |text: &str| text.contains("deadlock") && text.contains("lock or condition of std");
    assert!(is_deadlock(failure.message()), "{failure}");
    let again = catch_unwind(AssertUnwindSafe(|| sim::run(failure.seed(), program)))
        .expect_err("the seed does not repeat");
    assert!(again.downcast_ref::<String>().is_some_and(|text| is_deadlock(text)));
    // What comes after is not disturbed.
    sim::run(1, || thread::spawn(|| thread::sleep(Duration::from_secs(1))).join().unwrap());
    assert_eq!(runtime::block_on(|| runtime::spawn(|| 42).join().unwrap()), 42);
}

fn passes(program: impl Fn() + Send + Sync) {
    sim::Builder::new().try_explore(SEEDS, program).unwrap();
}

/// Looks at a balance, works for a moment, and takes from the balance. `holds` keeps the lock.
fn withdrawals(holds: bool) {
    let balance = Arc::new(Mutex::new(100));
    let take = move |balance: Arc<Mutex<i32>>| {
        let seen = balance.lock().unwrap();
        if *seen >= 60 {
            if holds {
                work();
                let mut seen = seen;
                *seen -= 60;
            } else {
                drop(seen);
                work();
                *balance.lock().unwrap() -= 60;
            }
        }
    };
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn({
                let balance = balance.clone();
                move || take(balance)
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let left = *balance.lock().unwrap();
    assert!(left >= 0, "the balance is {left}");
}

fn work() {
    thread::yield_now();
}

#[test]
fn a_check_that_is_too_old() {
    assert_eq!(failure(|| withdrawals(false)).message(), "the balance is -20");
    passes(|| withdrawals(true));
}

/// Two threads take two locks, in the same order or not.
fn locks(same_order: bool) {
    let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let (first, second) = if same_order { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
    let both = |a: Arc<Mutex<()>>, b: Arc<Mutex<()>>| {
        let _a = a.lock().unwrap();
        work();
        let _b = b.lock().unwrap();
    };
    let other = thread::spawn(move || both(first, second));
    both(a, b);
    other.join().unwrap();
}

#[test]
fn locks_in_two_orders() {
    deadlocks(|| locks(false));
    passes(|| locks(true));
}

/// A consumer waits for a signal, which may come before the wait. `looks` makes it look first.
fn signal(looks: bool) {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let producer = thread::spawn({
        let pair = pair.clone();
        move || {
            *pair.0.lock().unwrap() = true;
            pair.1.notify_one();
        }
    });
    work();
    let ready = pair.0.lock().unwrap();
    if looks {
        drop(pair.1.wait_while(ready, |ready| !*ready).unwrap());
    } else {
        drop(pair.1.wait(ready).unwrap());
    }
    producer.join().unwrap();
}

#[test]
fn a_signal_before_the_wait() {
    deadlocks(|| signal(false));
    passes(|| signal(true));
}

/// Two requests with a time-out, of which one answer may be taken for the other's.
#[test]
fn an_answer_that_comes_too_late() {
    let program = || {
        let (ask, asked) = mpsc::channel::<u32>();
        let (answer, answers) = mpsc::channel::<u32>();
        let server = thread::spawn(move || {
            for (at, request) in asked.iter().enumerate() {
                thread::sleep(Duration::from_millis(if at == 0 { 100 } else { 1 }));
                answer.send(request).unwrap();
            }
        });
        for request in 0..2 {
            ask.send(request).unwrap();
            if let Ok(answer) = answers.recv_timeout(Duration::from_millis(50)) {
                assert_eq!(answer, request, "an answer to another request");
            }
        }
        drop(ask);
        server.join().unwrap();
    };
    assert!(failure(program).message().contains("an answer to another request"));
}
