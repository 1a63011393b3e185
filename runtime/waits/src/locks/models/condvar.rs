//! Models of the condition variable: each notification reaches one open wait, and none is lost.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::locks::{Condvar, Mutex};
use sched::Outcome;
use sched::sync::models::explore;

/// A count of permits that takers wait for. The count changes under the mutex.
#[derive(Default)]
struct Permits {
    mutex: Mutex,
    condition: Condvar,
    count: AtomicUsize,
}

impl Permits {
    fn lock(&self) {
        self.mutex.lock_anyway();
    }

    fn unlock(&self) {
        // SAFETY: `lock` was called before, by the same thread.
        unsafe { self.mutex.unlock() };
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a permit. Returns how the wait ended if it was not woken.
    fn take(&self) -> Outcome {
        self.lock();
        let mut outcome = Outcome::Woken;
        while outcome == Outcome::Woken && self.count.load(Ordering::Relaxed) == 0 {
            // SAFETY: `self.lock` above.
            outcome = unsafe { self.condition.wait(&self.mutex, Patience::LONG) }.unwrap();
        }
        if outcome == Outcome::Woken {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        self.unlock();
        outcome
    }

    /// Waits for one notification, with no condition to check.
    fn wait_once(&self) -> Outcome {
        self.lock();
        // SAFETY: `self.lock` above.
        let outcome = unsafe { self.condition.wait(&self.mutex, Patience::LONG) }.unwrap();
        self.unlock();
        outcome
    }

    fn is_over(&self) {
        assert!(
            !self.mutex.is_waited_for() && self.mutex.try_lock_fast(),
            "the mutex is free, with no waiter"
        );
        assert_eq!(self.condition.notify_all(), 0, "no waiter is queued");
    }
}

fn taker(permits: &Arc<Permits>) -> Person<Outcome> {
    let permits = permits.clone();
    person(move || permits.take())
}

/// Notifies while a taker begins its wait, in every order.
fn one_waits(notify: fn(&Permits)) {
    explore(3, move || {
        let _me = i_may_wait();
        let permits = Arc::new(Permits::default());
        let others = vec![taker(&permits)];
        notify(&permits);
        assert_eq!(all_end(others), [Outcome::Woken]);
        permits.is_over();
    });
}

#[test]
fn notified_under_the_mutex() {
    one_waits(|permits| {
        permits.lock();
        permits.add();
        permits.condition.notify_one();
        permits.unlock();
    });
}

#[test]
fn notified_after_the_mutex() {
    one_waits(|permits| {
        permits.lock();
        permits.add();
        permits.unlock();
        permits.condition.notify_one();
    });
}

#[test]
fn all_are_notified() {
    explore(2, || {
        let _me = i_may_wait();
        let permits = Arc::new(Permits::default());
        let others = vec![taker(&permits), taker(&permits)];
        permits.lock();
        permits.add();
        permits.add();
        permits.condition.notify_all();
        permits.unlock();
        assert_eq!(all_end(others), [Outcome::Woken; 2]);
        permits.is_over();
    });
}

fn waits_once(permits: &Arc<Permits>) -> Person<Outcome> {
    let permits = permits.clone();
    person(move || permits.wait_once())
}

/// The notifier reports a notification if and only if the waiter does.
#[test]
fn a_notification_meets_a_cancellation() {
    explore(2, || {
        let _me = i_may_wait();
        let permits = Arc::new(Permits::default());
        let others = vec![waits_once(&permits)];
        let sleeper = others[0].sleeper.clone();
        let canceller = loom::thread::spawn(move || sleeper.cancel());
        let notified = permits.condition.notify_one();
        canceller.join().unwrap();
        let ends = all_end(others);
        assert_eq!(ends[0] == Outcome::Woken, notified, "notifier and waiter disagree");
        permits.is_over();
    });
}

#[test]
fn a_notification_after_a_cancellation() {
    explore(3, || {
        let _me = i_may_wait();
        let permits = Arc::new(Permits::default());
        let others = vec![waits_once(&permits)];
        let ended = others[0].sleeper.cancel();
        let notified = permits.condition.notify_one();
        assert!(!(ended && notified), "a wait that had ended was notified");
        assert_eq!(all_end(others)[0] == Outcome::Woken, notified);
        permits.is_over();
    });
}

/// A notification passes a wait that was cancelled before, and goes to the next waiter.
#[test]
fn a_notification_after_a_cancellation_goes_to_the_next() {
    explore(2, || {
        let _me = i_may_wait();
        let permits = Arc::new(Permits::default());
        let others = vec![taker(&permits), taker(&permits)];
        permits.lock();
        permits.add();
        permits.unlock();
        others[0].sleeper.cancel();
        permits.condition.notify_one();
        // The second waiter gets this permit, now or later; or the first took it before its cancellation.
        permits.lock();
        permits.add();
        permits.unlock();
        permits.condition.notify_one();
        let ends = all_end(others);
        assert_eq!(ends[1], Outcome::Woken);
        let left = 2 - ends.iter().filter(|end| **end == Outcome::Woken).count();
        assert_eq!(permits.count.load(Ordering::Relaxed), left);
        permits.is_over();
    });
}

/// The waiter frees its own mutex after its wait. The notifier knows the condition variable alone.
#[test]
fn a_notified_waiter_frees_its_mutex() {
    explore(3, || {
        let _me = i_may_wait();
        let condition = Arc::new(Condvar::new());
        let its = condition.clone();
        let waiter = person(move || {
            let mutex = Mutex::new();
            mutex.lock_anyway();
            // SAFETY: `lock_anyway` above.
            let outcome = unsafe { its.wait(&mutex, Patience::LONG) }.unwrap();
            // SAFETY: the wait returned, so this thread holds the mutex.
            unsafe { mutex.unlock() };
            // The mutex is freed here. loom checks that every thread has released the lock of its queue.
            drop(mutex);
            outcome
        });
        while !condition.notify_one() {
            loom::thread::yield_now();
        }
        assert_eq!(all_end(vec![waiter]), [Outcome::Woken]);
    });
}
