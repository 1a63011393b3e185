//! Traces that a panic, a hog and a late timer write by themselves.

use std::time::{Duration, Instant};

use runtime::{Builder, sleep, spawn, thread};
use tests::child;
use tests::folder::Folder;

/// Waits in the child until its trace is there, and checks that it has `text`.
fn awaits(path: &std::path::Path, text: &str) {
    let start = Instant::now();
    loop {
        if std::fs::read_to_string(path).is_ok_and(|page| page.ends_with("</html>\n") && page.contains(text))
        {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(50), "no trace with {text:?} in {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `body` in a child process with a trace on this trigger, and waits for a trace with `text`.
fn writes(test: &str, trigger: &str, text: &str, body: fn()) {
    let folder = Folder::new();
    let path = std::env::var_os("RUNTIME_TRACE").map_or_else(|| folder.path("trace.html"), Into::into);
    let name = path.to_str().unwrap();
    let run = || {
        let runtime = Builder::new().procs(2).build().unwrap();
        runtime.block_on(body);
        awaits(&path, text);
    };
    let env = [("RUNTIME_TRACE", name), ("RUNTIME_TRACE_ON", trigger)];
    child::run_with(test, "child", &env, run, |output| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains(&format!("the trace is in {name}")), "{stderr}");
    });
}

#[test]
fn a_panic_writes_a_trace() {
    writes("a_panic_writes_a_trace", "panic", "the culprit", || {
        let culprit = thread::Builder::new().name("the culprit".into()).spawn(|| {
            sleep(Duration::from_millis(1));
            panic!("on purpose");
        });
        assert!(culprit.unwrap().join().is_err());
    });
}

#[test]
fn a_hog_writes_a_trace() {
    writes("a_hog_writes_a_trace", "hog", "which computes", || {
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                spawn(|| {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(200) {}
                })
            })
            .collect();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn a_late_timer_writes_a_trace() {
    // Every timer is a little late.
    writes("a_late_timer_writes_a_trace", "late=0us", "timers", || {
        (0..20).for_each(|_| sleep(Duration::from_millis(1)));
    });
}

#[test]
fn settings_that_are_not_allowed() {
    let test = "settings_that_are_not_allowed";
    let fails = || {
        let error = Builder::new().build().unwrap_err();
        eprintln!("{error}");
    };
    let env = [("RUNTIME_TRACE", "x.html"), ("RUNTIME_TRACE_ON", "sometimes")];
    child::run_with(test, "on", &env, fails, |output| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("RUNTIME_TRACE_ON is \"sometimes\": a list of panic, hog and late=10ms"),
            "{stderr}"
        );
    });
}
