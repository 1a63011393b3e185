//! The reader-writer locks: many readers or a single writer, upgrades, downgrades, time-outs, and no lost
//! wake-up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::sync::{
    ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard,
    RecursiveRwLock, RecursiveRwLockReadGuard, RecursiveRwLockUpgradableReadGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{JoinHandle, sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each, with_each};
use tests::{ON_PURPOSE, OnDrop, Random, on_each, quiet_panics_on_purpose, until_it_waits, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn was_cancelled<T: std::fmt::Debug>(thread: JoinHandle<T>) {
    assert!(thread.join().unwrap_err().is::<Cancelled>());
}

/// Spawns a green thread, and waits until it waits in `does`.
fn waits<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = spawn(does);
    until_it_waits(&thread);
    thread
}

#[test]
fn access_to_the_value() {
    in_each(|| {
        let mut lock = RwLock::new(vec![1]);
        lock.get_mut().push(2);
        lock.write().push(3);
        assert_eq!(format!("{lock:?}"), "RwLock { data: [1, 2, 3] }");
        let (one, two) = (lock.read(), lock.read());
        assert_eq!(*one, *two);
        assert!(lock.is_locked() && !lock.is_locked_exclusive());
        assert!(lock.try_write().is_none());
        assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_some());
        drop((one, two));
        let writer = lock.write();
        assert!(lock.is_locked_exclusive());
        assert!(
            lock.try_read().is_none() && lock.try_write().is_none() && lock.try_upgradable_read().is_none()
        );
        assert_eq!(format!("{lock:?} {writer:?}"), "RwLock { data: <locked> } [1, 2, 3]");
        drop(writer);
        assert!(!lock.is_locked());
        assert_eq!(lock.into_inner(), [1, 2, 3]);
        let unsized_one: &RwLock<[u8]> = &RwLock::new([1, 2]);
        unsized_one.write()[1] = 3;
        assert_eq!(*unsized_one.read(), [1, 3]);
    });
}

#[test]
fn guards_of_parts_of_the_value() {
    let pair = RwLock::new((1, [2, 3]));
    let second = RwLockReadGuard::map(pair.read(), |pair| &pair.1);
    let last = MappedRwLockReadGuard::map(second, |second| &second[1]);
    assert_eq!(*last, 3);
    let (same, error) = MappedRwLockReadGuard::try_map_or_err(last, |_| Err::<&i32, _>("no")).unwrap_err();
    assert_eq!((*same, error), (3, "no"));
    drop(same);
    let none = RwLockReadGuard::try_map(pair.read(), |_| None::<&i32>);
    drop(none.expect_err("the closure returns none"));
    let second = RwLockWriteGuard::map(pair.write(), |pair| &mut pair.1);
    assert!(pair.try_read().is_none());
    *MappedRwLockWriteGuard::map(second, |second| &mut second[0]) = 7;
    assert_eq!(pair.into_inner(), (1, [7, 3]));
}

#[test]
fn guards_may_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync>(value: T) -> T {
        value
    }
    in_each(|| {
        let lock = Arc::new(RwLock::new(1));
        let mut writer: ArcRwLockWriteGuard<i32> = is_send_and_sync(lock.write_arc());
        spawn(move || *writer += 1).join().unwrap();
        let (one, two) = (is_send_and_sync(lock.read_arc()), lock.read_arc());
        spawn(move || drop(one)).join().unwrap();
        assert!(lock.try_write_arc().is_none());
        drop(two);
        let mut upgraded = ArcRwLockUpgradableReadGuard::upgrade(lock.upgradable_read_arc());
        *upgraded += 1;
        let shared = ArcRwLockWriteGuard::downgrade(upgraded);
        assert_eq!((*shared, *lock.read()), (3, 3));
    });
}

/// Readers and writers of all kinds. A negative number means that a writer is inside.
#[test]
fn many_readers_or_a_single_writer() {
    in_each(|| {
        let (lock, inside) = (RwLock::new(0u64), AtomicIsize::new(0));
        let written = AtomicUsize::new(0);
        crowd(16, 4, |i| {
            let mut random = Random::new(i as u64);
            let read = |rest: bool| {
                assert!(inside.fetch_add(1, SeqCst) >= 0, "a writer is inside");
                if rest {
                    yield_now();
                }
                inside.fetch_sub(1, SeqCst);
            };
            let write = |value: &mut u64| {
                assert_eq!(inside.swap(-1000, SeqCst), 0, "another thread is inside");
                *value += 1;
                written.fetch_add(1, SeqCst);
                inside.store(0, SeqCst);
            };
            for _ in 0..150 {
                let rest = random.below(8) == 0;
                match random.below(8) {
                    0 | 1 => write(&mut lock.write()),
                    2 => {
                        let guard = lock.upgradable_read();
                        read(rest);
                        write(&mut RwLockUpgradableReadGuard::upgrade(guard));
                    }
                    3 => {
                        let mut guard = lock.write();
                        write(&mut guard);
                        let guard = RwLockWriteGuard::downgrade(guard);
                        read(rest);
                        RwLockReadGuard::unlock_fair(guard);
                    }
                    4 => {
                        let mut guard = lock.write();
                        write(&mut guard);
                        let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
                        read(rest);
                        drop(RwLockUpgradableReadGuard::downgrade(guard));
                    }
                    _ => {
                        let _guard = lock.read();
                        read(rest);
                    }
                }
            }
        });
        assert_eq!(*lock.read() as usize, written.into_inner());
        assert!(lock.try_write().is_some(), "all guards were dropped");
    });
}

#[test]
fn readers_are_inside_together() {
    in_each(|| {
        let (lock, inside) = (RwLock::new(()), AtomicUsize::new(0));
        crowd(4, 2, |_| {
            let _guard = lock.read();
            inside.fetch_add(1, SeqCst);
            wait_until("all readers are inside", || inside.load(SeqCst) == 6);
        });
    });
}

#[test]
fn new_readers_queue_behind_a_waiting_writer() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let first = lock.read();
        let its = lock.clone();
        let writer = waits(move || *its.write() += 1);
        assert!(lock.try_read().is_none());
        assert!(lock.try_upgradable_read().is_none());
        assert!(lock.try_read_for(MILLI).is_none());
        let its = lock.clone();
        let reader = waits(move || *its.read());
        drop(first);
        assert_eq!(reader.join().unwrap(), 1, "the writer was served first");
        writer.join().unwrap();
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn readers_enter_when_the_waiting_writer_leaves() {
    on_each(|| {
        for cancelled in [false, true] {
            let lock = Arc::new(RwLock::new(()));
            let first = lock.read();
            let its = lock.clone();
            let patience = if cancelled { HOUR } else { 10 * MILLI };
            let writer = waits(move || its.try_write_for(patience).is_some());
            let its = lock.clone();
            let reader = waits(move || drop(its.read()));
            if cancelled {
                writer.cancel();
                was_cancelled(writer);
            } else {
                assert!(!writer.join().unwrap());
            }
            reader.join().unwrap();
            drop(first);
            assert!(lock.try_write().is_some());
        }
    });
}

/// An upgradable reader that waits for another upgradable reader blocks no reader.
#[test]
fn a_single_upgradable_reader_at_a_time() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let first = lock.upgradable_read();
        assert!(lock.try_upgradable_read().is_none());
        let its = lock.clone();
        let second = waits(move || *RwLockUpgradableReadGuard::upgrade(its.upgradable_read()) += 1);
        assert!(lock.try_read().is_some());
        let shared = RwLockUpgradableReadGuard::downgrade(first);
        tests::wait_until("a waiting upgrade blocks new readers", || lock.try_read().is_none());
        assert!(!second.is_finished(), "the upgrade waits for the reader");
        drop(shared);
        second.join().unwrap();
        assert_eq!(*lock.read(), 1);
    });
}

#[test]
fn upgrades_with_and_without_a_deadline() {
    in_each(|| {
        let lock = RwLock::new(0);
        let guard = lock.upgradable_read();
        let reader = lock.read();
        let guard = RwLockUpgradableReadGuard::try_upgrade(guard).expect_err("there is a reader");
        let start = Instant::now();
        let guard =
            RwLockUpgradableReadGuard::try_upgrade_for(guard, 2 * MILLI).expect_err("there is a reader");
        assert!(start.elapsed() >= 2 * MILLI, "early");
        let mut guard =
            RwLockUpgradableReadGuard::try_upgrade_until(guard, start).expect_err("there is a reader");
        assert!(lock.try_read().is_some(), "a failed upgrade blocks no reader");
        assert_eq!(guard.try_with_upgraded(|_| ()), None);
        drop(reader);
        guard.with_upgraded(|count| *count += 1);
        assert_eq!(guard.try_with_upgraded_for(MILLI, |count| *count += 1), Some(()));
        assert!(lock.try_read().is_some(), "the guard is shared again");
        let mut guard = RwLockUpgradableReadGuard::try_upgrade_for(guard, Duration::MAX).unwrap();
        *guard += 1;
        assert!(lock.try_read().is_none());
        RwLockWriteGuard::unlock_fair(guard);
        assert_eq!(lock.into_inner(), 3);
    });
}

#[test]
fn an_upgrade_precedes_waiting_writers() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(Vec::new()));
        let upgradable = lock.upgradable_read();
        let its = lock.clone();
        let writer = waits(move || its.write().push(2));
        let mut guard = RwLockUpgradableReadGuard::upgrade(upgradable);
        guard.push(1);
        drop(guard);
        writer.join().unwrap();
        assert_eq!(*lock.read(), [1, 2]);
    });
}

#[test]
fn fair_unlocks_hand_the_lock_off() {
    type GiveBack = fn(&RwLock<Vec<u32>>);
    let ways: [GiveBack; 6] = [
        |lock| RwLockWriteGuard::unlock_fair(lock.write()),
        |lock| RwLockReadGuard::unlock_fair(lock.read()),
        |lock| RwLockUpgradableReadGuard::unlock_fair(lock.upgradable_read()),
        |lock| RwLockWriteGuard::bump(&mut lock.write()),
        |lock| RwLockReadGuard::bump(&mut lock.read()),
        |lock| RwLockUpgradableReadGuard::bump(&mut lock.upgradable_read()),
    ];
    // The calls without a waiter.
    ways.iter().for_each(|give_back| give_back(&RwLock::new(Vec::new())));
    on_each(|| {
        let lock = Arc::new(RwLock::new(Vec::new()));
        let waiter = |number| {
            let lock = lock.clone();
            waits(move || lock.write().push(number))
        };
        // The lock was handed to the waiter, so the caller cannot lock first.
        let guard = lock.write();
        let one = waiter(1);
        RwLockWriteGuard::unlock_fair(guard);
        assert_eq!(*lock.write(), [1]);
        let mut guard = lock.read();
        let two = waiter(2);
        RwLockReadGuard::bump(&mut guard);
        assert_eq!(*guard, [1, 2]);
        drop(guard);
        let mut guard = lock.upgradable_read();
        let three = waiter(3);
        RwLockUpgradableReadGuard::bump(&mut guard);
        assert_eq!(*guard, [1, 2, 3]);
        drop(guard);
        let mut guard = lock.write();
        let four = waiter(4);
        RwLockWriteGuard::bump(&mut guard);
        assert_eq!(*guard, [1, 2, 3, 4]);
        drop(guard);
        [one, two, three, four].into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn locks_with_a_deadline() {
    in_each(|| {
        let lock = RwLock::new(());
        assert!(lock.try_read_for(Duration::ZERO).is_some() && lock.try_write_for(Duration::MAX).is_some());
        assert!(lock.try_upgradable_read_until(Instant::now()).is_some());
        for time in [Duration::ZERO, Duration::from_micros(1), 2 * MILLI] {
            let writer = lock.write();
            let start = Instant::now();
            assert!(lock.try_read_for(time).is_none());
            assert!(lock.try_read_until(start).is_none());
            assert!(lock.try_upgradable_read_for(time).is_none());
            assert!(start.elapsed() >= 2 * time, "early");
            drop(writer);
            let reader = lock.read();
            let start = Instant::now();
            assert!(lock.try_write_for(time).is_none());
            assert!(lock.try_write_until(start + 2 * time).is_none());
            assert!(start.elapsed() >= 2 * time, "early");
            drop(reader);
        }
        assert!(lock.try_write().is_some(), "no share of the lock is left");
    });
}

#[test]
fn time_outs_and_cancellations_race_with_unlocks() {
    with_each(|runtime| {
        runtime.block_on(|| {
            let (lock, written) = (RwLock::new(0u64), AtomicUsize::new(0));
            let inside = AtomicIsize::new(0);
            let read = || {
                assert!(inside.fetch_add(1, SeqCst) >= 0, "a writer is inside");
                inside.fetch_sub(1, SeqCst);
            };
            let write = |guard: &mut RwLockWriteGuard<'_, u64>| {
                assert_eq!(inside.swap(-1000, SeqCst), 0, "another thread is inside");
                **guard += 1;
                written.fetch_add(1, SeqCst);
                inside.store(0, SeqCst);
            };
            crowd(8, 3, |i| {
                let mut random = Random::new(70 + i as u64);
                for _ in 0..150 {
                    let patience = Duration::from_micros(random.below(60));
                    match random.below(7) {
                        0 => drop(lock.try_read_for(patience).map(|_guard| read())),
                        1 => drop(lock.try_write_for(patience).map(|mut guard| write(&mut guard))),
                        2 => drop(timeout(patience, || write(&mut lock.write()))),
                        3 => drop(timeout(patience, || lock.read()).map(|_guard| read())),
                        4 => {
                            // The time-out may unwind in the middle of the upgrade, which then gives its
                            // share up.
                            let _ = timeout(patience, || {
                                let guard = lock.upgradable_read();
                                read();
                                write(&mut RwLockUpgradableReadGuard::upgrade(guard));
                            });
                        }
                        5 => {
                            let guard = lock.upgradable_read();
                            match RwLockUpgradableReadGuard::try_upgrade_for(guard, patience) {
                                Ok(mut guard) => write(&mut guard),
                                Err(_guard) => read(),
                            }
                        }
                        _ => {
                            let mut guard = lock.read();
                            RwLockReadGuard::bump(&mut guard);
                            read();
                        }
                    }
                }
            });
            assert_eq!(*lock.read() as usize, written.into_inner());
            assert!(lock.try_write().is_some(), "no share of the lock is left");
        });
    });
}

#[test]
fn a_cancelled_waiter_leaves_the_lock_to_the_next() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let guard = lock.write();
        let (a, b, c) = (lock.clone(), lock.clone(), lock.clone());
        let first = waits(move || *a.write() += 1);
        let second = waits(move || drop(b.upgradable_read()));
        let third = waits(move || *c.read());
        first.cancel();
        second.cancel();
        drop(guard);
        was_cancelled(first);
        was_cancelled(second);
        assert_eq!(third.join().unwrap(), 0);
        // A cancelled upgrade gives its share up.
        let reader = lock.read();
        let its = lock.clone();
        let upgrades = waits(move || *RwLockUpgradableReadGuard::upgrade(its.upgradable_read()) += 1);
        assert!(lock.try_read().is_none(), "the waiting upgrade blocks readers");
        upgrades.cancel();
        was_cancelled(upgrades);
        drop((reader, lock.try_upgradable_read().expect("the upgrade has given its share up")));
        assert!(lock.try_write().is_some());
    });
}

/// A call through a function pointer is a call of the user like any other.
#[test]
fn a_call_through_a_function_pointer_is_cancelled() {
    fn by_pointer<L, G>(lock: fn(L) -> G, of: L) -> G {
        std::hint::black_box(lock)(of)
    }
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let ways: [fn(&Arc<RwLock<i32>>); 7] = [
            |lock| drop(by_pointer(RwLock::read, &**lock)),
            |lock| drop(by_pointer(RwLock::read_arc, lock)),
            |lock| drop(by_pointer(RwLock::write, &**lock)),
            |lock| drop(by_pointer(RwLock::write_arc, lock)),
            |lock| drop(by_pointer(RwLock::upgradable_read, &**lock)),
            |lock| drop(by_pointer(RwLock::upgradable_read_arc, lock)),
            // Waits for the reader below.
            |lock| drop(by_pointer(RwLockUpgradableReadGuard::upgrade, lock.upgradable_read())),
        ];
        for (at, way) in ways.into_iter().enumerate() {
            let guards = if at < 6 { (Some(lock.write()), None) } else { (None, Some(lock.read())) };
            let its = lock.clone();
            let waiter = waits(move || way(&its));
            waiter.cancel();
            was_cancelled(waiter);
            drop(guards);
            assert!(lock.try_write().is_some(), "way {at} has left nothing behind");
        }
    });
}

/// Operations that lock again, or change a guard in place, wait despite a cancellation.
#[test]
fn relocking_is_not_cancelled() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let step = Arc::new(AtomicUsize::new(0));
        let (its, says) = (lock.clone(), step.clone());
        let thread = spawn(move || {
            let mut guard = its.upgradable_read();
            says.store(1, SeqCst);
            while says.load(SeqCst) == 1 {
                yield_now();
            }
            // A reader is inside for a while.
            guard.with_upgraded(|count| *count += 1);
            RwLockUpgradableReadGuard::unlocked(&mut guard, || says.store(3, SeqCst));
            drop(guard);
            says.store(4, SeqCst);
            sleep(HOUR);
        });
        wait_until("the thread has the lock", || step.load(SeqCst) == 1);
        let reader = lock.read();
        step.store(2, SeqCst);
        sleep(MILLI);
        thread.cancel();
        sleep(MILLI);
        assert_eq!(step.load(SeqCst), 2, "the upgrade waits for the reader");
        drop(reader);
        wait_until("the thread has unlocked", || step.load(SeqCst) == 4);
        was_cancelled(thread);
        assert_eq!(*lock.read(), 1);
    });
    // The other guards, with a time-out: another thread holds the lock exclusively for longer than the
    // time-out.
    type Again = fn(&RwLock<i32>, &dyn Fn());
    let ways: [Again; 3] = [
        |lock, lend| RwLockWriteGuard::unlocked_fair(&mut lock.write(), lend),
        |lock, lend| RwLockReadGuard::unlocked(&mut lock.read(), lend),
        |lock, lend| RwLockUpgradableReadGuard::unlocked_fair(&mut lock.upgradable_read(), lend),
    ];
    on_each(|| {
        for way in ways {
            let (lock, step) = (Arc::new(RwLock::new(0)), Arc::new(AtomicUsize::new(0)));
            let wait_for = |step: &AtomicUsize, is: usize| {
                while step.load(SeqCst) != is {
                    yield_now();
                }
            };
            let (its, its_step) = (lock.clone(), step.clone());
            let borrower = spawn(move || {
                wait_for(&its_step, 1);
                let _guard = its.write();
                its_step.store(2, SeqCst);
                let start = Instant::now();
                while start.elapsed() < 6 * MILLI {
                    yield_now();
                }
            });
            let mut has_it_again = false;
            let ended = timeout(3 * MILLI, || {
                way(&lock, &|| {
                    step.store(1, SeqCst);
                    wait_for(&step, 2);
                });
                has_it_again = true;
                sleep(HOUR);
            });
            assert!(has_it_again);
            assert_eq!(ended, Err(Elapsed));
            borrower.join().unwrap();
            assert!(lock.try_write().is_some());
        }
    });
}

#[test]
fn a_timeout_ends_a_wait_for_the_lock() {
    in_each(|| {
        let lock = RwLock::new(());
        let writer = lock.write();
        for wait in [
            |lock: &RwLock<()>| drop(lock.read()),
            |lock: &RwLock<()>| drop(lock.write()),
            |lock: &RwLock<()>| drop(lock.upgradable_read()),
            |lock: &RwLock<()>| drop(lock.try_read_for(HOUR)),
        ] {
            let start = Instant::now();
            assert_eq!(timeout(2 * MILLI, || wait(&lock)), Err(Elapsed));
            assert!(start.elapsed() >= 2 * MILLI, "early");
        }
        drop(writer);
        let reader = lock.read();
        let ended = timeout(2 * MILLI, || drop(RwLockUpgradableReadGuard::upgrade(lock.upgradable_read())));
        assert_eq!(ended, Err(Elapsed));
        drop(reader);
        assert!(lock.try_write().is_some(), "no share of the lock is left");
    });
}

#[test]
fn a_panic_does_not_poison_the_lock() {
    quiet_panics_on_purpose();
    in_each(|| {
        let lock = RwLock::new(1);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.write();
            panic!("{ON_PURPOSE}");
        }));
        assert!(panic.is_err());
        assert_eq!(*lock.read(), 1);
        let mut guard = lock.upgradable_read();
        let panic = catch_unwind(AssertUnwindSafe(|| guard.with_upgraded(|_| panic!("{ON_PURPOSE}"))));
        assert!(panic.is_err());
        assert_eq!(*lock.read(), *guard, "the guard is shared again");
    });
}

#[test]
fn a_lock_is_taken_while_unwinding() {
    on_each(|| {
        let lock = Arc::new(RwLock::new(0));
        let reader = lock.read();
        let (its, begun) = (lock.clone(), Arc::new(AtomicBool::new(false)));
        let says = begun.clone();
        let thread = spawn(move || {
            let _on_drop = OnDrop(|| *its.write() += 1);
            says.store(true, SeqCst);
            sleep(HOUR);
        });
        wait_until("the thread has begun", || begun.load(SeqCst));
        thread.cancel();
        sleep(2 * MILLI);
        assert!(!thread.is_finished(), "the destructor waits for the lock");
        drop(reader);
        was_cancelled(thread);
        assert_eq!(*lock.read(), 1);
    });
}

/// Green threads that lock in a loop, with `rest` in between, must let threads that have waited for long have
/// the lock.
fn greedy_and_others(rest: impl Fn() + Send + Sync) {
    let (lock, had) = (RwLock::new(()), AtomicUsize::new(0));
    crowd(6, 2, |i| match i % 4 {
        0 => {
            while had.load(SeqCst) < 4 * 4 {
                drop(lock.write());
                rest();
            }
        }
        1 => {
            while had.load(SeqCst) < 4 * 4 {
                drop(lock.read());
                rest();
            }
        }
        kind => {
            for _ in 0..4 {
                sleep(Duration::from_micros(100));
                if kind == 2 {
                    drop(lock.write())
                } else {
                    drop(lock.read())
                }
                had.fetch_add(1, SeqCst);
            }
        }
    });
}

#[test]
fn a_greedy_locker_starves_no_waiter() {
    on_each(|| greedy_and_others(|| ()));
}

#[test]
fn a_greedy_locker_that_yields_starves_no_waiter() {
    // In a strict runtime, a green thread that computes without a yield would block the green threads bound
    // to its OS thread.
    with_each(|runtime| runtime.block_on(|| greedy_and_others(yield_now)));
}

#[test]
fn recursive_reads_pass_a_waiting_writer() {
    on_each(|| {
        let lock = Arc::new(RecursiveRwLock::new(0));
        let mut outer = lock.read();
        let its = lock.clone();
        let writer = waits(move || *its.write() += 1);
        assert_eq!(*lock.read(), 0);
        assert!(lock.try_read().is_some());
        let inner = lock.read();
        RecursiveRwLockReadGuard::bump(&mut outer);
        drop((inner, outer));
        writer.join().unwrap();
        assert_eq!(*lock.read(), 1);
        // Recursive reads also pass a waiting upgrade.
        let outer = lock.read();
        let its = lock.clone();
        let upgrades =
            waits(move || *RecursiveRwLockUpgradableReadGuard::upgrade(its.upgradable_read()) += 1);
        assert!(lock.try_read().is_some());
        drop(outer);
        upgrades.join().unwrap();
        assert_eq!(*lock.read(), 2);
    });
    in_each(|| {
        let lock = RecursiveRwLock::new(0);
        crowd(8, 2, |i| {
            for round in 0..100 {
                if (i + round) % 5 == 0 {
                    *lock.write() += 1;
                } else {
                    let outer = lock.read();
                    yield_now();
                    assert_eq!(*outer, *lock.read());
                }
            }
        });
        assert_eq!(lock.into_inner(), 200);
    });
}

/// Green threads that wait for a lock unwind when their runtime ends.
#[test]
fn waiters_unwind_when_their_runtime_ends() {
    let lock = Arc::new(RwLock::new(0));
    let guard = lock.upgradable_read();
    with(2, |runtime| {
        for i in 0..12 {
            let lock = lock.clone();
            drop(runtime.spawn(move || match i % 3 {
                0 => *lock.write() += 1,
                1 => drop(lock.upgradable_read()),
                _ => drop(lock.read()),
            }));
        }
        std::thread::sleep(2 * MILLI);
    });
    assert_eq!(*guard, 0);
    drop(guard);
    assert!(lock.try_write().is_some());
}
