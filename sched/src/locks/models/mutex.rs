//! The mutex: one owner at a time, nobody waits in vain, and what meets a time-out or a cancellation goes on.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::g::wait::Outcome;
use crate::locks::Mutex;
use crate::models::{Reached, explore};
use crate::queue::modelled::Sleeper;

/// A mutex and what it guards.
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
        // SAFETY: the caller has it; loom checks that it is alone with the count.
        unsafe {
            self.count.with_mut(|count| *count += 1);
            self.mutex.unlock();
        }
    }

    fn unlock_fair(&self) {
        // SAFETY: likewise.
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

    /// Nobody has it, nobody waits, and it was had so often.
    fn is_over(&self, expected: u32) {
        assert!(!self.mutex.is_waited_for(), "nobody is in the queue any more");
        assert!(self.mutex.try_lock_fast(), "the word is as it was in the beginning");
        // SAFETY: as above.
        assert_eq!(self.count.with(|count| unsafe { *count }), expected);
    }
}

fn adder(counter: &Arc<Counter>) -> Person<u32> {
    let counter = counter.clone();
    person(move || counter.add(Patience::LONG))
}

/// Whoever comes too late waits until it is its turn: the queue is entered while the lock is given back.
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

/// One is woken, comes too late, and is handed the lock.
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

/// It is given back while the only one who waits gives up.
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

/// It is given back when one of two has given up, and may not have left yet.
fn given_back_after_one_gave_up(unlock: fn(&Counter), give_up: GivesUp) {
    explore(2, move || {
        let _me = i_may_wait();
        let counter = Counter::new();
        counter.lock(Patience::LONG).unwrap();
        let others = vec![adder(&counter), adder(&counter)];
        give_up(&others[0].sleeper);
        unlock(&counter);
        let had = all_end(others);
        assert_eq!(had[1], 1, "who did not give up has had it");
        counter.is_over(1 + had[0] + had[1]);
    });
}

fn times_out(sleeper: &Sleeper) {
    sleeper.time_out(1);
}

/// In the second wait, that of one who starves.
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

/// One was woken, came too late, and gives up when it is about to be handed over.
#[test]
fn one_that_starves_gives_up() {
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

/// One was woken, came too late, and waits to be handed the lock, which somebody new tries to take when it is given back.
#[test]
fn nobody_takes_it_from_who_starves() {
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
            // Long enough for whoever else believes to have it.
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
