//! `OnceCell`: the value is made once, and by the next caller if the one before did not make it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::{Notify, OnceCell, SetError};
use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each};
use tests::futures::{drive_on_plain_thread, poll_once};
use tests::turns::gives_turns;
use tests::{Drops, ON_PURPOSE, Random, everywhere, on_each, panics_with, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn the_value_is_made_once() {
    static CELL: OnceCell<u32> = OnceCell::const_new();
    static FULL: OnceCell<&str> = OnceCell::const_new_with("full");
    assert_eq!((FULL.get(), FULL.set("x")), (Some(&"full"), Err(SetError::AlreadyInitializedError("x"))));
    everywhere(|| {
        assert_eq!(CELL.get_or_init(|| 7), &7);
        assert_eq!(drive_on_plain_thread(CELL.get_or_init_async(|| async { unreachable!() })), &7);
        assert_eq!(CELL.get_or_try_init(|| Err("unused")), Ok(&7));
        let mut cell = OnceCell::new();
        assert_eq!((cell.get(), cell.initialized()), (None, false));
        assert_eq!(cell.set(1), Ok(()));
        assert_eq!(cell.set(2), Err(SetError::AlreadyInitializedError(2)));
        *cell.get_mut().unwrap() += 1;
        assert_eq!(cell.clone(), OnceCell::from(2));
        assert_eq!((cell.take(), cell.take()), (Some(2), None));
        assert_eq!(cell.get_or_init(|| 3), &3);
        assert_eq!(cell.into_inner(), Some(3));
        assert!(!OnceCell::<u32>::new_with(None).initialized());
    });
}

#[test]
fn a_failure_leaves_the_turn_to_the_next() {
    everywhere(|| {
        let cell = OnceCell::<u32>::new();
        assert_eq!(cell.get_or_try_init(|| Err("no")), Err("no"));
        panics_with(ON_PURPOSE, || *cell.get_or_init(|| panic!("{ON_PURPOSE}")));
        assert_eq!(drive_on_plain_thread(cell.get_or_try_init_async(|| async { Err("no") })), Err("no"));
        assert_eq!(cell.get(), None);
        assert_eq!(drive_on_plain_thread(cell.get_or_try_init_async(|| async { Ok::<_, &str>(5) })), Ok(&5));
    });
}

#[test]
fn others_wait_for_the_value() {
    on_each(|| {
        let (cell, begun, go) = (Arc::new(OnceCell::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (its, begins, goes) = (cell.clone(), begun.clone(), go.clone());
        let makes = spawn(async move {
            let make = || async move {
                begins.notify_one();
                goes.notified_async().await;
                1
            };
            *its.get_or_init_async(make).await
        });
        begun.notified();
        assert_eq!(cell.set(9), Err(SetError::InitializingError(9)));
        let (a, b) = (cell.clone(), cell.clone());
        let waits = spawn(move || *a.get_or_init(|| 2));
        let polls = spawn(async move { *b.get_or_init_async(|| async { 3 }).await });
        until_it_waits(&waits);
        assert!(timeout(MILLI, || cell.get_or_init(|| 4)).is_err());
        go.notify_one();
        assert_eq!((makes.join().unwrap(), waits.join().unwrap(), polls.join().unwrap()), (1, 1, 1));
    });
}

#[test]
fn the_next_waiter_makes_the_value_after_a_cancellation() {
    on_each(|| {
        let cell = Arc::new(OnceCell::new());
        let (a, b) = (cell.clone(), cell.clone());
        let makes = spawn(move || {
            *a.get_or_init(|| {
                sleep(Duration::from_secs(3600));
                1
            })
        });
        until_it_waits(&makes);
        let waits = spawn(move || *b.get_or_init(|| 2));
        until_it_waits(&waits);
        makes.cancel();
        assert!(makes.join().unwrap_err().is::<Cancelled>());
        assert_eq!(waits.join().unwrap(), 2);

        // A future that is dropped while it makes the value.
        let cell = OnceCell::new();
        runtime::block_on(async {
            let mut dropped = Box::pin(cell.get_or_init_async(std::future::pending));
            assert_eq!(poll_once(&mut dropped).await, None);
            assert!(cell.set(3).unwrap_err().is_initializing_err());
            drop(dropped);
            assert_eq!(cell.get_or_init_async(|| async { 4 }).await, &4);
        });
    });
}

/// Many threads of all kinds want the value. Some makers fail or are cancelled. One value is made, and all
/// see it.
#[test]
fn one_value_under_contention() {
    in_each(|| {
        for round in 0..20u64 {
            let (cell, made, drops) = (Arc::new(OnceCell::new()), AtomicUsize::new(0), Drops::default());
            let make = || {
                made.fetch_add(1, SeqCst);
                drops.token()
            };
            crowd(8, 3, |i| {
                let mut random = Random::new(round * 11 + i as u64);
                let patience = Duration::from_micros(random.below(30));
                // Attempts that may fail.
                let _ = cell.get_or_try_init(|| {
                    yield_now();
                    if random.below(2) == 0 { Err(()) } else { Ok(make()) }
                });
                let _ = timeout(patience, || {
                    cell.get_or_init(|| {
                        sleep(Duration::from_micros(15));
                        make()
                    });
                });
                runtime::block_on(async {
                    let makes = cell.get_or_init_async(|| async {
                        sleep_async(Duration::from_micros(15)).await;
                        make()
                    });
                    let _ = timeout_async(patience, makes).await;
                    // At last, without a limit.
                    cell.get_or_init_async(|| async { make() }).await;
                });
                assert!(cell.initialized());
            });
            assert_eq!((made.into_inner(), drops.alive()), (1, 1));
            drop(cell);
            assert_eq!(drops.alive(), 0);
        }
    });
}

#[test]
fn values_that_are_there_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let cell = OnceCell::new();
            loop {
                assert_eq!(*cell.get_or_init_async(|| async { 1 }).await, 1);
                assert_eq!(cell.get_or_try_init_async(|| async { Err(()) }).await, Ok(&1));
            }
        })
    });
}
