//! Crates that need tokio: its timers, sockets, `spawn`, `spawn_blocking` and signals work in green threads. (Feature `tokio`.)
//!
//! With this feature, every runtime of this crate runs its OS threads within the context of one tokio runtime, the *reactor*.
//! So `tokio::net`, `tokio::time`, `tokio::spawn` and the crates on top (reqwest, sqlx, tonic, axum) work unchanged in futures
//! that this crate polls, and in closures:
//!
//! ```
//! use std::time::Duration;
//!
//! let answer = runtime::block_on(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     let on_the_reactor = tokio::spawn(async { 7 });
//!     // A green thread, beside the task of tokio's.
//!     let green = runtime::spawn(|| runtime::sleep(Duration::from_millis(1)));
//!     green.await.unwrap();
//!     on_the_reactor.await.unwrap()
//! });
//! assert_eq!(answer, 7);
//! ```
//!
//! A plain OS thread is in that context during [`block_on_local`](crate::block_on_local):
//!
//! ```
//! use std::time::Duration;
//! let mine = std::rc::Rc::new(7);
//! let answer = runtime::block_on_local(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     *mine
//! });
//! assert_eq!(answer, 7);
//! ```
//!
//! # What runs where
//!
//! | started by | runs on |
//! | --- | --- |
//! | [`runtime::spawn`](crate::spawn()), [`runtime::block_on`](crate::block_on) | the OS threads of this crate's runtime, as many at a time as it has [Ps](crate::docs::glossary#p) |
//! | `tokio::spawn`, and what crates start with it | the reactor's one OS thread |
//! | `tokio::task::spawn_blocking` | OS threads of tokio's own |
//!
//! The reactor starts with the first runtime that is built, and ends with the process. It has one OS thread that polls, and
//! starts more for tasks that block.
//!
//! # Calls of this crate in tokio's tasks
//!
//! A task of the reactor may call anything of this crate, as a plain OS thread may. If such a call has to wait, the reactor's
//! other tasks go on: they move to another OS thread (`tokio::task::block_in_place`). So an axum handler may call
//! [`runtime::sleep`](crate::sleep). Each task that waits so takes an OS thread. Where many wait at a time, let a green
//! thread do the work: `runtime::spawn(|| ..).await`.
//!
//! # Why no slot carries the context
//!
//! Spans follow a green thread by a [context slot](crate::context_slot). Tokio's context needs none: it is the same for all green
//! threads, namely the one reactor. So each OS thread of a runtime enters it once, at its start, and a green thread finds it wherever it
//! goes on. A slot would enter it for each poll, and could not carry it: tokio's guards stay on their OS thread and are dropped in
//! reverse order. What differs between tokio's own tasks (their ids, their budgets) exists on the reactor's OS threads only.
//!
//! # Limits
//!
//! - [Deadlocks](crate::docs::deadlock) are not reported: the reactor may always wake a green thread.
//! - `Handle::block_on` of tokio blocks the OS thread of a green thread that calls it. Use [`block_on`](crate::block_on).
//! - `tokio::task::block_in_place` in a green thread only calls its argument. Use [`blocking`](crate::blocking).
//! - `tokio::task::spawn_local` needs a `LocalSet`, as in tokio itself.
//! - A guard that `Handle::enter` returns must not be kept across a [call that parks](crate::docs::moving#calls-that-park).
//! - A value of `tokio::task_local!` is in its OS thread during a poll. If that poll parks, other green threads on that OS thread see
//!   it. Await in such a poll, or use [`runtime::thread_local!`](macro@crate::thread_local).
//! - A [forked child](crate::docs::fork) has no reactor.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use ::tokio::runtime::{Builder, Handle, Runtime};
use ::tokio::task::block_in_place;

/// The most OS threads that the reactor starts for tasks that block.
const MAX_BLOCKING_THREADS: usize = 10_000;

static REACTOR: OnceLock<Runtime> = OnceLock::new();

thread_local! {
    /// True on the reactor's OS threads.
    static IS_REACTOR: Cell<bool> = const { Cell::new(false) };
}

/// Returns the handle of the reactor, with which plain OS threads enter its context.
///
/// # Errors
///
/// If the reactor has not started yet, it starts. That fails if the system has no descriptors or no threads.
///
/// ```
/// let reactor = runtime::tokio::handle()?;
/// assert_eq!(reactor.block_on(async { 7 }), 7);
/// # std::io::Result::Ok(())
/// ```
pub fn handle() -> io::Result<&'static Handle> {
    start()?;
    Ok(REACTOR.get().expect("the reactor has started").handle())
}

/// Starts the reactor, unless it has started.
pub(crate) fn start() -> io::Result<()> {
    static STARTING: sched::sync::Mutex<()> = sched::sync::Mutex::new(());
    let _one_at_a_time = STARTING.lock();
    if REACTOR.get().is_none() {
        let reactor = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .thread_name("tokio-reactor")
            .on_thread_start(|| IS_REACTOR.set(true))
            .enable_all()
            .build()?;
        sched::set_around_park(park_in_place);
        assert!(REACTOR.set(reactor).is_ok(), "the lock lets one caller in");
    }
    Ok(())
}

/// Runs an OS thread of a runtime within the reactor's context. *Runs on: the M's own stack.*
///
/// The context is never left, because the thread ends next. Leaving it would panic if a green thread had dropped an own guard out of
/// order.
pub(crate) fn in_context(run: &mut dyn FnMut()) {
    std::mem::forget(REACTOR.get().map(|reactor| reactor.enter()));
    run();
}

/// Enters the reactor's context on a plain OS thread, until the result is dropped there. Panics if the reactor cannot be
/// started.
pub(crate) fn enter() -> ::tokio::runtime::EnterGuard<'static> {
    handle().unwrap_or_else(|error| panic!("cannot start tokio's reactor: {error}")).enter()
}

/// Parks a plain OS thread by `park`. A thread of the reactor lets the other tasks go on meanwhile.
fn park_in_place(park: &mut dyn FnMut()) {
    if IS_REACTOR.get() { block_in_place(park) } else { park() }
}
