//! What a panic in a green thread prints: which green thread it is, and a backtrace that ends at its closure
//! or future.

use std::panic::set_hook;
use std::process::Output;

use runtime::thread::{Builder, current, name_panics};
use runtime::{block_on, spawn};
use tests::child;

const WITH_BACKTRACE: &[(&str, &str)] = &[("RUST_BACKTRACE", "1")];

#[inline(never)]
fn panics_deep_inside() {
    panic!("for the report");
}

fn stderr(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The frames of the backtrace are the user's and std's. None is the scheduler's, except the one cut off.
fn check_backtrace(text: &str) {
    assert!(text.contains("panics_deep_inside"), "{text}");
    for of_the_scheduler in
        ["corosensei", "sched::run::run_loop", "sched::stack::coro", "sched::run::boundary"]
    {
        assert!(!text.contains(of_the_scheduler), "{of_the_scheduler} is in the backtrace: {text}");
    }
}

#[test]
fn the_report_names_the_green_thread_and_its_spawn_place() {
    let body = || {
        name_panics();
        // The second call adds nothing.
        name_panics();
        block_on(|| {
            let named = Builder::new().name("parser\u{1b}[2J".into()).spawn(panics_deep_inside).unwrap();
            assert!(named.join().is_err());
        });
        // A plain OS thread has its name from std.
        assert!(std::thread::spawn(|| panic!("plain")).join().is_err());
    };
    child::run_with(
        "the_report_names_the_green_thread_and_its_spawn_place",
        "",
        WITH_BACKTRACE,
        body,
        |output| {
            let text = stderr(output);
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with("green thread ")).collect();
            assert_eq!(lines.len(), 1, "{text}");
            assert!(
                lines[0].contains(r"'parser\u{1b}[2J', spawned at tests/tests/thread/panic_report.rs:"),
                "{text}"
            );
            let (line, message) = (text.find(lines[0]), text.find("for the report"));
            assert!(line < message, "the line comes before the message: {text}");
            check_backtrace(text.split("plain").next().unwrap());
        },
    );
}

#[test]
fn a_backtrace_of_a_future_ends_at_the_future() {
    let body = || {
        let future = spawn(async {
            runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
            panics_deep_inside();
        });
        assert!(future.join().is_err());
    };
    child::run_with("a_backtrace_of_a_future_ends_at_the_future", "", WITH_BACKTRACE, body, |output| {
        let text = stderr(output);
        check_backtrace(&text);
        assert!(!text.contains("green thread "), "only `name_panics` adds a line: {text}");
    });
}

#[test]
fn a_panic_hook_sees_the_green_thread() {
    let body = || {
        set_hook(Box::new(|info| {
            eprintln!("{:?} says {:?}", current().name(), info.payload_as_str());
        }));
        let named = Builder::new().name("parser".into()).spawn(panics_deep_inside).unwrap();
        assert!(named.join().is_err());
    };
    child::run("a_panic_hook_sees_the_green_thread", "", body, |output| {
        assert!(stderr(output).contains(r#"Some("parser") says Some("for the report")"#), "{output:?}");
    });
}
