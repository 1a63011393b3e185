//! The barrier: all waiters are released together, a single waiter is the leader, and a cancelled waiter is
//! not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::Barrier;
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{sleep, spawn};
use tests::crowd::{crowd, in_each, with_each};
use tests::turns::gives_turns;
use tests::{Random, on_each};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn all_waiters_are_released_together() {
    in_each(|| {
        const ROUNDS: usize = 30;
        let (barrier, arrived, leaders) = (Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0));
        crowd(6, 2, |_| {
            for round in 1..=ROUNDS {
                arrived.fetch_add(1, SeqCst);
                leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                assert!(arrived.load(SeqCst) >= 8 * round, "a waiter was released before all had arrived");
            }
        });
        assert_eq!(leaders.into_inner(), ROUNDS);
        assert_eq!(format!("{barrier:?}"), "Barrier { .. }");
        assert!(Barrier::new(0).wait().is_leader() && Barrier::new(1).wait().is_leader());
    });
}

#[test]
fn a_cancelled_waiter_is_not_counted() {
    on_each(|| {
        let barrier = Arc::new(Barrier::new(3));
        let waiter = || {
            let barrier = barrier.clone();
            let thread = spawn(move || barrier.wait().is_leader());
            tests::until_it_waits(&thread);
            thread
        };
        let (first, second) = (waiter(), waiter());
        first.cancel();
        assert!(first.join().unwrap_err().is::<Cancelled>());
        assert_eq!(timeout(2 * MILLI, || barrier.wait().is_leader()), Err(Elapsed));
        let third = waiter();
        assert!(!second.is_finished() && !third.is_finished(), "two of three have arrived");
        // The caller is the last to arrive.
        let leaders = [barrier.wait().is_leader(), second.join().unwrap(), third.join().unwrap()];
        assert_eq!(leaders.into_iter().filter(|&leads| leads).count(), 1);
    });
}

#[test]
fn a_cancelled_waiter_that_has_not_left_yet_is_not_counted() {
    on_each(|| {
        for _ in 0..20 {
            let barrier = Arc::new(Barrier::new(2));
            let its = barrier.clone();
            let waiter = spawn(move || its.wait().is_leader());
            tests::until_it_waits(&waiter);
            waiter.cancel();
            // The waiter may not have run since.
            assert_eq!(timeout(MILLI, || barrier.wait().is_leader()), Err(Elapsed));
            assert!(waiter.join().unwrap_err().is::<Cancelled>());
        }
    });
}

/// A waiter is cancelled at about the moment when the last waiter arrives.
#[test]
fn a_cancellation_races_with_the_last_arrival() {
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
                    // The last waiter waits for another, or was released together with the cancelled waiter.
                    while !last.is_finished() {
                        let _ = timeout(MILLI, || barrier.wait());
                    }
                    last.join().unwrap();
                }
            }
        });
    });
}

#[test]
fn meetings_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let barrier = Barrier::new(1);
            loop {
                assert!(barrier.wait_async().await.is_leader());
            }
        })
    });
}
