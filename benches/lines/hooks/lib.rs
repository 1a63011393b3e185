//! The functions that code built with `-Zsanitizer=thread` calls before each access of memory. They pass the
//! access to a model of caches (`model.rs`) in the place of ThreadSanitizer.
//!
//! `ci/lines.sh` builds this file as a shared library, without the sanitizer, and links the program `lines`
//! against the library. So the model sees the unchanged code of every crate, plain and atomic accesses
//! alike. It does not see libc, the kernel, code of std that is compiled already, and assembly (the switch
//! of stacks).

// These functions are public in the library, but not in the tests of the program.
#![allow(unreachable_pub)]

mod abi;
mod model;
mod sets;
mod turns;

pub use model::Transfer;

/// Counts from now on, and forgets the earlier transfers. If `log` is `false`, the model only learns which
/// thread has which line.
#[unsafe(no_mangle)]
pub extern "C" fn lines_begin(log: bool) {
    model::begin(log);
}

/// Stops counting, and calls `visit` with each transfer since `lines_begin`. Returns the number of transfers
/// that did not fit into the logs.
#[unsafe(no_mangle)]
pub extern "C" fn lines_end(visit: extern "C" fn(&Transfer)) -> usize {
    model::end(|transfer| visit(transfer))
}

/// Starts turns of `count` participants. The first has the turn.
#[unsafe(no_mangle)]
pub extern "C" fn lines_start_turns(count: usize) {
    turns::start(count);
}

/// Blocks the OS thread until participant `number` has the turn.
#[unsafe(no_mangle)]
pub extern "C" fn lines_take_turn(number: usize) {
    turns::take(number);
}

/// Gives the turn to the next participant.
#[unsafe(no_mangle)]
pub extern "C" fn lines_pass_turn() {
    turns::pass();
}
