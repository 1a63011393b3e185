//! Green threads for Rust: blocking-style code without `async`, on a few OS threads.
//!
//! A *green thread* is a thread that this crate schedules. A call that has to wait *parks* the green thread,
//! and its OS thread runs other green threads during the wait. A green thread takes one page of memory; a
//! million of them may sleep at once.
//!
//! Every call works on green threads, on plain OS threads and inside futures. On a plain OS thread, a call
//! that has to wait blocks that OS thread. The words of these pages are in the [glossary](docs::glossary).
//!
//! # Run
//!
//! [`block_on`] runs a closure or a future as a green thread and returns its value. It starts the
//! process-wide default runtime at its first call. [`#[runtime::main]`](macro@main) does so for a whole
//! program, and [`#[runtime::test]`](macro@test) for a test. [`Builder`] and [`Runtime`] make further
//! runtimes.
//!
//! ```
//! let sum = runtime::block_on(|| 1 + 2);
//! assert_eq!(sum, 3);
//! assert_eq!(runtime::block_on(async { sum * 2 }), 6);
//! ```
//!
//! # Spawn
//!
//! [`spawn()`] starts a green thread for a closure or a future and returns a [`JoinHandle`]. [`scope()`]
//! starts green threads that borrow from the caller, [`try_scope()`] such green threads that may fail, and
//! [`thread::JoinSet`] collects results as they come. [`thread::Builder`] sets a name and a stack size.
//!
//! ```
//! let threads: Vec<_> = (0..1000u64).map(|i| runtime::spawn(move || i)).collect();
//! let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
//! assert_eq!(sum, 499_500);
//!
//! let text = String::from("a b c");
//! let words = runtime::scope(|s| s.spawn(|| text.split(' ').count()).join().unwrap());
//! assert_eq!(words, 3);
//! ```
//!
//! # Wait
//!
//! [`sleep`] and [`sleep_until`] wait for a time, [`JoinHandle::join`] for a green thread's end,
//! [`thread::park`] for an [`unpark`](thread::Thread::unpark). Module [`time`] has timers and tickers.
//! [`yield_now`] lets other green threads run, and [`blocking`] announces a call that blocks its OS thread.
//!
//! ```
//! use std::time::{Duration, Instant};
//! let start = Instant::now();
//! runtime::block_on(|| runtime::sleep(Duration::from_millis(2)));
//! assert!(start.elapsed() >= Duration::from_millis(2));
//! ```
//!
//! # Talk
//!
//! Module [`channel`] sends values between threads, and [`select!`] waits for several channels at once.
//! Module [`sync`] has locks, condition variables, semaphores and barriers. Modules [`net`], [`fs`],
//! [`process`], [`signal`] and [`io`](mod@io) talk to other processes.
//!
//! ```
//! use runtime::{channel, select};
//! use std::time::Duration;
//!
//! let (questions, inbox) = channel::bounded(10);
//! let (outbox, answers) = channel::bounded(10);
//! runtime::spawn(move || inbox.iter().try_for_each(|n: u32| outbox.send(n * n)));
//! questions.send(7).unwrap();
//! select! {
//!     recv(answers) -> answer => assert_eq!(answer, Ok(49)),
//!     recv(channel::after(Duration::from_secs(10))) -> _ => panic!("no answer"),
//! }
//! ```
//!
//! # Cancel
//!
//! [`JoinHandle::cancel`] ends a green thread at the call in which it waits. [`time::timeout`] ends a closure
//! at such a call when its time is up. Both unwind, so destructors run: see
//! [cancellation](docs::cancellation). Module [`context`] has Go's contexts, which a function checks itself.
//!
//! ```
//! use runtime::time::{Duration, sleep, timeout};
//! let sleeper = runtime::spawn(|| sleep(Duration::from_secs(3600)));
//! sleeper.cancel();
//! assert!(sleeper.join().is_err());
//!
//! let late = runtime::block_on(|| timeout(Duration::from_millis(2), || sleep(Duration::from_secs(3600))));
//! assert!(late.is_err());
//! ```
//!
//! # Look
//!
//! [`metrics::snapshot`] returns counters and gauges of the scheduler, and [`num_green_threads`] one of them.
//! [`dump()`] writes one line for each green thread: what it waits for, for how long, and where it was
//! spawned. With the feature `dump-stacks` it shows the stacks of parked closures, too: see
//! [dumps](docs::dumps).
//!
//! ```
//! runtime::block_on(|| {
//!     runtime::spawn(|| ()).join().unwrap();
//!     assert!(runtime::metrics::snapshot().spawned >= 1);
//!     runtime::dump(&mut std::io::stderr()).unwrap();
//! });
//! ```
//!
//! [`trace`](mod@trace) is a flight recorder: what the scheduler did in the last moments, as a page or for
//! Perfetto.
//!
//! # How it works, in a drawing
//!
//! A green thread (G) runs on an OS thread (M) that has the right to run (P). The repository has a guide with
//! the whole story.
//!
//! <div style="max-width: 60em">
#![doc = include_str!("docs/overview.svg")]
//! </div>
//!
//! # Hazards
//!
//! **A closure that parks may resume on another OS thread, and safe code can be unsound by that.** Read
//! [moving](docs::moving) before you write closures that use thread-locals or locks of std. The module
//! [`docs`] lists the other pages: each answers one question about the whole crate.
//!
//! # Settings
//!
//! [`Builder`] has the settings of a runtime, and [`Builder::build_global`] sets those of the default
//! runtime. A setting that the program does not set is taken from an [environment variable](docs::settings):
//! `RUNTIME_PROCS=4` lets four green threads run at the same moment.
//!
//! | feature of this crate | what it adds |
//! | --- | --- |
//! | `macros` (on by default) | the attributes [`main`](macro@main) and [`test`](macro@test) |
//! | `futures-io` | `AsyncRead` and `AsyncWrite` of the crate `futures-io` for streams, files and pipes |
//! | `tokio-io` | the same of tokio |
//! | `tokio` | with the setting `tokio`, tokio's crates run unchanged: a reactor of tokio's own, and its context on the runtime's OS threads |
//! | `interpose` | on Linux with glibc, in a program with the line `runtime::interpose!();`, libc's blocking calls park green threads, in unmodified crates and C libraries: see [interpose](docs::interpose). With `runtime::interpose!(threads);` threads of `std::thread` are green threads: see [threads](docs::threads) |
//! | `stream` | receivers, tickers and signals as a `Stream` of the crate `futures-core` |
//! | `perfetto` | traces are also written as Perfetto reads them: see [traces](docs::trace) |
//! | `dump-stacks` | dumps show the stack of each parked closure, on Linux on x86-64 and 64-bit Arm; see [dumps](docs::dumps) |
//! | `dump-json`, `dump-pprof` | a [`Snapshot`](dump::Snapshot) as JSON, and as a profile for pprof |
//! | `debug` | a page in the browser that shows the inside of the program (module `debug`), and CPU and heap profiles (module `profile`) |
//! | `tracing` | entered spans and the default dispatcher of `tracing` follow the green thread |
//! | `sim` | on Linux with glibc, a program with the line `runtime::sim!();` runs under a seeded scheduler with simulated time (module `sim`) |
//! | `hyper` | `Read` and `Write` of hyper 1.x for streams, an executor and a timer |
//! | `panic-abort` | the crate compiles with `panic = "abort"`: see [cancellation](docs::cancellation#panic--abort) |

#![deny(unsafe_code)]
// Each item of the documentation names the feature that it needs. `docsrs` is set where the documentation is
// built for publishing.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]

#[cfg(all(panic = "abort", not(feature = "panic-abort")))]
compile_error!(
    "this crate needs unwinding, and the profile says `panic = \"abort\"`: cancelling a green thread, a time-out, a cancelled \
     scope and dropping a runtime would end the process. Remove the line from the profile, or switch on the feature \
     `panic-abort` of this crate if your program does none of these"
);

pub mod alloc;
mod aside;
#[cfg(feature = "macros")]
mod attributes;
mod bounded;
pub mod channel;
pub mod context;
pub mod context_slot;
#[cfg(feature = "debug")]
pub mod debug;
mod default;
pub mod docs;
pub mod dump;
pub mod fs;
mod handles;
#[cfg(any(feature = "interpose", feature = "sim"))]
#[doc(hidden)]
pub mod hooks;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(all(
    feature = "interpose",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod interposed;
pub mod io;
pub mod metrics;
pub mod net;
#[cfg_attr(
    not(any(feature = "futures-io", feature = "tokio-io", feature = "hyper")),
    allow(dead_code, unused_imports, reason = "only the traits of other crates use all of it")
)]
mod polled;
pub mod process;
pub mod profile;
mod runtime;
mod scope;
#[doc(hidden)]
pub mod selects;
#[cfg(any(unix, windows))]
pub mod signal;
#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod sim;
mod spawn;
#[cfg(feature = "stream")]
pub mod stream;
pub mod sync;
pub mod thread;
mod thread_local;
pub mod time;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod trace;
#[cfg(feature = "tracing")]
pub mod tracing;

#[cfg(feature = "macros")]
pub use attributes::{main, test};
#[doc(no_inline)]
pub use dump::dump;
pub use metrics::num_green_threads;
pub use runtime::{Builder, Handle, Migration, Runtime, ThreadLocals};
pub use scope::{scope, try_scope};
pub use spawn::{Async, Closure, Entry, block_on, block_on_local, spawn};
pub use thread::JoinHandle;
pub use time::{sleep, sleep_until};

/// For the expansions of the attributes `main` and `test` only.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __attributes {
    pub use crate::attributes::{
        IsLocal, IsTask, KindOf, Local, Task, kind_of, report, report_async, run_main, run_test,
    };
    #[cfg(all(
        feature = "sim",
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    pub use crate::attributes::{SEEDS, run_simulated_test};
}

/// Lets other ready green threads run first: the caller goes to the end of its run queue.
///
/// On a plain OS thread it calls `std::thread::yield_now`. A cancellation or a time-out never ends it. A
/// closure may [resume on another OS thread](docs::moving).
///
/// ```
/// runtime::block_on(|| {
///     let other = runtime::spawn(|| ());
///     while !other.is_finished() {
///         runtime::yield_now();
///     }
/// });
/// ```
#[inline(always)]
pub fn yield_now() {
    sched::park::yield_now();
}

/// Returns a future that lets other ready green threads run first: its first poll is pending, and wakes the
/// task at once. Tokio's name for it is `yield_now`.
///
/// Other branches of the same task are polled, too. [`yield_now`] parks the whole task.
///
/// ```
/// runtime::block_on(async {
///     let other = runtime::spawn(async {});
///     while !other.is_finished() {
///         runtime::yield_now_async().await;
///     }
/// });
/// ```
pub async fn yield_now_async() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Runs `f`, which blocks its OS thread or computes for long, and lets other green threads run during that
/// time. Returns the value of `f`.
///
/// `f` runs on the caller's OS thread. If other work waits, the caller's P is handed off to another OS thread
/// at once. Work that comes later gets the P after about 100 microseconds. After that the caller goes on
/// without a P until it parks, for 10 ms at most. There is no second pool of threads: see
/// [blocking](docs::blocking). A blocking call that is not wrapped in this function is noticed, too, but only
/// after 10 ms at most.
///
/// On a plain OS thread it only calls `f`.
///
/// `f` may call any function of this crate. If `f` parks, it may [resume on another OS thread](docs::moving).
/// A cancellation ends such a wait in `f`, but not `blocking` itself.
///
/// # Panics
///
/// Panics if `f` panics.
///
/// ```
/// let text = runtime::spawn(|| runtime::blocking(|| std::fs::read_to_string("Cargo.toml")));
/// assert!(text.join().unwrap().unwrap().contains("[package]"));
/// ```
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    sched::park::blocking(f)
}

/// Runs `f`, which blocks its OS thread, computes or parks, aside from the calling task. Returns a future
/// with the value of `f`. Tokio's name for it is `spawn_blocking`.
///
/// At the first poll a green thread of its own starts and runs `f` in [`blocking`]. Any function of this
/// crate may be called in `f`, so this is the awaited variant of all calls without one: of [`process`],
/// [`io::stdin`], [`fs::File::lock`]. The number of such calls at once is not bounded, but that of calls of
/// [`fs`] in them is: [`Builder::blocking_threads`].
///
/// Dropping the future cancels the green thread. An `f` that has not begun is dropped. An `f` that has begun
/// goes on until it returns or parks, and its value is dropped.
///
/// # Panics
///
/// Panics if `f` panics, with that panic, and where [`spawn()`] panics.
///
/// # Cancellation
///
/// If the runtime ends before `f` has, the awaiting task unwinds with [`thread::Cancelled`].
///
/// ```
/// let text = runtime::block_on(async {
///     runtime::blocking_async(|| std::fs::read_to_string("Cargo.toml")).await
/// });
/// assert!(text?.contains("[package]"));
/// # std::io::Result::Ok(())
/// ```
pub async fn blocking_async<T, F>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    aside::blocking_async(f).await
}

/// As [`point`], but never unwinds: for what destructors call.
#[inline(always)]
pub(crate) fn point_in_drop() {
    sched::simulation::point_in_drop();
}

/// A point of choice of a simulation; see `sim`. Elsewhere it does nothing.
#[inline(always)]
pub(crate) fn point() {
    sched::simulation::point();
}

/// Returns `true` if the caller is a green thread of a simulation.
#[inline]
pub(crate) fn in_simulation() -> bool {
    sched::simulation::is_here()
}

/// The unit tests are a program of their own.
#[cfg(test)]
#[allow(unsafe_code)]
mod lines_of_tests {
    #[cfg(all(
        feature = "interpose",
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    crate::interpose!();
    #[cfg(feature = "sim")]
    crate::sim!();
}
