//! Memory: what a sleeping green thread costs, with a stack and without.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::{Builder, JoinHandle, spawn};
use tests::{child, on, system, wait_until, with_built};

/// In debug builds fewer threads are measured, and each may cost more.
const DEBUG: bool = cfg!(debug_assertions);
const NUMBER: usize = if DEBUG { 10_000 } else { 100_000 };
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the memory that each of `NUMBER` sleeping threads costs.
fn bytes_each(start: impl Fn(Arc<AtomicUsize>) -> JoinHandle<()> + Send + Sync) -> usize {
    bytes_each_in(Builder::new(), start)
}

fn bytes_each_in(
    builder: Builder,
    start: impl Fn(Arc<AtomicUsize>) -> JoinHandle<()> + Send + Sync,
) -> usize {
    let mut bytes = 0;
    let body = || {
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
    };
    with_built(builder.procs(2), |runtime| runtime.block_on(body));
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

/// Its thread-locals are in the same page as its first frames.
#[test]
#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
fn a_sleeping_green_thread_with_thread_locals_costs_about_a_page() {
    child::passes("a_sleeping_green_thread_with_thread_locals_costs_about_a_page", "", || {
        let builder = Builder::new().thread_locals(runtime::ThreadLocals::OfGreenThread);
        let bytes = bytes_each_in(builder, |begun| {
            spawn(move || {
                begun.fetch_add(1, SeqCst);
                runtime::sleep(HOUR);
            })
        });
        assert!(bytes < if DEBUG { 14_000 } else { 5_300 }, "{bytes} bytes");
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
