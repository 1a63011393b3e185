//! Masks of signals belong to green threads.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

const MASKS: &str = env!("CARGO_BIN_EXE_masks");

#[track_caller]
fn prints(program: &str, expected: &str) {
    threads::prints(MASKS, program, expected);
}

#[test]
fn each_thread_keeps_its_mask() {
    prints("kept", "wrong: 0, main blocks: false\n");
}

#[test]
fn a_signal_that_all_threads_block_stays_pending() {
    prints("pending", "handled: 20, waited: true\n");
}

#[test]
fn a_signal_stays_pending_after_the_last_thread_that_lets_it_in() {
    prints("last", "handled: 1, pending: true\n");
}

#[test]
fn a_signal_of_pthread_kill_waits_for_its_mask() {
    prints("sent", "0 0 ((0, true), 1, false)\n0 1 2\n3\n");
}

#[test]
fn a_signal_that_a_thread_has_caused_finds_its_mask() {
    prints("pipe", "handled: 20\n");
}

#[test]
fn a_caused_signal_stays_pending_while_os_threads_start() {
    prints("starts", "pending: 40, handled: 0\n");
}

#[test]
fn sigsuspend_and_pause_end_by_a_signal_to_the_process() {
    prints("suspended", "-1 true true\nblocks: true\n-1 true true\nblocks: false\n");
}

#[test]
fn a_thread_begins_with_the_mask_of_its_attributes() {
    prints("attributes", "011\n");
}

#[test]
fn programs_begin_with_the_mask_of_the_thread() {
    let of = |mask: &str| format!("SigBlk:\t{mask}\n");
    let none = of("0000000000000000");
    let [green, _] = threads::both(MASKS, "programs");
    let (printed, some) = (threads::text(&green.stdout), of("0000000000001200"));
    // What `fork` and `posix_spawn` start has the mask. std's `Command` clears it, and so do some shells.
    let count = |line: &str| printed.matches(line).count();
    assert_eq!(count(&none) + count(&some), 12, "{printed}");
    assert!(printed.starts_with(&none.repeat(6)) && (2..=4).contains(&count(&some)), "{printed}");
}

#[test]
fn functions_of_masks_return_what_libc_does() {
    let expected = "true\ntrue\n-1\ntrue\n0\nfalse\nnot blocked: [9, 19, 32, 33]\nall have run\n";
    prints("results", expected);
}

#[test]
fn a_signal_that_a_thread_lets_in_ends_the_process() {
    let [green, _] = threads::both(MASKS, "ends");
    assert!(!green.status.success() && threads::text(&green.stdout).is_empty(), "{green:?}");
}
