//! A test's body in a process of its own: for what ends the process, and for what counts threads, memory or CPU.

use std::process::{Command, Output, Stdio};

const CASE: &str = "TESTS_CHILD_CASE";

/// Runs `body` in a child process, which is this test binary told to run the test `test` alone, and then `check` on
/// how it ended. `case` tells several children of one test apart.
pub fn run(test: &str, case: &str, body: impl FnOnce(), check: impl FnOnce(&Output)) {
    run_with(test, case, &[], body, check);
}

/// Starts a child as above, with environment variables of its own.
pub fn run_with(
    test: &str,
    case: &str,
    env: &[(&str, &str)],
    body: impl FnOnce(),
    check: impl FnOnce(&Output),
) {
    let case = format!("{test}/{case}");
    match std::env::var(CASE) {
        Ok(mine) if mine == case => {
            crate::system::no_core_dump();
            body();
            std::process::exit(0);
        }
        // This is the child of another case of this test, which comes later.
        Ok(_) => return,
        Err(_) => {}
    }
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CASE, &case)
        .env("RUST_BACKTRACE", "0")
        // Arenas for many threads would count as mappings and memory.
        .env("MALLOC_ARENA_MAX", "1")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    check(&output);
}

/// Runs `body` in a child process that must end well.
pub fn passes(test: &str, case: &str, body: impl FnOnce()) {
    passes_under(crate::Watchdog::new, test, case, body);
}

/// Runs a child as above, under a watchdog with more patience.
pub fn passes_under(watchdog: fn() -> crate::Watchdog, test: &str, case: &str, body: impl FnOnce()) {
    let watched = || {
        let _dog = watchdog();
        body();
    };
    run(test, case, watched, |output| {
        assert!(output.status.success(), "{test}/{case}: {}\n{}", output.status, text(output));
        // What it measured.
        print!("{}", stderr(output));
    });
}

/// All that it said.
pub fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// What it said on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
