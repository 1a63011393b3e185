//! Models of the mutex: one owner at a time, every waiter is served, and a grant that meets a time-out goes
//! on.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::locks::Mutex;
use sched::Outcome;
use sched::modelled::Sleeper;
use sched::sync::models::{Reached, explore};

/// A mutex and the count that it guards.
struct Counter {
    mutex: Mutex,
    count: UnsafeCell<u32>,
}

impl Counter {
    fn new() -> Arc<Counter> {
        Arc::new(Counter { mutex: Mutex::new(), count: UnsafeCell::new(0) })
    }

    fn lock(&self, patience: Patience) -> Result<(), Outcome> {
        if self.mutex.try_lock_fast() { Ok(()) } else { self.mutex.lock_slow(patience) }
    }

    fn unlock(&self) {
        // SAFETY: the caller holds the mutex; loom checks that no other thread uses the count.
        unsafe {
            self.count.with_mut(|count| *count += 1);
            self.mutex.unlock();
        }
    }

    fn unlock_fair(&self) {
        // SAFETY: the caller holds the mutex; loom checks that no other thread uses the count.
        unsafe {
            self.count.with_mut(|count| *count += 1);
            self.mutex.unlock_fair();
        }
    }

    fn add(&self, patience: Patience) -> u32 {
        match self.lock(patience) {
            Ok(()) => {
                self.unlock();
                1
            }
            Err(_) => 0,
        }
    }

    /// Asserts that the mutex is free, no waiter is queued, and the mutex was held `expected` times.
    fn is_over(&self, expected: u32) {
        assert!(!self.mutex.is_waited_for(), "the queue is empty");
        assert!(self.mutex.try_lock_fast(), "the word is as at the start");
        // SAFETY: `try_lock_fast` above.
        assert_eq!(self.count.with(|count| unsafe { *count }), expected);
    }
}

fn adder(counter: &Arc<Counter>) -> Person<u32> {
    let counter = counter.clone();
    person(move || counter.add(Patience::LONG))
}

/// A locker queues up while the mutex is unlocked.
#[test]
fn two_take_turns() {
    explore(3, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        let others = vec![adder(&counter)];
        counter.add(Patience::LONG);
        counter.add(Patience::LONG);
        all_end(others);
        counter.is_over(3);
    });
}

/// A woken waiter finds the mutex taken again and is handed the mutex.
#[test]
fn three_take_turns() {
    explore(2, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let others = vec![adder(&counter), adder(&counter)];
        counter.unlock();
        all_end(others);
        counter.is_over(3);
    });
}

type GivesUp = fn(&Sleeper);

/// The only waiter gives up while the mutex is unlocked.
fn given_back_while_one_gives_up(unlock: fn(&Counter), give_up: GivesUp) {
    explore(3, move || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let others = vec![adder(&counter)];
        let sleeper = others[0].sleeper.clone();
        let gives_up = loom::thread::spawn(move || give_up(&sleeper));
        unlock(&counter);
        gives_up.join().unwrap();
        let had = all_end(others);
        counter.is_over(1 + had[0]);
    });
}

/// The first of two waiters has given up before the mutex is unlocked, and may still be in the queue.
fn given_back_after_one_gave_up(unlock: fn(&Counter), give_up: GivesUp) {
    explore(2, move || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let others = vec![adder(&counter), adder(&counter)];
        give_up(&others[0].sleeper);
        unlock(&counter);
        let had = all_end(others);
        assert_eq!(had[1], 1, "the waiter that did not give up got the mutex");
        counter.is_over(1 + had[0] + had[1]);
    });
}

fn times_out(sleeper: &Sleeper) {
    sleeper.time_out(1);
}

/// Ends the second wait: that of a starving waiter.
fn times_out_later(sleeper: &Sleeper) {
    sleeper.time_out(2);
}

fn is_cancelled(sleeper: &Sleeper) {
    let _ = sleeper.cancel();
}

#[test]
fn a_wake_up_meets_a_time_out() {
    given_back_while_one_gives_up(Counter::unlock, times_out);
    given_back_after_one_gave_up(Counter::unlock, times_out);
}

#[test]
fn a_wake_up_meets_a_cancellation() {
    given_back_while_one_gives_up(Counter::unlock, is_cancelled);
}

#[test]
fn a_hand_over_meets_a_time_out() {
    given_back_while_one_gives_up(Counter::unlock_fair, times_out);
    given_back_after_one_gave_up(Counter::unlock_fair, times_out);
}

#[test]
fn a_hand_over_meets_a_cancellation() {
    given_back_while_one_gives_up(Counter::unlock_fair, is_cancelled);
}

/// A starving waiter gives up while the mutex is handed over to it.
#[test]
fn a_starving_waiter_gives_up() {
    explore(2, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let others = vec![adder(&counter)];
        let sleeper = others[0].sleeper.clone();
        let gives_up = loom::thread::spawn(move || times_out_later(&sleeper));
        counter.unlock();
        counter.add(Patience::LONG);
        gives_up.join().unwrap();
        let had = all_end(others);
        counter.is_over(2 + had[0]);
    });
}

/// A newcomer tries to lock a mutex that is about to be handed over to a starving waiter.
#[test]
fn a_newcomer_does_not_overtake_a_starving_waiter() {
    static STARVED: Reached = Reached::new();
    explore(2, || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let mut others = vec![adder(&counter)];
        while !counter.mutex.is_waited_for() {
            loom::thread::yield_now();
        }
        counter.unlock();
        counter.lock(Patience::LONG).unwrap();
        let newcomer = counter.clone();
        others.push(person(move || {
            newcomer.lock(Patience::LONG).unwrap();
            // Gives another thread that wrongly took the mutex the time to unlock it.
            loom::thread::yield_now();
            newcomer.unlock();
            1
        }));
        STARVED.note(counter.mutex.is_starved_for());
        counter.unlock();
        all_end(others);
        counter.is_over(4);
    });
    STARVED.assert();
}
