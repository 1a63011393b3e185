//! Each program runs to its end, in a small size and in both modes.

use std::process::Command;

#[test]
fn all_programs_run_with_os_threads_and_with_green_threads() {
    let output = Command::new(env!("CARGO_BIN_EXE_std-threads")).arg("--small").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && !text.contains("fails"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for row in ["spawn-join: us a thread", "echo-1000: k requests a second", "sleepers-100000: s"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("| {row} |"))), "no row {row}: {text}");
    }
}
