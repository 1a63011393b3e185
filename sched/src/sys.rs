//! The calls of the operating system that the scheduler needs: one file per system, chosen here and nowhere
//! else.
//!
//! `--cfg portable` builds on Linux what other Unixes have in place of Linux's own calls, to test it. It goes
//! with no feature that is for Linux alone.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

/// How many bytes of address space the runtime leaves unused when it starts an OS thread. With none left,
/// `malloc` fails in the rest of the process, which ends the process.
#[cfg(target_pointer_width = "64")]
pub(crate) const LEFT_BY_THREADS: usize = 4 << 20;
#[cfg(not(target_pointer_width = "64"))]
pub(crate) const LEFT_BY_THREADS: usize = 1 << 20;
/// How many bytes of address space stacks leave unused, so that a few OS threads can still start.
#[cfg(unix)]
pub(crate) const LEFT_BY_STACKS: usize = 4 * LEFT_BY_THREADS;

// Memory of stacks.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
pub(crate) use linux::{
    GUARDS_STAY, advise_stacks, discard, frees_page_tables, has_mappings, least_signal_stack, mark_guard,
    most_mappings, refuses_writes, room, unmark_guards,
};
#[cfg(all(unix, not(all(any(target_os = "linux", target_os = "android"), not(portable)))))]
pub(crate) use unix::{
    GUARDS_STAY, advise_stacks, discard, frees_page_tables, has_mappings, least_signal_stack, mark_guard,
    most_mappings, refuses_writes, room, unmark_guards,
};
#[cfg(unix)]
pub(crate) use unix::{errno, forbid, map, page_size, set_errno, unmap, write, write_error};
#[cfg(windows)]
pub(crate) use windows::{end_of_stack, has_mappings, room, write_error};

// Threads, and the processor's counter and barriers.

pub(crate) mod barrier;
pub(crate) mod catch_panic;
#[cfg(windows)]
pub mod console;
#[cfg(unix)]
pub mod default_effect;
pub mod fork;
pub(crate) mod message;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) mod of_libc;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) mod peek;
pub(crate) mod preempt;
mod prefetch;
pub mod privileges;
pub(crate) mod segment;
pub mod starting;
mod threads;
mod ticks;

pub(crate) use prefetch::prefetch;
pub use threads::{Doing, processors_in_set};
pub(crate) use threads::{
    LISTS_THREADS, blocked_at, doing, main_thread_id, processor, processors, restore_slice, set_timer_slack,
    shorten_slice, sleep_thread, thread_id, thread_ids, timer_slack, yield_thread,
};
#[cfg(all(test, target_os = "linux", not(portable)))]
pub(crate) use threads::{SLICE_NS, slice};
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(portable)))]
pub(crate) use ticks::SKEW;
pub use ticks::stamp;
pub(crate) use ticks::{steady_ticks, ticks};
