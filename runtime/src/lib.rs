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
//! A green thread costs one page of memory and a fraction of a microsecond; a million may sleep at once. (When it has ended,
//! the memory of its stack may go back to the system; the 256 bytes that say who it was are kept for the next one, as many
//! times as green threads have ever been alive at once.) Everything
//! that blocks parks the green thread and lets its OS thread run others, and every call works on a green thread,
//! on a plain OS thread and on the one that called [`block_on`].
//!
//! # Before anything else: thread-locals
//!
//! **A closure that parks may resume on another OS thread. Safe code can be unsound by that.** The compiler takes it for
//! granted that a function stays on its OS thread, and so do types that are not `Send`. [`spawn`] requires `Send` of what a
//! closure captures, but cannot see what the closure keeps on its stack across a call that parks. With
//! [`Migration::Anytime`], the default, each of these is unsound although no `unsafe` is written:
//!
//! - a `std::sync::MutexGuard` or `StdoutLock` kept across a park is unlocked by another OS thread;
//! - an `Rc` from a thread-local, or a borrow inside `LocalKey::with`, kept across a park is used by two OS threads at once;
//! - a scoped context of the OS thread (`tokio::runtime::EnterGuard`, an entered tracing span) kept across a park is left on
//!   another OS thread than it was entered on;
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
//! The ways out:
//!
//! - [`thread_local!`](crate::thread_local) of this crate belongs to the green thread.
//! - **Futures.** A poll never changes its OS thread, whatever it calls, and what lives across an `.await` of a spawned future
//!   must be `Send`. So futures are as sound here as in tokio. This holds wherever a green thread polls a future: spawned,
//!   in [`block_on`], in [`time::timeout_async`].
//! - [`thread::pin`] keeps a green thread on its OS thread, and keeps other green threads off it.
//! - [`Migration::BeforeStart`] keeps each green thread on the OS thread where it has started. Other green threads run there
//!   meanwhile, so scoped contexts are still mixed up: see [`Builder::migration`].
//!
//! Libraries that use thread-locals within one call (allocators, `println!`, hash seeds) are fine.
//!
//! ## Calls that park
//!
//! Only these calls may move a closure to another OS thread:
//!
//! - [`sleep`], [`sleep_until`], [`yield_now`], [`thread::park`], [`thread::park_timeout`];
//! - [`JoinHandle::join`], the end of [`scope()`], [`block_on`] with a future that is not ready at once, dropping a [`Runtime`]
//!   or shutting it down;
//! - [`channel`]: sending to a full channel, receiving from an empty one, [`select!`] without `default`, iterators, and what
//!   waits with a time-out;
//! - [`sync`]: taking a lock that is not free, waiting for a [`sync::Condvar`], a [`sync::Barrier`], a [`sync::Notify`], a
//!   permit, a value that another thread initializes, a [`sync::WaitGroup`];
//! - [`net`], [`signal`] and [`io`](mod@io): reading, writing, accepting and connecting that has to wait;
//! - whatever calls one of these: a closure of the user's in [`time::timeout`] or [`blocking`], a destructor.
//!
//! No other call moves its caller, even if the caller has lost its P meanwhile: [`spawn`], [`thread::Thread::unpark`],
//! wakers, `try_*`, sending without waiting, unlocking and notifying, dropping guards and handles, setting, resetting and
//! stopping timers, cancelling, [`blocking`] itself, [`metrics`], [`dump()`]. (`tests/tests/moves.rs` holds each of them to it.)
//!
//! ## What a poll that parks costs
//!
//! A future that calls something of the list above inside its poll resumes on the same OS thread. Other green threads run
//! there meanwhile, so it takes no OS thread of its own. If the OS thread is busy when the future is woken, with a green thread
//! that computes or blocks, that future waits until the green thread parks, yields or ends. Futures that are parked on other OS
//! threads, futures between two polls, and closures go on. Awaiting instead of parking avoids this.
//!
//! # Signals
//!
//! Signal handlers of your own work on the runtime's threads as on any others. No call of this crate fails because of a
//! signal, and none returns before its time. The runtime itself handles faults alone.
//!
//! - A handler with `SA_ONSTACK` runs on the alternate stack that each of the runtime's threads has. One without runs on
//!   the stack of the green thread that it interrupts, which must have room for what the kernel puts there (1 to 12 KiB,
//!   by the processor: `getauxval(AT_MINSIGSTKSZ)`) and for the handler: the usual stacks have, one of a single page has not.
//! - As always, a handler may do only what is safe in one. That does not include calls of this crate: to wait for signals, use
//!   [`signal::notify`].
//! - `SIGSEGV` and `SIGBUS` are handled from the moment the first runtime is made, so that an overflow names its green
//!   thread. Every other fault goes to whoever was there before. A handler that is installed later takes the place, as is
//!   usual: overflows are reported on if it passes faults on to the handler that it found.
//!
//! # Where calls may be made
//!
//! Nearly everywhere. What the pages of the functions say holds on green threads, on plain OS threads, inside
//! [`block_on`] and inside a future's `poll`. In other places:
//!
//! | a call from | gives |
//! | --- | --- |
//! | a [`Waker`](std::task::Waker) of your own | the same. The runtime clones, calls and drops wakers where they may do anything: one that a timer calls gets a green thread for that, one that waits for a green thread's end is called by that thread. A panic there is reported on stderr and goes no further |
//! | a destructor while its thread unwinds (from a panic, a cancellation, a [`timeout`](time::timeout)) | the same, and waits are waited for: nothing unwinds a second time, so neither a cancellation nor a time-out ends them. A wait there keeps its OS thread |
//! | another destructor that the runtime runs: of what a cancelled thread never used, of a future that was cancelled, of a result that nobody wants, of [`thread_local!`] values | the same, and a cancellation does not end it |
//! | a destructor of std's thread-locals, an `atexit` handler, after `main` has returned | the same. Values of [`thread_local!`] may be gone ([`AccessError`](thread::AccessError)); a panic there ends the process, as always in Rust |
//! | anywhere, after the runtime concerned has ended | see [`Runtime`] and [`Handle`] |
//! | a child made by `fork` | what needs no other thread works, the rest is refused: see below |
//! | a signal handler | nothing is allowed: no function of this crate is async-signal-safe. Let the handler write to a pipe, or use a crate that does |
//!
//! ## After `fork`
//!
//! [`std::process::Command`] works from anywhere. A child that is forked by other means and does not exec has only the thread
//! that forked; green threads, timers and the poller stayed behind. In it
//!
//! - that thread counts as a plain OS thread, even if it was a green one. Computing, [`yield_now`], [`sleep`],
//!   [`thread::park_timeout`], [`blocking`], names and ids, `is_finished`, and sockets that need not wait work as ever;
//!   `unpark` and `cancel` of a green thread do nothing; ending a runtime does nothing and does not wait.
//! - what would start a green thread or wait for one panics, or gives an error of kind `Unsupported` where it can give errors,
//!   saying "this process was forked from one that runs green threads"; so do new sockets, sockets that would have to wait, and
//!   metrics.
//! - a green thread that comes to its end aborts the process, with a message: there is no scheduler to go back to. Such a child
//!   calls `exec` or `_exit`.
//!
//! A process that has not used this crate may fork freely; parent and children may then use it each for itself.

//! # Unwinding
//!
//! This crate needs it: with `panic = "abort"` in the profile it does not compile. These unwind a green thread from the call in
//! which it waits, so that its destructors run:
//!
//! - [`JoinHandle::cancel`], and everything that cancels: a [`scope()`] that a panic or a cancellation ends, and
//!   [`Handle::block_on`] and [`block_on`] when they report a deadlock;
//! - [`time::timeout`], when the time is up;
//! - the end of a [`Runtime`], by `drop` or by `shutdown_timeout`, for green threads that still wait.
//!
//! Futures are dropped and not unwound. A program that does none of this may switch on the feature `panic-abort`: the crate
//! then compiles with `panic = "abort"`, and each of the above ends the process with a message on stderr, as does any panic.

#![deny(unsafe_code)]

#[cfg(all(panic = "abort", not(feature = "panic-abort")))]
compile_error!(
    "this crate needs unwinding, and the profile says `panic = \"abort\"`: cancelling a green thread, a time-out, a cancelled \
     scope and dropping a runtime would end the process. Remove the line from the profile, or switch on the feature \
     `panic-abort` of this crate if your program does none of these"
);

mod builder;
pub mod channel;
pub mod context;
mod dump;
mod end;
mod entry;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(unix)]
pub mod io;
mod local;
pub mod metrics;
pub mod net;
mod scope;
#[cfg(unix)]
pub mod signal;
mod start;
pub mod sync;
pub mod thread;
pub mod time;

pub use builder::{Builder, Handle, Migration, Runtime};
pub use dump::dump;
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
/// descriptors, an invalid `RUNTIME_PROCS`, a [forked child](crate#after-fork)), with the reason.
///
/// **Deadlock.** When all green threads wait and nobody can wake one any more, the outer form ends: `main` is cancelled, and
/// when it has unwound, `block_on` panics with "all green threads are asleep - deadlock!" and what [`dump()`] writes. There is
/// never such a panic while anybody could: a timer that is set, a socket that is registered, a call in [`blocking`], or any
/// OS thread of the process, of whatever kind, that does anything else than wait in this crate without a time-out. (So one
/// more thread of the program or of a library hides a deadlock, and so does a green thread that keeps its OS thread while it
/// waits: pinned, or unwinding.) It is found some tens of milliseconds after the last one has gone to wait, on Linux alone.
///
/// # Cancellation
///
/// The outer form is not ended by a cancellation of its caller; a cancelled `main` unwinds the caller with
/// [`thread::Cancelled`]. On a green thread, a future that must wait unwinds a cancelled caller.
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
    start::block_on(builder::default_sched_or_panic(), Location::caller(), main)
}

/// Starts a green thread that runs a closure or a future.
///
/// On a green thread it uses that thread's own runtime, on a plain OS thread the default one, which it starts if need
/// be. The new thread runs as soon as a P has time for it; dropping the handle lets it go on by itself. A future is
/// polled on a stack that is borrowed for each poll, so while it waits it has none and costs a few hundred bytes.
///
/// A closure may resume on another OS thread after it has parked, which is unsound for what it takes from a thread-local or
/// a lock of std's: see the [crate's page](crate). A future stays on one OS thread during each poll.
///
/// # Panics
///
/// When the new thread cannot be had, with the reason and what to do: there is no address space for a stack, no memory for
/// another green thread, the default runtime cannot be started, or this
/// is a [forked child](crate#after-fork). Nobody else is disturbed, and a later call may work;
/// [`thread::Builder::spawn`] gives all this as an error. A panic *in* the new thread is its own: it is given to whoever
/// joins it.
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
#[inline(always)]
pub fn yield_now() {
    sched::park::yield_now();
}

/// Runs a long or blocking call, and lets others have the P meanwhile.
///
/// The call stays on its OS thread; if other work waits, the P goes to another OS thread within some tens of
/// microseconds, and the caller gets one again before this returns. There is no second pool of threads: as many OS threads
/// as calls block at once, up to `Builder::max_threads`, are started, and they end when nobody has needed them for ten
/// seconds. A call
/// that is not wrapped so is noticed too, only later: after at most 10 ms. On a plain OS thread it just calls `f`.
///
/// `f` may call anything of this crate. If it parks, it goes on as any green thread does, perhaps on another OS thread.
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
