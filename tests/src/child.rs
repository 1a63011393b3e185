//! Child processes for test bodies that end their process, or that count threads, memory or CPU time.

use std::panic::Location;
use std::path::{Component, Path};
use std::process::{Command, Output, Stdio};

const CASE: &str = "TESTS_CHILD_CASE";
/// Set in the children of [`is_repeated_alone`].
const ALONE: &str = "TESTS_CHILD_ALONE";

/// Returns the name that the harness gives to the test `test` of the calling file: `module::test`.
#[track_caller]
pub fn path(test: &str) -> String {
    // tests/tests/PROGRAM/main.rs and tests/tests/PROGRAM/MODULE.rs; one file that is a program has no
    // module.
    let file = Path::new(Location::caller().file()).with_extension("");
    let names: Vec<_> = file.components().map(Component::as_os_str).collect();
    let tests = names.iter().rposition(|name| *name == "tests").map_or(0, |at| at + 1);
    let modules = names.get(tests + 1..).unwrap_or_default().iter().filter(|name| **name != "main");
    modules.map(|name| format!("{}::", name.to_string_lossy())).collect::<String>() + test
}

/// Returns a command that runs the program at `path`, which was built for the processor of this program.
/// `TESTS_RUNNER` has the words of a command before it, such as those of an emulator (`ci/aarch64.sh`).
pub fn program(path: impl AsRef<Path>) -> Command {
    let runner = std::env::var("TESTS_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(path.as_ref()) };
    let mut command = Command::new(first);
    command.args(words).arg(path.as_ref());
    command
}

/// Returns a command of `runtime` that runs the program `child` of this package with `words`. Its path is
/// `env!("CARGO_BIN_EXE_child")`, which only the programs of tests know.
pub fn child(path: &str, words: &[&str]) -> runtime::process::Command {
    let command = program(path);
    let mut ours = runtime::process::Command::new(command.get_program());
    ours.args(command.get_args()).args(words);
    ours
}

/// Returns a command that runs this program.
pub fn this_program() -> Command {
    program(std::env::current_exe().expect("this binary"))
}

/// Returns a command that runs only the test `test` of the calling file, in a process of its own.
#[track_caller]
pub fn command(test: &str) -> Command {
    let mut command = this_program();
    command.args(["--exact", &path(test), "--nocapture", "--test-threads=1"]);
    command
}

/// Makes the calling test run in a process of its own, for a test that measures or changes what all threads
/// of a process share. nextest gives each test a process. Under `cargo test`, the macro runs the test once
/// more in a child, and returns from the caller.
#[macro_export]
macro_rules! alone {
    () => {{
        // In a block, so that the test does not see this name.
        fn here() {}
        if $crate::child::is_repeated_alone(::std::any::type_name_of_val(&here)) {
            return;
        }
    }};
}

/// Runs the test that has the function `here` in a child, and returns `true`, unless this process has only
/// that test. For [`alone!`](crate::alone).
///
/// # Panics
/// If the test fails in the child.
pub fn is_repeated_alone(here: &str) -> bool {
    let of_nextest = std::env::var("NEXTEST_EXECUTION_MODE").is_ok_and(|mode| mode == "process-per-test");
    if of_nextest || std::env::var_os(ALONE).is_some() || std::env::var_os(CASE).is_some() {
        return false;
    }
    // `PROGRAM::module::test::here`
    let test = here.split_once("::").and_then(|(_, path)| path.strip_suffix("::here")).expect("a test");
    let mut command = this_program();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1").stdin(Stdio::null());
    let output = command.output().expect("a process");
    let said = text(&output);
    assert!(output.status.success() && said.contains("1 passed"), "{test}: {}\n{said}", output.status);
    print!("{}", stderr(&output));
    true
}

/// Runs `body` in a child process, and `check` on the child's output. The child is this test binary, which
/// runs only the test `test` of the calling file. `case` distinguishes several children of a test.
#[track_caller]
pub fn run(test: &str, case: &str, body: impl FnOnce(), check: impl FnOnce(&Output)) {
    run_with(test, case, &[], body, check);
}

/// Like [`run`], with more environment variables.
#[track_caller]
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
    let output = command(test)
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
#[track_caller]
pub fn passes(test: &str, case: &str, body: impl FnOnce()) {
    passes_under(crate::Watchdog::new, test, case, body);
}

/// Like [`passes`], with another watchdog.
#[track_caller]
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

/// Runs the case that the program's first argument names, and prints `ok`. For an unknown case, prints the
/// names of all cases and exits with code 2.
pub fn run_case(cases: &[(&str, fn())]) {
    let case = std::env::args().nth(1).unwrap_or_default();
    let Some((_, run)) = cases.iter().find(|(name, _)| *name == case) else {
        cases.iter().for_each(|(name, _)| println!("{name}"));
        std::process::exit(2);
    };
    run();
    println!("ok");
}
