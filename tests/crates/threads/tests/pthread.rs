//! Functions of pthread, which Rust calls as C does.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use threads::text;

const PTHREAD: &str = env!("CARGO_BIN_EXE_pthread");

#[track_caller]
fn prints(program: &str, expected: &str) {
    threads::prints(PTHREAD, program, expected);
}

#[test]
fn joins_wait_and_time_out() {
    let expected = "join: Ok(7)\ntryjoin: true\ntimedjoin: true\nclockjoin: true\nby another clock: true\n\
        alive: 0\nerrno: 77\njoined: 0\nresult: 8\nresult: 9\nitself: true\n";
    prints("joins", expected);
}

#[test]
fn a_plain_os_thread_joins() {
    prints("os-thread", "from an OS thread: 5\nfrom an OS thread: 5\n");
}

#[test]
fn a_detached_thread_is_not_joined() {
    prints("detaches", "detach: 0 true\njoin: true\njoin: true\n");
}

#[test]
fn destructors_of_keys_have_run_when_join_returns() {
    let lines = (1..=10).map(|value| format!("exit: Ok({value}), destroyed: {value}\n"));
    prints("ends", &lines.collect::<String>());
}

#[test]
fn names_belong_to_threads() {
    let expected = "main: pthread\n0\ninherits another\n0 of its parent's\ntrue of its parent's\ntrue\n\
        equal: true false\nmain: another\n";
    prints("names", expected);
}

#[test]
fn stacks_are_those_of_the_thread() {
    prints("stacks", "its own: true\nanother's: true\nmain's: false true\n");
}

#[test]
fn main_may_end_before_other_threads() {
    let expected = "main ends\nthe first thread\nthe last thread\n";
    threads::prints(env!("CARGO_BIN_EXE_main_exits"), "", expected);
}

#[test]
fn a_thread_that_waits_for_signals_gets_those_of_pthread_kill() {
    prints("signals", "Ok(0)\n");
}

/// With OS threads, `sleep` of a program with the line is no cancellation point.
#[test]
fn a_cancelled_thread_of_rust_unwinds_or_aborts() {
    let output = threads::run(PTHREAD, "cancels-rust", "green");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "0\njoined: false\n");
    let output = threads::run(PTHREAD, "cancels-frame", "green");
    // It may abort before `main` prints anything.
    assert!(!output.status.success() && !text(&output.stdout).contains("joined"), "{output:?}");
    assert!(text(&output.stderr).contains("failed to initiate panic"), "{output:?}");
}

#[test]
fn main_does_not_see_the_thread_locals_of_constructors() {
    let [green, os] = ["green", "os"].map(|threads| threads::run(PTHREAD, "constructors", threads));
    let printed = (text(&green.stdout), text(&os.stdout));
    assert_eq!(printed, ("main: 1, thread: 1\n", "main: 7, thread: 1\n"));
}

#[test]
fn a_green_thread_refuses_what_only_os_threads_have() {
    let output = threads::run(PTHREAD, "green", "green");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "Ok(0)\n");
}
