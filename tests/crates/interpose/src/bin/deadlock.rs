//! Programs for `tests/deadlock.rs`: green threads that wait in std's channels, `thread::park` and locks. A
//! program has a process to itself, so no other OS thread hides a deadlock.
//!
//! `deadlock CASE` runs a case. A case that does not deadlock prints `ok`.

use std::mem::ManuallyDrop;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use runtime::{Builder, Runtime, block_on, spawn};

runtime::interpose!();

/// Longer than the search for deadlocks takes.
const LONG: Duration = Duration::from_millis(1500);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("receives") => block_on(|| receives().join().expect("a message")),
        Some("ring") => block_on(|| ring(5)),
        Some("one-p") => never_dropped(Builder::new().procs(1)).block_on(|| ring(5)),
        Some("no-sysmon") => never_dropped(Builder::new().procs(2).sysmon(false)).block_on(|| ring(5)),
        Some("two-runtimes") => {
            let other = never_dropped(Builder::new().procs(1));
            let waits = other.spawn(|| receives().join().expect("a message"));
            block_on(|| waits.join().expect("a message"));
        }
        Some("condition") => block_on(|| {
            let never = spawn(|| {
                let (lock, changed) = (Mutex::new(()), Condvar::new());
                drop(changed.wait(lock.lock().expect("a lock")));
            });
            never.join().expect("a notification");
        }),
        Some("main-itself") => block_on(std::thread::park),
        Some("os-thread-sends") => block_on(|| {
            let (sender, receiver) = mpsc::channel();
            std::thread::spawn(move || {
                std::thread::sleep(LONG);
                sender.send(()).expect("a receiver");
            });
            spawn(move || receiver.recv()).join().expect("no panic").expect("a message");
        }),
        Some("time-out") => block_on(|| {
            let (_sender, receiver) = mpsc::channel::<()>();
            assert!(spawn(move || receiver.recv_timeout(LONG)).join().expect("no panic").is_err());
        }),
        Some("computes") => block_on(|| {
            let (sender, receiver) = mpsc::channel();
            let waits = spawn(move || receiver.recv());
            let start = std::time::Instant::now();
            while start.elapsed() < LONG {
                std::hint::spin_loop();
            }
            sender.send(()).expect("a receiver");
            waits.join().expect("no panic").expect("a message");
        }),
        Some("to-and-fro") => block_on(|| to_and_fro(LONG)),
        other => panic!("no such case: {other:?}"),
    }
    println!("ok");
}

/// Makes a runtime that is never dropped: the drop would wait for green threads that std keeps.
fn never_dropped(builder: Builder) -> ManuallyDrop<Runtime> {
    ManuallyDrop::new(builder.build().expect("a runtime"))
}

/// Starts a green thread that waits in std's `recv` for ever.
fn receives() -> runtime::thread::JoinHandle<()> {
    spawn(|| {
        let (_sender, receiver) = mpsc::channel::<()>();
        receiver.recv().expect("a message");
    })
}

/// Each green thread waits for a message of the one before.
fn ring(count: usize) {
    let (mut senders, receivers): (Vec<Sender<()>>, Vec<Receiver<()>>) =
        (0..count).map(|_| mpsc::channel()).unzip();
    senders.rotate_left(1);
    let threads = senders.into_iter().zip(receivers).map(|(sender, receiver)| {
        spawn(move || {
            receiver.recv().expect("a message");
            sender.send(()).expect("a receiver");
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("a message"));
}

/// Two green threads send each other a message by turns, with pauses in which all wait.
fn to_and_fro(time: Duration) {
    let ((ask, asked), (answer, answered)) = (mpsc::channel::<bool>(), mpsc::channel());
    let server = spawn(move || {
        while asked.recv().expect("a question") {
            answer.send(()).expect("a receiver");
        }
    });
    let client = spawn(move || {
        let start = std::time::Instant::now();
        for round in 0_u32.. {
            let goes_on = start.elapsed() < time;
            ask.send(goes_on).expect("a receiver");
            if !goes_on {
                return;
            }
            answered.recv().expect("an answer");
            if round.is_multiple_of(50) {
                runtime::sleep(Duration::from_millis(15));
            }
        }
    });
    [server, client].into_iter().for_each(|thread| thread.join().expect("no panic"));
}
