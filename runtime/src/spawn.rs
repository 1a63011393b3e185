//! `spawn` and `block_on`: starting green threads in the caller's runtime, and running one from outside of
//! any runtime.

pub(crate) mod entry;
pub(crate) mod start;

use std::panic::Location;

use sched::spawn::{Spec, Where};

pub use entry::{Async, Closure, Entry};

use crate::default;
use crate::thread::JoinHandle;

/// Runs `main`, a closure or a future, as a green thread and returns its value.
///
/// Outside of the runtime it blocks the calling OS thread until `main` has ended. The first use starts the
/// process-wide default runtime. `main` may borrow from the caller. Other green threads go on after that: the
/// default runtime lives as long as the process.
///
/// On a green thread, `block_on(future)` polls the future right there and parks between polls, and
/// `block_on(closure)` calls the closure.
///
/// `main` must be `Send`, because it may go on at another OS thread. [`block_on_local`] runs futures that are
/// not.
///
/// # Panics
///
/// - If `main` panics, with that panic.
/// - If the default runtime cannot be started: no descriptors, no threads, an invalid [environment
///   variable](crate::docs::settings), a [forked child](crate::docs::fork). The message gives the reason.
/// - Outside of the runtime, if all green threads wait and none of them can ever be woken: see
///   [deadlock](crate::docs::deadlock).
///
/// # Cancellation
///
/// Outside of the runtime, a cancellation of the caller does not end the wait. If `main` is cancelled, the
/// caller unwinds with [`thread::Cancelled`](crate::thread::Cancelled). On a green thread, a cancellation
/// ends the wait for a future that is not ready.
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
    start::block_on(&default::sched_of_plain_thread_or_panic(), Location::caller(), main)
}

/// Runs a future that need not be `Send` on the calling thread, and returns its output.
///
/// The future may keep values across an `.await` that must not leave their OS thread: an `Rc`, the guard of a
/// lock of std. All its polls and its drop happen on the calling OS thread. So it is sound in both modes of
/// [migration](crate::Migration).
///
/// - **On a plain OS thread**, for example in `main`, that OS thread polls the future and blocks between
///   polls. The future is no green thread. What it calls, it calls as a plain OS thread: [`spawn()`] uses the
///   default runtime ([`Runtime::block_on_local`](crate::Runtime::block_on_local) another), a call that parks
///   blocks the OS thread. A [deadlock](crate::docs::deadlock) is not reported.
/// - **On a green thread**, that green thread polls the future and parks between polls, and goes on at the
///   same OS thread. Other green threads run there between the polls. If one of them computes for long, the
///   future waits for it.
///
/// With [`block_on`], which requires `Send`, the future runs as a green thread or may go on at another OS
/// thread.
///
/// # Panics
///
/// Panics if the future panics, with that panic.
///
/// # Cancellation
///
/// On a green thread, a cancellation ends the wait for a future that is not ready. The future is dropped.
///
/// ```
/// use std::rc::Rc;
/// use std::time::Duration;
/// let shared = Rc::new(7);
/// let mine = shared.clone();
/// let sum = runtime::block_on_local(async move {
///     runtime::time::sleep_async(Duration::from_millis(1)).await;
///     *mine + runtime::spawn(async { 35 }).await.unwrap()
/// });
/// assert_eq!((sum, *shared), (42, 7));
/// ```
pub fn block_on_local<F: Future>(future: F) -> F::Output {
    start::block_on_local(future)
}

/// Starts a green thread that runs a closure or a future, and returns a handle to wait for its result.
///
/// The green thread belongs to the runtime of the calling green thread. On a plain OS thread it belongs to
/// the default runtime, which is started if this is the first use. Dropping the handle lets the green thread
/// go on.
///
/// A closure has a stack of its own. A future has a stack only while it is polled: while it waits, it takes
/// about 300 bytes.
///
/// A closure that returns a future does not run it. So `spawn(work)` for an `async fn work` runs nothing, and
/// `spawn(work())` is meant: a debug build prints a line with the place if such a result is dropped.
///
/// A closure may resume on another OS thread after it has parked. That is unsound for what it keeps of a
/// thread-local or a lock of std: see [moving](crate::docs::moving). A future stays on one OS thread during
/// each poll.
///
/// A panic in the new green thread ends that green thread only. [`JoinHandle::join`] returns it.
///
/// # Panics
///
/// Panics if no green thread can be started. The message gives the reason and the remedy. The reasons are no
/// address space for a stack, no memory, a default runtime that cannot start, an ended runtime, and a [forked
/// child](crate::docs::fork). Other green threads are not disturbed, and a later call may succeed.
/// [`thread::Builder::spawn`](crate::thread::Builder::spawn) returns an error instead.
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
    start::or_panic(start::spawn(Where::Here(default::sched_of_plain_thread), spec, task))
}
