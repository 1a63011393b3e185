//! The timers of the scheduler: what a heap entry leads to, and what happens when it fires.

pub(crate) mod after_func;
pub(crate) mod entry;
mod fire;
pub(crate) mod function;
pub(crate) mod late;
mod refcount;
mod user_wakers;
