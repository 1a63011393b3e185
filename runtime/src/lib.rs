//! Goroutines for Rust: green threads, blocking-style code, no function colours.
//!
//! ```
//! use std::time::Duration;
//!
//! let sum: u64 = runtime::block_on(|| {
//!     let threads: Vec<_> = (0..1000u64)
//!         .map(|i| {
//!             runtime::spawn(move || {
//!                 runtime::sleep(Duration::from_millis(10));
//!                 i
//!             })
//!         })
//!         .collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum()
//! });
//! assert_eq!(sum, 499_500);
//! ```
//!
//! A green thread costs one page of memory and a fraction of a microsecond; a million may sleep at once. Everything
//! that blocks parks the green thread and lets its OS thread run others, and every call works on a green thread,
//! on a plain OS thread and on the one that called [`block_on`].
//!
//! # Before anything else: thread-locals
//!
//! **A green thread that parks may go on on another OS thread.** `std::thread_local!` belongs to the OS thread, so
//!
//! - a value from a thread-local (an `Rc` handle, `rand::rng()`, a borrow inside `LocalKey::with`) must not be
//!   held across anything that may park: a sleep, a join, a lock, I/O, or a spawn whose thread lost its turn;
//! - even a fresh `KEY.with(..)` after a park may see the *old* thread's value in optimised code, when the
//!   compiler has kept the variable's address from before the park in the same function:
//!
//! ```no_run
//! use std::cell::Cell;
//! std::thread_local! { static HITS: Cell<u32> = const { Cell::new(0) } }
//!
//! fn wrong() {
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//!     runtime::sleep(std::time::Duration::from_millis(1));
//!     // Perhaps another OS thread by now, and perhaps still the address of the first one's variable.
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//! }
//!
//! // Better: touch the thread-local in a function of its own that is not inlined and does not park.
//! #[inline(never)]
//! fn hit() {
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//! }
//! ```
//!
//! Better still: [`thread_local!`](crate::thread_local) of this crate belongs to the green thread, and
//! [`thread::pin`] keeps one on its OS thread. Libraries that use thread-locals within one call (allocators, `println!`, hash seeds) are fine.

#![deny(unsafe_code)]

mod builder;
mod entry;
mod local;
pub mod metrics;
pub mod net;
mod scope;
mod start;
pub mod thread;
pub mod time;

pub use builder::{Builder, Handle, Runtime};
pub use entry::{Async, Closure, Entry};
pub use scope::scope;
pub use thread::JoinHandle;
pub use time::{sleep, sleep_until};

use std::panic::Location;

use sched::spawn::{Spec, Where};

/// Runs `main` as a green thread and returns its value.
///
/// Called outside the runtime, it starts the process-wide default runtime if need be and blocks the calling OS
/// thread; `main` may borrow from the caller. When it returns, other green threads go on: the default runtime lives
/// as long as the process. Inside a green thread, `block_on(future)` drives the future right there, parking between
/// polls, and `block_on(closure)` just calls it.
///
/// # Panics
///
/// A panic in `main` goes on in the caller. It also panics when the default runtime cannot be started (no
/// descriptors, an invalid `RUNTIME_PROCS`), with the reason.
///
/// # Cancellation
///
/// The outer form is not ended by a cancellation of its caller; a cancelled `main` unwinds the caller with
/// [`thread::Cancelled`].
///
/// ```
/// let mut words = vec!["green"];
/// let n = runtime::block_on(|| {
///     words.push("thread");
///     words.len()
/// });
/// assert_eq!((n, runtime::block_on(async { n + 1 })), (2, 3));
/// ```
#[track_caller]
pub fn block_on<M, E>(main: E) -> E::Output
where
    E: Entry<M> + Send,
    E::Output: Send,
{
    if sched::park::on_green_thread() {
        return main.run_here();
    }
    start::block_on(builder::default_sched(), Location::caller(), main)
}

/// Starts a green thread that runs a closure or a future.
///
/// On a green thread it uses that thread's own runtime, on a plain OS thread the default one, which it starts if need
/// be. The new thread runs as soon as a P has time for it; dropping the handle lets it go on by itself. A future is
/// polled on a stack that is borrowed for each poll, so while it waits it has none and costs a few hundred bytes.
///
/// A green thread may go on on another OS thread after it has parked: see the [crate's page](crate) on
/// thread-locals.
///
/// # Panics
///
/// Only when the default runtime cannot be started, with the reason. A panic *in* the new thread is its own: it is
/// given to whoever joins it.
///
/// ```
/// let answer = runtime::spawn(|| 6 * 7);
/// let later = runtime::spawn(async { runtime::time::sleep_async(std::time::Duration::from_millis(1)).await });
/// assert_eq!(answer.join().unwrap(), 42);
/// later.join().unwrap();
/// ```
#[track_caller]
pub fn spawn<M, E>(task: E) -> JoinHandle<E::Output>
where
    E: Entry<M> + Send + 'static,
    E::Output: Send + 'static,
{
    let spec = Spec::at(Location::caller());
    start::or_panic(start::spawn(Where::Here(builder::default_sched), spec, task))
}

/// Lets other green threads run: the caller goes to the end of its queue. On a plain OS thread it is
/// `std::thread::yield_now`.
///
/// It is no parking call: it does not end by cancellation.
///
/// ```
/// runtime::block_on(|| {
///     let other = runtime::spawn(|| ());
///     while !other.is_finished() {
///         runtime::yield_now();
///     }
/// });
/// ```
pub fn yield_now() {
    sched::park::yield_now();
}

/// Runs a long or blocking call, and lets others have the P meanwhile.
///
/// The call stays on its OS thread; if other work waits, the P goes to another OS thread within some tens of
/// microseconds, and the caller gets one again before this returns. There is no second pool of threads. A call
/// that is not wrapped so is noticed too, only later: after at most 10 ms. On a plain OS thread it just calls `f`.
///
/// # Panics
///
/// Only if `f` does.
///
/// ```
/// let text = runtime::spawn(|| runtime::blocking(|| std::fs::read_to_string("Cargo.toml")));
/// assert!(text.join().unwrap().unwrap().contains("[package]"));
/// ```
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    sched::park::blocking(f)
}
