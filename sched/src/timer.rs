//! The timers of the scheduler: what a heap entry leads to, and the functions of timers. `sources/fire.rs`
//! fires them.

pub(crate) mod entry;
pub(crate) mod function;
pub(crate) mod late;
mod refcount;
