//! The wait group: `wait` returns when all clones are dropped, on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::sync::WaitGroup;
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{sleep, spawn};
use tests::crowd::{crowd, in_each};
use tests::on_each;
use tests::turns::gives_turns;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn wait_returns_after_all_clones_are_dropped() {
    in_each(|| {
        WaitGroup::new().wait();
        WaitGroup::default().wait();
        let (group, done) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        assert_eq!(format!("{:?}", group.clone()), "WaitGroup { count: 2 }");
        for i in 0..20 {
            let (group, done) = (group.clone(), done.clone());
            spawn(move || {
                sleep(Duration::from_micros(20 * i));
                done.fetch_add(1, SeqCst);
                drop(group);
            });
        }
        let (theirs, before) = (group.clone(), done.clone());
        let plain = std::thread::spawn(move || {
            theirs.wait();
            before.load(SeqCst)
        });
        group.wait();
        assert_eq!(done.load(SeqCst), 20);
        assert_eq!(runtime::blocking(|| plain.join()).unwrap(), 20);
    });
}

/// A wait group as a barrier.
#[test]
fn all_threads_wait_for_each_other() {
    in_each(|| {
        let (group, arrived) = (WaitGroup::new(), AtomicUsize::new(0));
        let clones: Vec<_> = (0..8).map(|_| runtime::sync::Mutex::new(Some(group.clone()))).collect();
        drop(group);
        crowd(6, 2, |i| {
            let group = clones[i].lock().take().unwrap();
            arrived.fetch_add(1, SeqCst);
            group.wait();
            assert_eq!(arrived.load(SeqCst), 8);
        });
    });
}

#[test]
fn a_wait_may_be_cancelled_or_time_out() {
    on_each(|| {
        let group = WaitGroup::new();
        let other = group.clone();
        let waits = spawn(move || other.wait());
        tests::until_it_waits(&waits);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        let other = group.clone();
        assert_eq!(timeout(2 * MILLI, || other.wait()), Err(Elapsed));
        group.wait();
    });
}

#[test]
fn groups_without_members_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            loop {
                WaitGroup::new().wait_async().await;
            }
        })
    });
}
