//! What a forked child may do.
//!
//! [`std::process::Command`] works from anywhere. A process that has not used this crate may fork freely;
//! parent and children may then each use it.
//!
//! A process that replaces itself ([`exec`](std::os::unix::process::CommandExt::exec)) takes no CPU profile
//! during that call: the timer of the profile would end the new program. A forked child has no such timer.
//!
//! A child that is forked by other means from a process that runs green threads, and does not `exec`, has
//! only the thread that forked. The other green threads, the timers and the netpoller stay in the parent. In
//! such a child:
//!
//! - The thread counts as a plain OS thread, even if it was a green one in the parent.
//! - These work as ever: computing, [`yield_now`](crate::yield_now), [`sleep`](crate::sleep),
//!   [`thread::park_timeout`](crate::thread::park_timeout), [`blocking`](crate::blocking), names and ids,
//!   [`is_finished`](crate::JoinHandle::is_finished), and sockets that need not wait.
//! - These do nothing: [`unpark`](crate::thread::Thread::unpark) and [`cancel`](crate::JoinHandle::cancel) of
//!   a green thread. Ending a runtime returns at once.
//! - These are refused: starting a green thread, waiting for a green thread, new sockets, sockets that would
//!   have to wait, and metrics. A call that returns an `io::Result` fails with `Unsupported`; any other call
//!   panics. The text is "this process was forked from one that runs green threads".
//! - `std::thread::spawn` may wait for ever, as in any child of a process with several threads. It takes a
//!   lock of std that one of them may have held. `pthread_create` does not.
//! - A green thread that comes to its end aborts the process with a message, because it has no scheduler to
//!   return to. Such a child calls `exec` or `_exit`. (A program whose [threads](super::threads#a-child-of-fork)
//!   are green threads ends as with OS threads.)
