//! The soak, for a few seconds; and that the soak finds each defect of `ops/broken.rs`.

use std::process::Output;

use tests::child::{self, text};

fn soak(settings: &str) -> Output {
    let mut soak = child::program(env!("CARGO_BIN_EXE_soak"));
    soak.args(settings.split(' ')).env("RUST_BACKTRACE", "0").env_remove("TESTS_ON_HANG");
    // A failing soak leaves no core file.
    #[cfg(unix)]
    tests::system::no_core_dump();
    soak.output().expect("a process")
}

#[test]
fn a_soak_of_all_operations_succeeds() {
    let output = soak("--secs 6");
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
    assert!(text(&output).lines().any(|line| line.starts_with("ok: ")), "{}", text(&output));
}

/// Checks that the soak fails with operation `op` within a few seconds, prints `says`, and prints the
/// settings for a repetition.
fn is_found(op: &str, says: &[&str]) {
    let output = soak(&format!("--secs 1 --procs 2 --workers 6 --patience 3 --seed 7 --ops {op}"));
    let text = text(&output);
    assert!(!output.status.success(), "{op} was not found:\n{text}");
    for says in says.iter().chain(&["--seed 7", op]) {
        assert!(text.contains(says), "the output for {op} lacks {says:?}:\n{text}");
    }
}

#[test]
fn a_hanging_operation_is_found() {
    is_found("broken-hang", &["broken-hang, since 3", "Snapshot"]);
}

#[test]
fn a_failed_check_in_a_detached_thread_is_found() {
    is_found("broken-check", &["a check failed", "left: 0"]);
}

#[test]
fn a_lost_drop_is_found() {
    is_found("broken-drop", &["all is dropped), since 3"]);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the soak counts descriptors on Linux only")]
fn a_leaked_descriptor_is_found() {
    is_found("broken-descriptor", &["the round began with", "descriptors: "]);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the soak counts OS threads on Linux only")]
fn a_leaked_os_thread_is_found() {
    is_found("broken-thread", &["the round began with", "threads: "]);
}

#[test]
fn late_wake_ups_are_found() {
    for settings in ["broken-late", "broken-late --sysmon off"] {
        is_found(settings, &["sleeps of an idle runtime were 8.192ms late"]);
    }
}

#[test]
fn invalid_settings_are_refused() {
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
        assert!(text(&output).starts_with("error: "), "{}", text(&output));
    }
}
