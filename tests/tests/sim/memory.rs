//! Simulations take a bounded amount of memory: a long exploration keeps nothing of its runs, and a long run
//! little of its steps.

use std::io::{Read, Write};

use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{self, Builder};
use runtime::sync::Mutex;
use runtime::{fs, scope, spawn, yield_now};

const MIB: usize = 1 << 20;

/// Returns how much memory the process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A program with green threads, a node, a connection and a file.
fn short_run() {
    let node = sim::node("db", || {
        let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        fs::write("/bytes", &bytes).unwrap();
    });
    let count = Mutex::new(0);
    scope(|scope| (0..10).for_each(|_| drop(scope.spawn(|| *count.lock() += 1))));
    while TcpStream::connect("db:80").and_then(|mut stream| stream.write_all(&[7; 10_000])).is_err() {
        yield_now();
    }
    node.join().unwrap();
}

#[test]
fn memory_is_bounded() {
    // What the process needs once: stacks, and what the allocator keeps.
    sim::explore(300, short_run);
    let before = resident();
    sim::explore(2000, short_run);
    let kept = resident().saturating_sub(before);
    println!("2,000 runs: {} KiB more than after 300", kept / 1024);
    assert!(kept < 8 * MIB, "2,000 runs keep {kept} bytes");

    // The schedule of a run has 16 bytes for a choice, and a vector may have twice as much room as it needs.
    const STEPS: usize = 2_000_000;
    let before = resident();
    Builder::new().max_steps(u64::MAX).run(1, || {
        let work = || {
            (0..STEPS / 4).for_each(|n| {
                yield_now();
                if n % 1000 == 0 {
                    // Green threads that have ended leave nothing.
                    spawn(|| ()).join().unwrap();
                }
            });
        };
        scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        let kept = resident().saturating_sub(before);
        println!("a run of {STEPS} steps: {} KiB", kept / 1024);
        assert!(kept < STEPS * 48, "a run of {STEPS} steps keeps {kept} bytes");
    });
}
