//! Cancellation and time-outs: which calls they end, what runs meanwhile, and `panic = "abort"`.
//!
//! # What cancels
//!
//! - [`JoinHandle::cancel`](crate::JoinHandle::cancel) cancels one green thread, for ever.
//! - A [`scope()`](crate::scope()) whose caller is cancelled while it waits cancels its threads.
//! - The end of a [`Runtime`](crate::Runtime), by `drop` or `shutdown_timeout`, cancels its green threads.
//! - [`block_on`](crate::block_on) cancels its `main` when it reports a [deadlock](super::deadlock).
//! - [`time::timeout`](crate::time::timeout) ends its closure when the time is up. Its caller goes on.
//!
//! A cancelled green thread unwinds from the call in which it waits, or from the next such call, with
//! [`thread::Cancelled`](crate::thread::Cancelled). Destructors run. No panic message is printed. Code that does not park is not
//! interrupted. A closure that has not begun is dropped without running. A future is dropped and not polled again.
//!
//! # Which calls it ends
//!
//! - **Always**, even if the call would not have to wait this time: [`sleep`](crate::sleep), [`sleep_until`](crate::sleep_until),
//!   [`thread::park`](crate::thread::park), [`thread::park_timeout`](crate::thread::park_timeout),
//!   [`JoinHandle::join`](crate::JoinHandle::join), and the end of a [`scope()`](crate::scope()).
//! - **When it has to wait**: a call that may finish at once. Such calls are locks and channels of this crate, reading, writing,
//!   accepting and connecting, looking up host names, waiting for child processes, waiting in
//!   line for an OS thread ([`fs`](crate::fs)), and [`block_on`](crate::block_on) of a future on a green thread. What such a call does at once is
//!   done, and not lost.
//! - **Never**: [`spawn()`](crate::spawn()), [`yield_now`](crate::yield_now), [`blocking`](crate::blocking),
//!   [`Runtime::block_on`](crate::Runtime::block_on), locks of std. A loop that calls nothing else asks
//!   [`thread::cancelled`](crate::thread::cancelled).
//! - **Not in a destructor while its thread unwinds**: there each call waits until it is done, because a second unwinding would
//!   end the process. The same holds for destructors of the values that a never-started closure captured.
//!
//! A wait that is ended leaves nothing behind. The waiter has left its queue. A message, permit or lock that was on its way to the
//! waiter goes to the next one.
//!
//! ```
//! use runtime::time::Duration;
//!
//! struct Report;
//! impl Drop for Report {
//!     fn drop(&mut self) {
//!         assert!(runtime::thread::cancelled());
//!     }
//! }
//!
//! let sleeper = runtime::spawn(|| {
//!     let _report = Report;
//!     runtime::sleep(Duration::from_secs(3600));
//! });
//! sleeper.cancel();
//! assert!(sleeper.join().unwrap_err().is::<runtime::thread::Cancelled>());
//! ```
//!
//! # A panic is not a cancellation
//!
//! Code that catches unwinding (`std::panic::catch_unwind`) also catches a cancellation. The green thread then goes on, and unwinds
//! again from its next call that waits.
//!
//! # `panic = "abort"`
//!
//! This crate needs unwinding: with `panic = "abort"` in the profile it does not compile. A program that never cancels, has no
//! time-outs and drops no runtime may switch on the feature `panic-abort`. With that feature the crate compiles. Whatever would
//! then unwind a green thread ends the process instead, with a message on stderr: each item under "What cancels" above, and any
//! panic. Futures are dropped and not unwound.
