//! `Notify`: a single notification is kept, none is lost, and none counts twice.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use runtime::sync::Notify;
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout, timeout_async};
use runtime::{JoinHandle, sleep, spawn};
use tests::crowd::{crowd, in_each, with_each};
use tests::futures::{drive_on_plain_thread, poll_once};
use tests::turns::gives_turns;
use tests::{Random, everywhere, on_each, wait_until};

const MILLI: Duration = Duration::from_millis(1);

fn is_kept(notify: &Notify) -> bool {
    timeout(MILLI, || notify.notified()).is_ok()
}

/// Spawns a thread that waits for a notification. Returns when it most likely waits.
fn waiter(notify: &Arc<Notify>) -> JoinHandle<()> {
    let notify = notify.clone();
    let thread = spawn(move || notify.notified());
    tests::until_it_waits(&thread);
    thread
}

#[test]
fn a_single_notification_is_kept() {
    everywhere(|| {
        let notify = Notify::new();
        assert!(!is_kept(&notify));
        notify.notify_one();
        notify.notify_one();
        assert!(is_kept(&notify));
        assert!(!is_kept(&notify));
        notify.notify_waiters();
        assert!(!is_kept(&notify), "notify_waiters keeps no notification");
        notify.notify_one();
        drive_on_plain_thread(notify.notified_async());
        assert!(!is_kept(&notify));
    });
}

#[test]
fn notify_one_and_notify_waiters() {
    on_each(|| {
        let notify = Arc::new(Notify::new());
        let (first, second) = (waiter(&notify), waiter(&notify));
        notify.notify_one();
        first.join().unwrap();
        sleep(MILLI);
        assert!(!second.is_finished());
        let third = waiter(&notify);
        notify.notify_waiters();
        second.join().unwrap();
        third.join().unwrap();
        assert!(!is_kept(&notify));
    });
}

#[test]
fn a_future_is_notified_from_its_creation() {
    everywhere(|| {
        let notify = Notify::new();
        let (before, mut enabled) = (notify.notified_async(), pin!(notify.notified_async()));
        assert!(!enabled.as_mut().enable());
        notify.notify_waiters();
        let after = notify.notified_async();
        assert!(enabled.as_mut().enable());
        runtime::block_on(async {
            before.await;
            enabled.await;
            assert!(timeout_async(MILLI, after).await.is_err());
            // `first` is in the queue since `enable`. `late` joins the queue only at its poll.
            let mut late = pin!(notify.notified_async());
            let mut first = pin!(notify.notified_async());
            first.as_mut().enable();
            notify.notify_one();
            assert_eq!(poll_once(&mut late).await, None);
            assert_eq!(poll_once(&mut first).await, Some(()));
        });
    });
}

#[test]
fn the_notification_of_a_dropped_future_is_passed_on() {
    on_each(|| {
        let notify = Arc::new(Notify::new());
        {
            let mut dropped = Box::pin(notify.notified_async());
            dropped.as_mut().enable();
            let second = waiter(&notify);
            notify.notify_one();
            assert!(!second.is_finished());
            drop(dropped);
            second.join().unwrap();
        }
        let mut dropped = Box::pin(notify.notified_async());
        dropped.as_mut().enable();
        notify.notify_one();
        drop(dropped);
        assert!(is_kept(&notify), "without a waiter the notification is kept");
        let mut dropped = Box::pin(notify.notified_async());
        dropped.as_mut().enable();
        notify.notify_waiters();
        drop(dropped);
        assert!(!is_kept(&notify));
    });
}

#[test]
fn a_cancelled_waiter_takes_no_notification() {
    on_each(|| {
        let notify = Arc::new(Notify::new());
        let (first, second) = (waiter(&notify), waiter(&notify));
        first.cancel();
        notify.notify_one();
        second.join().unwrap();
        assert!(first.join().unwrap_err().is::<Cancelled>());
        assert_eq!(timeout(2 * MILLI, || notify.notified()), Err(Elapsed));
        assert!(!is_kept(&notify));
    });
}

#[test]
fn a_cancellation_races_with_a_notification() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let notify = Arc::new(Notify::new());
            let mut random = Random::new(5);
            for round in 0..100 {
                let its = notify.clone();
                let thread: JoinHandle<()> = if round % 2 == 0 {
                    spawn(move || its.notified())
                } else {
                    spawn(async move { its.notified_async().await })
                };
                sleep(Duration::from_micros(random.below(40)));
                notify.notify_one();
                thread.cancel();
                let was_notified = thread.join().is_ok();
                assert_eq!(is_kept(&notify), !was_notified, "the notification is either kept or taken");
            }
        });
    });
}

/// A counted queue: all items are taken, although only a single notification is kept.
#[test]
fn no_notification_is_lost() {
    in_each(|| {
        let (notify, sent, taken) = (Notify::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let take = || sent.fetch_update(SeqCst, SeqCst, |sent| sent.checked_sub(1)).is_ok();
        const ALL: usize = 400;
        crowd(6, 2, |i| {
            if i % 2 == 0 {
                for _ in 0..ALL / 4 {
                    sent.fetch_add(1, SeqCst);
                    notify.notify_one();
                }
            } else {
                while taken.load(SeqCst) < ALL {
                    if take() {
                        if taken.fetch_add(1, SeqCst) + 1 == ALL {
                            notify.notify_waiters();
                        }
                        // More items may have been sent under the same notification.
                        notify.notify_one();
                    } else {
                        let _ = timeout(Duration::from_micros(200), || notify.notified());
                    }
                }
            }
        });
        wait_until("all items are taken", || taken.load(SeqCst) == ALL);
        assert_eq!(sent.into_inner(), 0);
    });
}

#[test]
fn notifications_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let notify = Notify::new();
            loop {
                notify.notify_one();
                notify.notified_async().await;
            }
        })
    });
}

/// Polls once, with a waker that does nothing.
fn is_ready(future: &mut Pin<Box<impl Future>>) -> bool {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn notify_last_wakes_the_waiter_that_came_last() {
    on_each(|| {
        let notify = Arc::new(Notify::new());
        let (first, second) = (waiter(&notify), waiter(&notify));
        notify.notify_last();
        second.join().unwrap();
        sleep(MILLI);
        assert!(!first.is_finished());
        notify.notify_last();
        first.join().unwrap();
        notify.notify_last();
        assert!(is_kept(&notify), "a notification without a waiter is kept");
    });
}

#[test]
fn the_notification_of_the_last_waiter_is_passed_on_to_the_last_that_is_left() {
    everywhere(|| {
        let notify = Notify::new();
        let mut waiters = [0; 3].map(|_| Box::pin(notify.notified_async()));
        for waiter in &mut waiters {
            assert!(!is_ready(waiter));
        }
        let [mut first, mut second, third] = waiters;
        notify.notify_last();
        drop(third);
        assert!(!is_ready(&mut first), "the first waiter is not the last that is left");
        assert!(is_ready(&mut second));
        assert!(!is_kept(&notify));
        notify.notify_one();
        assert!(is_ready(&mut first));
    });
}

#[test]
fn an_owned_future_outlives_the_handles_of_its_notify() {
    everywhere(|| {
        let notify = Arc::new(Notify::new());
        let mut waits = Box::pin(notify.clone().notified_owned());
        assert!(!is_ready(&mut waits));
        let other = Arc::downgrade(&notify);
        notify.notify_waiters();
        drop(notify);
        assert!(other.upgrade().is_some(), "the future keeps its `Notify`");
        assert!(is_ready(&mut waits));
        drop(waits);
        assert!(other.upgrade().is_none());
        // A future that is dropped while it waits leaves the queue before the queue is freed.
        let mut waits = Box::pin(Arc::new(Notify::new()).notified_owned());
        assert!(!is_ready(&mut waits));
    });
}

#[test]
fn an_owned_future_is_notified_on_another_thread() {
    on_each(|| {
        for _ in 0..100 {
            let notify = Arc::new(Notify::new());
            let waits = spawn(notify.clone().notified_owned());
            notify.notify_one();
            drop(notify);
            waits.join().unwrap();
        }
    });
}
