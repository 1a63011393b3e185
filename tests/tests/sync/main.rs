//! Locks and the other primitives of `runtime::sync`.

mod barrier;
mod broadcast;
mod condvar;
mod lock_async;
mod mpsc;
mod mutex;
mod notify;
mod once;
mod once_cell;
mod oneshot;
mod pool;
mod reentrant;
mod rwlock;
mod semaphore;
mod singleflight;
mod unwind_safe;
mod wait_group;
mod watch;
