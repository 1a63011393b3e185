//! `#[runtime::main]` and `#[runtime::test]`.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::bounded;
use runtime::{Handle, Migration, spawn, thread};
use tests::{Drops, Watchdog, child};

/// Runs the function `name` of `tests/src/bin/attributes.rs`. Returns its exit code, and its stdout followed
/// by its stderr.
fn run(name: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = child::program(env!("CARGO_BIN_EXE_attributes"));
    program.arg(name).env("RUST_BACKTRACE", "0").envs(variables.iter().copied()).stdin(Stdio::null());
    let output = program.output().unwrap();
    (output.status.code(), child::text(&output))
}

#[track_caller]
fn ends(name: &str, variables: &[(&str, &str)], code: i32, text: &str) {
    let _dog = Watchdog::new();
    let (ended, said) = run(name, variables);
    assert!(ended == Some(code) && said.contains(text), "{name} ended with {ended:?}: {said}");
}

#[test]
fn the_values_of_main_are_those_of_std() {
    ends("plain", &[], 0, "procs");
    ends("code", &[], 3, "");
    ends("error", &[], 1, "Error: ParseIntError");
    ends("future_error", &[], 1, "Error: \"too bad\"");
    ends("never", &[], 4, "");
    ends("again", &[], 1, "Error: \"9 calls\"");
    ends("panics", &[], 101, "on purpose");
    ends("path", &[], 0, "renamed");
}

#[test]
fn the_arguments_of_main_set_the_default_runtime_up() {
    ends("set", &[], 0, "procs 3 3\nnamed-");
    ends("set", &[("RUNTIME_PROCS", "5")], 0, "procs 3 3\n");
    ends("plain", &[("RUNTIME_PROCS", "5")], 0, "procs 5 5\n");
    let wrong = "Error: cannot start the default runtime: RUNTIME_PROCS is \"many\": a number";
    ends("plain", &[("RUNTIME_PROCS", "many")], 1, wrong);
    ends("late", &[], 1, "Error: the default runtime has been started before");
}

#[test]
fn the_process_ends_with_main() {
    ends("ends", &[], 0, "ends\n");
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_deadlock_of_main_is_reported() {
    ends("waits", &[], 101, "deadlock");
    ends("local_waits", &[], 101, "deadlock");
}

#[test]
fn the_future_of_main_need_not_be_send() {
    ends("local", &[], 1, "local 7 Some(3)\nError: \"too bad\"");
    ends("local_panics", &[], 101, "on purpose 7");
}

#[runtime::test(procs = 2, timeout = Duration::from_secs(50))]
async fn the_future_of_a_test_need_not_be_send() {
    let mine = std::rc::Rc::new(std::cell::Cell::new(0));
    for _ in 0..10 {
        runtime::time::sleep_async(Duration::from_micros(100)).await;
        mine.set(mine.get() + spawn(async { Handle::current().procs() }).await.unwrap());
    }
    assert_eq!(mine.get(), 20);
}

#[runtime::test]
fn a_plain_test_runs_on_a_green_thread() {
    assert!(Handle::try_current().is_some());
}

#[runtime::test(procs = 3, timeout = Duration::from_secs(50))]
async fn an_async_test_has_the_settings_of_its_attribute() -> Result<(), Box<dyn std::error::Error>> {
    runtime::time::sleep_async(Duration::from_millis(1)).await;
    assert_eq!(Handle::try_current().ok_or("no green thread")?.procs(), 3);
    Ok(())
}

#[runtime::test(migration = Migration::BeforeStart, timeout = Duration::from_secs(50))]
fn a_test_in_strict_mode() {
    let before = tests::os_thread();
    runtime::sleep(Duration::from_millis(1));
    assert_eq!(tests::os_thread(), before);
}

#[runtime::test]
#[should_panic(expected = "from a green thread")]
fn the_panic_of_a_test_is_the_expected_one() {
    spawn(|| panic!("from a green thread")).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[runtime::test(timeout = Duration::from_secs(50))]
#[should_panic(expected = "in time")]
fn a_panic_within_the_time_is_the_expected_one() {
    panic!("in time");
}

#[runtime::test]
#[ignore = "it would fail"]
fn an_ignored_test_is_not_run() {
    panic!("it is ignored");
}

/// `true` in a child process that runs the tests which fail on purpose. In another process they do nothing.
fn on_purpose() -> bool {
    std::env::var_os(ON_PURPOSE).is_some()
}

/// How long a test may take that fails on purpose, or passes.
fn limit() -> Duration {
    Duration::from_secs(if on_purpose() { 1 } else { 50 })
}

const ON_PURPOSE: &str = "TESTS_FAIL_ON_PURPOSE";

#[runtime::test]
async fn returns_an_error() -> Result<(), Box<dyn std::error::Error>> {
    spawn(|| println!("printed by a green thread")).join().unwrap();
    if on_purpose() { Err("an error on purpose".into()) } else { Ok(()) }
}

#[runtime::test(timeout = limit())]
fn parks_for_ever() {
    if on_purpose() {
        spawn(thread::park);
        let (_sender, receiver) = runtime::channel::bounded::<()>(0);
        let _listens_for_ever = std::net::UdpSocket::bind("127.0.0.1:0").map(runtime::net::UdpSocket::from);
        runtime::sleep(Duration::from_secs(3600));
        let _ = receiver.recv();
    }
}

#[runtime::test(procs = 1, timeout = limit())]
#[should_panic]
fn computes_for_ever() {
    while on_purpose() {
        std::hint::spin_loop();
    }
    panic!("as it should");
}

#[runtime::test(procs = 2, timeout = limit())]
async fn leaves_a_thread_that_never_ends() -> Result<(), String> {
    if on_purpose() {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        spawn(move || {
            begins.store(true, Ordering::Relaxed);
            loop {
                std::hint::spin_loop();
            }
        });
        // A green thread that has not begun would be cancelled. This one does not park. The OS thread of a
        // future that parks in its poll would run the other, which never ends. Then the test itself would
        // never end.
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Tests that wait for each other: no thread can wake them.
mod deadlocks {
    use super::*;

    fn wait_for_each_other() {
        if on_purpose() {
            let ((a, from_a), (b, from_b)) = (bounded::<()>(0), bounded::<()>(0));
            let first = spawn(move || from_b.recv().map(|()| a.send(())));
            from_a.recv().unwrap();
            drop((first, b));
        }
    }

    #[runtime::test]
    fn alone() {
        wait_for_each_other();
    }

    #[runtime::test(timeout = Duration::from_secs(3600))]
    fn with_a_timeout() {
        wait_for_each_other();
    }

    #[runtime::test]
    async fn local() {
        let mine = std::rc::Rc::new(());
        if on_purpose() {
            std::future::pending::<()>().await;
        }
        drop(mine);
    }

    /// Hides the deadlocks of the tests beside until it has ended.
    #[test]
    fn beside() {
        if on_purpose() {
            std::thread::sleep(Duration::from_secs(3));
        }
    }

    /// A plain OS thread of the test wakes its green thread late.
    #[runtime::test]
    fn none() {
        let (sender, receiver) = bounded(1);
        let plain = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(if on_purpose() { 2500 } else { 1 }));
            sender.send(()).unwrap();
        });
        receiver.recv().unwrap();
        runtime::blocking(|| plain.join()).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_deadlock_fails_its_test() {
    const TEXT: &str = "all green threads are asleep - deadlock!";
    for threads in ["1", "2"] {
        for name in ["deadlocks::alone", "deadlocks::with_a_timeout", "deadlocks::local"] {
            let text = failed_with(&["--exact", &child::path(name), "--test-threads", threads]);
            assert!(text.contains(TEXT) && text.contains("attributes.rs:"), "{name} {threads}: {text}");
        }
    }
    // Each is reported once no other test runs. The test that is woken late passes.
    let text = failed_with(&[&child::path("deadlocks::"), "--test-threads=5"]);
    assert!(text.contains("2 passed; 3 failed") && text.matches(TEXT).count() >= 3, "{text}");
    for waits in ["a channel to receive", "a wake-up of its future"] {
        assert!(text.contains(waits), "{waits}: {text}");
    }
}

/// Runs the test `name` in a child process, where it fails. Returns its output.
fn failed(name: &str) -> String {
    failed_with(&["--exact", &child::path(name), "--test-threads=1"])
}

/// Runs tests of this file in a child process, where some fail. Returns the output.
fn failed_with(args: &[&str]) -> String {
    let _dog = Watchdog::new();
    let mut program = child::this_program();
    program.args(args).env(ON_PURPOSE, "1").env("RUST_BACKTRACE", "0");
    let output = program.stdin(Stdio::null()).output().unwrap();
    let text = child::text(&output);
    assert!(!output.status.success() && text.contains(" failed;"), "{text}");
    text
}

#[test]
fn an_error_fails_a_test_and_shows_the_output_of_its_green_threads() {
    if tests::has_own_locals() {
        // libtest keeps what it captures for a thread-local of std's, which a green thread does not inherit.
        return;
    }
    let text = failed("returns_an_error");
    let (head, shown) =
        text.split_once("---- attributes::returns_an_error stdout ----").expect("captured output");
    assert!(!head.contains("printed"), "the output of a green thread was not captured: {text}");
    assert!(shown.contains("printed by a green thread\nError: \"an error on purpose\"\n"), "{text}");
}

#[test]
fn a_late_test_fails_and_dumps_its_green_threads() {
    let text = failed("parks_for_ever");
    assert!(text.contains("the test has not ended within 1s"), "{text}");
    assert!(text.contains(": waits for the end of a sleep, for "), "{text}");
    assert!(text.contains(": waits for an unpark, for "), "{text}");
    assert!(text.contains("attributes.rs"), "the spawn places: {text}");
}

#[test]
fn a_late_test_that_computes_fails_too_and_needs_no_panic() {
    let text = failed("computes_for_ever");
    assert!(text.contains("the test has not ended within 1s") && text.contains(": running, "), "{text}");
    assert!(text.contains("did not panic as expected"), "{text}");
}

#[test]
fn a_green_thread_that_never_ends_makes_its_test_late() {
    let text = failed("leaves_a_thread_that_never_ends");
    assert!(text.contains("the test has not ended within 1s"), "{text}");
}

static LEFT: std::sync::OnceLock<Drops> = std::sync::OnceLock::new();

#[runtime::test]
fn green_threads_are_left_behind() {
    for _ in 0..100 {
        let token = LEFT.get_or_init(Drops::default).token();
        spawn(move || {
            let _kept = token;
            runtime::sleep(Duration::from_secs(3600));
        });
    }
}

#[test]
fn green_threads_that_a_test_leaves_behind_are_cancelled() {
    let start = Instant::now();
    // Called as the test harness calls it.
    green_threads_are_left_behind();
    let left = LEFT.get().unwrap();
    assert!(left.count() >= 100 && start.elapsed() < Duration::from_secs(50), "{}", left.count());
}
