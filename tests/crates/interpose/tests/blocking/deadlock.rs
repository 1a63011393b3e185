//! The search for deadlocks counts green threads that wait in std's channels, `thread::park` and locks. The
//! programs are in `src/bin/deadlock.rs`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;

const TEXT: &str = "all green threads are asleep - deadlock!";

fn command(case: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_deadlock"));
    program.arg(case).env("RUST_BACKTRACE", "0").env("RUNTIME_PROCS", "2").stdin(Stdio::null());
    program
}

/// Returns the exit code of the case, and what it printed.
fn end_of(case: &str) -> (Option<i32>, String) {
    let output = command(case).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[test]
fn waits_for_std_are_reported() {
    let _watchdog = Watchdog::new();
    let waits = "waits for a lock or condition of std";
    for (case, threads) in [
        ("receives", "2 green threads"),
        ("ring", "6 green threads"),
        ("one-p", "6 green threads"),
        ("no-sysmon", "6 green threads"),
        ("two-runtimes", waits),
        ("condition", "2 green threads"),
    ] {
        let (code, text) = end_of(case);
        assert_eq!(code, Some(101), "{case}: {text}");
        assert!([TEXT, waits, threads].iter().all(|says| text.contains(says)), "{case}: {text}");
    }
}

/// std's `thread::park` cannot be cancelled, so the process goes on after the report.
#[test]
fn the_report_of_a_main_that_std_keeps_is_printed() {
    let _watchdog = Watchdog::new();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let stderr = std::fs::File::create(&log).unwrap();
    let mut child = command("main-itself").stderr(stderr).spawn().unwrap();
    let start = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains(TEXT) {
        assert!(start.elapsed() < Duration::from_secs(50), "no report");
        assert_eq!(child.try_wait().unwrap(), None, "the process has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_may_go_on_is_not_reported() {
    let _watchdog = Watchdog::new();
    for case in ["os-thread-sends", "time-out", "computes", "to-and-fro"] {
        let (code, text) = end_of(case);
        assert!(code == Some(0) && text == "ok\n", "{case} ({code:?}): {text}");
    }
}
