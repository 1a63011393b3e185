//! Runs the programs of this package, each with green threads and with OS threads.

pub mod os;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs a program of the executable `file`, with `RUNTIME_THREADS` as given.
pub fn run(file: &str, program: &str, threads: &str) -> Output {
    // One program at a time: beside 10,000 OS threads, others are late, and take more OS threads.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run_with(&[("RUNTIME_THREADS", threads)], file, program)
}

/// Runs a program with these variables of the environment.
pub fn run_with(variables: &[(&str, &str)], file: &str, program: &str) -> Output {
    let start = Instant::now();
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "100", file, program]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(95), "{program} hangs with {variables:?}: {output:?}");
    output
}

/// Returns what was printed.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a program in both modes. Returns what both have printed.
pub fn both(file: &str, program: &str) -> [Output; 2] {
    let [green, os] = ["green", "os"].map(|threads| run(file, program, threads));
    assert_eq!(text(&green.stdout), text(&os.stdout), "{program}: {}", text(&green.stderr));
    assert_eq!(
        (green.status.code(), green.status.signal()),
        (os.status.code(), os.status.signal()),
        "{program}: {}",
        text(&green.stderr)
    );
    [green, os]
}

/// Runs a program in both modes, which succeeds and prints `expected`.
#[track_caller]
pub fn prints(file: &str, program: &str, expected: &str) -> [Output; 2] {
    let outputs = both(file, program);
    let [green, os] = outputs.each_ref().map(|output| format!("{}: {}", output.status, text(&output.stderr)));
    assert_eq!(text(&outputs[0].stdout), expected, "{program}: green {green}\nos {os}");
    assert!(outputs[0].status.success(), "{program}: {:?}", outputs[0]);
    outputs
}

/// Returns how many OS threads the program has reported.
pub fn os_threads(output: &Output) -> usize {
    let report = text(&output.stderr).lines().find_map(|line| line.strip_prefix("OS threads: "));
    report.expect("a report of the OS threads").parse().unwrap()
}

/// Asserts that green threads take few OS threads, and that OS threads were counted: `at_least` of them.
#[track_caller]
pub fn takes_few_os_threads([green, os]: [Output; 2], at_least: usize) {
    assert!(os_threads(&os) >= at_least, "{} OS threads", os_threads(&os));
    // A busy machine has some more than the eight of a quiet one.
    assert!(os_threads(&green) <= at_least / 5, "{} OS threads", os_threads(&green));
}
