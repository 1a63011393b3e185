//! Explorations: runs that take over what the run before has left, and the end of an exploration that finds
//! no new schedule.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Mutex as StdMutex;
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{self, Builder, Strategy};
use runtime::sync::Mutex;
use runtime::{Handle, scope, sleep, spawn, thread, yield_now};

/// Runs a program with all that a runtime keeps: green threads, timers, sockets, ids, random numbers. Returns
/// what it has seen.
fn seen() -> String {
    let began = Instant::now();
    let server = sim::node("server", || {
        let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let order = Mutex::new(Vec::new());
    scope(|scope| {
        for n in 0..4 {
            let order = &order;
            scope.spawn(move || {
                order.lock().push(format!("{n} {:?}", thread::current().id()));
                yield_now();
                sleep(Duration::from_millis(n));
                order.lock().push(format!("{n} after {:?}", began.elapsed()));
            });
        }
    });
    while TcpStream::connect("server:80").and_then(|mut stream| stream.write_all(b"hello")).is_err() {
        sleep(Duration::from_millis(1));
    }
    // Their order depends on the keys that the OS thread has for its maps.
    let keys: Vec<u32> = (0..8).map(|n| (n, ())).collect::<HashMap<_, _>>().into_keys().collect();
    // The end of the run cancels it.
    drop(spawn(|| sleep(Duration::from_secs(1000))));
    format!("{} {keys:?} {} {:?}", order.lock().join(", "), sim::random(), server.join().unwrap())
}

#[test]
fn a_seed_has_the_same_run_alone_and_after_others() {
    let all = StdMutex::new(Vec::new());
    let note = || {
        let text = seen();
        all.lock().unwrap().push(text);
    };
    assert_eq!(Builder::new().threads(1).explore(60, note).runs(), 60);
    let all = all.into_inner().unwrap();
    for (seed, explored) in all.iter().enumerate().rev().step_by(7) {
        assert_eq!(*explored, sim::run(seed as u64, seen), "seed {seed}");
    }
}

#[test]
fn a_handle_of_an_earlier_run_starts_nothing() {
    let earlier = StdMutex::new(Vec::<Handle>::new());
    let report = Builder::new().threads(1).explore(20, || {
        let refused = earlier.lock().unwrap().iter().all(|handle| handle.try_spawn(|| ()).is_err());
        assert!(refused, "a runtime of an earlier run lives");
        let mut earlier = earlier.lock().unwrap();
        if earlier.len() < 3 {
            earlier.push(Handle::current());
        }
    });
    assert_eq!(report.runs(), 20);
}

/// A program with few schedules.
fn small() {
    let other = spawn(yield_now);
    yield_now();
    other.join().unwrap();
}

#[test]
fn an_exploration_without_new_schedules_ends() {
    const QUIET: u64 = 300;
    let quiet = |threads| Builder::new().threads(threads).until_quiet(QUIET).explore(1_000_000, small);
    let report = quiet(1);
    let schedules = report.schedules().unwrap();
    assert!(schedules > 1 && report.runs() > QUIET && report.runs() < 100_000, "{report:?}");
    assert_eq!(quiet(3), report, "the number of threads changes nothing");
    // Each run of an exhaustive exploration has another schedule: so many there are at least.
    let all = Builder::new().strategy(Strategy::Exhaustive { preemptions: 9 }).explore(1, small);
    assert!(schedules <= all.runs(), "{schedules} of {} schedules", all.runs());
    assert_eq!(all.schedules(), None);
}

#[test]
fn an_exploration_begins_at_its_first_seed() {
    let numbers = |builder: Builder, seeds| {
        let all = StdMutex::new(Vec::new());
        builder.threads(1).explore(seeds, || all.lock().unwrap().push(sim::random()));
        all.into_inner().unwrap()
    };
    let whole = numbers(Builder::new(), 10);
    assert_eq!(numbers(Builder::new().first_seed(6), 4), whole[6..]);
}

#[test]
fn a_run_that_fails_for_its_own_reason_prints_no_deadlock() {
    const TEST: &str = "a_run_that_fails_for_its_own_reason_prints_no_deadlock";
    if std::env::var_os("SIM_ESCAPES").is_some() {
        sim::run(1, || {
            drop(std::fs::read("Cargo.toml"));
            sleep(Duration::from_secs(1));
        });
    }
    let child = tests::child::command(TEST).env("SIM_ESCAPES", "1").output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr).into_owned() + &String::from_utf8_lossy(&child.stdout);
    assert!(!child.status.success() && text.contains("the simulation cannot control a file"), "{text}");
    assert!(!text.contains("all green threads are asleep"), "{text}");
    assert_eq!(text.matches("the simulation cannot control").count(), 1, "{text}");
}
