//! The operations: what each driver performs in its turn.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use runtime::channel::bounded;
use runtime::net::unix::UnixStream;
use runtime::sync::Mutex;
use runtime::thread::{current, park};
use runtime::time::after_func;
use runtime::{Handle, blocking, fs, sleep, spawn, yield_now};

/// What performs an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A green thread on each P, one after the other.
    Each,
    /// A green thread on every second P, one after the other. The other Ps are idle.
    Half,
    /// Four green threads, one after the other. All other Ps are idle.
    Four,
    /// A green thread on each P, all at the same time, with sysmon.
    AtOnce,
    /// One plain OS thread. All Ps are idle.
    Outside,
}

/// Performs the operation once at each call.
pub(crate) type Step = Box<dyn FnMut()>;

/// Prepares the operation for one driver of a runtime with so many Ps.
pub(crate) type Prepare = fn(&Handle) -> Step;

/// An operation.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) by: By,
    pub(crate) prepare: Prepare,
}

const fn new(name: &'static str, by: By, prepare: Prepare) -> Operation {
    Operation { name, by, prepare }
}

/// The operations in the order of the table.
pub(crate) const OPERATIONS: &[Operation] = &[
    new("yield", By::Each, |_| Box::new(yield_now)),
    new("spawn", By::Each, |_| Box::new(|| spawn(|| ()).join().expect("the green thread does not panic"))),
    new("park", By::Each, parks),
    new("rendezvous", By::Each, rendezvous),
    new("channel", By::Each, channels),
    new("mutex", By::Each, locks),
    new("timer-cancel", By::Each, |_| {
        Box::new(|| assert!(after_func(HOUR, || ()).stop(), "the timer is armed"))
    }),
    new("after-func", By::Each, functions),
    new("sleep-short", By::Each, |_| Box::new(|| sleep(Duration::from_nanos(1)))),
    new("socket-ready", By::Each, ready_sockets),
    new("socket-wait", By::Each, waiting_sockets),
    new("fs", By::Each, |_| Box::new(|| _ = fs::metadata("/").expect("the root has metadata"))),
    new("blocking", By::Each, |_| Box::new(|| blocking(|| ()))),
    new("idle", By::Each, |_| Box::new(|| sleep(Duration::from_micros(100)))),
    new("idle-most", By::Four, |_| Box::new(|| sleep(Duration::from_micros(100)))),
    new("steal", By::Half, thefts),
    new("outside-spawn", By::Outside, outside_spawns),
    new("outside-wake", By::Outside, outside_wakes),
    new("rescue", By::AtOnce, rescues),
];

const HOUR: Duration = Duration::from_secs(3600);

/// Two parks and two wake-ups between two green threads of one P.
fn parks(_: &Handle) -> Step {
    let first = current();
    let other = spawn(move || {
        loop {
            park();
            first.unpark();
        }
    });
    Box::new(move || {
        other.thread().unpark();
        park();
    })
}

/// A value there and back over two channels without a buffer.
fn rendezvous(_: &Handle) -> Step {
    let ((there, r), (s, back)) = (bounded(0), bounded(0));
    spawn(move || r.iter().for_each(|i: u64| s.send(i + 1).expect("the channel has a receiver")));
    Box::new(move || {
        there.send(1).expect("the other green thread receives");
        assert_eq!(back.recv(), Ok(2));
    })
}

/// A message into a channel with a buffer, and out of it.
fn channels(_: &Handle) -> Step {
    let (s, r) = bounded(4);
    Box::new(move || {
        s.send(1).expect("there is room");
        assert_eq!(r.recv(), Ok(1));
    })
}

/// A timer that is due calls a function, which wakes the driver.
fn functions(_: &Handle) -> Step {
    let driver = current();
    Box::new(move || {
        let driver = driver.clone();
        let _timer = after_func(Duration::from_nanos(1), move || driver.unpark());
        park();
    })
}

/// Locks and unlocks a free mutex.
fn locks(_: &Handle) -> Step {
    let mutex = Mutex::new(0);
    Box::new(move || *mutex.lock() += 1)
}

/// A byte into a socket, and out of it at once.
fn ready_sockets(_: &Handle) -> Step {
    let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
    Box::new(move || {
        one.write_all(b"a").expect("there is room");
        other.read_exact(&mut [0]).expect("a byte is there");
    })
}

/// A byte to a green thread that waits for it, and back: two waits.
fn waiting_sockets(_: &Handle) -> Step {
    let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
    spawn(move || {
        let mut byte = [0];
        while other.read_exact(&mut byte).is_ok() {
            other.write_all(&byte).expect("there is room");
        }
    });
    Box::new(move || {
        one.write_all(b"a").expect("there is room");
        one.read_exact(&mut [0]).expect("a byte comes back");
    })
}

/// A P that does not look at its run queue any more has two green threads there. Another P takes them.
fn thefts(_: &Handle) -> Step {
    let done = Arc::new(AtomicUsize::new(0));
    Box::new(move || {
        let begun = done.load(Ordering::Acquire);
        for _ in 0..2 {
            let done = done.clone();
            drop(spawn(move || done.fetch_add(1, Ordering::Release)));
        }
        // The last green thread may stay in the slot that a thief leaves alone: one of the two is enough.
        until(|| done.load(Ordering::Acquire) > begun);
    })
}

/// Spawns from a plain OS thread, and waits until the green thread has run.
fn outside_spawns(handle: &Handle) -> Step {
    let handle = handle.clone();
    Box::new(move || {
        handle.spawn(|| ()).join().expect("the green thread does not panic");
        settle();
    })
}

/// Wakes one of as many green threads as there are Ps from a plain OS thread.
fn outside_wakes(handle: &Handle) -> Step {
    let woken = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..handle.procs())
        .map(|_| {
            let woken = woken.clone();
            handle.spawn(move || {
                loop {
                    park();
                    woken.fetch_add(1, Ordering::Release);
                }
            })
        })
        .collect();
    let mut next = 0;
    Box::new(move || {
        let begun = woken.load(Ordering::Acquire);
        threads[next].thread().unpark();
        next = (next + 1) % threads.len();
        until(|| woken.load(Ordering::Acquire) > begun);
        settle();
    })
}

/// Blocks the OS thread without announcing it, while another green thread waits for the P: sysmon takes the
/// P.
fn rescues(_: &Handle) -> Step {
    Box::new(|| {
        let other = spawn(|| ());
        std::thread::sleep(Duration::from_millis(25));
        other.join().expect("the green thread does not panic");
    })
}

/// Blocks the OS thread until the condition holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Gives the M that has run the operation the time to become idle.
fn settle() {
    std::thread::sleep(Duration::from_micros(200));
}
