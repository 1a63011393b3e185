//! Deadlocks: `block_on` reports that all green threads are asleep, unless a thread could still be woken. The
//! programs are in `src/bin/deadlock.rs`.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TEXT: &str = "all green threads are asleep - deadlock!";

fn program(case: &str) -> Command {
    let mut program = tests::child::program(env!("CARGO_BIN_EXE_deadlock"));
    program.arg(case).env("RUST_BACKTRACE", "0").env("RUNTIME_PROCS", "2");
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

fn start(case: &str) -> Child {
    program(case).spawn().expect("a process")
}

/// Returns the output of the process, and its exit code if it ends in time.
fn end_of(mut child: Child, patience: Duration) -> (String, Option<i32>) {
    let start = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if start.elapsed() > patience {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (text, code)
}

#[track_caller]
fn is_reported(case: &str, says: &[&str]) {
    let (text, code) = end_of(start(case), Duration::from_secs(50));
    assert_eq!(code, Some(101), "{case}: {text}");
    for says in [TEXT].iter().chain(says) {
        assert!(text.contains(says), "{case} does not say {says:?}: {text}");
    }
}

#[track_caller]
fn goes_on(case: &str) {
    let (text, code) = end_of(start(case), Duration::from_secs(50));
    assert!(code == Some(0) && text.ends_with("ok\n"), "{case} ({code:?}): {text}");
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn two_threads_that_wait_for_each_other() {
    is_reported(
        "two-channels",
        &[
            "'first': waits for a channel to receive, for ",
            "'second': waits for a channel to receive, for ",
            "waits for the end of a green thread, for ",
            "spawned at tests/src/bin/deadlock.rs:",
            "3 green threads",
        ],
    );
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_mutex_locked_twice_by_its_owner() {
    is_reported("own-mutex", &["waits for a mutex", "1 green thread\n"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_lost_wake_up() {
    is_reported("lost-wake-up", &["waits for a condition variable"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn waits_without_an_end() {
    is_reported("future", &["waits for a wake-up of its future"]);
    is_reported("sleep-for-ever", &["waits for the end of a sleep"]);
    is_reported("join", &["waits for an unpark", "waits for the end of a green thread"]);
    is_reported("select", &["waits for a case of a select", "waits for an unpark"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn deadlocks_in_runtimes_of_all_kinds() {
    for case in ["one-p", "strict", "no-sysmon"] {
        is_reported(case, &["waits for a wait group", "21 green threads"]);
    }
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn deadlocks_beside_waiting_plain_threads_and_runtimes() {
    is_reported("plain-threads-wait-too", &[]);
    is_reported("two-runtimes", &["2 green threads"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_deadlock_after_a_plain_thread_was_busy_for_long() {
    is_reported("plain-thread-is-busy-first", &["waits for a channel to receive", "1 green thread\n"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_deadlock_after_much_work() {
    is_reported("after-much-work", &["1 green thread\n"]);
}

#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn a_search_for_deadlocks_hides_no_deadlock_of_all() {
    is_reported("search", &["waits for an unpark"]);
}

#[test]
fn the_hook_of_a_search_may_end_a_deadlock() {
    goes_on("hook");
}

/// `main` is cancelled like any green thread, and may catch that.
#[test]
#[cfg_attr(
    any(portable, not(target_os = "linux")),
    ignore = "the system does not list the OS threads, so no deadlock is reported"
)]
fn main_may_catch_panic_or_wait() {
    is_reported("swallowed", &[]);
    is_reported("caught", &["caught twice"]);
    let (text, code) = end_of(start("own-panic"), Duration::from_secs(50));
    assert!(code == Some(101) && text.contains("I was waiting for a message"), "{text}");
    let (text, code) = end_of(start("will-not-end"), Duration::from_secs(4));
    assert!(code.is_none() && text.contains(TEXT), "{text}");
}

/// The report of a `main` that goes on waiting is written by an OS thread of the runtime. Without a stderr it
/// is lost.
#[test]
fn a_stderr_that_is_full_does_not_end_the_process() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut child = program("will-not-end").stderr(full).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_plain_thread_may_wake_a_waiter() {
    goes_on("plain-thread-sends");
    goes_on("plain-thread-notifies-select");
    goes_on("plain-thread-waits-with-time-out");
    goes_on("std-channel");
}

#[test]
fn a_timer_may_wake_a_waiter() {
    for case in ["sleeps", "sleeping-future", "timer", "context"] {
        goes_on(case);
    }
}

#[test]
fn a_blocking_or_computing_thread_may_wake_a_waiter() {
    for case in ["blocking", "blocks-undeclared", "computes", "pinned"] {
        goes_on(case);
    }
}

#[test]
fn a_socket_may_wake_a_waiter() {
    let mut child = start("socket");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let _stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "ok\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn another_runtime_may_wake_a_waiter() {
    goes_on("other-runtime");
}

#[test]
fn without_block_on_no_deadlock_is_reported() {
    let (text, code) = end_of(start("not-in-block-on"), Duration::from_secs(2));
    assert_eq!((text.as_str(), code), ("waiting\n", None));
}

#[test]
fn threads_that_wait_in_turns_are_not_counted_as_asleep() {
    goes_on("to-and-fro");
}
