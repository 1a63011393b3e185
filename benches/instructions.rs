//! Repeats one operation on one P. `ci/instructions.sh` counts the instructions.

use std::io::{Read, Write};
use std::time::Duration;

use clap::Parser;
use runtime::channel::bounded;
use runtime::net::unix::UnixStream;
use runtime::sync::Mutex;
use runtime::thread::{current, park};
use runtime::time::after_func;
use runtime::{Builder, select, sleep, spawn, yield_now};

/// Two yields an operation: each of two green threads yields once.
fn yields(n: u64) {
    let other = spawn(move || (0..n).for_each(|_| yield_now()));
    (0..n).for_each(|_| yield_now());
    other.join().expect("the green thread does not panic");
}

fn spawns_and_joins(n: u64) {
    (0..n).for_each(|_| spawn(|| ()).join().expect("the green thread does not panic"));
}

/// Two parks and two wake-ups an operation: two green threads wake each other in turn.
fn parks_and_unparks(n: u64) {
    let first = current();
    let other = spawn(move || {
        for _ in 0..n {
            park();
            first.unpark();
        }
    });
    for _ in 0..n {
        other.thread().unpark();
        park();
    }
    other.join().expect("the green thread does not panic");
}

/// The sleeps are so short that the time has passed when the scheduler looks. So the count covers the sleep's
/// own work, and no wait.
fn sleeps(n: u64) {
    (0..n).for_each(|_| sleep(Duration::from_nanos(1)));
}

/// A value goes there and back over two channels without a buffer: two waits an operation.
fn rendezvous(n: u64) {
    let ((there, r), (s, back)) = (bounded(0), bounded(0));
    let other = spawn(move || r.iter().for_each(|i: u64| s.send(i + 1).expect("the channel has a receiver")));
    for i in 0..n {
        there.send(i).expect("the other green thread receives");
        assert_eq!(back.recv(), Ok(i + 1));
    }
    drop(there);
    other.join().expect("the green thread does not panic");
}

/// A message through a channel with a buffer. About one send in a thousand waits.
fn channels(n: u64) {
    let (s, r) = bounded(1024);
    let other = spawn(move || (0..n).for_each(|i| s.send(i).expect("the channel has a receiver")));
    assert_eq!(r.iter().sum::<u64>(), n * n.saturating_sub(1) / 2);
    other.join().expect("the green thread does not panic");
}

/// A select over two channels, both of which have a message.
fn selects(n: u64) {
    let ((s1, r1), (s2, r2)) = (bounded(2), bounded(2));
    (0..2).for_each(|i| [&s1, &s2].into_iter().for_each(|s| s.send(i).expect("there is room")));
    for i in 0..n {
        select! {
            recv(r1) -> message => s1.send(message.unwrap_or(i)).expect("there is room again"),
            recv(r2) -> message => s2.send(message.unwrap_or(i)).expect("there is room again"),
        }
    }
}

/// Locks and unlocks a mutex that is free.
fn locks(n: u64) {
    let mutex = Mutex::new(0);
    (0..n).for_each(|_| *mutex.lock() += 1);
    assert_eq!(mutex.into_inner(), n);
}

/// Arms a timer with a function, and stops it.
fn cancels(n: u64) {
    (0..n).for_each(|_| assert!(after_func(Duration::from_secs(3600), || ()).stop()));
}

/// Resets a timer, in turn to an earlier and to a later time.
fn resets(n: u64) {
    let timer = after_func(Duration::from_secs(3600), || ());
    (0..n).for_each(|i| assert!(timer.reset(Duration::from_secs(7200 - 3600 * (i % 2)))));
}

/// Writes a byte, and reads it at once.
fn reads(n: u64) {
    let (mut near, mut far) = UnixStream::pair().expect("two sockets");
    for _ in 0..n {
        near.write_all(b"a").expect("the byte fits in");
        far.read_exact(&mut [0]).expect("the byte is there");
    }
}

/// A byte there and back between two green threads: two waits for a socket an operation.
fn socket_waits(n: u64) {
    let (mut near, mut far) = UnixStream::pair().expect("two sockets");
    let other = spawn(move || {
        let mut byte = [0];
        while far.read(&mut byte).expect("the socket works") > 0 {
            far.write_all(&byte).expect("the byte fits in");
        }
    });
    for _ in 0..n {
        near.write_all(b"a").expect("the byte fits in");
        near.read_exact(&mut [0]).expect("the other green thread answers");
    }
    drop(near);
    other.join().expect("the green thread does not panic");
}

/// A select over two sockets, one of which has a byte.
fn socket_selects(n: u64) {
    let ((near, mut from), (other, mut from_other)) =
        (UnixStream::pair().expect("two sockets"), UnixStream::pair().expect("two sockets"));
    for i in 0..n {
        let writer = if i % 2 == 0 { &mut from } else { &mut from_other };
        writer.write_all(b"a").expect("the byte fits in");
        let mut reader = select! {
            readable(near) -> ready => { ready.expect("the socket works"); &near }
            readable(other) -> ready => { ready.expect("the socket works"); &other }
        };
        reader.read_exact(&mut [0]).expect("the byte is there");
    }
}

/// Performs an operation this many times.
type Operation = fn(u64);

/// Repeats one operation on one P
#[derive(Parser)]
#[command(name = "instructions")]
struct Options {
    #[arg(help = OPERATIONS.map(|(name, _)| name).join(", "), value_parser = operation)]
    operation: Operation,
    /// Number of operations
    count: u64,
    /// Switches the flight recorder on
    #[arg(long)]
    trace: bool,
    /// Events in the ring of the P [default: the runtime's]
    #[arg(long, requires = "trace")]
    events: Option<usize>,
    /// Lets locks record their holders
    #[arg(long)]
    track_locks: bool,
}

const OPERATIONS: [(&str, Operation); 13] = [
    ("yield", yields),
    ("spawn", spawns_and_joins),
    ("park", parks_and_unparks),
    ("sleep", sleeps),
    ("rendezvous", rendezvous),
    ("channel", channels),
    ("select", selects),
    ("lock", locks),
    ("timer-cancel", cancels),
    ("timer-reset", resets),
    ("socket-read", reads),
    ("socket-wait", socket_waits),
    ("socket-select", socket_selects),
];

fn operation(text: &str) -> Result<Operation, String> {
    let found = OPERATIONS.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, operation)| operation).ok_or("there is no such operation".into())
}

fn main() {
    let Options { operation, count, trace, events, track_locks } = Options::parse();
    // sysmon is off, because its work depends on the time.
    let builder = Builder::new().procs(1).sysmon(false).track_locks(track_locks);
    let runtime = builder.build().expect("a runtime starts");
    if trace {
        let started = events.map_or_else(|| Ok(runtime::trace::start()), runtime::trace::start_with);
        assert!(started.expect("a recording starts"), "no recording is on");
    }
    runtime.block_on(|| operation(count));
}
