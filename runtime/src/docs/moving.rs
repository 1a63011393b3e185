//! A closure that parks may resume on another OS thread: why that can be unsound, and how to avoid it.
//!
//! # The hazard
//!
//! **A closure that parks may resume on another OS thread. Safe code can be unsound by that.** The compiler assumes that a
//! function stays on its OS thread. Types that are not `Send` assume the same. [`spawn()`](crate::spawn()) requires `Send` of
//! what a closure captures. It cannot check what the closure keeps on its stack across a call that parks.
//!
//! With [`Migration::Anytime`](crate::Migration::Anytime), the default, each of these is unsound although no `unsafe` is written:
//!
//! - A `std::sync::MutexGuard` or `StdoutLock` that is kept across a park is unlocked by another OS thread. (The locks of
//!   [`sync`](crate::sync) and [`io::stdout`](crate::io::stdout) belong to the green thread.)
//! - An `Rc` from a thread-local, or a borrow inside `LocalKey::with`, that is kept across a park is used by two OS threads at
//!   once.
//! - A scoped context of the OS thread (`tokio::runtime::EnterGuard`, an entered tracing span) that is kept across a park may be
//!   left on another OS thread than the one that entered it.
//! - A fresh `KEY.with(..)` after a park may read the value of the *previous* OS thread in optimised code. In one function, the
//!   compiler may reuse the address that it computed before the park:
//!
//! ```no_run
//! use std::cell::Cell;
//! std::thread_local! { static HITS: Cell<u32> = const { Cell::new(0) } }
//!
//! fn wrong() {
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//!     runtime::sleep(std::time::Duration::from_millis(1));
//!     // This may be another OS thread, and the address may still be that of the first thread's variable.
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//! }
//!
//! // Right: a function of its own, never inlined, that does not park.
//! #[inline(never)]
//! fn hit() {
//!     HITS.with(|hits| hits.set(hits.get() + 1));
//! }
//! ```
//!
//! Libraries that use thread-locals within one call (allocators, `println!`, hash seeds) are safe to call.
//!
//! # The ways out
//!
//! - **[`runtime::thread_local!`](macro@crate::thread_local)** declares values that belong to the green thread.
//! - **Futures.** A poll never changes its OS thread, whatever it calls, and what lives across an `.await` of a spawned future
//!   must be `Send`. So futures are as sound here as in tokio. This holds wherever a green thread polls a future: spawned, in
//!   [`block_on`](crate::block_on), in [`time::timeout_async`](crate::time::timeout_async).
//! - **[`thread::pin`](crate::thread::pin)** keeps a green thread on its OS thread, and keeps other green threads off that OS
//!   thread.
//! - **[`Migration::BeforeStart`](crate::Migration::BeforeStart)** keeps each green thread on the OS thread where it has started.
//!   Other green threads run there meanwhile, so scoped contexts are still mixed up: see
//!   [`Builder::migration`](crate::Builder::migration).
//! - **A function of its own** for each use of a thread-local, marked `#[inline(never)]`, that does not park.
//!
//! # Calls that park
//!
//! Only these calls may move a closure to another OS thread:
//!
//! - [`sleep`](crate::sleep), [`sleep_until`](crate::sleep_until), [`yield_now`](crate::yield_now),
//!   [`thread::park`](crate::thread::park), [`thread::park_timeout`](crate::thread::park_timeout);
//! - [`JoinHandle::join`](crate::JoinHandle::join), the end of [`scope()`](crate::scope()), [`block_on`](crate::block_on) with a
//!   future that is not ready at once, dropping a [`Runtime`](crate::Runtime) or shutting it down;
//! - [`channel`](crate::channel): sending to a full channel, receiving from an empty one, [`select!`](crate::select) without
//!   `default`, iterators, and the operations with a time-out;
//! - [`sync`](crate::sync): taking a lock that is not free; waiting for a [`Condvar`](crate::sync::Condvar), a
//!   [`Barrier`](crate::sync::Barrier), a [`Notify`](crate::sync::Notify), a permit of a
//!   [`Semaphore`](crate::sync::Semaphore), a value that another thread initializes, a [`WaitGroup`](crate::sync::WaitGroup);
//!   waiting in [`oneshot`](crate::sync::oneshot) and [`watch`](crate::sync::watch), a borrow of a value that is being changed;
//! - [`net`](crate::net), [`process`](crate::process), [`signal`](crate::signal) and [`io`](mod@crate::io): reads, writes, accepts and connects that have to
//!   wait; a function that looks up a host name, or waits for a child process; [`fs`](crate::fs):
//!   a call that waits in line for an OS thread, and [`File::lock`](crate::fs::File::lock);
//! - a call that runs one of these: a closure in [`time::timeout`](crate::time::timeout) or [`blocking`](crate::blocking), a
//!   destructor.
//!
//! No other call moves its caller, even if the caller has lost its P meanwhile (see [rescue](super::glossary#rescue)):
//! [`spawn()`](crate::spawn()), [`Thread::unpark`](crate::thread::Thread::unpark), wakers, `try_*`, sending without waiting,
//! unlocking and notifying, dropping guards and handles, setting, resetting and stopping timers, cancelling,
//! [`blocking`](crate::blocking) itself, [`metrics`](crate::metrics), [`dump()`](crate::dump()). The runtime's tests check each
//! of these calls.
//!
//! # What a poll that parks costs
//!
//! A future may call a parking function inside its poll. The poll then resumes on the same OS thread. Other green threads run there
//! meanwhile, so the parked poll takes no OS thread of its own.
//!
//! The price: that OS thread may be busy with a green thread that computes or blocks when the future is woken. The future then
//! waits until that green thread parks, yields or ends. Futures that are parked on other OS threads, futures between two polls,
//! and closures go on. Awaiting instead of parking avoids this.
