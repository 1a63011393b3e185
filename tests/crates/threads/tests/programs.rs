//! Each program prints the same with green threads and with OS threads, and ends in the same way.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use threads::{takes_few_os_threads, text};

/// The programs.
const OF_STD: &str = env!("CARGO_BIN_EXE_of-std");

fn both(program: &str) -> [Output; 2] {
    threads::both(OF_STD, program)
}

#[track_caller]
fn prints(program: &str, expected: &str) -> [Output; 2] {
    threads::prints(OF_STD, program, expected)
}

#[test]
fn ten_thousand_threads_sleep() {
    takes_few_os_threads(prints("sleepers", "49995000\nleaders: 1\n"), 1_000);
}

#[test]
fn threads_start_threads() {
    prints("nested", "leaves: 243\nOk(())\n");
}

#[test]
fn threads_leave_no_memory_behind() {
    prints("many", "more pages: few\n");
}

/// A page table maps 2 MiB: a stack of std's default size needs one of its own, and small stacks share one.
#[test]
fn small_stacks_share_page_tables() {
    let kib = |bytes: &str| -> usize {
        let variables = [("RUST_MIN_STACK", bytes), ("RUNTIME_STACK_SIZE", bytes)];
        text(&threads::run_with(&variables, OF_STD, "page-tables").stdout).trim().parse().unwrap()
    };
    let [large, small] = ["2097152", "262144"].map(kib);
    assert!(large >= 4_000, "{large} KiB");
    // A seventh for the stacks, and the tables of the program itself.
    assert!(small < large / 4, "{small} and {large} KiB");
}

/// On one P and without sysmon, only the yield lets the others run.
#[test]
fn threads_yield() {
    let one = [("RUNTIME_PROCS", "1"), ("RUNTIME_SYSMON", "off")];
    let output = threads::run_with(&one, OF_STD, "yields");
    assert_eq!(text(&output.stdout), "turns: 150\n", "{output:?}");
    prints("yields", "turns: 150\n");
}

#[test]
fn waits_of_std() {
    let expected = "mutex: 5000\ncondvar: 2000\ncondvar with a time-out: true\nrwlock: 1000\nbarrier: 20\n\
        once: 3\nchannels: 998000\na channel with a time-out: [Err(Timeout), Err(Disconnected)]\npark: 1000\nscope: 11\n";
    takes_few_os_threads(prints("waits", expected), 300);
}

#[test]
fn a_thread_for_each_connection() {
    takes_few_os_threads(prints("echo", "answers: 4000\n"), 400);
}

#[test]
fn destructors_of_thread_locals_have_run_when_join_returns() {
    prints("locals", "dropped 1001\nmain has 7\n");
}

#[test]
fn threads_start_children() {
    let lines = (0..20).map(|number| format!("3 has read thread {number}\n"));
    prints("children", &(lines.collect::<String>() + "Some(NotFound)\n"));
}

#[test]
fn panics_go_through_join() {
    let [green, _] = both("panics");
    let lines: Vec<_> = text(&green.stdout).lines().collect();
    assert!(lines[0].starts_with("[number 0] 1 2 [number 3] 4 5 "), "{}", lines[0]);
    assert_eq!(lines[1..], ["true true", "Some(\"a scoped thread panicked\")", "false"]);
}

#[test]
fn names_ids_and_sizes() {
    let expected = "Some(\"main\")\nSome(\"short\")\nSome(\"short\")\nSome(\"a name of more than fifteen bytes\")\n\
        Some(\"a name of more than fifteen bytes\")\ntrue\n100 ids, with main's false\ntrue\nfalse\n";
    prints("settings", expected);
}

/// A stack overflow is reported by this name.
#[test]
fn a_thread_that_has_begun_is_known_by_its_name() {
    prints("named-at-once", "5000\n");
}

#[test]
fn stacks_are_as_deep_as_asked_for() {
    prints("deep", "main: true\ndefault: true\n3 MiB: true\n16 MiB: true\n200 MiB: true\n");
}

#[test]
fn an_overflow_is_reported_by_name() {
    for (mode, output) in ["green", "os"].into_iter().zip(both("overflow")) {
        assert_eq!(output.status.signal(), Some(6), "{mode}: {output:?}");
        let report = text(&output.stderr);
        assert!(report.contains("bottomless") && report.contains("overflow"), "{mode}: {report}");
    }
}

#[test]
fn exit_in_a_thread_ends_the_process() {
    let [green, _] = both("exits");
    assert_eq!((green.status.code(), text(&green.stdout)), (Some(7), "exits\n"));
}

#[test]
fn the_return_of_main_ends_the_process() {
    prints("returns", "returns\n");
}

#[test]
fn a_panic_of_main_ends_the_process() {
    for output in both("panic-of-main") {
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        assert!(text(&output.stderr).contains("of main"), "{output:?}");
    }
}

/// Valgrind has its own `malloc`, with which there are no thread-locals of green threads.
#[test]
fn without_thread_locals_of_its_own_the_program_has_os_threads() {
    let program = ["--quiet", OF_STD, "nested"];
    let Ok(output) = Command::new("valgrind").args(program).env_remove("RUNTIME_THREADS").output() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "valgrind is not installed: run ci/setup.sh");
        eprintln!("LEFT OUT: valgrind is not installed");
        return;
    };
    assert_eq!(text(&output.stdout), "leaves: 243\nOk(())\n", "{output:?}");
    assert!(text(&output.stderr).contains("The threads of this program are OS threads."), "{output:?}");
}

#[test]
fn a_wrong_setting_ends_the_program() {
    let output = threads::run(OF_STD, "nested", "purple");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = "RUNTIME_THREADS is \"purple\": green or os is expected, or no such variable\n";
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("", expected));
}
