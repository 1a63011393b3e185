//! Deadlocks of some green threads: circles are found and named while other green threads go on, and nothing
//! else is reported.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, Once};
use std::time::Duration;

use runtime::channel::{bounded, unbounded};
use runtime::dump::{Deadlock, DeadlockKind, GreenThread, Object, Snapshot, on_deadlock};
use runtime::sync::{Barrier, Condvar, Mutex, RwLock, RwLockAsync};
use runtime::thread::AbortHandle;
use runtime::{Builder, JoinHandle, Runtime, spawn, thread};
use tests::{Random, Watchdog, wait_until};

static TOLD: StdMutex<Vec<Deadlock>> = StdMutex::new(Vec::new());
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns a runtime with a search for deadlocks, which puts what it finds into `TOLD`.
fn searched() -> Runtime {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| on_deadlock(|deadlock| TOLD.lock().unwrap().push(deadlock.clone())));
    Builder::new().procs(2).find_deadlocks(INTERVAL).build().unwrap()
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

/// Returns the deadlocks with one of these names.
fn told(names: &[&str]) -> Vec<Deadlock> {
    let has = |deadlock: &&Deadlock| names_of(deadlock).iter().any(|name| names.contains(&&**name));
    TOLD.lock().unwrap().iter().filter(has).cloned().collect()
}

fn names_of(deadlock: &Deadlock) -> HashSet<String> {
    deadlock.members.iter().filter_map(|member| member.name.clone()).collect()
}

/// Waits until a deadlock of just these threads was reported, and checks that it is reported once.
fn wait_for(names: &[&str]) -> Deadlock {
    wait_until("the deadlock is told", || !told(names).is_empty());
    runtime::sleep(4 * INTERVAL);
    let mut told = told(names);
    assert_eq!(told.len(), 1, "{told:?}");
    let deadlock = told.remove(0);
    assert_eq!(names_of(&deadlock), names.iter().map(|&name| name.to_owned()).collect(), "{deadlock}");
    assert_eq!((deadlock.kind, deadlock.certain), (DeadlockKind::Circle, true), "{deadlock}");
    // A dump reports it too.
    let dump = Snapshot::take_with_deadlocks().unwrap();
    assert!(dump.deadlocks.iter().any(|other| names_of(other) == names_of(&deadlock)), "{dump}");
    assert!(dump.to_string().contains("\ndeadlock: "), "{dump}");
    deadlock
}

fn end(threads: Vec<JoinHandle<()>>) {
    threads.iter().for_each(JoinHandle::cancel);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

#[inline(never)]
fn locks_crosswise(first: &Mutex<u32>, second: &Mutex<u32>) {
    let mut first = first.lock();
    wait_until("the other lock is taken", || second.is_locked());
    *second.lock() += *first;
    *first += 1;
}

#[test]
fn two_locks_taken_crosswise() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
        let (a2, b2) = (a.clone(), b.clone());
        let one = named("crosswise 1", move || locks_crosswise(&a, &b));
        let two = named("crosswise 2", move || locks_crosswise(&b2, &a2));
        let deadlock = wait_for(&["crosswise 1", "crosswise 2"]);
        let text = deadlock.to_string();
        assert!(text.starts_with("deadlock: 2 green threads wait for each other\n"), "{text}");
        for line in [
            "'crosswise 1' waits for a mutex (0x",
            "'crosswise 2' waits for a mutex (0x",
            "held by green thread ",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let stacks = cfg!(all(feature = "dump-stacks", target_os = "linux", target_arch = "x86_64"));
        assert_eq!(text.matches("locks_crosswise").count(), if stacks { 2 } else { 0 }, "{text}");
        // Once one of them is cancelled, the other goes on.
        one.cancel();
        assert!(one.join().is_err());
        two.join().unwrap();
    });
}

#[test]
fn circles_of_all_kinds() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        // A mutex that its holder locks again.
        let own = named("own", || {
            let mutex = Mutex::new(());
            let _guard = mutex.lock();
            drop(mutex.lock());
        });
        // A writer, a mutex, a join, a scope; and one more that waits behind them.
        let (rwlock, mutex) = (Arc::new(RwLock::new(())), Arc::new(Mutex::new(())));
        let (its_rwlock, its_mutex) = (rwlock.clone(), mutex.clone());
        let (sender, receiver) = runtime::channel::bounded::<JoinHandle<()>>(1);
        let writes = named("writes", move || {
            let _guard = its_rwlock.write();
            let joins = receiver.recv().unwrap();
            let _ = joins.join();
        });
        let joined = named("joined", move || {
            while !its_mutex.is_locked() {
                runtime::yield_now();
            }
            let scope = thread::Builder::new().name("in the scope".into());
            runtime::scope(|s| {
                scope.spawn_scoped(s, || drop(its_mutex.lock())).unwrap();
            });
        });
        let its_mutex = mutex.clone();
        let reads = named("reads", move || {
            let _guard = its_mutex.lock();
            wait_until("the writer is in", || rwlock.is_locked());
            drop(rwlock.read());
        });
        wait_until("the mutex is taken", || mutex.is_locked());
        let behind = named("behind", move || drop(mutex.lock()));
        sender.send(joined).unwrap();
        let deadlock = wait_for(&["writes", "joined", "in the scope", "reads"]);
        wait_until("the one behind is counted", || {
            let dump = Snapshot::take_with_deadlocks().unwrap();
            dump.deadlocks.iter().any(|it| names_of(it) == names_of(&deadlock) && it.behind == 1)
        });
        let deadlock = wait_for(&["own"]);
        assert!(
            deadlock.to_string().starts_with("deadlock: a green thread waits for itself\n"),
            "{deadlock}"
        );
        end(vec![own, reads, writes, behind]);
    });
}

/// Readers have a lock together, so a writer waits for each of them.
#[test]
fn circles_with_readers() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let (a, b) = (Arc::new(RwLock::new(1)), Arc::new(RwLock::new(2)));
        let others: Vec<_> = (0..3).map(|_| a.clone()).collect();
        let (both, read) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(4)));
        let crosswise = |name, first: &Arc<RwLock<u32>>, second: &Arc<RwLock<u32>>| {
            let (first, second, both) = (first.clone(), second.clone(), both.clone());
            named(name, move || {
                let first = first.read();
                both.wait();
                *second.write() += *first;
            })
        };
        // Another reader goes on, and then the circle alone is left.
        let goes_on = others.into_iter().map(|lock| {
            let read = read.clone();
            spawn(move || {
                let _guard = lock.read();
                read.wait();
                runtime::sleep(4 * INTERVAL);
            })
        });
        let goes_on: Vec<_> = goes_on.collect();
        read.wait();
        let (one, two) = (crosswise("reader 1", &a, &b), crosswise("reader 2", &b, &a));
        let deadlock = wait_for(&["reader 1", "reader 2"]);
        assert!(deadlock.to_string().contains("held by 1 reader: green thread "), "{deadlock}");
        goes_on.into_iter().for_each(|thread| thread.join().unwrap());
        one.cancel();
        assert!(one.join().is_err());
        two.join().unwrap();
        // A reader that reads again waits behind a writer that waits for the reader.
        let again = a.clone();
        let reads_twice = named("reads twice", move || {
            let _guard = again.read();
            wait_until("a writer waits", || again.try_read().is_none());
            drop(again.read());
        });
        wait_until("the reader has the lock", || a.is_locked());
        let writes = named("writes behind", move || *a.write() += 1);
        wait_for(&["reads twice", "writes behind"]);
        // A reader that upgrades waits for the other reader, which waits for its end.
        let lock = Arc::new(RwLock::new(0));
        let upgraded = lock.clone();
        let (tells, reads) = runtime::channel::bounded(1);
        let upgrades = named("upgrades", move || {
            let guard = upgraded.upgradable_read();
            reads.recv().unwrap();
            drop(runtime::sync::RwLockUpgradableReadGuard::upgrade(guard));
        });
        let (handles, handle) = runtime::channel::bounded::<JoinHandle<()>>(1);
        let joins = named("joins", move || {
            let _guard = lock.read();
            tells.send(()).unwrap();
            let _ = handle.recv().unwrap().join();
        });
        let joined = upgrades.abort_handle();
        handles.send(upgrades).unwrap();
        wait_for(&["upgrades", "joins"]);
        joined.cancel();
        joins.join().unwrap();
        end(vec![reads_twice, writes]);
    });
}

/// Returns a green thread that has a share of `lock` and joins `joined`, which waits for the lock itself.
fn reads_and_joins(
    name: &str,
    lock: &Arc<RwLock<()>>,
    joined: impl FnOnce() -> JoinHandle<()> + Send + 'static,
) -> JoinHandle<()> {
    let lock = lock.clone();
    named(name, move || {
        let _guard = lock.read();
        let _ = joined().join();
    })
}

/// Returns how many green threads wait for `lock`.
fn waiters_of(lock: &RwLock<()>) -> usize {
    // The raw lock, which a dump names, lies in the lock.
    let start = std::ptr::from_ref(lock).addr();
    let place = start..start + size_of_val(lock);
    let waits = |thread: &&GreenThread| {
        let object = thread.wait.as_ref().and_then(|wait| wait.object.as_ref());
        matches!(object, Some(Object::RwLock { address, .. }) if place.contains(address))
    };
    Snapshot::take().unwrap().green_threads.iter().filter(waits).count()
}

/// A waiter for the upgradable share waits for the green thread that has it, and not for the writers behind.
#[test]
fn a_waiter_for_the_upgradable_share_waits_for_no_writer() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let lock = Arc::new(RwLock::new(()));
        let (has, over) = (lock.clone(), Arc::new(AtomicBool::new(false)));
        let ends = over.clone();
        let (has_it, had) = runtime::channel::bounded(1);
        let computes = named("has the upgradable share", move || {
            let _guard = has.upgradable_read();
            has_it.send(()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                runtime::sleep(Duration::from_millis(1));
            }
        });
        had.recv().unwrap();
        let its = lock.clone();
        let joins = reads_and_joins("reads and joins", &lock, move || {
            named("wants the upgradable share", move || drop(its.upgradable_read()))
        });
        wait_until("it wants the upgradable share", || waiters_of(&lock) == 1);
        let its = lock.clone();
        let writes = named("writes at the end", move || drop(its.write()));
        wait_until("the writer waits", || waiters_of(&lock) == 2);
        let names = ["reads and joins", "wants the upgradable share", "writes at the end"];
        let has_one = |it: &Deadlock| names_of(it).iter().any(|name| names.contains(&&**name));
        for _ in 0..4 {
            let dump = Snapshot::take_with_deadlocks().unwrap();
            assert!(!dump.deadlocks.iter().any(has_one), "{dump}");
            runtime::sleep(2 * INTERVAL);
        }
        assert!(told(&names).is_empty());
        over.store(true, Ordering::Relaxed);
        [computes, joins, writes].into_iter().for_each(|thread| thread.join().unwrap());
        // One that has the upgradable share, and asks for it again, waits for itself.
        let twice = named("upgradable twice", move || {
            let _guard = lock.upgradable_read();
            drop(lock.upgradable_read());
        });
        wait_for(&["upgradable twice"]);
        end(vec![twice]);
    });
}

/// A future that waits to write may leave, and then the readers behind it go on. So a circle over such a
/// reader is not certain.
#[test]
fn a_reader_behind_a_future_that_writes_is_suspected_at_most() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let lock = Arc::new(RwLock::new(()));
        let mut future = std::pin::pin!(lock.write_async());
        let (its, (begin, begins)) = (lock.clone(), runtime::channel::bounded::<()>(1));
        let reads_again = named("reads behind a future", move || {
            let _guard = its.read();
            begins.recv().unwrap();
            drop(its.read());
        });
        wait_until("the reader has the lock", || lock.is_locked());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        begin.send(()).unwrap();
        wait_until("the reader waits", || waiters_of(&lock) == 1);
        let its = lock.clone();
        let writes = named("writes behind a future", move || drop(its.write()));
        let names = ["reads behind a future", "writes behind a future"];
        wait_until("the circle is suspected", || !told(&names).is_empty());
        runtime::sleep(4 * INTERVAL);
        let told = told(&names);
        assert!(told.iter().all(|deadlock| !deadlock.certain), "{told:?}");
        end(vec![reads_again, writes]);
    });
}

/// What only looks like a circle is not reported. Such are waits with a time-out or in a context, a circle
/// that ends after a while, and locks that change hands all the time. Searches happen in between.
#[test]
fn nothing_else_is_told() {
    let _dog = Watchdog::new();
    let runtime = searched();
    runtime.block_on(|| {
        let (a, b) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let (a2, b2) = (a.clone(), b.clone());
        let both = Arc::new(Barrier::new(2));
        let both2 = both.clone();
        let patient = named("patient", move || {
            let _a = a.lock();
            both.wait();
            drop(b.lock());
        });
        let timed = named("timed", move || {
            let _b = b2.lock();
            both2.wait();
            assert!(a2.try_lock_for(10 * INTERVAL).is_none());
        });
        let (c, d) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let (c2, d2) = (c.clone(), d.clone());
        let both = Arc::new(Barrier::new(2));
        let both2 = both.clone();
        let other = named("other", move || {
            let _c = c.lock();
            both.wait();
            drop(d.lock());
        });
        let in_context = named("in a context", move || {
            let _d = d2.lock();
            both2.wait();
            let context = runtime::context::Context::background().with_timeout(10 * INTERVAL).0;
            assert!(context.run(|| drop(c2.lock())).is_err());
        });
        // A writer that waits no longer than a while lets the readers behind it in.
        let read = Arc::new(RwLock::new(()));
        let read2 = read.clone();
        let written = Arc::new(AtomicBool::new(false));
        let written2 = written.clone();
        let reads_again = named("reads again", move || {
            let _guard = read.read();
            // On a loaded machine the writer may have waited, and gone, before this thread looks.
            wait_until("a writer waits", || written.load(Ordering::Relaxed) || read.try_read().is_none());
            drop(read.read());
        });
        wait_until("the reader has the lock", || read2.is_locked());
        let writes_for_a_while = named("writes for a while", move || {
            assert!(read2.try_write_for(10 * INTERVAL).is_none());
            written2.store(true, Ordering::Relaxed);
        });
        let over = AtomicBool::new(false);
        let locked = AtomicU64::new(0);
        let locks: [Mutex<u64>; 4] = std::array::from_fn(|_| Mutex::new(0));
        let condvars: [Condvar; 4] = std::array::from_fn(|_| Condvar::new());
        let rwlock = RwLock::new(0);
        thread::scope(|s| {
            for seed in 0..8 {
                let (over, locked, locks, condvars, rwlock) = (&over, &locked, &locks, &condvars, &rwlock);
                let busy = thread::Builder::new().name(format!("busy {seed}"));
                busy.spawn_scoped(s, move || {
                    let mut random = Random::new(seed);
                    while !over.load(Ordering::Relaxed) {
                        // Always in one order.
                        let first = random.number() as usize % 3;
                        let mut one = locks[first].lock();
                        let two = locks[first + 1].lock();
                        match random.number() % 8 {
                            0 => runtime::sleep(Duration::from_micros(random.number() % 300)),
                            1 => drop(rwlock.write()),
                            2 => _ = *rwlock.read(),
                            3 => {
                                drop(two);
                                _ = condvars[first].wait_for(&mut one, Duration::from_micros(100));
                                condvars[first].notify_all();
                            }
                            4 => {
                                drop((one, two));
                                spawn(runtime::yield_now).join().unwrap();
                            }
                            _ => runtime::yield_now(),
                        }
                        locked.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .unwrap();
            }
            for _ in 0..200 {
                let dump = Snapshot::take_with_deadlocks().unwrap();
                let busy =
                    dump.deadlocks.iter().find(|it| names_of(it).iter().any(|name| name.starts_with("busy")));
                assert!(busy.is_none(), "{dump}");
                runtime::sleep(Duration::from_millis(2));
            }
            over.store(true, Ordering::Relaxed);
        });
        [patient, timed, other, in_context, reads_again, writes_for_a_while]
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(locked.load(Ordering::Relaxed) > 0);
    });
    let told = TOLD.lock().unwrap();
    let wrong = told.iter().find(|it| {
        let names = ["patient", "timed", "other", "in a context", "reads again", "writes for a while"];
        names_of(it).iter().any(|name| names.contains(&&**name) || name.starts_with("busy"))
    });
    assert!(wrong.is_none(), "{wrong:?}");
}

/// Which threads have the handles of a channel is not known, as the page about deadlocks says. So neither a
/// circle is reported, nor a worker that waits for its next job.
#[test]
fn nothing_is_told_of_channels() {
    tests::child::passes("nothing_is_told_of_channels", "alone", || {
        Builder::new().procs(2).track_locks(true).build().unwrap().block_on(|| {
            let ((to_one, one), (to_two, two)) = (bounded::<u32>(0), bounded::<u32>(0));
            let first = named("one", move || _ = to_two.send(one.recv().unwrap()));
            let second = named("two", move || _ = to_one.send(two.recv().unwrap()));
            let (jobs, todo) = unbounded::<u32>();
            let worker = named("worker", move || todo.iter().for_each(drop));
            for _ in 0..5 {
                let dump = Snapshot::take_with_deadlocks().unwrap();
                assert!(dump.deadlocks.is_empty(), "{dump}");
                runtime::sleep(Duration::from_millis(2));
            }
            drop(jobs);
            worker.join().unwrap();
            end(vec![first, second]);
        });
    });
}

/// A guard that is sent away is the only way to a wrong arrow. After the process has dropped one elsewhere,
/// circles are suspected.
#[test]
fn after_a_guard_has_travelled_circles_are_suspected() {
    tests::child::passes("after_a_guard_has_travelled_circles_are_suspected", "travel", || {
        let runtime = Builder::new().procs(2).track_locks(true).build().unwrap();
        runtime.block_on(|| {
            static MUTEX: Mutex<u32> = Mutex::new(0);
            let guard = MUTEX.lock();
            spawn(move || drop(guard)).join().unwrap();
            let own = named("own", || {
                let _guard = MUTEX.lock();
                drop(MUTEX.lock());
            });
            let look = || Snapshot::take_with_deadlocks().unwrap().deadlocks;
            wait_until("the circle is found", || !look().is_empty());
            let found = look();
            assert!(!found[0].certain);
            assert!(
                found[0].to_string().starts_with("suspected deadlock: a green thread waits for itself"),
                "{found:?}"
            );
            end(vec![own]);
        });
    });
}

#[test]
fn a_lock_of_a_thread_that_has_ended_is_suspected() {
    tests::child::passes("a_lock_of_a_thread_that_has_ended_is_suspected", "leak", || {
        let runtime = Builder::new().procs(2).track_locks(true).build().unwrap();
        runtime.block_on(|| {
            static MUTEX: Mutex<u32> = Mutex::new(0);
            // A plain OS thread that has the lock is alive, so its lock is not suspected.
            let plain: Arc<Mutex<u32>> = Arc::default();
            let (its, over) = (plain.clone(), Arc::new(AtomicBool::new(false)));
            let ends = over.clone();
            let os_thread = std::thread::spawn(move || {
                let _guard = its.lock();
                while !ends.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            wait_until("the plain thread has the lock", || plain.is_locked());
            let waits = named("waits for a plain thread", move || drop(plain.lock()));
            spawn(|| std::mem::forget(MUTEX.lock())).join().unwrap();
            let leaks = named("leaks", || drop(MUTEX.lock()));
            let look = || Snapshot::take_with_deadlocks().unwrap().deadlocks;
            wait_until("the leak is found", || !look().is_empty());
            let found = look();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].kind, found[0].certain), (DeadlockKind::Leak, false));
            assert_eq!(found[0].members[0].name.as_deref(), Some("leaks"));
            over.store(true, Ordering::Relaxed);
            os_thread.join().unwrap();
            waits.join().unwrap();
            end(vec![leaks]);
        });
    });
}

/// A leak is reported once, however many green threads come to wait for the lock.
#[test]
fn a_leak_with_further_waiters_is_the_same() {
    tests::child::passes("a_leak_with_further_waiters_is_the_same", "waiters", || {
        searched().block_on(|| {
            static MUTEX: Mutex<u32> = Mutex::new(0);
            spawn(|| std::mem::forget(MUTEX.lock())).join().unwrap();
            let waits = |name| named(name, || drop(MUTEX.lock()));
            let first = waits("first");
            let all = || TOLD.lock().unwrap().clone();
            wait_until("the leak is told", || !all().is_empty());
            let mut waiters = vec![first];
            for name in ["second", "third", "fourth"] {
                waiters.push(waits(name));
                runtime::sleep(5 * INTERVAL);
            }
            assert_eq!(all().len(), 1, "{:?}", all());
            assert_eq!(names_of(&all()[0]), HashSet::from(["first".to_owned()]));
            end(waiters);
        });
    });
}

/// A program in which two green threads take two locks crosswise, and others go on. It listens for a signal
/// and has a ticker; both hide the report of a deadlock of all.
fn program() {
    let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
    runtime::block_on(move || {
        #[cfg(unix)]
        let signals = runtime::signal::notify(&[runtime::signal::SIGUSR1]);
        let ticker = runtime::time::Ticker::new(Duration::from_millis(5));
        let (a2, b2) = (a.clone(), b.clone());
        let handles = [
            named("there", move || locks_crosswise(&a, &b)),
            named("back", move || locks_crosswise(&b2, &a2)),
        ];
        loop {
            let _ = ticker.channel().recv();
            #[cfg(unix)]
            let _ = &signals;
            let _: &[JoinHandle<()>] = &handles;
        }
    });
}

#[test]
fn the_environment_starts_a_search_and_stderr_tells() {
    const TEST: &str = "the_environment_starts_a_search_and_stderr_tells";
    let _dog = Watchdog::new();
    if std::env::var_os("TESTS_DEADLOCK_PROGRAM").is_some() {
        return program();
    }
    let mut command = tests::child::command(TEST);
    command.env("TESTS_DEADLOCK_PROGRAM", "1").env("RUNTIME_DEADLOCK", "50");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.find(|line| line.contains("deadlock")).unwrap();
    assert_eq!(first, "runtime: deadlock: 2 green threads wait for each other");
    let two: Vec<String> = lines.filter(|line| line.contains(" waits for a mutex (0x")).take(2).collect();
    for name in ["'there'", "'back'"] {
        assert_eq!(
            two.iter().filter(|line| line.contains(&format!("{name} waits for"))).count(),
            1,
            "{two:#?}"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_cancelled_member_frees_the_others() {
    let _dog = Watchdog::new();
    searched().block_on(|| {
        let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
        let (a2, b2) = (a.clone(), b.clone());
        let freed = named("freed", move || locks_crosswise(&a, &b));
        let ended = named("ended", move || locks_crosswise(&b2, &a2));
        wait_for(&["freed", "ended"]);
        let handle: AbortHandle = ended.abort_handle();
        handle.cancel();
        freed.join().unwrap();
        assert!(ended.join().is_err());
        wait_until("no dump tells it", || {
            let dump = Snapshot::take_with_deadlocks().unwrap();
            !dump.deadlocks.iter().any(|it| names_of(it).contains("freed"))
        });
    });
}
