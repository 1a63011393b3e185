//! Test helpers: the C program, and many clients at once. The servers are those of `tests/crates`.

use std::ffi::{c_int, c_long, c_ulong};

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
    safe fn wait_in_child(how: c_int, fd: c_int) -> c_int;
    safe fn checked_call(how: c_int, fd: c_int, size: c_int) -> c_int;
    fn write_at_position(fd: c_int, bytes: *const u8, count: c_ulong) -> c_long;
    safe fn sleep_by_thrd(ms: c_int) -> c_int;
    safe fn close_all(first: c_int, last: c_int) -> c_int;
}

/// Runs the checks of the C program. Returns the number of failures on all threads so far, which the program
/// prints.
pub fn failures_of_calls() -> i32 {
    check_calls()
}

/// Lets C receive from `fd` until a time-out. Returns the `errno` at the address that C has kept from before
/// the call.
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

/// The ways of [`wait_by_child`] to make a child: `vfork`, `clone`, `_Fork`, and `clone` and `clone3` by
/// their numbers.
pub const CHILDREN: i32 = 5;

/// Lets a child that was made in the way `how` wait for two bytes from `fd`, and sleep. Returns the sum of
/// the bytes.
pub fn wait_by_child(how: i32, fd: i32) -> i32 {
    wait_in_child(how, fd)
}

/// The calls of [`call_checked`]: `read`, `recv`, `recvfrom`, `poll`, `ppoll`, which are checked, and
/// `preadv2` by both names.
pub const CHECKED_CALLS: i32 = 7;

/// Lets C wait for `fd` by its call number `how`, with `size` as the count of bytes or descriptors. Returns
/// what the call returns.
pub fn call_checked(how: i32, fd: i32, size: i32) -> i32 {
    checked_call(how, fd, size)
}

/// Lets C write by `pwritev2` at the present position. Returns what the call returns.
pub fn write_by_pwritev2(fd: i32, bytes: &[u8]) -> i64 {
    // SAFETY: the call reads the bytes.
    unsafe { write_at_position(fd, bytes.as_ptr(), bytes.len() as c_ulong) }
}

/// Lets C sleep by `thrd_sleep`. Returns 0 if the results are right.
pub fn sleep_as_c11(ms: i32) -> i32 {
    sleep_by_thrd(ms)
}

/// Lets C close the descriptors from `first` to `last`, by `closefrom` if `last` is -1.
pub fn close_descriptors(first: i32, last: i32) -> i32 {
    close_all(first, last)
}
