//! What the report of a deadlock in a simulation shows: which thread waits for what and for which thread, and
//! on which stack.

use std::sync::Arc;
use std::time::Duration;

use runtime::channel;
use runtime::dump::Snapshot;
use runtime::sim::{self, Builder, Failure};
use runtime::sync::{Condvar, Mutex, RwLock, Semaphore};
use runtime::{JoinHandle, sleep, spawn, thread};

fn failure_of(main: impl Fn() + Send + Sync) -> Box<Failure> {
    Builder::new().shrink(false).try_explore(1000, main).unwrap_err()
}

fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.into()).spawn(f).unwrap()
}

type Locks = Arc<(Mutex<()>, RwLock<()>)>;

#[inline(never)]
fn takes_the_mutex_first(locks: &Locks) {
    let _mutex = locks.0.lock();
    let _rwlock = locks.1.write();
}

#[inline(never)]
fn takes_the_rwlock_first(locks: &Locks) {
    let _rwlock = locks.1.write();
    let _mutex = locks.0.lock();
}

/// Two green threads that take two locks in different orders, and a third that goes on for a while.
fn crossed_locks() {
    let locks = Locks::default();
    let (one, other) = (locks.clone(), locks);
    let third = named("clock", || sleep(Duration::from_secs(10)));
    let one = named("one", move || takes_the_mutex_first(&one));
    let other = named("other", move || takes_the_rwlock_first(&other));
    [third, one, other].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_circle_is_named_with_each_stack() {
    let failure = failure_of(crossed_locks);
    let text = failure.message();
    assert!(text.contains("all green threads are asleep - deadlock!"), "{text}");
    // The dump has each green thread with its stack.
    for function in ["crossed_locks", "takes_the_mutex_first", "takes_the_rwlock_first"] {
        assert!(text.contains(&format!("sim::deadlocks::{function}")), "no stack of {function}: {text}");
    }
    // Who waits for whom.
    let (_, circle) = text.split_once("\ndeadlock: 2 green threads wait for each other").expect(text);
    let waits = |name: &str, what: &str, holder: &str| {
        let line = circle.lines().find(|line| line.contains(&format!("'{name}' waits for"))).expect(text);
        assert!(line.contains(what) && line.ends_with(&format!("'{holder}')")), "{line}");
    };
    waits("one", "read-write lock", "other");
    waits("other", "mutex", "one");
    // They have waited until the third one has ended, in simulated time.
    assert!(text.contains("'other': waits for a mutex, for 10 s"), "{text}");
}

/// Returns the lines of a report without addresses, which differ from run to run.
fn without_addresses(text: &str) -> Vec<String> {
    let word = |word: &str| if word.contains("0x") { "0x".into() } else { word.to_owned() };
    text.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_report_has_the_same_ids_in_each_run() {
    let (first, second) = (failure_of(crossed_locks), failure_of(crossed_locks));
    assert!(first.message().contains("green thread 1: "), "{first}");
    assert_eq!(without_addresses(first.message()), without_addresses(second.message()));
}

#[test]
fn each_kind_of_wait_is_named() {
    let waits: [(&str, fn()); 6] = [
        ("a mutex", || {
            let mutex = Mutex::new(());
            let (_held, _again) = (mutex.lock(), mutex.lock());
        }),
        ("a condition variable", || Condvar::new().wait(&mut Mutex::new(()).lock())),
        ("a semaphore", || drop(Semaphore::new(0).acquire())),
        ("a channel to receive", || {
            let (_s, r) = channel::bounded::<()>(1);
            _ = r.recv();
        }),
        ("an unpark", thread::park),
        ("the end of a green thread", || spawn(thread::park).join().unwrap()),
    ];
    for (name, wait) in waits {
        let failure = failure_of(wait);
        assert!(failure.message().contains(name), "no {name}: {failure}");
    }
}

#[test]
fn simulations_that_fail_at_one_time_do_not_wait_for_each_other() {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..50).for_each(|_| drop(failure_of(crossed_locks))));
        }
    });
}

/// A circle of some can be seen by the program itself, while others go on.
#[test]
fn a_program_may_look_for_its_own_deadlocks() {
    let failure = failure_of(|| {
        let locks = Locks::default();
        let (one, other) = (locks.clone(), locks);
        let _pair = [
            named("one", move || takes_the_mutex_first(&one)),
            named("other", move || takes_the_rwlock_first(&other)),
        ];
        sleep(Duration::from_secs(1));
        let snapshot = Snapshot::take_with_deadlocks().unwrap();
        let ids = |names: [&str; 2]| {
            names.map(|name| {
                snapshot.green_threads.iter().find(|it| it.name.as_deref() == Some(name)).unwrap().id
            })
        };
        if let [deadlock] = &*snapshot.deadlocks {
            let members: Vec<u64> = deadlock.members.iter().map(|member| member.id).collect();
            assert!([ids(["one", "other"]), ids(["other", "one"])].iter().any(|pair| members == pair));
            panic!("seen by itself");
        }
    });
    assert_eq!(failure.message(), "seen by itself");
}

/// Returns the ids of green threads of each kind, in the order in which a table by their hashes has them.
fn ids() -> Vec<String> {
    let id = || thread::current().id();
    let node = sim::node("db", move || spawn(id).join().unwrap());
    let (s, r) = channel::unbounded();
    let timer = runtime::time::after_func(Duration::from_millis(1), move || s.send(id()).unwrap());
    let future = spawn(async move { id() });
    let of_scope = runtime::scope(|scope| scope.spawn(id).join().unwrap());
    let many: Vec<_> = (0..1000).map(|_| spawn(|| ())).collect();
    let mut ids: std::collections::HashSet<_> = many.iter().map(|thread| thread.thread().id()).collect();
    many.into_iter().for_each(|thread| thread.join().unwrap());
    ids.extend([id(), node.join().unwrap(), r.recv().unwrap(), future.join().unwrap(), of_scope]);
    drop(timer);
    assert_eq!(ids.len(), 1005, "ids of one simulation differ");
    ids.into_iter().map(|id| format!("{id:?}")).chain([thread::current().to_string()]).collect()
}

#[test]
fn ids_are_the_same_in_each_run() {
    let first = sim::run(3, ids);
    assert!(first.contains(&"ThreadId(1)".into()), "they count from 1");
    // Other green threads and other simulations run at the same time.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10 {
                    spawn(|| ()).join().unwrap();
                    assert_eq!(sim::run(3, ids), first);
                }
            });
        }
    });
}

#[test]
fn ids_outside_stay_unique() {
    let outside = spawn(|| thread::current().id()).join().unwrap();
    let inside = sim::run(1, || spawn(thread::current).join().unwrap());
    assert_ne!(inside.id(), outside);
    assert!(spawn(|| thread::current().id()).join().unwrap().as_u64() > outside.as_u64());
}
