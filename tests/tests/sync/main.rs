//! Locks and the other primitives of `runtime::sync`.

mod barrier;
mod broadcast;
mod condvar;
mod lock_arc_async;
mod lock_async;
mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_cell;
mod oneshot;
mod reentrant;
mod rwlock;
mod semaphore;
mod unwind_safe;
mod wait_group;
mod watch;
