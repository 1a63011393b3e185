//! Models of locking as a future: futures and threads take turns. A future that is dropped in any of its
//! states keeps nothing from the waiters behind it.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::locks::{Mutex, MutexFuture, RwLock, RwLockFuture, Wants};
use sched::modelled::drive;
use sched::sync::models::{Reached, explore};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A mutex and the count that it guards.
struct Counter {
    mutex: Mutex,
    count: UnsafeCell<u32>,
}

impl Counter {
    fn new() -> Arc<Counter> {
        Arc::new(Counter { mutex: Mutex::new(), count: UnsafeCell::new(0) })
    }

    fn lock(&self) {
        if !self.mutex.try_lock_fast() {
            self.mutex.lock_slow(Patience::LONG).unwrap();
        }
    }

    fn add(&self) {
        // SAFETY: the caller holds the mutex; loom checks that no other thread uses the count.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn unlock(&self) {
        // SAFETY: the caller holds the mutex.
        unsafe { self.mutex.unlock() };
    }

    fn unlock_fair(&self) {
        // SAFETY: the caller holds the mutex.
        unsafe { self.mutex.unlock_fair() };
    }

    /// Locks as a future, to the end.
    fn add_as_a_future(&self) {
        drive(pin!(MutexFuture::new(&self.mutex)));
        self.add();
        self.unlock();
    }

    fn add_as_a_thread(&self) {
        self.lock();
        self.add();
        self.unlock();
    }

    /// Asserts that the mutex is free, no waiter is queued, and the count is `expected`.
    fn is_over(&self, expected: u32) {
        assert!(!self.mutex.is_waited_for(), "the queue is empty");
        assert!(self.mutex.try_lock_fast(), "the word is as at the start");
        // SAFETY: `try_lock_fast` above.
        assert_eq!(self.count.with(|count| unsafe { *count }), expected);
    }
}

fn one(counter: &Arc<Counter>, does: fn(&Counter)) -> Person<()> {
    let counter = counter.clone();
    person(move || does(&counter))
}

/// A woken future finds the mutex taken again and is handed the mutex.
#[test]
fn futures_and_threads_take_turns() {
    for second in [Counter::add_as_a_future, Counter::add_as_a_thread] {
        explore(2, move || {
            let _me = i_may_wait();
            let counter = Counter::new();
            counter.lock();
            let others = vec![one(&counter, Counter::add_as_a_future), one(&counter, second)];
            counter.unlock();
            all_end(others);
            counter.is_over(2);
        });
    }
}

/// The first waiter, a future, is dropped while the mutex is unlocked. A waiter is behind it.
fn given_back_while_a_future_is_dropped(unlock: fn(&Counter), behind: fn(&Counter)) {
    explore(3, move || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock();
        let holder = counter.clone();
        {
            let mut future = Box::pin(MutexFuture::new(&counter.mutex));
            assert!(poll(future.as_mut()).is_pending());
            let others = vec![one(&counter, behind)];
            let unlocks = loom::thread::spawn(move || unlock(&holder));
            drop(future);
            unlocks.join().unwrap();
            all_end(others);
        }
        counter.is_over(1);
    });
}

#[test]
fn a_wake_up_meets_the_drop_of_a_future() {
    given_back_while_a_future_is_dropped(Counter::unlock, Counter::add_as_a_thread);
    given_back_while_a_future_is_dropped(Counter::unlock, Counter::add_as_a_future);
}

#[test]
fn a_hand_over_meets_the_drop_of_a_future() {
    given_back_while_a_future_is_dropped(Counter::unlock_fair, Counter::add_as_a_thread);
}

/// A future is dropped while a thread queues up. `WAITING` says whether a waiter is left.
#[test]
fn a_queued_future_is_dropped() {
    explore(3, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock();
        let mut future = Box::pin(MutexFuture::new(&counter.mutex));
        assert!(poll(future.as_mut()).is_pending());
        drop(future);
        assert!(!counter.mutex.is_waited_for(), "the queue is empty");
        let mut future = Box::pin(MutexFuture::new(&counter.mutex));
        assert!(poll(future.as_mut()).is_pending());
        let others = vec![one(&counter, Counter::add_as_a_thread)];
        drop(future);
        counter.unlock();
        all_end(others);
        counter.is_over(1);
    });
}

/// A woken future finds the mutex taken again, and is dropped where it starves.
#[test]
fn a_starving_future_is_dropped() {
    static STARVED: Reached = Reached::new();
    explore(2, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock();
        let mut future = Box::pin(MutexFuture::new(&counter.mutex));
        assert!(poll(future.as_mut()).is_pending());
        counter.unlock();
        counter.lock();
        let others = vec![one(&counter, Counter::add_as_a_thread)];
        assert!(poll(future.as_mut()).is_pending(), "the caller holds the mutex");
        STARVED.note(counter.mutex.is_starved_for());
        let holder = counter.clone();
        let unlocks = loom::thread::spawn(move || holder.unlock());
        drop(future);
        unlocks.join().unwrap();
        all_end(others);
        counter.is_over(1);
    });
    STARVED.assert();
}

/// A reader-writer lock and the count that it guards.
struct Shared {
    lock: RwLock<false>,
    count: UnsafeCell<u32>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { lock: RwLock::new(), count: UnsafeCell::new(0) })
    }

    fn take(&self, wants: Wants) {
        let free = match wants {
            Wants::Shared => self.lock.try_lock_shared(),
            Wants::Upgradable => self.lock.try_lock_upgradable(),
            Wants::Alone => self.lock.try_lock_alone(),
        };
        if !free {
            self.lock.lock_slow(wants, Patience::LONG).unwrap();
        }
    }

    /// Uses the count as `has` allows, and gives the lock back.
    fn use_and_give_back(&self, has: Wants) {
        // SAFETY: the caller has what `has` says; loom checks the accesses.
        unsafe {
            if has == Wants::Alone {
                self.count.with_mut(|count| *count += 1);
            } else {
                self.count.with(|count| *count);
            }
            match has {
                Wants::Shared => self.lock.unlock_shared(),
                Wants::Upgradable => self.lock.unlock_upgradable(),
                Wants::Alone => self.lock.unlock_alone(),
            }
        }
    }

    fn as_a_future(&self, wants: Wants) {
        drive(pin!(RwLockFuture::new(&self.lock, wants)));
        self.use_and_give_back(wants);
    }

    fn as_a_thread(&self, wants: Wants) {
        self.take(wants);
        self.use_and_give_back(wants);
    }
}

type Does = fn(&Shared, Wants);

fn user(shared: &Arc<Shared>, does: Does, wants: Wants) -> Person<()> {
    let shared = shared.clone();
    person(move || does(&shared, wants))
}

#[test]
fn writers_and_readers_as_futures_take_turns() {
    for (first, second) in
        [(Wants::Alone, Wants::Shared), (Wants::Alone, Wants::Alone), (Wants::Upgradable, Wants::Alone)]
    {
        explore(2, move || {
            let _me = i_may_wait();
            let shared = Shared::new();
            shared.take(Wants::Alone);
            let others =
                vec![user(&shared, Shared::as_a_future, first), user(&shared, Shared::as_a_thread, second)];
            shared.use_and_give_back(Wants::Alone);
            all_end(others);
            shared.lock.has_rested();
        });
    }
}

/// The first waiter, a future, is dropped while the lock is given back. A waiter is behind it.
fn lock_given_back_while_a_future_is_dropped(has: Wants, wants: Wants, behind: Wants) {
    explore(3, move || {
        let _me = i_may_wait();
        let shared = Shared::new();
        shared.take(has);
        let holder = shared.clone();
        {
            let mut future = Box::pin(RwLockFuture::new(&shared.lock, wants));
            assert!(poll(future.as_mut()).is_pending());
            let others = vec![user(&shared, Shared::as_a_thread, behind)];
            let gives_back = loom::thread::spawn(move || holder.use_and_give_back(has));
            drop(future);
            gives_back.join().unwrap();
            all_end(others);
        }
        shared.lock.has_rested();
    });
}

#[test]
fn a_writer_as_a_future_is_dropped() {
    lock_given_back_while_a_future_is_dropped(Wants::Alone, Wants::Alone, Wants::Shared);
    lock_given_back_while_a_future_is_dropped(Wants::Alone, Wants::Alone, Wants::Alone);
    lock_given_back_while_a_future_is_dropped(Wants::Shared, Wants::Alone, Wants::Shared);
}

#[test]
fn a_reader_as_a_future_is_dropped() {
    lock_given_back_while_a_future_is_dropped(Wants::Alone, Wants::Shared, Wants::Alone);
    lock_given_back_while_a_future_is_dropped(Wants::Alone, Wants::Upgradable, Wants::Upgradable);
}

/// A reader waits behind a writer that is a future. The writer is dropped while the caller keeps its share.
#[test]
fn readers_behind_a_writer_that_is_dropped() {
    explore(2, || {
        let _me = i_may_wait();
        let shared = Shared::new();
        shared.take(Wants::Shared);
        {
            let mut writer = Box::pin(RwLockFuture::new(&shared.lock, Wants::Alone));
            assert!(poll(writer.as_mut()).is_pending());
            let readers = vec![user(&shared, Shared::as_a_thread, Wants::Shared)];
            drop(writer);
            // The reader ends while the caller has its share.
            all_end(readers);
        }
        shared.use_and_give_back(Wants::Shared);
        shared.lock.has_rested();
    });
}
