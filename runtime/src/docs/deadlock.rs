//! Deadlock of all green threads: when it is reported, and which deadlocks are not.
//!
//! `guide/src/first.md` in the repository has a program with such a deadlock, and its report.
//!
//! # The report
//!
//! A [`block_on`](crate::block_on) from outside of the runtime ends with a panic if all green threads wait
//! and none can ever be woken. First `main` is cancelled and unwinds. The message is "all green threads are
//! asleep - deadlock!" and what [`dump()`](crate::dump()) writes. It comes some tens of milliseconds after
//! the last green thread has begun to wait. A plain OS thread that is busy then delays it for about twice as
//! long as it is busy. This exists on Linux only.
//!
//! A test with [`#[runtime::test]`](macro@crate::test) fails with that report. The main thread of the test
//! harness does not hide a deadlock, but other tests in the same process do while they run.
//!
//! # When it is not reported
//!
//! The panic never comes while something could still wake a green thread:
//!
//! - a timer that is set, or a socket that is registered;
//! - a call in [`blocking`](crate::blocking);
//! - any OS thread of the process, unless it waits in this crate without a time-out. So one further OS thread
//!   of the program or of a library hides a deadlock;
//! - a hook of [`dump::on_deadlock`](crate::dump::on_deadlock) with a search for deadlocks of some. The hook
//!   may end the deadlock. A search without a hook hides nothing;
//! - a green thread that keeps its OS thread while it waits, because it is [pinned](crate::thread::pin) or
//!   unwinds;
//! - with the feature [`interpose`](super::interpose#channels-of-std), a wait in std's `thread::park` beside
//!   other green threads that share its OS thread. Alone there it counts as any wait.
//!
//! # Of some
//!
//! Two green threads that each wait for the other's lock stop, and the rest of the program goes on. Such
//! circles are found, too, also in a program with sockets, tickers and further OS threads:
//!
//! - by [`Builder::find_deadlocks`](crate::Builder::find_deadlocks) or `RUNTIME_DEADLOCK=1000`, which looks
//!   every second and writes what it finds to stderr, or calls
//!   [`dump::on_deadlock`](crate::dump::on_deadlock);
//! - by each [dump](crate::docs::dumps), if locks were [tracked](crate::Builder::track_locks).
//!
//! The report names each green thread of the circle, its wait and its stack, as at the end of the
//! [dump](super::dumps#an-example).
//!
//! Each wait of a circle is of one of two kinds. The first is for a [`Mutex`](crate::sync::Mutex) or
//! [`RwLock`](crate::sync::RwLock) that others have. The second is for the end of a green thread or of a
//! scope. A reader that reads again while a writer waits is such a circle: the second read waits behind the
//! writer. A circle is reported if two looks have found each of its green threads in the same wait. So a wait
//! that goes on is never reported. These are not found:
//!
//! - A circle with a wait that time may end, in [`timeout`](crate::time::timeout()) or
//!   [`Context::run`](crate::context::Context::run).
//! - A circle with a wait for a channel, also if it is as plain as the one below.
//! - A wait for a channel of which the other ends were forgotten.
//! - A circle with a plain OS thread, or with a future that waits in `await`.
//! - A circle with a green thread that waits for an upgradable share behind a waiting writer.
//! - A wait for a semaphore, a barrier, a condition variable and the like that no other thread will ever
//!   touch. Any thread that can reach such an object may end the wait, and which threads can is not known.
//!
//! **Channels.** A green thread that waits for a channel goes on if any thread with a handle of the other end
//! uses it. Which threads have one is not known: a handle moves as any value does, into a closure, a message
//! or a registry. So these two wait for ever, and only the report of a deadlock of *all* names them; beside
//! other work that goes on, nothing does. A dump shows both, what each waits for and for how long, and how
//! many handles each side has:
//!
//! ```no_run
//! use runtime::channel::bounded;
//!
//! runtime::block_on(|| {
//!     let ((to_one, one), (to_two, two)) = (bounded::<u32>(0), bounded::<u32>(0));
//!     runtime::spawn(move || to_two.send(one.recv().unwrap()));
//!     runtime::spawn(move || to_one.send(two.recv().unwrap()));
//!     runtime::sleep(std::time::Duration::from_secs(1));
//!     // "green thread 3: waits for a channel to receive, for 1 s (0x7f04dc000ca0, 1 sender, 1 receiver), .."
//!     runtime::dump(&mut std::io::stderr()).unwrap();
//! });
//! ```
//!
//! **Suspected.** A lock records the thread that took it, and each reader its shares. If its guard is sent to
//! another thread, that record is wrong. When the process has once dropped a guard on another thread than the
//! one that locked, circles with a lock are "suspected" from then on. Before that, a circle over a guard that
//! was sent away is reported as certain, and may be wrong. A lock whose thread has ended without unlocking it
//! is a suspicion, too: the guard was forgotten, or lives elsewhere. A reader behind a future or a plain OS
//! thread that waits to write goes on if that writer leaves. A circle with such a reader is suspected.
//!
//! # Deadlocks of this crate's own kind
//!
//! - A green thread with [`Migration::BeforeStart`](crate::Migration::BeforeStart) keeps a lock of std across
//!   a park. If another green thread on the same OS thread takes that lock, it blocks the OS thread on which
//!   the first green thread would resume. Use the locks of [`sync`](crate::sync).
//! - A thread drops a [`Runtime`](crate::Runtime) while one of its green threads waits for that thread.
//!   Cancellation cannot end this wait if the green thread does not park or already unwinds.
