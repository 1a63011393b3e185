//! `#[runtime::test(sim)]`: tests that run in simulations. Tests that fail on purpose run in a child process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::sim::{self, Faults, Strategy};
use runtime::sync::Mutex;
use runtime::{sleep, spawn};

/// `true` in a child process that runs the tests which fail on purpose. In another process they do nothing.
fn on_purpose() -> bool {
    std::env::var_os(ON_PURPOSE).is_some()
}

const ON_PURPOSE: &str = "TESTS_FAIL_ON_PURPOSE";

/// Two green threads each read, and then write.
fn increments(together: bool) {
    let count = Arc::new(Mutex::new(0));
    let other = count.clone();
    let add = move |count: &Mutex<i32>| {
        if together {
            *count.lock() += 1;
        } else {
            let read = *count.lock();
            *count.lock() = read + 1;
        }
    };
    let thread = spawn(move || add(&other));
    add(&count);
    thread.join().unwrap();
    assert_eq!(*count.lock(), 2);
}

#[runtime::test(sim)]
fn a_test_is_simulated() {
    let start = Instant::now();
    sleep(Duration::from_secs(3600));
    assert!(sim::is_simulated() && start.elapsed() == Duration::from_secs(3600));
}

#[runtime::test(sim, seeds = 300, strategy = Strategy::Pct { depth: 2 }, max_steps = 10_000)]
fn a_test_without_a_bug_passes() {
    increments(true);
}

#[runtime::test(sim, seeds = 100, threads = 2, shrink = false)]
#[should_panic(expected = "left: 1")]
fn a_test_that_should_panic_is_told_of_the_failure() {
    increments(false);
}

#[runtime::test(sim, seeds = 5, check_determinism = true, faults = Faults::new().kill(0.5))]
async fn a_future_that_is_not_send_is_simulated() -> Result<(), std::num::ParseIntError> {
    let mine = std::rc::Rc::new(std::cell::Cell::new(0));
    let node = sim::node("db", || sleep(Duration::from_secs(60)));
    runtime::time::sleep_async(Duration::from_secs(10)).await;
    mine.set("7".parse()?);
    assert_eq!((mine.get(), node.name()), (7, "db"));
    Ok(())
}

static RUNS: AtomicU64 = AtomicU64::new(0);

#[runtime::test(sim, seeds = 37)]
fn counts_its_runs() {
    RUNS.fetch_add(1, Ordering::Relaxed);
    if on_purpose() {
        println!("runs: {}", RUNS.load(Ordering::Relaxed));
    }
}

#[runtime::test(sim, seeds = 1000, threads = 1)]
fn fails() {
    increments(!on_purpose());
}

#[runtime::test(sim)]
fn returns_an_error() -> Result<(), String> {
    if on_purpose() { Err("an error on purpose".into()) } else { Ok(()) }
}

/// Runs a test of this file in a child process. Returns whether it passes, and what it prints.
fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut program = tests::child::command(test);
    program.env(ON_PURPOSE, "1").env("RUST_BACKTRACE", "0");
    let output = program.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

#[test]
fn a_failure_has_its_seed_and_the_line_that_replays_it() {
    let (passes, text) = run("fails", &[]);
    assert!(!passes && text.contains("a simulation with seed "), "{text}");
    assert!(text.contains("left: 1") && text.contains("to replay it, set RUNTIME_SIM_SEED="), "{text}");
    // The line has the variables and their values.
    let (_, line) = text.split_once("to replay the shortest failing schedule, set ").expect("no line");
    let words = line.lines().next().unwrap().split(' ').map(|word| word.split_once('=').unwrap());
    let variables: Vec<(&str, &str)> = words.collect();
    assert_eq!(
        variables.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["RUNTIME_SIM_SEED", "RUNTIME_SIM_SCHEDULE"]
    );
    let (passes, again) = run("fails", &variables);
    assert!(!passes && again.contains("after 1 run:") && again.contains("left: 1"), "{again}");
    // Another seed, with the schedule without preemptions, passes.
    let (passes, text) = run("fails", &[("RUNTIME_SIM_SEED", "0"), ("RUNTIME_SIM_SCHEDULE", "-")]);
    assert!(passes, "{text}");
}

#[test]
fn each_seed_is_run() {
    let (passes, text) = run("counts_its_runs", &[]);
    assert!(passes && text.contains("runs: 37") && !text.contains("runs: 38"), "{text}");
}

#[test]
fn a_returned_error_fails_the_test() {
    let (passes, text) = run("returns_an_error", &[]);
    assert!(!passes && text.contains("Error: \"an error on purpose\""), "{text}");
    assert!(text.contains("the test has returned an error"), "{text}");
}
