//! Counters and gauges of a runtime: they are right, not only there.

use std::collections::HashMap;
use std::time::Duration;

use runtime::metrics::{Snapshot, prometheus, snapshot};
use runtime::{Builder, Handle, Runtime, channel, num_green_threads, scope, sleep, spawn, thread};
use tests::{Watchdog, child, on_each, wait_until, with};

#[test]
fn the_number_of_green_threads_follows_spawns_and_ends() {
    on_each(|| {
        // The caller is one of them.
        wait_until("the caller is alone", || num_green_threads() == 1);
        let sleepers: Vec<_> = (0..1000).map(|_| spawn(thread::park)).collect();
        let polled = spawn(async { runtime::time::sleep_async(std::time::Duration::from_secs(3600)).await });
        assert_eq!(num_green_threads(), 1002);
        assert_eq!(Handle::current().num_green_threads(), 1002);
        sleepers[..300].iter().for_each(|sleeper| sleeper.cancel());
        wait_until("the cancelled ones have ended", || num_green_threads() == 702);
        sleepers[300..].iter().for_each(|sleeper| sleeper.thread().unpark());
        polled.cancel();
        wait_until("all have ended", || num_green_threads() == 1);
    });
}

#[test]
fn the_number_of_green_threads_is_never_too_low() {
    with(2, |runtime| {
        runtime.block_on(|| {
            let sleepers: Vec<_> = (0..100).map(|_| spawn(thread::park)).collect();
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| (0..2000).for_each(|_| spawn(|| ()).join().unwrap()));
                }
                let handle = Handle::current();
                for i in 0..20_000 {
                    // A plain OS thread reads the same.
                    let n = if i == 0 {
                        std::thread::scope(|s| s.spawn(|| handle.num_green_threads()).join().unwrap())
                    } else {
                        num_green_threads()
                    };
                    assert!(n >= 101, "{n}");
                }
            });
            sleepers.iter().for_each(|sleeper| sleeper.thread().unpark());
        });
    });
}

#[test]
fn the_number_of_green_threads_is_that_of_the_callers_runtime() {
    child::passes("the_number_of_green_threads_is_that_of_the_callers_runtime", "", || {
        assert_eq!(num_green_threads(), 0);
        assert!(
            Builder::new().procs(1).build_global().is_ok(),
            "the question has not started the default runtime"
        );
        let other = Builder::new().procs(2).build().unwrap();
        other.spawn(thread::park);
        assert_eq!((num_green_threads(), other.handle().num_green_threads()), (0, 1));
        spawn(thread::park);
        assert_eq!((num_green_threads(), other.block_on(num_green_threads)), (1, 2));
    });
}

#[test]
fn a_named_green_thread_of_another_runtime() {
    with(2, |runtime| {
        let handle = runtime.handle();
        let builder = || thread::Builder::new().name("named".into()).stack_size(1 << 20);
        let about = || (thread::current().name().map(str::to_string), Handle::current().procs());
        let by_closure = builder().spawn_on(about, &handle).unwrap();
        let by_future = builder().spawn_on(async move { about() }, &handle).unwrap();
        let expected = (Some("named".to_string()), 2);
        assert_eq!(by_closure.join().unwrap(), expected);
        assert_eq!(by_future.join().unwrap(), expected);
        let wrong = thread::Builder::new().stack_size(1).spawn_on(|| (), &handle).unwrap_err();
        assert_eq!(wrong.kind(), std::io::ErrorKind::InvalidInput);
    });
    let runtime = Builder::new().procs(2).build().unwrap();
    let handle = runtime.handle();
    drop(runtime);
    assert!(thread::Builder::new().spawn_on(|| (), &handle).is_err(), "the runtime has ended");
}

#[test]
fn counters_balance_when_all_is_quiet() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            runtime.block_on(|| {
                let sleepers =
                    (0..50).map(|_| spawn(|| (0..4).for_each(|_| sleep(Duration::from_millis(1)))));
                sleepers.collect::<Vec<_>>().into_iter().for_each(|sleeper| sleeper.join().unwrap());
                let yielding = (0..50).map(|_| spawn(|| (0..100).for_each(|_| runtime::yield_now())));
                yielding.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
            });
            let parked: Vec<_> = (0..30).map(|_| runtime.spawn(thread::park)).collect();
            let handle = runtime.handle();
            let is_quiet = |now: &Snapshot| now.waiting == 30 && now.spawned - now.ended == 30;
            wait_until("the rest is parked", || is_quiet(&handle.metrics()));
            let now = handle.metrics();
            assert_eq!(
                (now.running, now.runnable, now.global_queue, now.timers_pending),
                (0, 0, 0, 0),
                "{now:#?}"
            );
            assert_eq!((now.spawned, now.ended, now.timers_fired), (131, 101, 200), "{now:#?}");
            // Each sleep parks, and each of `park`. `main` parks while it joins, unless the other has ended.
            // A green thread that has lost its P parks and yields without being counted.
            assert!((215..=330).contains(&now.parks), "{now:#?}");
            assert!((4_900..=5_000).contains(&now.yields), "{now:#?}");
            assert_eq!(now.procs, procs);
            parked.iter().for_each(|thread| thread.cancel());
        });
    }
}

#[test]
fn the_figures_of_the_ps_add_up() {
    on_each(|| {
        let (s, r) = channel::bounded(3);
        let received = spawn(move || r.iter().count());
        scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| (0..100).for_each(|i| s.send(i).unwrap()));
            }
        });
        drop(s);
        assert_eq!(received.join().unwrap(), 1000);
        let now = snapshot();
        assert_eq!(now.by_proc.len(), now.local_queues.len());
        let sum = |of: fn(&runtime::metrics::Proc) -> u64| now.by_proc.iter().map(of).sum::<u64>();
        assert_eq!(
            (sum(|p| p.parks), sum(|p| p.yields), sum(|p| p.steals)),
            (now.parks, now.yields, now.steals)
        );
        // Threads without a P spawn and end green threads, too.
        assert!(sum(|p| p.spawned) <= now.spawned && sum(|p| p.ended) <= now.ended, "{now:#?}");
        assert!(sum(|p| p.spawned) >= 11, "{now:#?}");
    });
}

/// Returns the values of a page for Prometheus by name and labels. Checks that the head of each metric comes
/// once, and first.
fn parsed(page: &str) -> HashMap<String, f64> {
    let (mut kinds, mut values) = (HashMap::new(), HashMap::new());
    for line in page.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(kinds.insert(name.to_string(), kind.to_string()).is_none(), "{line} comes twice");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name_alone = name.split('{').next().unwrap();
            let is_of = |of: &str| kinds.get(of).is_some_and(|kind: &String| kind == "histogram");
            let of_histogram = ["_bucket", "_sum", "_count"]
                .iter()
                .any(|end| name_alone.strip_suffix(end).is_some_and(is_of));
            assert!(kinds.contains_key(name_alone) || of_histogram, "{line}");
            assert!(values.insert(name.to_string(), value.parse().unwrap()).is_none(), "{line} comes twice");
        }
    }
    values
}

#[test]
fn prometheus_reads_what_the_snapshot_has() {
    with(2, |runtime| {
        let threads = [(); 20].map(|()| runtime.spawn(thread::park));
        runtime.spawn(|| sleep(Duration::from_secs(3600)));
        // A sleeping green thread waits a moment before its timer is in a heap.
        let quiet = |now: &Snapshot| now.waiting == 21 && now.timers_pending == 1;
        wait_until("all wait", || quiet(&runtime.handle().metrics()));
        let now = runtime.handle().metrics();
        let page = parsed(&prometheus(&now));
        let is = |name: &str, value: u64| assert_eq!(page[name], value as f64, "{name}");
        is("runtime_procs", 2);
        is("runtime_green_threads{state=\"waiting\"}", 21);
        is("runtime_green_threads_spawned_total", 21);
        is("runtime_green_threads_ended_total", 0);
        is("runtime_parks_total", now.parks);
        is("runtime_timers_pending", 1);
        is("runtime_stack_address_space_bytes", now.stack_bytes as u64);
        let threads_by_state =
            ["idle", "spinning", "busy"].map(|state| page[&format!("runtime_threads{{state=\"{state}\"}}")]);
        assert_eq!(threads_by_state.iter().sum::<f64>(), now.threads as f64);
        let of_ps = [0, 1].map(|p| page[&format!("runtime_proc_parks_total{{proc=\"{p}\"}}")]);
        assert_eq!(of_ps.iter().sum::<f64>(), now.parks as f64);
        threads.iter().for_each(|thread| thread.cancel());
    });
}

/// Runs a child process that prints a trace, and has parked green threads until stderr, a pipe, has been read
/// long enough.
fn traced(test: &str, detail: &str, check: impl FnOnce(&str)) {
    let body = || {
        let _dog = Watchdog::new();
        let runtime = Builder::new().procs(2).thread_name("traced\u{1b}[2J").build().unwrap();
        let parked = [(); 7].map(|()| runtime.spawn(thread::park));
        wait_until("all wait", || runtime.handle().metrics().waiting == 7);
        // Several lines are printed in that time.
        std::thread::sleep(Duration::from_secs(1));
        parked.iter().for_each(|thread| thread.thread().unpark());
        drop(runtime);
        eprintln!("ended");
        std::thread::sleep(Duration::from_millis(50));
    };
    let variables = [("RUNTIME_SCHEDTRACE", "10"), ("RUNTIME_SCHEDDETAIL", detail)];
    child::run_with(test, detail, &variables, body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
        check(&child::stderr(output));
    });
}

#[test]
fn a_trace_prints_what_the_runtime_has() {
    traced("a_trace_prints_what_the_runtime_has", "0", |text| {
        let (lines, after) = text.split_once("ended\n").expect("the end");
        assert_eq!(after, "", "a trace ends with its runtime");
        let is_line =
            |line: &str| line.starts_with("SCHED ") && line.contains(r"ms: traced\u{1b}[2J procs=2 ");
        assert!(lines.lines().all(is_line), "{text}");
        let quiet = " running=0 runnable=0 waiting=7 timers=0 runqueue=0 [0, 0]";
        assert!(lines.lines().any(|line| line.ends_with(quiet)), "{text}");
    });
}

#[test]
fn a_detailed_trace_prints_ps_and_green_threads() {
    traced("a_detailed_trace_prints_ps_and_green_threads", "1", |text| {
        assert!(text.contains("\n  P0: runqueue=") && text.contains("\n  P1: runqueue="), "{text}");
        assert!(
            text.contains(": waits for an unpark, for ") && text.contains("  7 green threads\n"),
            "{text}"
        );
    });
}

#[test]
fn a_wrong_interval_is_refused() {
    const TEST: &str = "a_wrong_interval_is_refused";
    for (variable, value) in
        [("RUNTIME_SCHEDTRACE", "0"), ("RUNTIME_SCHEDTRACE", "1s"), ("RUNTIME_SCHEDDETAIL", "2")]
    {
        let body = || {
            let error = Runtime::new().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{variable} is \"{value}\": a number from ")), "{error}");
        };
        child::run_with(TEST, &format!("{variable}={value}"), &[(variable, value)], body, |output| {
            assert!(output.status.success(), "{}", child::text(output));
        });
    }
}

/// A future that parks in its poll keeps its OS thread. One that is awaited does not park.
#[test]
fn parks_inside_polls_are_counted() {
    on_each(|| {
        let parks = || {
            let now = snapshot();
            assert_eq!(now.by_proc.iter().map(|p| p.parks_in_polls).sum::<u64>(), now.parks_in_polls);
            now.parks_in_polls
        };
        let before = parks();
        let (send, receive) = channel::bounded(0);
        let (other_send, other) = (send.clone(), receive.clone());
        let parking = spawn(async move { (0..20).map(|_| other.recv().unwrap()).sum::<u64>() });
        (0..20).for_each(|i| {
            sleep(Duration::from_millis(1));
            other_send.send(i).unwrap();
        });
        assert_eq!(parking.join().unwrap(), 190);
        let parked = parks();
        // A park is not counted if sysmon has taken the P, and a receive may park twice.
        assert!((before + 10..before + 40).contains(&parked), "{before} {parked}");
        let awaits = spawn(async move {
            for _ in 0..10 {
                receive.recv_async().await.unwrap();
                runtime::time::sleep_async(Duration::from_millis(1)).await;
            }
        });
        (0..10).for_each(|i| send.send(i).unwrap());
        awaits.join().unwrap();
        spawn(|| sleep(Duration::from_millis(1))).join().unwrap();
        assert_eq!(parks(), parked);
        let page = prometheus(&snapshot());
        assert!(page.contains(&format!("runtime_parks_in_polls_total {parked}\n")), "{page}");
    });
}
