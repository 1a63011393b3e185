//! The barrier: all go on together, one is the leader; who is cancelled is not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::Barrier;
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{sleep, spawn};
use tests::crowd::{crowd, in_each, with_each};
use tests::{Random, on_each};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn all_go_on_together() {
    in_each(|| {
        const ROUNDS: usize = 30;
        let (barrier, arrived, leaders) = (Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0));
        crowd(6, 2, |_| {
            for round in 1..=ROUNDS {
                arrived.fetch_add(1, SeqCst);
                leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                assert!(arrived.load(SeqCst) >= 8 * round, "one went on before all were there");
            }
        });
        assert_eq!(leaders.into_inner(), ROUNDS);
        assert_eq!(format!("{barrier:?}"), "Barrier { .. }");
        assert!(Barrier::new(0).wait().is_leader() && Barrier::new(1).wait().is_leader());
    });
}

#[test]
fn who_is_cancelled_is_not_counted() {
    on_each(|| {
        let barrier = Arc::new(Barrier::new(3));
        let waiter = || {
            let barrier = barrier.clone();
            let thread = spawn(move || barrier.wait().is_leader());
            sleep(MILLI);
            thread
        };
        let (first, second) = (waiter(), waiter());
        first.cancel();
        assert!(first.join().unwrap_err().is::<Cancelled>());
        assert_eq!(timeout(2 * MILLI, || barrier.wait().is_leader()), Err(Elapsed));
        let third = waiter();
        assert!(!second.is_finished() && !third.is_finished(), "there are two");
        // The last to arrive.
        let leaders = [barrier.wait().is_leader(), second.join().unwrap(), third.join().unwrap()];
        assert_eq!(leaders.into_iter().filter(|&leads| leads).count(), 1);
    });
}

/// The cancellation comes together with the last one.
#[test]
fn a_cancellation_meets_the_last_one() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let mut random = Random::new(7);
            for _ in 0..100 {
                let barrier = Arc::new(Barrier::new(2));
                let its = barrier.clone();
                let other = spawn(move || its.wait().is_leader());
                sleep(Duration::from_micros(random.below(50)));
                let its = barrier.clone();
                let last = spawn(move || its.wait().is_leader());
                other.cancel();
                if other.join().is_ok() {
                    last.join().unwrap();
                } else {
                    // It waits for another, or was let through with the one that was cancelled.
                    while !last.is_finished() {
                        let _ = timeout(MILLI, || barrier.wait());
                    }
                    last.join().unwrap();
                }
            }
        });
    });
}
