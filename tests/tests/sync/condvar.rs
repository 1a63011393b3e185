//! The condition variable: a notified waiter returns with the mutex, no notification is lost, and no waiter
//! wakes without a cause. A cancelled waiter has the mutex while it unwinds, and has taken no notification.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::sync::{Condvar, Mutex, MutexGuard};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{JoinHandle, sleep, spawn};
use tests::crowd::{crowd, in_each, with_each};
use tests::{OnDrop, Random, everywhere, on_each, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A counter, and a condition that signals its changes.
#[derive(Default)]
struct Changes {
    count: Mutex<u32>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Changes {
    /// Spawns a green thread that waits for a notification and then adds 1. Returns when the thread waits.
    fn waiter(self: &Arc<Self>) -> JoinHandle<u32> {
        let before = self.waiting.load(SeqCst);
        let it = self.clone();
        let thread = spawn(move || {
            let mut count = it.count.lock();
            it.waiting.fetch_add(1, SeqCst);
            it.changed.wait(&mut count);
            *count += 1;
            *count
        });
        wait_until("the waiter has the mutex", || self.waiting.load(SeqCst) > before);
        // The waiter releases the mutex by waiting, so it waits when this thread has the mutex.
        drop(self.count.lock());
        thread
    }
}

#[test]
fn notifications_without_a_waiter() {
    let condition = Condvar::new();
    assert!(!condition.notify_one());
    assert_eq!(condition.notify_all(), 0);
    assert_eq!(format!("{condition:?}"), "Condvar { .. }");
}

#[test]
fn notify_one_wakes_waiters_in_order() {
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let waiters: Vec<_> = (0..4).map(|_| changes.waiter()).collect();
        for i in 0..4 {
            if i % 2 == 0 {
                assert!(changes.changed.notify_one());
            } else {
                let _count = changes.count.lock();
                assert!(changes.changed.notify_one());
            }
        }
        assert!(!changes.changed.notify_one());
        let order: Vec<u32> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    });
}

#[test]
fn notify_all_wakes_all_waiters() {
    on_each(|| {
        for holding in [false, true] {
            let changes = Arc::new(Changes::default());
            let waiters: Vec<_> = (0..6).map(|_| changes.waiter()).collect();
            let guard = holding.then(|| changes.count.lock());
            assert_eq!(changes.changed.notify_all(), 6);
            assert_eq!(changes.changed.notify_all(), 0);
            drop(guard);
            let order: Vec<u32> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
            assert_eq!(order, [1, 2, 3, 4, 5, 6]);
        }
    });
}

#[test]
fn a_green_and_a_plain_thread_alternate() {
    in_each(|| {
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        crowd(1, 1, |i| {
            for round in 0..500 {
                let mut turn = turn.lock();
                changed.wait_while(&mut turn, |turn| *turn % 2 != i);
                assert_eq!(*turn, 2 * round + i);
                *turn += 1;
                changed.notify_one();
            }
        });
        assert_eq!(turn.into_inner(), 1000);
    });
}

#[test]
fn condvar_waits_with_a_deadline() {
    everywhere(|| {
        let (mutex, condition) = (Mutex::new(7), Condvar::new());
        let mut guard = mutex.lock();
        for time in [Duration::ZERO, Duration::from_micros(1), 3 * MILLI] {
            let start = Instant::now();
            assert!(condition.wait_for(&mut guard, time).timed_out());
            assert!(start.elapsed() >= time, "early");
            assert!(mutex.is_locked());
        }
        let start = Instant::now();
        assert!(condition.wait_until(&mut guard, start + 2 * MILLI).timed_out());
        assert!(start.elapsed() >= 2 * MILLI, "early");
        assert!(condition.wait_until(&mut guard, start).timed_out(), "the deadline is past");
        assert_eq!(*guard, 7);
        assert!(!condition.notify_one(), "a timed-out waiter has left the queue");
    });
    on_each(|| {
        for patience in [HOUR, Duration::MAX] {
            let pair = Arc::new((Mutex::new(()), Condvar::new()));
            let other = pair.clone();
            let mut guard = pair.0.lock();
            let thread = spawn(move || {
                let _guard = other.0.lock();
                other.1.notify_one();
            });
            assert!(!pair.1.wait_for(&mut guard, patience).timed_out());
            drop(guard);
            thread.join().unwrap();
        }
    });
}

#[test]
fn wait_while_waits_while_the_condition_holds() {
    everywhere(|| {
        let (mutex, condition) = (Mutex::new(0), Condvar::new());
        let mut guard = mutex.lock();
        let mut calls = 0;
        condition.wait_while(&mut guard, |count| {
            calls += 1;
            *count > 0
        });
        assert_eq!(calls, 1, "the condition is false, so there is no wait");
        let end = condition.wait_while_for(&mut guard, |_| true, 2 * MILLI);
        assert!(end.timed_out());
        let end = condition.wait_while_until(&mut guard, |count| *count > 0, Instant::now());
        assert!(!end.timed_out(), "the condition is false, so the deadline does not matter");
        // The condition is evaluated again after the deadline.
        let mut looks = 0;
        let end = condition.wait_while_for(
            &mut guard,
            |_| {
                looks += 1;
                looks == 1
            },
            MILLI,
        );
        assert!(!end.timed_out());
        assert_eq!(looks, 2);
    });
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let other = changes.clone();
        let thread = spawn(move || {
            for _ in 0..5 {
                *other.count.lock() += 1;
                other.changed.notify_all();
                sleep(Duration::from_micros(100));
            }
        });
        let mut count = changes.count.lock();
        changes.changed.wait_while(&mut count, |count| *count < 3);
        assert!(*count >= 3);
        let end = changes.changed.wait_while_for(&mut count, |count| *count < 5, HOUR);
        assert!(!end.timed_out());
        assert_eq!(*count, 5);
        drop(count);
        thread.join().unwrap();
    });
}

#[test]
fn waiters_must_use_the_same_mutex() {
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let waiter = changes.waiter();
        let other = Mutex::new(());
        let mut guard = other.lock();
        let panic = catch_unwind(AssertUnwindSafe(|| changes.changed.wait(&mut guard)));
        let text = *panic.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(text, "attempted to use a condition variable with more than one mutex");
        assert!(other.is_locked(), "the guard still holds its mutex");
        assert!(changes.changed.notify_one());
        waiter.join().unwrap();
        // After the last waiter has left, another mutex is allowed.
        assert!(changes.changed.wait_for(&mut guard, MILLI).timed_out());
    });
}

#[test]
fn a_notified_waiter_gets_a_bumped_mutex() {
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let waiter = changes.waiter();
        let mut guard = changes.count.lock();
        assert!(changes.changed.notify_one());
        // The waiter waits for the mutex now, and `bump` hands it the mutex.
        MutexGuard::bump(&mut guard);
        assert_eq!(*guard, 1);
        drop(guard);
        waiter.join().unwrap();
    });
}

/// A bounded queue with two conditions, used by green and plain threads, with and without time-outs.
fn bounded_queue(
    capacity: usize,
    patience: Option<Duration>,
    notify_all: bool,
    greens: usize,
    plains: usize,
) {
    const EACH: usize = 100;
    let queue = Mutex::new(VecDeque::new());
    let (filled, emptied) = (Condvar::new(), Condvar::new());
    let (taken, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let notify = |condition: &Condvar| {
        if notify_all {
            condition.notify_all()
        } else {
            usize::from(condition.notify_one())
        };
    };
    let wait = |condition: &Condvar, guard: &mut MutexGuard<'_, VecDeque<usize>>| match patience {
        None => condition.wait(guard),
        Some(time) => drop(condition.wait_for(guard, time)),
    };
    // Threads with an even number produce, the others consume.
    let pairs = (greens + plains) / 2;
    crowd(greens, plains, |i| {
        for n in 0..EACH {
            let mut guard = queue.lock();
            if i % 2 == 0 {
                while guard.len() == capacity {
                    wait(&emptied, &mut guard);
                }
                guard.push_back(n);
                notify(&filled);
            } else {
                while guard.is_empty() {
                    wait(&filled, &mut guard);
                }
                sum.fetch_add(guard.pop_front().unwrap(), SeqCst);
                taken.fetch_add(1, SeqCst);
                notify(&emptied);
            }
        }
    });
    assert_eq!(taken.into_inner(), pairs * EACH);
    assert_eq!(sum.into_inner(), pairs * EACH * (EACH - 1) / 2);
}

#[test]
fn bounded_queues() {
    with_each(|runtime| {
        runtime.block_on(|| {
            bounded_queue(1, None, false, 2, 0);
            bounded_queue(1, None, true, 6, 2);
            bounded_queue(3, None, false, 10, 4);
            bounded_queue(1, Some(MILLI), true, 6, 2);
            bounded_queue(2, Some(Duration::from_micros(20)), true, 8, 2);
        });
    });
}

#[test]
fn a_cancelled_waiter_unwinds_with_the_mutex() {
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let in_order = Arc::new(AtomicBool::new(false));
        let (its, says) = (changes.clone(), in_order.clone());
        let thread = spawn(move || {
            let mut count = its.count.lock();
            let _on_drop = OnDrop(|| says.store(its.count.is_locked(), SeqCst));
            its.waiting.fetch_add(1, SeqCst);
            its.changed.wait(&mut count);
            unreachable!("there is no notifier");
        });
        wait_until("the waiter has the mutex", || changes.waiting.load(SeqCst) == 1);
        // The cancelled waiter must wait for this guard.
        let guard = changes.count.lock();
        thread.cancel();
        sleep(2 * MILLI);
        assert!(!thread.is_finished());
        assert!(!changes.changed.notify_one(), "the cancelled waiter has left the queue");
        drop(guard);
        assert!(thread.join().unwrap_err().is::<Cancelled>());
        assert!(in_order.load(SeqCst));
        assert!(!changes.count.is_locked());
    });
}

#[test]
fn a_cancelled_waiter_takes_no_notification() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let changes = Arc::new(Changes::default());
            for _ in 0..50 {
                let (first, second) = (changes.waiter(), changes.waiter());
                first.cancel();
                assert!(changes.changed.notify_one());
                second.join().expect("the notification goes to the waiting thread");
                assert!(first.join().unwrap_err().is::<Cancelled>());
                assert!(!changes.changed.notify_one());
            }
        });
    });
}

/// The number of waits that end as notified equals the number of notifications, also with cancellations and
/// time-outs.
#[test]
fn notifications_race_with_cancellations_and_time_outs() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let changes = Arc::new(Changes::default());
            let (came_back, mut random) = (Arc::new(AtomicUsize::new(0)), Random::new(11));
            let mut notified = 0;
            for round in 0..100 {
                let threads: Vec<_> = (0..4)
                    .map(|i| {
                        let (changes, came_back) = (changes.clone(), came_back.clone());
                        let patience = Duration::from_micros(random.below(100));
                        spawn(move || {
                            let mut count = changes.count.lock();
                            let notified = match i {
                                0 => !changes.changed.wait_for(&mut count, patience).timed_out(),
                                1 => timeout(patience, || changes.changed.wait(&mut count)).is_ok(),
                                _ => {
                                    changes.changed.wait(&mut count);
                                    true
                                }
                            };
                            came_back.fetch_add(usize::from(notified), SeqCst);
                        })
                    })
                    .collect();
                for _ in 0..random.below(4) {
                    sleep(Duration::from_micros(random.below(60)));
                    if random.below(2) == 0 {
                        threads[random.below(4) as usize].cancel();
                    }
                    let guard = (random.below(2) == 0).then(|| changes.count.lock());
                    notified += usize::from(changes.changed.notify_one());
                    drop(guard);
                }
                if round % 2 == 0 {
                    threads.iter().for_each(JoinHandle::cancel);
                } else {
                    while !threads.iter().all(JoinHandle::is_finished) {
                        notified += changes.changed.notify_all();
                        sleep(Duration::from_micros(20));
                    }
                }
                threads.into_iter().for_each(|thread| drop(thread.join()));
            }
            assert_eq!(came_back.load(SeqCst), notified);
            assert!(!changes.count.is_locked());
        });
    });
}

#[test]
fn a_timeout_ends_a_condvar_wait() {
    everywhere(|| {
        let (mutex, condition) = (Mutex::new(()), Condvar::new());
        let mut guard = mutex.lock();
        let start = Instant::now();
        assert_eq!(timeout(3 * MILLI, || condition.wait(&mut guard)), Err(Elapsed));
        assert!(start.elapsed() >= 3 * MILLI, "early");
        assert!(mutex.is_locked(), "the unwound wait has the mutex");
        assert!(!condition.notify_one());
        assert!(timeout(HOUR, || condition.wait_for(&mut guard, MILLI)).unwrap().timed_out());
        assert_eq!(timeout(2 * MILLI, || condition.wait_for(&mut guard, HOUR)), Err(Elapsed));
    });
}

/// A waiter is notified, and its deadline expires while it waits for the mutex. It returns as notified.
#[test]
fn a_notified_waiter_does_not_time_out() {
    on_each(|| {
        let changes = Arc::new(Changes::default());
        let other = changes.clone();
        let thread = spawn(move || {
            let mut count = other.count.lock();
            other.waiting.fetch_add(1, SeqCst);
            other.changed.wait_for(&mut count, 4 * MILLI).timed_out()
        });
        wait_until("the waiter has the mutex", || changes.waiting.load(SeqCst) == 1);
        let guard = changes.count.lock();
        let notified = changes.changed.notify_one();
        sleep(8 * MILLI);
        drop(guard);
        assert_eq!(thread.join().unwrap(), !notified);
    });
}

#[test]
fn waiters_in_two_runtimes() {
    with(1, |one| {
        with(2, |two| {
            let changes = Arc::new(Changes::default());
            let (a, b) = (changes.clone(), changes.clone());
            let waiters = [one.spawn(move || wait_for(&a, 100)), two.spawn(move || wait_for(&b, 100))];
            for _ in 0..100 {
                *changes.count.lock() += 1;
                changes.changed.notify_all();
            }
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    });
}

fn wait_for(changes: &Changes, wanted: u32) {
    let mut count = changes.count.lock();
    while *count < wanted {
        changes.changed.wait(&mut count);
    }
}
