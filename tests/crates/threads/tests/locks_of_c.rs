//! Mutexes and condition variables of pthread.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::process::Output;

#[track_caller]
fn prints(program: &str, expected: &str) -> [Output; 2] {
    threads::prints(env!("CARGO_BIN_EXE_locks_of_c"), program, expected)
}

#[test]
fn green_threads_and_os_threads_contend_for_a_mutex() {
    prints("mutex", "count: 4000\ncount: 8300\n");
}

#[test]
fn green_threads_and_os_threads_take_turns() {
    prints("turns", "turns: 1600\nturns: 3200\n");
}

#[test]
fn each_signal_wakes_a_waiter() {
    prints("queue", "taken: 3000\ntaken: 6000\n");
}

#[test]
fn waits_take_no_os_threads() {
    threads::takes_few_os_threads(prints("waiting", "all have ended\n"), 300);
}

#[test]
fn waits_end_at_their_time() {
    prints("times", "true\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue\n0\ntrue 0\n");
}

#[test]
fn kinds_of_mutexes() {
    prints("kinds", "0 0\n0 true\ntrue\ntrue\n0\n0 0\n0 0\n0 0\n");
}

#[test]
fn a_condition_variable_is_destroyed_after_its_last_broadcast() {
    prints("destroy", "destroyed\n");
}

#[test]
fn readers_and_writers_share_a_lock() {
    let expected = format!("written: 1000\nwritten: 2100\n0\n{}0\n", "true\n".repeat(10));
    prints("rwlock", &expected);
}

#[test]
fn readers_take_no_os_threads() {
    threads::takes_few_os_threads(prints("readers", "all have read\n"), 100);
}

#[test]
fn no_unlock_is_missed() {
    prints("meet", "met\n");
}

#[test]
fn processes_share_a_mutex_and_a_condition_variable() {
    prints("shared", "counted: 400, child: 0\n");
}

/// The kernel does not know the thread that a robust mutex names in a child.
#[test]
fn the_end_of_a_green_thread_frees_its_robust_mutex() {
    let file = env!("CARGO_BIN_EXE_locks_of_c");
    let [green, os] = ["green", "os"].map(|mode| threads::run(file, "robust", mode));
    assert_eq!(threads::text(&green.stdout), "thread: noticed, child: 0 not noticed\n");
    assert_eq!(threads::text(&os.stdout), "thread: noticed, child: 0 noticed\n");
}
