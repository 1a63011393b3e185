//! Locks and counters: exclusion, no lost wake-up, permits conserved, and nothing held by what was cancelled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use runtime::sync::{
    Barrier, Condvar, FairMutex, Mutex, Notify, Once, OnceCell, RwLock, Semaphore, WaitGroup,
};
use runtime::time::{timeout, timeout_async};
use runtime::{scope, select, sleep, spawn, yield_now};

use super::{exhaust, explore, ms, pick};

/// Counts the threads inside. Beside an exclusive one there is no other.
#[derive(Default)]
struct Inside {
    shared: AtomicUsize,
    exclusive: AtomicUsize,
}

impl Inside {
    /// A stay that other green threads may see.
    fn stay(&self, exclusive: bool) {
        let (mine, most) = if exclusive { (&self.exclusive, 0) } else { (&self.shared, usize::MAX) };
        mine.fetch_add(1, Relaxed);
        let _leaves = Leaves(mine);
        assert!(self.exclusive.load(Relaxed) <= usize::from(exclusive), "one at a time");
        assert!(self.shared.load(Relaxed) <= most, "no reader beside a writer");
        yield_now();
        assert!(self.exclusive.load(Relaxed) <= usize::from(exclusive), "one at a time");
        assert!(self.shared.load(Relaxed) <= most, "no reader beside a writer");
    }
}

struct Leaves<'i>(&'i AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_mutex_admits_one() {
    explore(|| {
        let (lock, fair, inside, fair_inside) =
            (Mutex::new(0), FairMutex::new(0), Inside::default(), Inside::default());
        let timed = AtomicUsize::new(0);
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let mut count = lock.lock();
                        inside.stay(true);
                        *count += 1;
                        drop(count);
                        let mut count = fair.lock();
                        fair_inside.stay(true);
                        *count += 1;
                    }
                    if let Some(mut count) = lock.try_lock_for(ms(1)) {
                        inside.stay(true);
                        sleep(ms(1));
                        *count += 1;
                        timed.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert!(timed.load(Relaxed) > 0);
        assert_eq!((lock.into_inner(), fair.into_inner()), (6 + timed.into_inner(), 6));
    });
}

#[test]
fn a_mutex_admits_one_in_all_schedules() {
    exhaust(|| {
        let (lock, inside) = (Mutex::new(0), Inside::default());
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut count = lock.lock();
                    inside.stay(true);
                    *count += 1;
                });
            }
        });
        assert_eq!(lock.into_inner(), 2);
    });
}

#[test]
fn a_lock_is_free_after_its_waiters_and_holders_were_ended() {
    explore(|| {
        let (lock, rw, inside) =
            (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())), Arc::new(Inside::default()));
        let victims: Vec<_> = (0..4)
            .map(|n| {
                let (lock, rw, inside) = (lock.clone(), rw.clone(), inside.clone());
                spawn(move || {
                    _ = timeout(ms(2 + n % 2), || {
                        let _lock = lock.lock();
                        if n < 2 {
                            let _write = rw.write();
                            inside.stay(true);
                            sleep(ms(2));
                        } else {
                            drop(_lock);
                            let _read = rw.read();
                            inside.stay(false);
                            sleep(ms(2));
                        }
                    });
                })
            })
            .collect();
        sleep(ms(pick(3) as u64));
        victims[pick(4)].cancel();
        victims.into_iter().for_each(|victim| _ = victim.join());
        assert!(lock.try_lock().is_some() && rw.try_write().is_some());
    });
}

#[test]
fn a_rwlock_admits_one_writer_or_readers() {
    explore(|| {
        let (lock, inside) = (RwLock::new(0), Inside::default());
        let counted = AtomicUsize::new(0);
        scope(|scope| {
            for n in 0..4 {
                let (lock, inside, counted) = (&lock, &inside, &counted);
                scope.spawn(move || {
                    match (n + pick(2)) % 4 {
                        0 => {
                            let mut count = lock.write();
                            inside.stay(true);
                            *count += 1;
                            // After a downgrade readers come in, and no writer.
                            let count = downgrade(count);
                            inside.stay(false);
                            assert!(*count > 0);
                        }
                        1 => {
                            let count = lock.upgradable_read();
                            let seen = *count;
                            inside.stay(false);
                            let mut count = runtime::sync::RwLockUpgradableReadGuard::upgrade(count);
                            assert_eq!(*count, seen, "no writer came between");
                            inside.stay(true);
                            *count += 1;
                        }
                        2 => match lock.try_write_for(ms(1)) {
                            Some(mut count) => {
                                inside.stay(true);
                                *count += 1;
                            }
                            None => return,
                        },
                        _ => {
                            let before = lock.read();
                            inside.stay(false);
                            return drop(before);
                        }
                    }
                    counted.fetch_add(1, Relaxed);
                });
            }
        });
        assert_eq!(lock.into_inner(), counted.into_inner());
    });
}

fn downgrade<T>(guard: runtime::sync::RwLockWriteGuard<'_, T>) -> runtime::sync::RwLockReadGuard<'_, T> {
    runtime::sync::RwLockWriteGuard::downgrade(guard)
}

#[test]
fn a_condvar_loses_no_notification() {
    explore(|| {
        let (queue, filled) = (Mutex::new(VecDeque::new()), Condvar::new());
        let taken = AtomicUsize::new(0);
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let mut queue = queue.lock();
                        while queue.is_empty() {
                            filled.wait(&mut queue);
                        }
                        queue.pop_front();
                        taken.fetch_add(1, Relaxed);
                    }
                });
                scope.spawn(|| {
                    for n in 0..2 {
                        queue.lock().push_back(n);
                        filled.notify_one();
                    }
                });
            }
        });
        assert_eq!(taken.into_inner(), 4);
    });
}

#[test]
fn a_notification_does_not_go_to_a_waiter_that_was_ended() {
    explore(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waiters: Vec<_> = (0..3)
            .map(|n| {
                let shared = shared.clone();
                spawn(move || {
                    let wait = || {
                        let mut left = shared.0.lock();
                        while *left == 0 {
                            shared.1.wait(&mut left);
                        }
                        *left -= 1;
                        true
                    };
                    if n == 0 { timeout(ms(1), wait).unwrap_or(false) } else { wait() }
                })
            })
            .collect();
        let ends = spawn({
            let victim = waiters[1].abort_handle();
            move || {
                sleep(ms(1));
                victim.cancel();
            }
        });
        sleep(ms(pick(2) as u64));
        // One for each. Waiters that are ended leave theirs.
        for _ in 0..3 {
            *shared.0.lock() += 1;
            shared.1.notify_one();
        }
        let ended = waiters.into_iter().map(|waiter| waiter.join().unwrap_or(false)).collect::<Vec<_>>();
        ends.join().unwrap();
        let took = ended.iter().filter(|took| **took).count();
        assert!(ended[2], "the waiter that was not ended has taken one");
        assert_eq!(*shared.0.lock(), 3 - took);
    });
}

#[test]
fn permits_are_conserved() {
    explore(|| {
        let turns = Arc::new(Semaphore::new(3));
        let out = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let (turns, out, how) = (turns.clone(), out.clone(), pick(4));
                let many = 1 + n % 3;
                spawn(move || {
                    let hold = || {
                        let before = out.fetch_add(many as usize, Relaxed);
                        let _leaves = Returns(&out, many as usize);
                        assert!(before + many as usize <= 3, "no more permits than there are");
                        yield_now();
                        sleep(ms(1));
                    };
                    match how {
                        0 => _ = timeout(ms(1), || turns.acquire_many(many).map(|_permit| hold())),
                        1 => {
                            let _permit = turns.clone().acquire_many_owned(many).unwrap();
                            hold();
                        }
                        2 => {
                            for _ in 0..many {
                                select! {
                                    acquired(turns) -> permit => drop(permit.unwrap()),
                                    default(ms(1)) => {},
                                }
                            }
                        }
                        _ => {
                            if let Ok(permit) = turns.try_acquire_many(many) {
                                hold();
                                drop(permit);
                            }
                        }
                    }
                })
            })
            .collect();
        if pick(2) == 0 {
            sleep(ms(pick(2) as u64));
            threads[pick(4)].cancel();
        }
        threads.into_iter().for_each(|thread| _ = thread.join());
        assert_eq!((turns.available_permits(), out.load(Relaxed)), (3, 0));
    });
}

struct Returns<'o>(&'o AtomicUsize, usize);

impl Drop for Returns<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}

#[test]
fn a_dropped_future_of_a_permit_gives_it_back() {
    explore(|| {
        let turns = Arc::new(Semaphore::new(1));
        let futures: Vec<_> = (0..3)
            .map(|_| {
                let turns = turns.clone();
                spawn(async move {
                    let taken = timeout_async(ms(1), turns.acquire_async()).await;
                    if let Ok(Ok(_permit)) = taken {
                        runtime::time::sleep_async(ms(1)).await;
                    }
                })
            })
            .collect();
        futures[0].cancel();
        futures.into_iter().for_each(|future| _ = future.join());
        assert_eq!(turns.available_permits(), 1);
    });
}

#[test]
fn a_closed_semaphore_wakes_all() {
    exhaust(|| {
        let turns = Arc::new(Semaphore::new(0));
        let waiters = [(); 2].map(|()| {
            let turns = turns.clone();
            spawn(move || turns.acquire_many(2).is_err())
        });
        turns.add_permits(1);
        turns.close();
        waiters.into_iter().for_each(|waiter| assert!(waiter.join().unwrap()));
    });
}

#[test]
fn a_notification_is_kept_or_passed_on() {
    explore(|| {
        let notify = Arc::new(Notify::new());
        let wait = |how: usize| {
            let notify = notify.clone();
            spawn(move || match how {
                0 => timeout(ms(1), || notify.notified()).is_ok(),
                1 => select! {
                    notified(notify) -> () => true,
                    default(ms(1)) => false,
                },
                _ => {
                    notify.notified();
                    true
                }
            })
        };
        let (ended, cancelled, stays) = (wait(pick(2)), wait(2), wait(2));
        sleep(ms(pick(2) as u64));
        let cancel = cancelled.abort_handle();
        let cancels = spawn(move || cancel.cancel());
        // At most one of the others takes a notification without being waited for here.
        notify.notify_one();
        let took = [ended.join().unwrap(), cancelled.join().is_ok()];
        if took.contains(&true) {
            notify.notify_one();
        }
        stays.join().unwrap();
        cancels.join().unwrap();
        assert!(took != [true; 2], "one notification wakes one");
    });
}

#[test]
fn notify_waiters_wakes_those_that_wait() {
    explore(|| {
        let notify = Arc::new(Notify::new());
        let waiters = [(); 3].map(|()| {
            let notify = notify.clone();
            spawn(move || notify.notified())
        });
        // The clock moves when all of them wait.
        sleep(ms(1));
        notify.notify_waiters();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(timeout(ms(1), || notify.notified()).is_err(), "nothing is kept");
    });
}

#[test]
fn a_barrier_has_one_leader_in_each_round() {
    explore(|| {
        let (barrier, leaders) = (Barrier::new(3), AtomicUsize::new(0));
        let rounds = [const { AtomicUsize::new(0) }; 3];
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in &rounds {
                        round.fetch_add(1, Relaxed);
                        leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
                        assert_eq!(round.load(Relaxed), 3, "all have come");
                    }
                });
            }
        });
        assert_eq!(leaders.into_inner(), 3);
    });
}

#[test]
fn a_barrier_does_not_count_a_waiter_that_was_ended() {
    explore(|| {
        let (barrier, passed) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
        let wait = || {
            let (barrier, passed) = (barrier.clone(), passed.clone());
            move || {
                barrier.wait();
                passed.fetch_add(1, Relaxed);
            }
        };
        let (victim, one) = (spawn(wait()), spawn(wait()));
        let canceller = victim.abort_handle();
        spawn(move || canceller.cancel());
        _ = victim.join();
        if passed.load(Relaxed) == 0 {
            assert!(!one.is_finished());
            wait()();
        }
        one.join().unwrap();
        assert_eq!(passed.load(Relaxed), 2);
    });
}

#[test]
fn a_wait_group_waits_for_all_clones() {
    exhaust(|| {
        let (group, done) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let (group, done) = (group.clone(), done.clone());
            spawn(move || {
                yield_now();
                done.fetch_add(1, Relaxed);
                drop(group);
            });
        }
        group.wait();
        assert_eq!(done.load(Relaxed), 2);
    });
}

#[test]
fn a_value_is_made_once() {
    explore(|| {
        let (cell, once, made) = (OnceCell::new(), Once::new(), [const { AtomicUsize::new(0) }; 2]);
        let fails = AtomicBool::new(true);
        scope(|scope| {
            for n in 0..3 {
                let (cell, once, made, fails) = (&cell, &once, &made, &fails);
                scope.spawn(move || {
                    once.call_once(|| {
                        yield_now();
                        made[0].fetch_add(1, Relaxed);
                    });
                    assert_eq!(made[0].load(Relaxed), 1);
                    let got = cell.get_or_try_init(|| {
                        sleep(ms(1));
                        // The first attempt fails, and the next waiter makes the value.
                        if fails.swap(false, Relaxed) {
                            return Err(());
                        }
                        made[1].fetch_add(1, Relaxed);
                        Ok(n)
                    });
                    assert!(got.is_err() || got == cell.get().ok_or(()));
                });
            }
        });
        assert_eq!(made.map(AtomicUsize::into_inner), [1, 1]);
    });
}

#[test]
fn a_value_is_made_although_its_maker_was_cancelled() {
    explore(|| {
        let cell = Arc::new(OnceCell::new());
        let make = |n| {
            let cell = cell.clone();
            spawn(move || {
                *cell.get_or_init(|| {
                    sleep(ms(1));
                    n
                })
            })
        };
        let (victim, other) = (make(1), make(2));
        sleep(ms(pick(2) as u64));
        victim.cancel();
        let got = other.join().unwrap();
        assert_eq!(cell.get(), Some(&got));
        if let Ok(n) = victim.join() {
            assert_eq!(n, got);
        }
    });
}
