//! What the scheduler asks of the operating system: one file per system, chosen here and nowhere else.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
pub(crate) mod windows;

// Memory of stacks.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{
    advise_stacks, discard, least_signal_stack, mark_guard, most_mappings, refuses_writes,
};
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) use unix::{
    advise_stacks, discard, least_signal_stack, mark_guard, most_mappings, refuses_writes,
};
#[cfg(unix)]
pub(crate) use unix::{errno, forbid, map, page_size, set_errno, unmap};

// Threads and the processor's counter.

mod threads;
mod ticks;

pub use threads::Doing;
pub(crate) use threads::{doing, shorten_slice, sleep_exactly, thread_id};
pub(crate) use ticks::{steady_ticks, ticks};
