//! Semaphores, barriers and other waits of C.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::process::Output;

#[track_caller]
fn prints(program: &str, expected: &str) -> [Output; 2] {
    threads::prints(env!("CARGO_BIN_EXE_waits_of_c"), program, expected)
}

#[test]
fn a_semaphore_lets_its_number_in() {
    prints("semaphore-pool", "visits: 4000, places: 3, wait: 0\nvisits: 8400, places: 3, wait: 0\n");
}

#[test]
fn each_post_wakes_its_waiter() {
    let left = "[1, 0, 0, 0, 0, 0]";
    prints("semaphore-turns", &format!("turns: 3000, left: {left}\nturns: 6000, left: {left}\n"));
}

#[test]
fn waiters_for_a_semaphore_take_no_os_threads() {
    threads::takes_few_os_threads(prints("semaphore-waiting", "all have passed\n"), 200);
}

#[test]
fn functions_of_semaphores_return_what_libc_does() {
    prints("semaphore-results", "true\ntrue\ntrue\ntrue\ntrue\ntrue\ntrue true\n2 0\n0 0\n0\n0\n");
}

#[test]
fn a_semaphore_is_freed_after_its_wait() {
    prints("semaphore-freed", "freed\n");
}

#[test]
fn a_signal_handler_posts() {
    let of = |gone| format!("gone: {gone}, posted: {gone}, left: 0\n");
    prints("semaphore-handler", &(of(50) + &of(104)));
}

#[test]
fn a_signal_handler_waits_for_nothing() {
    prints("semaphore-storm", "taken: 20000\n");
}

#[test]
fn no_post_is_missed() {
    prints("semaphore-meet", "met\n");
}

#[test]
fn no_post_is_lost_at_a_time_out() {
    prints("semaphore-late", "taken: 300, left: 0, wait: 0\n");
}

#[test]
fn a_forked_child_waits_for_a_semaphore() {
    prints("semaphore-forks", "child: 7\n");
}

#[test]
fn a_barrier_lets_all_go_on_together() {
    prints("barrier-rounds", "came: 2000, leaders: 100\n0\ncame: 2000, leaders: 200\n0\ntrue\n");
}

#[test]
fn more_threads_than_a_round_has_meet_at_a_barrier() {
    prints("barrier-crowd", "passed: 9000, leaders: 3000, 0\n");
}

#[test]
fn waiters_at_a_barrier_take_no_os_threads() {
    threads::takes_few_os_threads(prints("barrier-waiting", "leaders: 1\n"), 100);
}

#[test]
fn a_barrier_is_freed_by_its_leader() {
    prints("barrier-freed", "freed\n");
}

#[test]
fn one_thread_calls_the_function_of_a_once() {
    prints("once", "calls: 200\n");
}

#[test]
fn waiters_for_a_once_take_no_os_threads() {
    threads::takes_few_os_threads(prints("once-waiting", "done\n"), 100);
}

#[test]
fn the_next_thread_calls_a_function_that_has_not_returned() {
    prints("once-exits", "calls: 10, returned: 6\n");
}

#[test]
fn a_forked_child_calls_the_function_of_its_parents_once() {
    prints("once-forks", "child: 7\n");
}

/// On one P and without sysmon, only a yield lets the owner run.
#[test]
fn a_thread_that_spins_lets_the_owner_run() {
    let one = [("RUNTIME_PROCS", "1"), ("RUNTIME_SYSMON", "off")];
    let output = threads::run_with(&one, env!("CARGO_BIN_EXE_waits_of_c"), "spin");
    assert_eq!(threads::text(&output.stdout), "count: 500\ncount: 1100\n", "{output:?}");
    prints("spin", "count: 500\ncount: 1100\n");
}

#[test]
fn threads_of_c11() {
    let expected = "sum: -1275, destroyed: 1275\nsum: 6275, destroyed: 1275\ncalls: 1\nequal: true\n\
        detached: 0\njoined: 0\n";
    prints("c11-threads", expected);
}

#[test]
fn locks_of_c11() {
    prints("c11-locks", "taken: 3000\ntrue\ntrue\ntrue\ntrue\n");
}

#[test]
fn waits_of_c11_take_no_os_threads() {
    threads::takes_few_os_threads(prints("c11-waiting", "ended: 200\n"), 200);
}

/// More threads than there are Ps wait at once, and are parked.
#[track_caller]
fn parks(program: &str) {
    threads::takes_few_os_threads(prints(program, "ended before: 0\n100 of 100\n"), 100);
}

/// As `parks`, but each thread holds its OS thread.
#[track_caller]
fn holds(program: &str) {
    for output in prints(program, "ended before: 0\n24 of 24\n") {
        assert!(threads::os_threads(&output) >= 24, "{output:?}");
    }
}

#[test]
fn reads_park() {
    parks("read");
}

#[test]
fn polls_park() {
    parks("poll");
    parks("select");
    parks("pselect");
}

#[test]
fn sleeps_park() {
    parks("nanosleep");
    parks("clock_nanosleep");
}

#[test]
fn waits_for_events_hold() {
    holds("epoll_wait");
}

#[test]
fn semaphores_that_processes_share_hold() {
    holds("shared_semaphore");
}

#[test]
fn waits_for_signals_hold() {
    holds("sigwait");
    holds("pause");
}

#[test]
fn waits_for_children_hold() {
    holds("waitpid");
}

#[test]
fn waits_for_files_hold() {
    holds("flock");
    holds("fifo");
}

#[test]
fn an_address_as_text_is_converted() {
    prints("getaddrinfo", "100 of 100\n");
}
