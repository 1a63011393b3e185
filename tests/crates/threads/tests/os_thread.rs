//! Threads that keep an OS thread of their own.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use threads::text;

const OS_THREAD: &str = env!("CARGO_BIN_EXE_os_thread");

#[test]
fn a_thread_that_asks_for_a_processor_has_an_os_thread_of_its_own() {
    let each = "0\n1 1\nalone: true\nnothing is left: true\n";
    threads::prints(OS_THREAD, "processors", &format!("{each}{each}no processor: true\n"));
}

#[test]
fn a_thread_that_asks_for_a_policy_has_an_os_thread_of_its_own() {
    threads::prints(OS_THREAD, "policy", "0\ntrue\nalone: true\nnothing is left: true\n");
}

#[test]
fn others_change_the_place_of_a_thread_that_keeps_its_os_thread() {
    threads::prints(
        OS_THREAD,
        "by-others",
        "1\n0\n0\n0\ntrue\n0\n0 true\ntrue true\nnothing is left: true\n",
    );
}

#[test]
fn a_pinned_thread_yields() {
    threads::prints(OS_THREAD, "pinned", "has yielded\n");
}

#[test]
fn attributes_ask_for_processors_and_a_policy() {
    let outputs = threads::both(OS_THREAD, "attributes");
    let printed = text(&outputs[0].stdout);
    assert!(printed.starts_with("one: 0\none: (0, 1, 1)\nnone: 0\nnone: true\nall: 0 true\n"), "{printed}");
    assert!(printed.ends_with("nothing is left: true\n"), "{printed}");
}

#[test]
fn the_environment_names_threads_that_keep_an_os_thread() {
    let run = |threads, names| {
        let variables = [("RUNTIME_THREADS", threads), ("RUNTIME_OS_THREADS", names)];
        let output = threads::run_with(&variables, OS_THREAD, "named");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).to_string()
    };
    let expected = "true\n\"kept 2\\n\" false\n";
    assert_eq!(run("os", ""), expected);
    // By their names, and by the file of their first function.
    assert_eq!(run("green", "other, kept *"), expected);
    assert_eq!(run("green", "os_thr*d"), expected);
    let without = run("green", "kept");
    assert!(without.starts_with("false\n"), "{without}");
}

/// Strict mode has other threads on each OS thread.
#[test]
fn strict_mode_refuses_a_place_in_the_kernels_scheduler() {
    let output = threads::run_with(&[("RUNTIME_MIGRATION", "before-start")], OS_THREAD, "processors");
    assert!(text(&output.stdout).starts_with(&format!("{}\n", libc::ENOTSUP)), "{output:?}");
}
