//! Faults on the main thread: the runtime's handlers leave their effects unchanged. The programs are in
//! `src/bin/main_thread.rs`.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use tests::child::{self, stderr, text};

fn output_of(case: &str) -> Output {
    child::program(env!("CARGO_BIN_EXE_main_thread")).arg(case).output().unwrap()
}

#[test]
fn an_overflow_is_reported_by_std() {
    let output = output_of("overflow");
    let said = stderr(&output);
    if cfg!(target_env = "musl") {
        // musl does not know where the stack of the main thread ends, so std reports nothing.
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", text(&output));
    } else {
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", text(&output));
        assert!(said.contains("thread 'main'") && said.contains("has overflowed its stack"), "{said}");
    }
    assert!(!said.contains("green thread"), "{said}");
}

#[test]
fn a_null_write_is_a_segmentation_fault() {
    let output = output_of("null");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", text(&output));
    assert!(!stderr(&output).contains("overflowed"), "{}", text(&output));
}
