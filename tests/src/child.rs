//! Child processes for test bodies that end their process, or that count threads, memory or CPU time.

use std::process::{Command, Output, Stdio};

const CASE: &str = "TESTS_CHILD_CASE";

/// Runs `body` in a child process, and `check` on the child's output. The child is this test binary, which runs only
/// the test `test`. `case` distinguishes several children of a test.
pub fn run(test: &str, case: &str, body: impl FnOnce(), check: impl FnOnce(&Output)) {
    run_with(test, case, &[], body, check);
}

/// Like [`run`], with more environment variables.
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
        // This process is the child of another case, which comes later in the test.
        Ok(_) => return,
        Err(_) => {}
    }
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CASE, &case)
        .env("RUST_BACKTRACE", "0")
        // More malloc arenas would count as mappings and memory.
        .env("MALLOC_ARENA_MAX", "1")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    check(&output);
}

/// Runs `body` in a child process, and checks that the child succeeds.
pub fn passes(test: &str, case: &str, body: impl FnOnce()) {
    passes_under(crate::Watchdog::new, test, case, body);
}

/// Like [`passes`], with another watchdog.
pub fn passes_under(watchdog: fn() -> crate::Watchdog, test: &str, case: &str, body: impl FnOnce()) {
    let watched = || {
        let _dog = watchdog();
        body();
    };
    run(test, case, watched, |output| {
        assert!(output.status.success(), "{test}/{case}: {}\n{}", output.status, text(output));
        // The measurements that the child printed.
        print!("{}", stderr(output));
    });
}

/// Returns the child's stdout followed by its stderr.
pub fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Returns the child's stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the case that the program's first argument names, and prints `ok`. For an unknown case, prints the names of all
/// cases and exits with code 2.
pub fn run_case(cases: &[(&str, fn())]) {
    let case = std::env::args().nth(1).unwrap_or_default();
    let Some((_, run)) = cases.iter().find(|(name, _)| *name == case) else {
        cases.iter().for_each(|(name, _)| println!("{name}"));
        std::process::exit(2);
    };
    run();
    println!("ok");
}
