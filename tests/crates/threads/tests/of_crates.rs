//! Crates as they are.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::process::Output;

use threads::takes_few_os_threads;

#[track_caller]
fn prints(program: &str, expected: &str) -> [Output; 2] {
    threads::prints(env!("CARGO_BIN_EXE_of-crates"), program, expected)
}

#[test]
fn rayon() {
    prints("rayon", "sum: 299995\nsorted: true\nthreads of a pool: 50\nbroadcast: 1225\njoined: () 5\n");
}

#[test]
fn crossbeam_channel() {
    prints("crossbeam-channel", "messages: 398000\nlate: true\n");
}

#[test]
fn parking_lot() {
    let expected = "late: true\nturns: 301, sum: 448500\n";
    takes_few_os_threads(prints("parking_lot", expected), 300);
}
