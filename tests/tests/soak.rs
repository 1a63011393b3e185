//! The soak: it comes to its end, and finds what it is there to find.

use std::process::{Command, Output};

use tests::child::text;

fn soak(settings: &str) -> Output {
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    soak.args(settings.split(' ')).env("RUST_BACKTRACE", "0").env_remove("TESTS_ON_HANG");
    // What fails leaves no core file.
    #[cfg(unix)]
    tests::system::no_core_dump();
    soak.output().expect("a process")
}

#[test]
fn all_operations_come_out_even() {
    let output = soak("--secs 6");
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
    assert!(text(&output).lines().any(|line| line.starts_with("ok: ")), "{}", text(&output));
}

/// Each by the operation that does it, on one runtime; it says how to have the same choices again.
fn is_found(op: &str, says: &[&str]) {
    let output = soak(&format!("--secs 1 --procs 2 --workers 6 --patience 3 --seed 7 --ops {op}"));
    let text = text(&output);
    assert!(!output.status.success(), "{op} was not found:\n{text}");
    for says in says.iter().chain(&["--seed 7", op]) {
        assert!(text.contains(says), "it does not say {says:?} of {op}:\n{text}");
    }
}

#[test]
fn what_hangs_is_found() {
    is_found("broken-hang", &["broken-hang, since 3", "Snapshot"]);
}

#[test]
fn a_check_that_fails_is_found_in_a_thread_that_nobody_joins() {
    is_found("broken-check", &["a check failed", "left: 0"]);
}

#[test]
fn what_is_not_dropped_is_found() {
    is_found("broken-drop", &["all is dropped), since 3"]);
}

#[test]
fn what_stays_open_is_found() {
    is_found("broken-descriptor", &["it began with", "descriptors: "]);
}

#[test]
fn a_thread_that_stays_is_found() {
    is_found("broken-thread", &["it began with", "threads: "]);
}

#[test]
fn wake_ups_that_are_late_are_found() {
    for settings in ["broken-late", "broken-late --sysmon off"] {
        is_found(settings, &["sleeps of an idle runtime were 8.192ms late"]);
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for settings in [
        "--secs 0",
        "--secs",
        "--mode solid",
        "--ops sleep,slumber",
        "--sex 3",
        "--sysmon maybe",
        "--procs 1,x",
    ] {
        let output = soak(settings);
        assert_eq!(output.status.code(), Some(2), "{settings}: {}", text(&output));
        assert!(text(&output).starts_with("soak: "), "{}", text(&output));
    }
}
