//! Memory: what a sleeping green thread costs, with a stack and without.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::{JoinHandle, spawn};
use tests::{child, on, system, wait_until};

/// In debug builds fewer threads are measured, and each may cost more.
const DEBUG: bool = cfg!(debug_assertions);
const NUMBER: usize = if DEBUG { 10_000 } else { 100_000 };
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the memory that each of `NUMBER` sleeping threads costs.
fn bytes_each(start: impl Fn(Arc<AtomicUsize>) -> JoinHandle<()> + Send + Sync) -> usize {
    let mut bytes = 0;
    on(2, || {
        // The first threads create pools and tables.
        (0..100).for_each(|_| spawn(|| ()).join().unwrap());
        let begun = Arc::new(AtomicUsize::new(0));
        let before = system::resident_bytes();
        for _ in 0..NUMBER {
            drop(start(begun.clone()));
        }
        wait_until("all sleep", || begun.load(SeqCst) == NUMBER);
        runtime::sleep(Duration::from_millis(100));
        bytes = (system::resident_bytes() - before) / NUMBER;
        eprintln!("{bytes} bytes each");
    });
    bytes
}

#[test]
fn a_sleeping_green_thread_costs_about_a_page() {
    child::passes("a_sleeping_green_thread_costs_about_a_page", "", || {
        let bytes = bytes_each(|begun| {
            spawn(move || {
                begun.fetch_add(1, SeqCst);
                runtime::sleep(HOUR);
            })
        });
        assert!(bytes < if DEBUG { 10_000 } else { 5_000 }, "{bytes} bytes");
    });
}

#[test]
fn a_sleeping_future_costs_a_few_hundred_bytes() {
    child::passes("a_sleeping_future_costs_a_few_hundred_bytes", "", || {
        let bytes = bytes_each(|begun| {
            spawn(async move {
                begun.fetch_add(1, SeqCst);
                runtime::time::sleep_async(HOUR).await;
            })
        });
        assert!(bytes < if DEBUG { 800 } else { 400 }, "{bytes} bytes");
    });
}

#[test]
fn memory_of_ended_threads_is_reused() {
    child::passes("memory_of_ended_threads_is_reused", "", || {
        on(2, || {
            let round = || {
                let threads: Vec<_> =
                    (0..NUMBER / 10).map(|_| spawn(|| runtime::sleep(Duration::from_millis(1)))).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            };
            (0..5).for_each(|_| round());
            let before = system::resident_bytes();
            (0..20).for_each(|_| round());
            let after = system::resident_bytes();
            eprintln!("memory_of_ended_threads_is_reused: {before} -> {after}");
            assert!(after < before + before / 2 + (16 << 20), "{before} -> {after}");
        });
    });
}
