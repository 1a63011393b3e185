//! `Builder::on_thread_start` and `on_thread_stop`: what each OS thread of a runtime calls.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::{Builder, channel};
use tests::{OsThread, PROCS, Watchdog, os_thread, with_built};

/// The OS threads that have called something, in the order of the calls.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<OsThread>>>);

impl Calls {
    fn note(&self) {
        self.0.lock().unwrap().push(os_thread());
    }

    /// Returns the OS threads. A number of the system may name a second thread after the first has ended.
    fn sorted(&self) -> Vec<OsThread> {
        let mut calls = self.0.lock().unwrap().clone();
        calls.sort_by_key(|thread| format!("{thread:?}"));
        calls
    }

    fn contains(&self, thread: OsThread) -> bool {
        self.0.lock().unwrap().contains(&thread)
    }
}

/// Runs green threads that hold many OS threads at once. Returns the OS threads on which they ran.
fn hold_os_threads(runtime: &runtime::Runtime, started: &Calls) -> HashSet<OsThread> {
    const MANY: usize = 6;
    let spawn_one = || {
        let started = started.clone();
        runtime.spawn(move || {
            let holds = || std::thread::sleep(Duration::from_millis(5));
            runtime::blocking(holds);
            let thread = os_thread();
            assert!(started.contains(thread), "a green thread runs before its OS thread has called");
            thread
        })
    };
    let all: Vec<_> = (0..MANY).map(|_| spawn_one()).collect();
    all.into_iter().map(|one| one.join().unwrap()).collect()
}

#[test]
fn each_os_thread_calls_at_its_start_and_at_its_end() {
    for procs in PROCS {
        let (started, ended) = (Calls::default(), Calls::default());
        let (start, stop) = (started.clone(), ended.clone());
        let builder = Builder::new()
            .procs(procs)
            .on_thread_start(move || start.note())
            .on_thread_stop(move || stop.note());
        with_built(builder, |runtime| {
            let used = hold_os_threads(runtime, &started);
            assert!(used.len() > 1, "{used:?}");
            assert!(!runtime.block_on({
                let ended = ended.clone();
                move || ended.contains(os_thread())
            }));
        });
        // The drop of the runtime has joined all.
        assert_eq!(started.sorted(), ended.sorted());
        assert!(started.sorted().len() > 1);
    }
}

/// A panic is printed, and the OS thread goes on.
#[test]
fn a_call_that_panics_takes_no_os_thread_away() {
    for procs in PROCS {
        let (started, ended) = (Calls::default(), Calls::default());
        let (start, stop) = (started.clone(), ended.clone());
        let start = move || {
            start.note();
            panic!("at the start");
        };
        let stop = move || {
            stop.note();
            panic!("at the end");
        };
        let builder = Builder::new().procs(procs).on_thread_start(start).on_thread_stop(stop);
        with_built(builder, |runtime| drop(hold_os_threads(runtime, &started)));
        assert_eq!(started.sorted(), ended.sorted());
    }
}

/// A call is made on a plain OS thread: it may wait, and uses the default runtime.
#[test]
fn a_call_may_use_this_crate_as_a_plain_os_thread() {
    let _dog = Watchdog::new();
    let (sender, received) = channel::unbounded();
    let call = move |when: &'static str| {
        assert!(runtime::Handle::try_current().is_none());
        runtime::sleep(Duration::from_millis(1));
        let spawned = runtime::spawn(|| runtime::Handle::try_current().is_some());
        sender.send((when, spawned.join().unwrap())).unwrap();
    };
    let at_end = call.clone();
    let builder =
        Builder::new().procs(1).on_thread_start(move || call("start")).on_thread_stop(move || at_end("end"));
    with_built(builder, |runtime| {
        assert_eq!(received.recv(), Ok(("start", true)));
        runtime.block_on(|| runtime::sleep(Duration::from_millis(1)));
    });
    let rest: Vec<_> = received.try_iter().collect();
    assert!(rest.contains(&("end", true)), "{rest:?}");
}

/// The last setting counts.
#[test]
fn a_second_call_takes_the_place_of_the_first() {
    let started = Calls::default();
    let start = started.clone();
    let first = || panic!("the first setting counts no more");
    with_built(Builder::new().on_thread_start(first).on_thread_start(move || start.note()), |runtime| {
        runtime.block_on(|| ());
    });
    assert!(!started.sorted().is_empty());
}
