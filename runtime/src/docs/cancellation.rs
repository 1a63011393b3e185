//! Cancellation and time-outs: which calls they end, what runs during the unwinding, and `panic = "abort"`.
//!
//! The chapter `guide/src/cancellation.md` of the repository has examples.
//!
//! # What cancels
//!
#![doc = include_str!("what_cancels.md")]
//!
//! An [`AbortHandle`](crate::thread::AbortHandle) can be cloned and sent elsewhere. The others are
//! [`JoinHandle::cancel`](crate::JoinHandle::cancel), [`scope()`](crate::scope()),
//! [`try_scope()`](crate::try_scope()), [`JoinSet`](crate::thread::JoinSet), [`Runtime`](crate::Runtime),
//! [deadlocks](super::deadlock), [`time::timeout`](crate::time::timeout) and
//! [`Context::run`](crate::context::Context::run).
//!
//! A cancelled green thread unwinds from the call in which it waits, or from the next such call, with
//! [`thread::Cancelled`](crate::thread::Cancelled). Destructors run. No panic message is printed. Code that
//! does not park is not interrupted. A closure that has not begun is dropped without running. A future is
//! dropped and not polled again.
//!
//! # Which calls it ends
//!
//! - **Always**, even if the call would not have to wait this time: [`sleep`](crate::sleep),
//!   [`sleep_until`](crate::sleep_until), [`thread::park`](crate::thread::park),
//!   [`thread::park_timeout`](crate::thread::park_timeout), [`JoinHandle::join`](crate::JoinHandle::join),
//!   and the end of a [`scope()`](crate::scope()).
//! - **When it has to wait**: a call that may finish at once. Such calls are locks and channels of this
//!   crate, reading, writing, accepting and connecting, and looking up host names. Others wait for child
//!   processes, or in line for an OS thread ([`fs`](crate::fs)), or for a future, by
//!   [`block_on`](crate::block_on) on a green thread. What such a call does at once is done, and not lost.
//! - **Never**: [`spawn()`](crate::spawn()), [`yield_now`](crate::yield_now), [`blocking`](crate::blocking),
//!   [`Runtime::block_on`](crate::Runtime::block_on), locks of std. A loop that calls nothing else asks
//!   [`thread::cancelled`](crate::thread::cancelled).
//! - **Not in [`thread::uncancellable`](crate::thread::uncancellable)**: see
//!   [below](#what-must-not-be-ended).
//! - **Not in a destructor while its thread unwinds**: there each call waits until it is done, because a
//!   second unwinding would end the process. The same holds for destructors of the values that a
//!   never-started closure captured.
//!
//! A future that is cancelled is dropped. If its destructor panics, [`join`](crate::JoinHandle::join) returns
//! that panic instead of the cancellation.
//!
//! A wait that is ended leaves nothing behind. The waiter has left its queue. A message, permit or lock that
//! was on its way to the waiter goes to the next one.
//!
//! # What must not be ended
//!
//! An unwind through frames of C ends the process, with the message `panic in a function that cannot unwind`.
//! So a callback that C calls must not be ended in a wait. A cancellation, a time-out or a context around it,
//! and the end of the runtime would do so. [`thread::uncancellable`](crate::thread::uncancellable) masks all
//! of these. They take effect at the next wait after it.
//!
//! ```
//! use runtime::thread::uncancellable;
//! use runtime::time::{Duration, sleep, timeout};
//! use std::ffi::{c_int, c_void};
//!
//! unsafe extern "C" {
//!     fn qsort(items: *mut c_void, count: usize, size: usize, less: extern "C" fn(*const i32, *const i32) -> c_int);
//! }
//!
//! /// Asks a slow service which of two items comes first.
//! extern "C" fn ask(a: *const i32, b: *const i32) -> c_int {
//!     uncancellable(|| {
//!         sleep(Duration::from_millis(1));
//!         // SAFETY: `qsort` passes pointers to two items.
//!         unsafe { *a - *b }
//!     })
//! }
//!
//! let mut items = [3, 1, 2];
//! let sorted = timeout(Duration::from_micros(100), || {
//!     // SAFETY: the array has three items of four bytes, and `ask` takes pointers to them.
//!     unsafe { qsort(items.as_mut_ptr().cast(), 3, 4, ask) };
//! });
//! assert!(sorted.is_ok(), "the call is late, but it has returned");
//! assert_eq!(items, [1, 2, 3]);
//! ```
//!
//! Calls in C that the feature [`interpose`](super::interpose) lets park never unwind: they end with an error
//! code, or go on. A callback that only computes needs nothing. A panic in a callback ends the process as
//! ever.
//!
//! The closures of [`Once`](crate::sync::Once) and [`LazyLock`](crate::sync::LazyLock) are masked, because
//! the end of a wait in them would poison the value for ever. Those of [`OnceLock`](crate::sync::OnceLock)
//! and [`OnceCell`](crate::sync::OnceCell) are not: the next caller makes the value.
//!
//! A time-out, and a context, that begin in the masked code work there as always. So masked code can bound
//! its own waits.
//!
//! # Errors
//!
//! [`JoinHandle::join`](crate::JoinHandle::join) returns the payload, as std does.
//! [`JoinError`](crate::thread::JoinError) says whether it is a panic or a cancellation, and implements
//! `Error`.
//!
//! # Code that catches unwinding
//!
//! `std::panic::catch_unwind` catches not only panics. A cancellation has the payload
//! [`Cancelled`](crate::thread::Cancelled), the end of a time-out [`Elapsed`](crate::time::Elapsed), and the
//! end of a context [`Ended`](crate::context::Ended). Thread pools, web frameworks and test harnesses call
//! `catch_unwind`, too.
//!
//! - Code that catches such a payload should clean up and pass it on with `std::panic::resume_unwind`.
//! - Code that swallows it goes on, until the next [call that it ends](#which-calls-it-ends). That call
//!   unwinds with a new payload, and so does every later one. So a loop that swallows payloads and waits
//!   again does not end by cancellation; let it ask [`thread::cancelled`](crate::thread::cancelled).
//! - A green thread that swallows its cancellation and returns a value has that value as its result, although
//!   it was cancelled.
//! - [`Snapshot::swallowed_cancellations`](crate::metrics::Snapshot::swallowed_cancellations) counts the
//!   cancellations that were swallowed: a cancelled green thread that has unwound unwinds again, or returns a
//!   value. A figure that grows shows that code in between, often a crate's, has to pass payloads on.
//! - [`timeout`](crate::time::timeout) returns the value of a closure that swallows `Elapsed` and then
//!   returns, however late. So does [`Context::run`](crate::context::Context::run) with `Ended`.
//!
//! ```
//! use runtime::thread::{Cancelled, park};
//! use std::panic::{catch_unwind, resume_unwind};
//!
//! let thread = runtime::spawn(|| {
//!     let swallowed = catch_unwind(park).unwrap_err();
//!     assert!(swallowed.is::<Cancelled>() && runtime::thread::cancelled());
//!     let again = catch_unwind(park).unwrap_err();
//!     resume_unwind(again)
//! });
//! thread.cancel();
//! let result: std::thread::Result<()> = thread.join();
//! assert!(result.unwrap_err().is::<Cancelled>());
//! ```
//!
//! # `panic = "abort"`
//!
//! This crate needs unwinding: with `panic = "abort"` in the profile it does not compile. A program that
//! never cancels, has no time-outs and drops no runtime may switch on the feature `panic-abort`. With that
//! feature the crate compiles. Whatever would then unwind a green thread ends the process instead, with a
//! message on stderr: each item under "What cancels" above, and any panic. Futures are dropped and not
//! unwound.
