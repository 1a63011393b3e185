//! Blocking primitives: the queue of waiters under all of them, the locks, and a deadline that one waiter
//! takes. Also the table of waiters for words of memory, and how std's locks wait there.

pub mod due;
#[cfg(all(feature = "interpose", target_os = "linux"))]
pub(crate) mod futex;
pub mod locks;
pub mod queue;
