//! Models of the reader-writer lock: a writer is alone, readers are let in as soon as possible, every waiter
//! is served.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Patience, Person, all_end, i_may_wait, person};
use crate::locks::{RwLock, Wants};
use sched::Outcome;
use sched::modelled::Sleeper;
use sched::sync::models::explore;

/// A lock and the count that it guards.
struct Counter {
    lock: RwLock<false>,
    count: UnsafeCell<u32>,
}

impl Counter {
    fn new() -> Arc<Counter> {
        Arc::new(Counter { lock: RwLock::new(), count: UnsafeCell::new(0) })
    }

    fn take(&self, wants: Wants) -> Result<(), Outcome> {
        let free = match wants {
            Wants::Shared => self.lock.try_lock_shared(),
            Wants::Upgradable => self.lock.try_lock_upgradable(),
            Wants::Alone => self.lock.try_lock_alone(),
        };
        if free { Ok(()) } else { self.lock.lock_slow(wants, Patience::LONG) }
    }

    fn look(&self) -> u32 {
        // SAFETY: the caller has a share; loom checks that no thread writes.
        self.count.with(|count| unsafe { *count })
    }

    fn add(&self) {
        // SAFETY: the caller has the lock alone; loom checks that.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn give_back(&self, has: Wants) {
        // SAFETY: the caller has what `has` says.
        unsafe {
            match has {
                Wants::Shared => self.lock.unlock_shared(),
                Wants::Upgradable => self.lock.unlock_upgradable(),
                Wants::Alone => self.lock.unlock_alone(),
            }
        }
    }

    fn read(&self) -> Result<u32, Outcome> {
        self.take(Wants::Shared)?;
        let count = self.look();
        self.give_back(Wants::Shared);
        Ok(count)
    }

    fn write(&self) -> Result<u32, Outcome> {
        self.take(Wants::Alone)?;
        self.add();
        self.give_back(Wants::Alone);
        Ok(1)
    }

    fn upgrade_and_write(&self) -> Result<u32, Outcome> {
        self.take(Wants::Upgradable)?;
        let before = self.look();
        // SAFETY: the upgradable share was taken above.
        let upgraded = if unsafe { self.lock.try_upgrade() } {
            Ok(())
        } else {
            unsafe { self.lock.upgrade_slow(Patience::LONG) }
        };
        if let Err(outcome) = upgraded {
            assert_eq!(self.look(), before, "a failed upgrade keeps the share");
            self.give_back(Wants::Upgradable);
            return Err(outcome);
        }
        assert_eq!(self.look(), before, "no other thread wrote before the upgrade");
        self.add();
        self.give_back(Wants::Alone);
        Ok(1)
    }

    /// Asserts that the lock is free, no waiter is queued, and the count is `expected`.
    fn is_over(&self, expected: u32) {
        assert!(!self.lock.is_waited_for(), "the queues are empty");
        assert!(self.lock.try_lock_alone(), "the lock is free");
        assert_eq!(self.look(), expected);
        self.give_back(Wants::Alone);
        self.lock.has_rested();
    }
}

type Does = fn(&Counter) -> Result<u32, Outcome>;

fn one(counter: &Arc<Counter>, does: Does) -> Person<Result<u32, Outcome>> {
    let counter = counter.clone();
    person(move || does(&counter))
}

fn explore_with(preemptions: usize, model: impl Fn(Arc<Counter>) + Send + Sync + 'static) {
    explore(preemptions, move || {
        let _me = i_may_wait();
        model(Counter::new());
    });
}

fn gives_up(sleeper: &Arc<Sleeper>, number: u32) -> loom::thread::JoinHandle<()> {
    let sleeper = sleeper.clone();
    loom::thread::spawn(move || sleeper.time_out(number))
}

#[test]
fn a_writer_is_alone() {
    explore_with(2, |counter| {
        let others = vec![one(&counter, Counter::write), one(&counter, Counter::read)];
        counter.write().unwrap();
        all_end(others);
        counter.is_over(2);
    });
}

/// A woken writer finds the lock taken again and is given the lock.
#[test]
fn writers_take_turns() {
    explore_with(2, |counter| {
        counter.take(Wants::Alone).unwrap();
        let others = vec![one(&counter, Counter::write), one(&counter, Counter::write)];
        counter.give_back(Wants::Alone);
        all_end(others);
        counter.is_over(2);
    });
}

#[test]
fn a_writer_waits_for_readers() {
    explore_with(2, |counter| {
        counter.take(Wants::Shared).unwrap();
        let others = vec![one(&counter, Counter::write), one(&counter, Counter::read)];
        counter.look();
        counter.give_back(Wants::Shared);
        all_end(others);
        counter.is_over(1);
    });
}

/// A reader waits behind a writer that gives up, while the caller keeps its share.
#[test]
fn readers_behind_a_writer_that_gives_up() {
    explore_with(2, |counter| {
        counter.take(Wants::Shared).unwrap();
        let writer = one(&counter, Counter::write);
        while !counter.lock.is_waited_for() {
            loom::thread::yield_now();
        }
        let reader = one(&counter, Counter::read);
        while !writer.sleeper.has_timed_out() {
            loom::thread::yield_now();
            writer.sleeper.time_out(1);
        }
        assert!(all_end(vec![writer])[0].is_err());
        assert!(all_end(vec![reader])[0].is_ok(), "the reader shares the lock with the caller");
        counter.give_back(Wants::Shared);
        counter.lock.has_rested();
    });
}

/// The only waiter gives up while the lock is unlocked.
fn given_back_while_one_gives_up(has: Wants, give_back: fn(&Counter), waits: Does) {
    explore_with(3, move |counter| {
        counter.take(has).unwrap();
        let others = vec![one(&counter, waits)];
        let gives_up = gives_up(&others[0].sleeper, 1);
        give_back(&counter);
        gives_up.join().unwrap();
        all_end(others);
        counter.lock.has_rested();
    });
}

/// The first of two waiters has given up before the lock is unlocked, and may still be in the queue.
fn given_back_after_one_gave_up(has: Wants, give_back: fn(&Counter), first: Does, second: Does) {
    explore_with(2, move |counter| {
        counter.take(has).unwrap();
        let others = vec![one(&counter, first), one(&counter, second)];
        others[0].sleeper.time_out(1);
        give_back(&counter);
        let ends = all_end(others);
        assert!(ends[1].is_ok(), "the waiter that did not give up got the lock");
        counter.lock.has_rested();
    });
}

fn give_all_back(counter: &Counter) {
    counter.give_back(Wants::Alone);
}

fn give_share_back(counter: &Counter) {
    counter.give_back(Wants::Shared);
}

fn hand_over(counter: &Counter) {
    // SAFETY: the caller has the lock alone.
    unsafe { counter.lock.unlock_fair(Wants::Alone) };
}

#[test]
fn a_reader_gives_up() {
    given_back_while_one_gives_up(Wants::Alone, give_all_back, Counter::read);
    given_back_after_one_gave_up(Wants::Alone, give_all_back, Counter::read, Counter::write);
}

#[test]
fn a_writer_gives_up() {
    given_back_while_one_gives_up(Wants::Shared, give_share_back, Counter::write);
    given_back_after_one_gave_up(Wants::Shared, give_share_back, Counter::write, Counter::read);
}

#[test]
fn a_writer_gives_up_while_it_is_given_the_lock() {
    given_back_while_one_gives_up(Wants::Alone, hand_over, Counter::write);
    given_back_after_one_gave_up(Wants::Alone, hand_over, Counter::write, Counter::write);
}

/// The last other reader leaves while the upgrader begins to wait for it.
#[test]
fn an_upgrade_meets_the_last_reader() {
    explore_with(3, |counter| {
        let others = vec![one(&counter, Counter::read)];
        counter.upgrade_and_write().unwrap();
        all_end(others);
        counter.is_over(1);
    });
}

#[test]
fn an_upgrade_goes_before_a_writer() {
    explore_with(2, |counter| {
        counter.take(Wants::Shared).unwrap();
        let others = vec![one(&counter, Counter::upgrade_and_write), one(&counter, Counter::write)];
        counter.give_back(Wants::Shared);
        all_end(others);
        counter.is_over(2);
    });
}

/// The upgrader gives up while the last other reader leaves.
#[test]
fn an_upgrade_is_given_up() {
    explore_with(3, |counter| {
        counter.take(Wants::Shared).unwrap();
        let others = vec![one(&counter, Counter::upgrade_and_write)];
        let gives_up = gives_up(&others[0].sleeper, 1);
        counter.give_back(Wants::Shared);
        gives_up.join().unwrap();
        let ends = all_end(others);
        counter.is_over(u32::from(ends[0].is_ok()));
    });
}

/// The upgrader gives up, and a reader that it kept out is let in.
#[test]
fn an_upgrade_is_given_up_with_others_behind() {
    explore_with(2, |counter| {
        counter.take(Wants::Shared).unwrap();
        let others = vec![one(&counter, Counter::upgrade_and_write), one(&counter, Counter::read)];
        others[0].sleeper.time_out(1);
        if others[0].sleeper.has_timed_out() {
            assert!(all_end(others)[1].is_ok(), "the reader shares the lock with the caller");
            counter.give_back(Wants::Shared);
        } else {
            counter.give_back(Wants::Shared);
            all_end(others);
        }
        counter.lock.has_rested();
    });
}

/// A downgrade to a share lets in the waiting reader while the caller keeps its share.
#[test]
fn a_downgrade_lets_readers_in() {
    explore_with(2, |counter| {
        counter.take(Wants::Alone).unwrap();
        let reader = one(&counter, Counter::read);
        counter.add();
        // SAFETY: the caller took the lock alone.
        unsafe { counter.lock.downgrade(Wants::Alone, Wants::Shared) };
        // The reader ends while the caller has its share.
        assert_eq!(all_end(vec![reader]), [Ok(1)]);
        counter.give_back(Wants::Shared);
        counter.is_over(1);
    });
}

/// Upgradable shares exclude each other, not readers.
#[test]
fn upgradable_shares_take_turns() {
    explore_with(2, |counter| {
        counter.take(Wants::Upgradable).unwrap();
        let upgrades = one(&counter, Counter::upgrade_and_write);
        let reader = one(&counter, Counter::read);
        assert!(all_end(vec![reader])[0].is_ok(), "a reader does not wait for an upgradable share");
        // SAFETY: the caller has the upgradable share.
        unsafe { counter.lock.downgrade(Wants::Upgradable, Wants::Shared) };
        counter.look();
        counter.give_back(Wants::Shared);
        all_end(vec![upgrades]);
        counter.is_over(1);
    });
}

/// A recursive reader is let in beside another reader, even while a writer waits.
#[test]
fn recursive_readers_pass_a_writer() {
    explore(2, || {
        let _me = i_may_wait();
        let lock = Arc::new(RwLock::<true>::new());
        assert!(lock.try_lock_shared());
        let other = lock.clone();
        let writer = person(move || {
            other.lock_anyway(Wants::Alone);
            // SAFETY: `lock_anyway` above.
            unsafe { other.unlock_alone() };
        });
        assert!(lock.try_lock_shared(), "a queued writer does not keep a recursive reader out");
        // SAFETY: the caller took two shares.
        unsafe {
            lock.unlock_shared();
            lock.unlock_shared();
        }
        all_end(vec![writer]);
        lock.has_rested();
    });
}
