//! A closure that returns a future where the future was meant: debug builds say so.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use runtime::thread::JoinSet;
use runtime::{block_on, spawn, yield_now};
use tests::{child, wait_until};

static RAN: AtomicUsize = AtomicUsize::new(0);

async fn work() {
    RAN.fetch_add(1, SeqCst);
}

/// Runs `body` in a child. In debug builds it prints so many warnings, each with its place and its type.
#[track_caller]
fn warns(test: &str, count: usize, body: fn()) {
    child::run(
        test,
        "",
        || block_on(body),
        |output| {
            assert!(output.status.success(), "{output:?}");
            let text = child::stderr(output).replace('\\', "/");
            let expected = if cfg!(debug_assertions) { count } else { 0 };
            for word in
                ["misuse/unpolled.rs:", "was dropped and never ran", "unpolled::work::{{closure}}. To run"]
            {
                assert_eq!(text.matches(word).count(), expected, "{word}: {text}");
            }
        },
    );
}

/// The handle is dropped before the end, and after it. Each place is named once.
#[test]
fn a_result_that_is_an_unpolled_future_is_named() {
    warns("a_result_that_is_an_unpolled_future_is_named", 2, || {
        let handles: Vec<_> = (0..3).map(|_| spawn(work)).collect();
        wait_until("they have ended", || handles.iter().all(|handle| handle.is_finished()));
        drop(handles);
        let mut set = JoinSet::new();
        set.spawn(|| {
            yield_now();
            work()
        });
        set.detach_all();
        wait_until("it has ended", || runtime::num_green_threads() == 1);
        assert_eq!(RAN.load(SeqCst), 0);
    });
}

#[test]
fn a_future_that_is_used_is_not_named() {
    warns("a_future_that_is_used_is_not_named", 0, || {
        let future = spawn(work).join().unwrap();
        drop(spawn(future));
        drop(spawn(work()));
        drop(spawn(async { work().await }));
        drop(spawn(|| block_on(work())));
        drop(spawn(|| 1));
        wait_until("all have run", || RAN.load(SeqCst) == 4);
        wait_until("all have ended", || runtime::num_green_threads() == 1);
    });
}
