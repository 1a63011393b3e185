//! The attributes `main` and `test`, and the functions that their expansions call.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread as os;
use std::time::Duration;

use crate::default::default_sched;
use crate::runtime::{Builder, Runtime};
use crate::spawn::Entry;

/// Runs `main`, a plain or an `async` function, as a green thread of the default runtime.
///
/// The arguments set up the default runtime: each is a method of [`Builder`] and its argument. All are
/// optional.
///
/// | argument | type of the value |
/// | --- | --- |
/// | [`procs`](crate::Builder::procs), [`max_threads`](crate::Builder::max_threads), [`blocking_threads`](crate::Builder::blocking_threads) | `usize`, at least 1 |
/// | [`stack_size`](crate::Builder::stack_size) | `usize`, in bytes |
/// | [`migration`](crate::Builder::migration) | [`Migration`](crate::Migration) |
/// | [`sysmon`](crate::Builder::sysmon) | `bool` |
/// | [`thread_name`](crate::Builder::thread_name) | `&str` or `String` |
/// | `tokio`, with the feature `tokio` | `bool` |
/// | `crate` | a string: the path of this crate, if it is not `::runtime` |
///
/// A setting without an argument is taken from the [environment](crate::docs::settings).
///
/// The function may return what std's `main` may return: `()`, `ExitCode`, a `Result`. The value need not be
/// [`Send`]. The process ends when the function has returned, and takes other green threads with it, as in
/// Go.
///
/// A plain function is a closure for the runtime: it may [resume on another OS thread](crate::docs::moving)
/// after a call that parks. The future of an `async` function need not be [`Send`]. A future that is not
/// `Send` stays on the OS thread where it began, as in [`block_on_local`](crate::block_on_local) on a green
/// thread. If another green thread computes for long on that OS thread, the function waits for it.
///
/// # Errors
///
/// If the default runtime cannot be started, the process prints the reason and ends with `ExitCode::FAILURE`:
/// see [`Builder::build_global`](crate::Builder::build_global).
///
/// # Panics
///
/// If the function panics, the process ends with code 101, as with std's `main`. A
/// [deadlock](crate::docs::deadlock) of all green threads is such a panic.
///
/// ```
/// #[runtime::main(procs = 2, stack_size = 512 * 1024)]
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let threads: Vec<_> = (0..100).map(|i: u64| runtime::spawn(move || i)).collect();
///     let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
///     assert_eq!(sum, "4950".parse::<u64>()?);
///     Ok(())
/// }
/// ```
///
/// An `async` function, of a program that has renamed this crate:
///
/// ```
/// use runtime as green;
/// use runtime::{Migration, time::{Duration, sleep_async}};
///
/// #[green::main(migration = Migration::BeforeStart, crate = "green")]
/// async fn main() {
///     sleep_async(Duration::from_millis(1)).await;
/// }
/// ```
///
/// The future is not `Send`, because it keeps an `Rc` while it waits:
///
/// ```
/// use std::rc::Rc;
///
/// #[runtime::main]
/// async fn main() {
///     let mine = Rc::new(7);
///     runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
///     assert_eq!(*mine, 7);
/// }
/// ```
///
/// An argument that does not exist, or has no value or the wrong one, is an error of the compiler:
///
/// ```compile_fail
/// #[runtime::main(worker_threads = 4)]
/// fn main() {}
/// ```
/// ```compile_fail,E0308
/// #[runtime::main(procs = "4")]
/// fn main() {}
/// ```
/// ```compile_fail,E0277
/// #[runtime::main]
/// fn main() -> u32 { 7 }
/// ```
#[cfg(feature = "macros")]
#[doc(inline)]
pub use runtime_macros::main;

/// Makes a test of a plain or an `async` function, which runs as a green thread.
///
/// Each test has a **runtime of its own**, so tests may run side by side. A test that keeps all Ps busy, or
/// leaves green threads behind, does not disturb the others. What its green threads print is captured as the
/// output of that test.
///
/// The runtime ends with the test, whether the test passes or fails. Green threads that the test has left
/// behind are cancelled, and the test waits until they have unwound.
///
/// The arguments are those of [`main`](macro@crate::main), and this one:
///
/// | argument | type of the value |
/// | --- | --- |
/// | `timeout` | [`Duration`]: how long the test and the end of its green threads may take |
///
/// A test fails with the report of a [deadlock](crate::docs::deadlock) if all green threads wait and none can
/// ever be woken. Another test of the process that runs or waits for something else hides that until it has
/// ended. Any other wait without an end hangs, unless there is a `timeout`.
///
/// A test that takes longer than `timeout` fails. Its output shows the [`dump`](crate::dump()) of that
/// moment, with what each green thread of the process waits for. The test's green threads are then cancelled.
/// Those that compute or block go on in the background, beside the next tests.
///
/// `#[should_panic]`, `#[ignore]` and a returned `Result` have their usual meaning. A test that should panic
/// does not pass by being late.
///
/// # Simulations
///
/// With the argument `sim` (feature `sim`) the test runs in a simulation (module `sim`) with each of some
/// seeds. It fails with the first failure, whose text has the seed and the lines that replay the run. Such a
/// test has these arguments only:
///
/// | argument | type of the value |
/// | --- | --- |
/// | `sim` | has no value |
/// | `seeds` | `u64`, at least 1: how many seeds. Without it, 100 |
/// | `strategy`, `faults`, `max_steps`, `threads`, `check_determinism`, `shrink` | that of the method of `sim::Builder` |
/// | `crate` | as of the other tests |
///
#[cfg_attr(feature = "sim", doc = "```")]
#[cfg_attr(not(feature = "sim"), doc = "```ignore")]
/// use runtime::sim::Strategy;
/// use runtime::sync::Mutex;
/// use std::sync::Arc;
///
/// runtime::sim!();
///
/// #[runtime::test(sim, seeds = 1000, strategy = Strategy::Pct { depth: 3 })]
/// fn no_increment_is_lost() {
///     let count = Arc::new(Mutex::new(0));
///     let other = count.clone();
///     let thread = runtime::spawn(move || *other.lock() += 1);
///     *count.lock() += 1;
///     thread.join().unwrap();
///     assert_eq!(*count.lock(), 2);
/// }
/// # fn main() {}
/// ```
///
/// # Examples
///
/// ```
/// use runtime::time::{Duration, sleep_async};
///
/// #[runtime::test]
/// fn messages_arrive() {
///     let (s, r) = runtime::channel::unbounded();
///     runtime::spawn(move || s.send(7));
///     assert_eq!(r.recv(), Ok(7));
/// }
///
/// #[runtime::test(procs = 1, timeout = Duration::from_secs(10))]
/// async fn one_p_is_enough() -> Result<(), std::num::ParseIntError> {
///     sleep_async(Duration::from_millis(1)).await;
///     let number: i32 = "7".parse()?;
///     assert_eq!(number, 7);
///     Ok(())
/// }
///
/// #[runtime::test]
/// #[should_panic(expected = "too bad")]
/// fn a_panic_is_expected() {
///     runtime::spawn(|| panic!("too bad")).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
/// }
/// # fn main() {}
/// ```
///
/// An argument that does not exist, or has no value or the wrong one, is an error of the compiler.
#[cfg(feature = "macros")]
#[doc(inline)]
pub use runtime_macros::test;

/// Calls the function. Turns its value into an exit code, and prints an error. *Runs on: the green thread of
/// the function.*
pub fn report<T: Termination>(function: impl FnOnce() -> T) -> ExitCode {
    function().report()
}

/// Like [`report`], for an `async` function.
pub async fn report_async<T: Termination>(future: impl Future<Output = T>) -> ExitCode {
    future.await.report()
}

/// Knows the type of an `async` function's future. `(&kind_of(&make)).kind()` is a [`Task`] if that type is
/// `Send`, and a [`Local`] if not: the compiler prefers the method that needs fewer references.
#[derive(Debug)]
pub struct KindOf<F>(PhantomData<F>);

/// Returns the `KindOf` of the future that `make` makes.
pub fn kind_of<F>(_make: &impl FnOnce() -> F) -> KindOf<F> {
    KindOf(PhantomData)
}

/// A future that runs as a green thread, which takes a stack during polls only.
#[derive(Debug)]
pub struct Task;

/// A future that stays on the OS thread where it is made.
#[derive(Debug)]
pub struct Local;

/// See [`KindOf`].
pub trait IsTask {
    /// Returns the kind of a future that is `Send`.
    fn kind(&self) -> Task {
        Task
    }
}

/// See [`KindOf`].
pub trait IsLocal {
    /// Returns the kind of any other future.
    fn kind(&self) -> Local {
        Local
    }
}

impl<F: Send> IsTask for KindOf<F> {}
impl<F> IsLocal for &KindOf<F> {}

impl Task {
    /// Returns the future.
    pub fn entry<F: Future>(self, make: impl FnOnce() -> F) -> F {
        make()
    }
}

impl Local {
    /// Returns a closure for a green thread, which makes and runs the future there.
    pub fn entry<F: Future>(self, make: impl FnOnce() -> F + Send) -> impl FnOnce() -> F::Output + Send {
        move || crate::block_on_local(make())
    }
}

/// Runs the function under `main` on the default runtime, which it sets up if `builder` is given.
#[track_caller]
pub fn run_main<M, E>(builder: Option<Builder>, entry: E) -> ExitCode
where
    E: Entry<M, Output = ExitCode> + Send,
{
    let started = match builder {
        Some(builder) => builder.build_global(),
        None => default_sched().map(drop),
    };
    match started {
        Ok(()) => crate::block_on(entry),
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the function under `test` on a runtime of its own. If it is late, prints a dump and panics; returns a
/// failure instead if the test `should_panic`.
///
/// # Panics
/// Panics if the function panics, with that panic; if it is late; and if the runtime cannot be started.
#[track_caller]
pub fn run_test<M, E>(builder: Builder, timeout: Option<Duration>, should_panic: bool, entry: E) -> ExitCode
where
    M: 'static,
    E: Entry<M, Output = ExitCode> + Send + 'static,
{
    sched::set_in_test_harness();
    let runtime = builder.build().unwrap_or_else(|error| panic!("cannot start the test's runtime: {error}"));
    let Some(timeout) = timeout else { return runtime.block_on(entry) };
    let Some(result) = within(timeout, runtime, entry) else {
        let late = format!(
            "the test has not ended within {timeout:?}; the output above has a dump of its green threads"
        );
        assert!(should_panic, "{late}");
        eprintln!("{late}");
        return ExitCode::FAILURE;
    };
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// With how many seeds a simulated test runs if its attribute does not say.
#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub const SEEDS: u64 = 100;

/// Runs the function under `test` in a simulation with each of the seeds 0 to `seeds` - 1.
///
/// # Panics
/// Panics if a simulation fails, with the text of the failure. A returned error is a failure.
#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[track_caller]
pub fn run_simulated_test(
    builder: crate::sim::Builder,
    seeds: u64,
    main: impl Fn() -> ExitCode + Send + Sync,
) -> ExitCode {
    builder.explore(seeds, || {
        assert!(main() == ExitCode::SUCCESS, "the test has returned an error, which is printed above");
    });
    ExitCode::SUCCESS
}

/// Runs `entry`, then ends the runtime. Returns `None` if both together take longer than `time`, and prints a
/// dump of that moment. The caller's output is captured, so the caller prints.
fn within<M, E>(time: Duration, runtime: Runtime, entry: E) -> Option<os::Result<ExitCode>>
where
    M: 'static,
    E: Entry<M, Output = ExitCode> + Send + 'static,
{
    let (runtime, (done, ended)) = (Arc::new(runtime), mpsc::channel());
    let runs = Arc::clone(&runtime);
    let whole = move || {
        // The panic goes on in the caller, and the runtime ends here.
        let result = catch_unwind(AssertUnwindSafe(|| runs.block_on(entry)));
        runs.end(None);
        // If the test is late, the caller listens no more.
        let _ = done.send(result);
    };
    let name = os::current().name().unwrap_or("test").to_string();
    os::Builder::new().name(name).spawn(whole).expect("an OS thread that runs the test");
    // The caller wakes no green thread, so it hides no deadlock.
    if let Ok(result) = sched::at_rest(|| ended.recv_timeout(time)) {
        return Some(result);
    }
    let mut dump = Vec::new();
    match crate::dump(&mut dump) {
        Ok(()) => eprint!("{}", String::from_utf8_lossy(&dump)),
        Err(error) => eprintln!("no dump: {error}"),
    }
    runtime.end(Some(Duration::ZERO));
    None
}
