//! Blocking primitives: the queue of waiters under all of them, the locks, and a deadline that one waiter takes.

pub mod due;
pub mod locks;
pub mod queue;
