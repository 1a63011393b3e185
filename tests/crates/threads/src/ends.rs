//! Ends of the process.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

pub fn exits_in_a_thread() {
    thread::spawn(|| {
        println!("exits");
        process::exit(7);
    });
    thread::sleep(HOUR);
}

/// Threads that sleep, compute and wait do not keep the process.
pub fn returns_while_threads_run() {
    static COMPUTES: AtomicBool = AtomicBool::new(false);
    for _ in 0..20 {
        thread::spawn(|| thread::sleep(HOUR));
        thread::spawn(thread::park);
    }
    thread::spawn(|| {
        COMPUTES.store(true, SeqCst);
        while COMPUTES.load(SeqCst) {
            std::hint::spin_loop();
        }
    });
    while !COMPUTES.load(SeqCst) {
        thread::yield_now();
    }
    println!("returns");
}

pub fn main_panics() {
    thread::spawn(|| thread::sleep(HOUR));
    panic!("of main");
}
