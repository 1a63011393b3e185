//! Deadlock of all green threads: when it is reported, and which deadlocks are not.
//!
//! # The report
//!
//! [`block_on`](crate::block_on), when it is called outside of the runtime, ends with a panic if all green threads wait and none of
//! them can ever be woken. First `main` is cancelled and unwinds. The message is "all green threads are asleep - deadlock!" and
//! what [`dump()`](crate::dump()) writes. It comes some tens of milliseconds after the last green thread has begun to wait.
//! This exists on Linux only.
//!
//! ```no_run
//! runtime::block_on(|| {
//!     let (_sender, receiver) = runtime::channel::unbounded::<u32>();
//!     // This waits for ever, because `_sender` lives in the same closure: a deadlock, which is reported.
//!     receiver.recv()
//! });
//! ```
//!
//! # When it is not reported
//!
//! The panic never comes while something could still wake a green thread:
//!
//! - a timer that is set, or a socket that is registered;
//! - a call in [`blocking`](crate::blocking);
//! - any OS thread of the process, unless it waits in this crate without a time-out. So one further OS thread of the program or
//!   of a library hides a deadlock;
//! - a green thread that keeps its OS thread while it waits, because it is [pinned](crate::thread::pin) or unwinds.
//!
//! A deadlock of *some* green threads, for example two that each wait for the other's lock, is not found. Use
//! [`dump()`](crate::dump()) to see what each green thread waits for; the page about [dumps](crate::docs::dumps) shows one.
//!
//! # Deadlocks of this crate's own kind
//!
//! - A green thread with [`Migration::BeforeStart`](crate::Migration::BeforeStart) keeps a lock of std across a park. If another
//!   green thread on the same OS thread takes that lock, it blocks the OS thread on which the first green thread would resume. Use
//!   the locks of [`sync`](crate::sync).
//! - A thread drops a [`Runtime`](crate::Runtime) while one of its green threads waits for that thread. Cancellation cannot end
//!   this wait if the green thread does not park or already unwinds.
