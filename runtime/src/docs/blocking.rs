//! Code that computes for long or blocks its OS thread: what it costs the green thread itself, and what it
//! costs others.
//!
//! The chapter `guide/src/blocking.md` of the repository shows this in programs.
//!
//! # Nothing stands still
//!
//! A green thread that computes, or that blocks its OS thread, keeps that OS thread. The other green threads
//! go on, because the runtime gives the right to run (the [P](super::glossary#p)) to another OS thread.
//!
#![doc = include_str!("lets_others_run.md")]
//!
//! A call that blocks and is not wrapped in [`blocking`](crate::blocking) is found by the monitor thread
//! ([sysmon](super::glossary#sysmon)). Each such *rescue* is counted, and the last ones are named, in
//! [`metrics::snapshot`](crate::metrics::snapshot).
//!
//! A green thread that has lost its P by a call that blocked goes on without a P until it parks or yields.
//! That lasts 10 ms at most. Up to four for each P do so at a time; others wait for a P first. So a client
//! that blocks several times in one query pays as little for each call as on an OS thread.
//!
//! # OS threads
//!
#![doc = include_str!("os_threads_of_blocking.md")]
//!
//! These are settings: [`Builder::max_threads`](crate::Builder::max_threads) and
//! [`Builder::blocking_threads`](crate::Builder::blocking_threads).
//!
//! A thousand green threads that compute for long take up to a thousand OS threads. On Linux most of them are
//! [paused](#paused-green-threads) at any moment. A program with many of them limits how many compute at
//! once, with a [`Semaphore`](crate::sync::Semaphore).
//!
//! # Paused green threads
//!
//! On Linux, green threads that compute after their P was taken run by turns of 10 ms, if there are more than
//! eight per P. So a thousand of them do not keep the processors from new and woken green threads. Green
//! threads that do not have their turn are paused: the runtime sends their OS thread the signal SIGURG, and
//! its handler sleeps. With N such green threads a pause lasts about N times 10 ms, divided by the number of
//! Ps. It lasts twice as long while all Ps are busy.
//!
//! - A paused green thread keeps the locks that it has: a [`std::sync::Mutex`], or a lock inside a library.
//!   Others wait for such a lock until its next turn. A green thread that is inside a call of the runtime,
//!   for instance in `try_send`, is not paused there. Nor is it paused in the C library, or in the library
//!   that replaces its `malloc`.
//! - A program that is linked statically with its C library (musl) has no pauses: the runtime cannot see
//!   there what `malloc` does. An allocator that is part of the program (`#[global_allocator]`) is a library,
//!   too: a paused green thread may have its locks.
//! - A system call that waits is not interrupted on purpose. In rare cases the signal comes just as a call
//!   begins: some calls then return `EINTR`, such as `poll`. Most calls are restarted, because the handler
//!   has `SA_RESTART`.
//! - A program that has its own action for SIGURG keeps that action, and nothing is paused. This is also the
//!   way to turn pauses off: ignore SIGURG (`SIG_IGN`) before the first runtime is built.
//!
//! # Where a green thread does hold up others
//!
//! - A future that has parked inside its poll resumes on the same OS thread. It waits while another green
//!   thread computes or blocks there: see [what a poll that parks
//!   costs](super::moving#what-a-poll-that-parks-costs).
//! - With [`Migration::BeforeStart`](crate::Migration::BeforeStart), every green thread that has started
//!   waits in this way.
//! - Without the monitor thread ([`Builder::sysmon`](crate::Builder::sysmon)) no P is taken away. Green
//!   threads in the same run queue wait, and so may timers and sockets.
//! - At [`Builder::max_threads`](crate::Builder::max_threads), or while the system refuses further OS
//!   threads, no OS thread can take the P. One line on stderr says so.
