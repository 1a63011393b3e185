//! Test helpers: the C program, and many clients at once. The servers are those of `tests/crates`.

use std::ffi::c_int;

pub mod crowd;
#[path = "../../src/lib.rs"]
pub mod servers;
pub mod slow;
pub mod soak;

unsafe extern "C" {
    safe fn check_calls() -> c_int;
    safe fn errno_after_timeout(fd: c_int, ms: c_int) -> c_int;
    safe fn receive(fd: c_int) -> c_int;
    safe fn close_in_vfork_child(fd: c_int, second: c_int, other: c_int) -> c_int;
    safe fn wait_in_vfork_child(fd: c_int) -> c_int;
}

/// Runs the checks of the C program. Returns the number of failures on all threads so far, which the program prints.
pub fn failures_of_calls() -> i32 {
    check_calls()
}

/// Lets C receive from `fd` until a time-out. Returns the `errno` at the address that C has kept from before the call.
pub fn errno_kept_across_timeout(fd: i32, ms: i32) -> i32 {
    errno_after_timeout(fd, ms)
}

/// Lets C receive from `fd`. Returns the number of bytes, or the negative `errno`.
pub fn c_receive(fd: i32) -> i32 {
    receive(fd)
}

/// Lets a child of `vfork` close `fd`, and put `other` in the place of `second`. Returns its exit status.
pub fn close_by_vfork(fd: i32, second: i32, other: i32) -> i32 {
    close_in_vfork_child(fd, second, other)
}

/// Lets a child of `vfork` wait for two bytes from `fd`, and sleep. Returns the sum of the bytes.
pub fn wait_by_vfork(fd: i32) -> i32 {
    wait_in_vfork_child(fd)
}
