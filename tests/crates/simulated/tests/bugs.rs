//! Mistakes in programs of std are found by a seed, and the seed repeats them.

runtime::interpose!(sim);

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
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

/// A client sends a number in two parts. The server reads once, or as much as there is to be.
fn frame(reads_all: bool) {
    let server = sim::node("server", move || {
        let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
        let mut frame = [0; 8];
        if reads_all {
            stream.read_exact(&mut frame).unwrap();
        } else {
            _ = stream.read(&mut frame).unwrap();
        }
        stream.write_all(&frame).unwrap();
        // A connection that is closed with unread bytes is reset.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    thread::sleep(Duration::from_millis(1));
    let mut stream = TcpStream::connect("server:80").unwrap();
    let frame = 0x0102_0304_0506_0708_u64.to_be_bytes();
    stream.write_all(&frame[..4]).unwrap();
    stream.write_all(&frame[4..]).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    drop(stream);
    assert_eq!(answer, frame, "another answer");
    server.join().unwrap();
}

#[test]
fn a_read_that_is_taken_for_a_whole_frame() {
    assert!(failure(|| frame(false)).message().contains("another answer"));
    passes(|| frame(true));
}

/// Two clients add to a number of the server. `holds` keeps its lock until the new number is there. Otherwise
/// the server asks the client once more in between.
fn counter(holds: bool) {
    let count = Arc::new(Mutex::new(0));
    let shared = count.clone();
    let server = sim::node("server", move || {
        let listener = TcpListener::bind("0.0.0.0:80").unwrap();
        let threads: Vec<_> = listener
            .incoming()
            .take(2)
            .map(|stream| {
                let (mut stream, count) = (stream.unwrap(), shared.clone());
                thread::spawn(move || {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    let mut seen = count.lock().unwrap();
                    let sum = *seen + u32::from(byte[0]);
                    if !holds {
                        drop(seen);
                        stream.write_all(b"?").unwrap();
                        stream.read_exact(&mut byte).unwrap();
                        seen = count.lock().unwrap();
                    }
                    *seen = sum;
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    thread::sleep(Duration::from_millis(1));
    let client = |by: u8| {
        move || {
            let mut stream = TcpStream::connect("server:80").unwrap();
            stream.write_all(&[by]).unwrap();
            if stream.read(&mut [0]).unwrap() == 1 {
                stream.write_all(b"!").unwrap();
            }
        }
    };
    let clients = [3, 4].map(|by| thread::spawn(client(by)));
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
    let sum = *count.lock().unwrap();
    assert_eq!(sum, 7, "an addition was lost");
}

#[test]
fn an_update_that_is_lost_between_two_connections() {
    assert!(failure(|| counter(false)).message().contains("an addition was lost"));
    passes(|| counter(true));
}
