//! A library for programs in any language: the basics behind one function of C.

mod basics;

/// Runs the basics on a runtime of its own, and returns 1. A failure ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn runs_basics() -> i32 {
    i32::from(basics::all(std::time::Duration::from_millis(50)) > 0)
}
