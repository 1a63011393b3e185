//! Crates that need tokio: its timers, sockets, `spawn`, `spawn_blocking` and signals work in green threads.
//! (Feature `tokio`.)
//!
//! A runtime with the setting [`tokio`](crate::Builder::tokio) runs its OS threads within the context of one
//! tokio runtime, the *reactor*. The feature alone changes nothing. So `tokio::net`, `tokio::time`,
//! `tokio::spawn` and the crates on top (reqwest, sqlx, tonic, axum) work unchanged in futures that this
//! crate polls, and in closures:
//!
//! ```
//! use std::time::Duration;
//!
//! let runtime = runtime::Builder::new().tokio(true).build()?;
//! let answer = runtime.block_on(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     let on_the_reactor = tokio::spawn(async { 7 });
//!     // A green thread, beside the task of tokio's.
//!     let green = runtime::spawn(|| runtime::sleep(Duration::from_millis(1)));
//!     green.await.unwrap();
//!     on_the_reactor.await.unwrap()
//! });
//! assert_eq!(answer, 7);
//! # std::io::Result::Ok(())
//! ```
//!
//! For the default runtime: `#[runtime::main(tokio = true)]`,
//! [`Builder::build_global`](crate::Builder::build_global), or `RUNTIME_TOKIO=on`.
//!
//! A plain OS thread is in that context during [`block_on_local`](crate::block_on_local), if the reactor has
//! started:
//!
//! ```
//! use std::time::Duration;
//! runtime::tokio::handle()?; // Starts the reactor.
//! let mine = std::rc::Rc::new(7);
//! let answer = runtime::block_on_local(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     *mine
//! });
//! assert_eq!(answer, 7);
//! # std::io::Result::Ok(())
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
//! The reactor starts with the first runtime that has the setting, or by [`handle`], and ends with the
//! process. It has one OS thread that polls, and starts more for tasks that block.
//!
//! # Calls of this crate in tokio's tasks
//!
//! A task of the reactor may call anything of this crate, as a plain OS thread may. If such a call has to
//! wait, the reactor's other tasks go on: they move to another OS thread (`tokio::task::block_in_place`). So
//! an axum handler may call [`runtime::sleep`](crate::sleep). Each task that waits so takes an OS thread.
//! Where many wait at a time, let a green thread do the work: `runtime::spawn(|| ..).await`.
//!
//! A blocking task may wait as well, also in a `current_thread` runtime or a `LocalSet` of its own. Such a
//! wait blocks the OS thread, and with it the other tasks of that runtime or set.
//!
//! # Why no slot carries the context
//!
//! Spans follow a green thread by a [context slot](crate::context_slot). Tokio's context needs none: it is
//! the same for all green threads, namely the one reactor. So each OS thread of a runtime enters it once, at
//! its start, and a green thread finds it wherever it goes on. (A closure with [thread-locals of its
//! own](crate::ThreadLocals::OfGreenThread) enters it at its start.) A slot would enter it for each poll. It
//! could not carry it, because tokio's guards stay on their OS thread and are dropped in reverse order. What
//! differs between tokio's own tasks (their ids) exists on the reactor's OS threads only.
//!
//! # Turns
//!
//! A poll of this crate has tokio's cooperative budget for tokio's calls, beside its
//! [own](crate::docs::calling#turns). After 127 calls of tokio that were ready, the next one wakes the task
//! and is pending. So a loop of such calls gives its task's time-out and the other branches a turn. There is
//! none on a plain OS thread ([`block_on_local`](crate::block_on_local)), nor in a poll after a call that
//! parks. `tokio::task::unconstrained` works as in tokio.
//!
//! # Limits
//!
//! - [Deadlocks](crate::docs::deadlock) are not reported: the reactor may always wake a green thread.
//! - `Handle::block_on` of tokio blocks the OS thread of a green thread that calls it. Use
//!   [`block_on`](crate::block_on).
//! - `tokio::task::block_in_place` in a green thread only calls its argument. Use
//!   [`blocking`](crate::blocking).
//! - `tokio::task::spawn_local` needs a `LocalSet`, as in tokio itself.
//! - A guard that `Handle::enter` returns must not be kept across a [call that
//!   parks](crate::docs::moving#calls-that-park).
//! - A value of `tokio::task_local!` is in its OS thread during a poll. If that poll parks, other green
//!   threads on that OS thread see it. Await in such a poll, or use
//!   [`runtime::thread_local!`](macro@crate::thread_local).
//! - A [forked child](crate::docs::fork) has no reactor.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use ::tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor, worker_index};
use ::tokio::task::block_in_place;
use ::tokio::task::coop::{RestoreOnPending, poll_proceed, unconstrained};
use sched::OtherBudget;

/// The most OS threads that the reactor starts for tasks that block.
const MAX_BLOCKING_THREADS: usize = 10_000;

static REACTOR: OnceLock<Runtime> = OnceLock::new();

thread_local! {
    /// True on the reactor's OS threads.
    static IS_REACTOR: Cell<bool> = const { Cell::new(false) };
    /// On an OS thread of a runtime: its drop sets tokio's budget there to a whole one. Without a destructor,
    /// which would do that when the thread ends.
    static WHOLE: Cell<Option<ManuallyDrop<RestoreOnPending>>> = const { Cell::new(None) };
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
        let build = || {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(MAX_BLOCKING_THREADS)
                .thread_name("tokio-reactor")
                .on_thread_start(|| IS_REACTOR.set(true))
                .enable_all()
                .build()
        };
        let reactor = sched::starting::own(build)?;
        sched::set_around_park(park_in_place);
        sched::set_other_budget(OtherBudget { apart, renew });
        assert!(REACTOR.set(reactor).is_ok(), "the lock lets one caller in");
    }
    Ok(())
}

/// Calls `run` within the reactor's context. *Runs on: the M's own stack, at its start; or a closure with
/// thread-locals of its own, before its first line.*
///
/// The context is never left, because it ends with the thread-locals. Leaving it would panic if a green
/// thread had dropped an own guard out of order.
pub(crate) fn in_context(run: &mut dyn FnMut()) {
    if let Some(reactor) = REACTOR.get() {
        // `block_on` gives each poll a whole budget.
        let whole = reactor.block_on(poll_fn(poll_proceed));
        WHOLE.set(Some(ManuallyDrop::new(whole)));
        std::mem::forget(reactor.enter());
    }
    run();
}

/// Runs `f` without a budget of tokio's, and then sets the budget to what it was before. That is the only way
/// in tokio's API to remove a budget.
fn apart(f: &mut dyn FnMut()) {
    let f = pin!(unconstrained(poll_fn(|_| {
        f();
        Poll::Ready(())
    })));
    let _ready = f.poll(&mut Context::from_waker(Waker::noop()));
}

/// Gives the poll that begins a budget of tokio's. Does nothing on an OS thread of no runtime.
///
/// Tokio has no call that sets a budget. But what `poll_proceed` returns sets the budget, when it is dropped,
/// to what it was before.
// Not inlined: a green thread calls it, and the address of the thread-local must not be kept across a switch.
#[inline(never)]
fn renew() {
    let Some(whole) = WHOLE.take() else { return };
    drop(ManuallyDrop::into_inner(whole));
    if let Poll::Ready(whole) = poll_proceed(&mut Context::from_waker(Waker::noop())) {
        WHOLE.set(Some(ManuallyDrop::new(whole)));
    }
}

/// Enters the reactor's context on a plain OS thread, until the result is dropped there. Does nothing if
/// there is no reactor.
pub(crate) fn enter() -> Option<::tokio::runtime::EnterGuard<'static>> {
    REACTOR.get().map(Runtime::enter)
}

/// Parks a plain OS thread by `park`. A worker of the reactor lets the other tasks go on meanwhile.
fn park_in_place(park: &mut dyn FnMut()) {
    if IS_REACTOR.get() && is_worker() { block_in_place(park) } else { park() }
}

/// Returns `true` on a worker of a runtime with several workers. On other threads no task needs to move. In a
/// runtime of one thread, which a blocking task may have made, and in a `LocalSet`, `block_in_place` would
/// panic.
fn is_worker() -> bool {
    let has_several = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    worker_index().is_some() && Handle::try_current().is_ok_and(has_several)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    use ::tokio::net::UdpSocket;
    use ::tokio::task::coop::{consume_budget, has_budget_remaining};
    use ::tokio::time::{sleep, timeout};

    const MILLI: Duration = Duration::from_millis(1);

    /// Runs `f` on an OS thread. Panics if it has not ended within ten seconds. The default runtime is in the
    /// reactor's context.
    fn ends(f: impl FnOnce() + Send + 'static) {
        static GLOBAL: std::sync::Once = std::sync::Once::new();
        GLOBAL.call_once(|| crate::Builder::new().tokio(true).build_global().unwrap());
        let (over, ended) = mpsc::channel();
        std::thread::spawn(move || {
            f();
            over.send(())
        });
        ended.recv_timeout(Duration::from_secs(10)).expect("a loop has kept its task from its time-out");
    }

    /// A loop of tokio's operations that are always ready.
    async fn hog() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(socket.local_addr().unwrap()).await.unwrap();
        loop {
            socket.send(b"x").await.unwrap();
            socket.recv(&mut [0; 8]).await.unwrap();
        }
    }

    #[test]
    fn sockets_and_times_of_tokio_do_not_keep_their_task_from_a_time_out() {
        for parks in [false, true] {
            ends(move || {
                crate::block_on(async move {
                    if parks {
                        crate::sleep(MILLI);
                        crate::yield_now_async().await;
                    }
                    assert!(timeout(5 * MILLI, hog()).await.is_err());
                    assert!(crate::time::timeout_async(5 * MILLI, hog()).await.is_err());
                    let times = async {
                        loop {
                            sleep(Duration::ZERO).await;
                        }
                    };
                    assert!(crate::time::timeout_async(5 * MILLI, times).await.is_err());
                });
            });
        }
        ends(|| {
            crate::block_on(|| {
                crate::block_on(async { assert!(timeout(5 * MILLI, hog()).await.is_err()) });
            });
        });
    }

    /// Spends all of tokio's budget.
    async fn spends_all() {
        poll_fn(|cx| {
            while pin!(consume_budget()).poll(cx).is_ready() {}
            Poll::Ready(())
        })
        .await;
        assert!(!has_budget_remaining());
    }

    /// What a poll has left of tokio's budget is not seen by other code on that OS thread.
    #[test]
    fn no_budget_of_a_poll_is_left_behind() {
        ends(|| {
            let runtime = crate::Builder::new().procs(1).tokio(true).build().unwrap();
            runtime.block_on(|| {
                // The first parks within its poll, without a budget; the second ends its poll meanwhile.
                let first = crate::spawn(async {
                    spends_all().await;
                    crate::sleep(5 * MILLI);
                });
                let second = crate::spawn(async {
                    spends_all().await;
                    crate::sleep(10 * MILLI);
                });
                let plain = || assert!(has_budget_remaining());
                for _ in 0..20 {
                    crate::spawn(plain).join().unwrap();
                    crate::sleep(MILLI);
                }
                first.join().unwrap();
                second.join().unwrap();
                crate::block_on(spends_all());
                plain();
                crate::spawn(async { assert!(has_budget_remaining()) }).join().unwrap();
            });
        });
    }
}
