//! Runtimes: made with a builder, used through handles; and the default one.

use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::thread as os;
use std::time::Duration;

use parking_lot::Mutex;
use sched::spawn::{Spec, Where};
use sched::{Config, Monitor, Sched};

use crate::end;
use crate::entry::Entry;
use crate::metrics::Snapshot;
use crate::start;
use crate::thread::JoinHandle;

/// What a green thread's stack takes of the address space; memory is used page by page.
const STACK_BYTES: usize = 256 * 1024;

/// Makes a [`Runtime`] other than the default one.
///
/// ```
/// let runtime = runtime::Builder::new().procs(2).thread_name("crawler").build()?;
/// assert_eq!(runtime.block_on(|| 1 + 1), 2);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    procs: Option<usize>,
    stack_bytes: usize,
    max_threads: usize,
    sysmon: bool,
    thread_name: String,
    migration: Migration,
}

/// On which OS threads a green thread may run: see [`Builder::migration`].
///
/// ```
/// assert_eq!(runtime::Migration::default(), runtime::Migration::Anytime);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Migration {
    /// On any: a closure may resume on another one after each [call that parks](crate#calls-that-park), a future only
    /// between two polls. Unsound for closures that keep something of their OS thread across such a call: see there.
    #[default]
    Anytime,
    /// On any until it starts; then on that one until it ends.
    BeforeStart,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// One with the default values.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> Self {
        Builder {
            procs: None,
            stack_bytes: STACK_BYTES,
            max_threads: 10_000,
            sysmon: true,
            thread_name: "green".into(),
            migration: Migration::Anytime,
        }
    }

    /// How many green threads run at the same moment. By default what the environment variable `RUNTIME_PROCS` says,
    /// else as many as there are processors for this process.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().procs(1).build()?;
    /// assert_eq!(runtime.handle().procs(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn procs(mut self, n: usize) -> Self {
        self.procs = Some(n);
        self
    }

    /// The stack of each green thread, in bytes of address space; 256 KiB by default. Memory is used page by page as
    /// the stack grows, and an overflow is reported by the green thread's name. The memory of stacks that a burst has left
    /// behind goes back to the system within seconds, their address space when the runtime ends.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// The most OS threads that run green threads; 10,000 by default. OS threads that were not needed for ten seconds end,
    /// except one for each P and a few more.
    ///
    /// At the limit, and while the system refuses a further OS thread, nothing fails, and one line on stderr says so. Green threads
    /// that compute or block then delay the others until they park or end: there is no OS thread to go on with their P.
    ///
    /// A new OS thread is started only when none is parked. So the number stays below the sum of these, at its highest:
    /// - one OS thread for each P;
    /// - one for each green thread that keeps its OS thread without a P: it computes or blocks although its P was taken, waits for
    ///   another P on its way out of the runtime, is parked while it is pinned or unwinds, or is in [`blocking`](crate::blocking);
    /// - one for each OS thread to which polls that have parked are bound, or, with [`Migration::BeforeStart`], green threads that
    ///   have started;
    /// - one that waits for the network and for timers, one spare, and those that are just about to park (usually none or one).
    ///
    /// So a thousand green threads that compute for long take up to a thousand OS threads, and each of these competes with the
    /// others for the processors. Such an OS thread serves others as soon as its green thread parks or ends. A program that
    /// has many of them limits how many compute at once, for example by a [`Semaphore`](crate::sync::Semaphore), or sets this limit.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().max_threads(64).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn max_threads(mut self, n: usize) -> Self {
        self.max_threads = n;
        self
    }

    /// Whether the runtime has its monitor thread; true by default. Without it, a green thread that computes or blocks
    /// for long holds up all that its P has queued, and neither memory nor OS threads that a burst has left behind are given
    /// back: good for showing what the monitor does.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().sysmon(false).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn sysmon(mut self, on: bool) -> Self {
        self.sysmon = on;
        self
    }

    /// What its OS threads are called, before a number; "green" by default.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().thread_name("worker").build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// Strict mode, with [`Migration::BeforeStart`]: a green thread runs on one OS thread from its first line to its last,
    /// so values that are not [`Send`] stay on one OS thread while they live on its stack.
    ///
    /// The default, [`Migration::Anytime`], is *unsound* for closures that keep a std `MutexGuard`, a `StdoutLock`, an `Rc` of
    /// a thread-local, or an `EnterGuard` across a park, although safe code can do so: see the [crate's page](crate). The ways
    /// out there are futures, [`thread::pin`](crate::thread::pin), and this mode.
    ///
    /// **Other green threads run on the same OS thread meanwhile**, whenever one parks. So a thread-local keeps its address, but
    /// not its value: scoped contexts (span stacks, enter guards) that are kept across a park are mixed up with those of other
    /// green threads, and a std lock that is kept across a park blocks all of them when one of them takes it.
    /// [`thread::pin`](crate::thread::pin) changes nothing in this mode.
    ///
    /// What it costs:
    ///
    /// - A green thread that has started is not helped by others. If it shares its OS thread with one that computes or
    ///   blocks (in [`blocking`](crate::blocking), too), it waits until that one parks, yields or ends. Those that have
    ///   not started, timers and the network are looked after as always.
    /// - Load is balanced only when a green thread starts. OS threads take turns of a millisecond when there are more of
    ///   them with something to run than [`procs`](Builder::procs).
    /// - Waking a green thread of another OS thread may need a system call (microseconds), where the default runs it
    ///   on the waker's.
    ///
    /// A future that was spawned may be polled by another OS thread each time (it is `Send`), but what it calls within
    /// one poll stays on one, as in either mode.
    ///
    /// ```
    /// use runtime::{Builder, Migration, sleep, spawn};
    /// use std::time::Duration;
    ///
    /// let runtime = Builder::new().migration(Migration::BeforeStart).build()?;
    /// runtime.block_on(|| {
    ///     let threads = (0..10).map(|_| {
    ///         spawn(|| {
    ///             let before = std::thread::current().id();
    ///             sleep(Duration::from_millis(1));
    ///             assert_eq!(std::thread::current().id(), before);
    ///         })
    ///     });
    ///     threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    /// });
    /// # std::io::Result::Ok(())
    /// ```
    pub fn migration(mut self, migration: Migration) -> Self {
        self.migration = migration;
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that is not allowed, saying what is: no Ps or too many, a stack below one page, no
    /// threads, or a `RUNTIME_PROCS` that is no number. Else what the system says when it has no descriptors, no threads
    /// or no memory left: a runtime has its first thread and its first stack from the beginning. Nothing of it stays.
    /// `Unsupported` in a [forked child](crate#after-fork).
    ///
    /// ```
    /// let error = runtime::Builder::new().procs(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        let procs = match self.procs {
            Some(n) => n,
            None => default_procs()?,
        };
        let sched = Sched::new(Config {
            procs,
            stack_bytes: self.stack_bytes,
            max_threads: self.max_threads,
            thread_name: self.thread_name.clone(),
            strict: self.migration == Migration::BeforeStart,
        })?;
        // From here on an error ends what was started.
        let runtime = Runtime { sched, monitor: Mutex::new(None) };
        runtime.sched.start().map_err(no_thread)?;
        if self.sysmon {
            *runtime.monitor.lock() =
                Some(start_sysmon(&runtime.sched, &self.thread_name).map_err(no_thread)?);
        }
        Ok(runtime)
    }
}

fn no_thread(error: io::Error) -> io::Error {
    let advice = "raise the limits on threads (RLIMIT_NPROC, the control group's pids.max) or memory";
    io::Error::new(error.kind(), format!("cannot start an OS thread: {error}; {advice}"))
}

fn start_sysmon(sched: &Arc<Sched>, name: &str) -> io::Result<os::JoinHandle<()>> {
    let sched = Arc::clone(sched);
    os::Builder::new().name(format!("{name}-sysmon")).spawn(move || sysmon::run(&Monitor::new(sched)))
}

fn available() -> usize {
    os::available_parallelism().map_or(1, usize::from)
}

fn default_procs() -> io::Result<usize> {
    match std::env::var("RUNTIME_PROCS") {
        Err(std::env::VarError::NotPresent) => Ok(available()),
        Ok(text) if text.trim().is_empty() => Ok(available()),
        Ok(text) => text.trim().parse().map_err(|_| no_number(&text)),
        Err(std::env::VarError::NotUnicode(text)) => Err(no_number(&text.to_string_lossy())),
    }
}

fn no_number(text: &str) -> io::Error {
    let text = format!("RUNTIME_PROCS is {text:?}: a number of Ps is expected, or no such variable");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The scheduler of the default runtime, which is started at its first use.
///
/// # Errors
/// As for [`Builder::build`]; the next call tries again.
pub(crate) fn default_sched() -> io::Result<&'static Arc<Sched>> {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    static STARTS: Mutex<()> = Mutex::new(());
    if DEFAULT.get().is_none() {
        sched::fork::check()?;
        let _one_at_a_time = STARTS.lock();
        if DEFAULT.get().is_none() {
            let started = Builder::new().build();
            let runtime = started.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start the default runtime: {error}"))
            })?;
            let _first = DEFAULT.set(runtime);
        }
    }
    Ok(&DEFAULT.get().expect("it was just started").sched)
}

/// Likewise, for those who return no error.
pub(crate) fn default_sched_or_panic() -> &'static Arc<Sched> {
    default_sched().unwrap_or_else(|error| panic!("{error}"))
}

/// The runtime of the caller: that of its green thread, else the default one.
///
/// # Errors
/// As for [`default_sched`].
pub(crate) fn current_sched() -> io::Result<Arc<Sched>> {
    Sched::current().map_or_else(|| default_sched().cloned(), Ok)
}

/// A runtime of its own, with its own OS threads, netpoller and monitor.
///
/// Dropping it cancels its green threads, waits until they have unwound, and joins its OS threads: nothing of it is left
/// behind. A green thread that neither parks nor ends is waited for, and so is one that waits in a destructor;
/// [`shutdown_timeout`](Runtime::shutdown_timeout) has less patience. It may be dropped anywhere:
///
/// - On one of its **own green threads** it cannot wait, as it would wait for itself. It cancels all of them, the calling one
///   too, and returns at once; the rest happens in the background, and its last OS thread ends soon after the last green
///   thread has unwound. The caller goes on until it next waits, and unwinds from there.
/// - On a green thread of **another runtime** it blocks that thread's OS thread, as in [`blocking`](crate::blocking), and holds
///   up nobody else. If that green thread is cancelled meanwhile, the rest happens in the background, so two runtimes may end
///   each other.
/// - In a [forked child](crate#after-fork) it does nothing.
///
/// It waits for ever for a green thread that, without parking or while it unwinds, waits for whoever drops it.
///
/// ```
/// let runtime = runtime::Runtime::new()?;
/// let sum = runtime.block_on(|| runtime::spawn(|| 20).join().unwrap() + 22);
/// assert_eq!(sum, 42);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    sched: Arc<Sched>,
    monitor: Mutex<Option<os::JoinHandle<()>>>,
}

impl Runtime {
    /// One with the default values; see [`Builder`].
    ///
    /// # Errors
    ///
    /// As for [`Builder::build`].
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// Runs `main` as a green thread of this runtime and waits for it, from wherever it is called.
    ///
    /// # Panics
    ///
    /// A panic in `main` goes on in the caller. It also panics when the green thread cannot be had, as for
    /// [`spawn`](crate::spawn).
    ///
    /// # Cancellation
    ///
    /// A cancelled `main` unwinds the caller with [`thread::Cancelled`](crate::thread::Cancelled); a cancellation of the caller
    /// does not end the wait.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert_eq!(runtime.block_on(async { 7 }), 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn block_on<M, E>(&self, main: E) -> E::Output
    where
        E: Entry<M> + Send,
        E::Output: Send,
    {
        start::block_on(&self.sched, Location::caller(), main)
    }

    /// Starts a green thread of this runtime; otherwise like [`spawn`](crate::spawn).
    ///
    /// # Panics
    ///
    /// When the new thread cannot be had, as for [`spawn`](crate::spawn).
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// assert_eq!(runtime.spawn(|| 7).join().unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        start::or_panic(start::spawn(Where::In(&self.sched), Spec::at(Location::caller()), task))
    }

    /// A handle to it, for other threads.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let handle = runtime.handle();
    /// std::thread::spawn(move || handle.spawn(|| ()).join().unwrap()).join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn handle(&self) -> Handle {
        Handle { sched: Arc::clone(&self.sched) }
    }

    /// Ends it like dropping it, but waits no longer than `time` for its green threads. `false`: some did not end in time, or
    /// the caller is one of them. Nothing is torn from under those: they are cancelled, everything they call works as during
    /// any end of a runtime, and when the last one has ended, its OS threads end by themselves in the background.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = runtime::Runtime::new()?;
    /// runtime.spawn(|| runtime::sleep(Duration::from_secs(3600)));
    /// assert!(runtime.shutdown_timeout(Duration::from_secs(10)), "a sleep ends by cancellation");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn shutdown_timeout(self, time: Duration) -> bool {
        self.end(Some(time))
    }

    fn end(&self, time: Option<Duration>) -> bool {
        // Ended before, by `shutdown_timeout`: nothing is left to do for the destructor.
        !self.sched.begin_closing() || end::end(&self.sched, self.monitor.lock().take(), time)
    }
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}
impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// A runtime, to be used from anywhere. It does not keep the runtime going.
///
/// While the runtime is being ended, what is spawned is cancelled before it begins, and its handle gives
/// [`Cancelled`](crate::thread::Cancelled). After that [`spawn`](Handle::spawn) and [`block_on`](Handle::block_on) panic, saying
/// so; [`procs`](Handle::procs), [`set_procs`](Handle::set_procs) and [`metrics`](Handle::metrics) still answer. Handles of its
/// green threads still give results, and `cancel` and `unpark` do nothing. Its sockets work as long as they need not wait, and
/// then give an error of kind `NotConnected`.
///
/// ```
/// let handle = runtime::Handle::current();
/// assert_eq!(handle.block_on(|| 3), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    sched: Arc<Sched>,
}

impl Handle {
    /// The runtime of the calling green thread; on a plain OS thread the default one, which is started if need be.
    ///
    /// # Panics
    ///
    /// When the default runtime cannot be started (see [`block_on`](crate::block_on)), with the reason.
    ///
    /// ```
    /// assert!(runtime::Handle::current().procs() >= 1);
    /// ```
    pub fn current() -> Handle {
        Handle { sched: current_sched().unwrap_or_else(|error| panic!("{error}")) }
    }

    /// The runtime of the calling green thread, if it is one.
    ///
    /// ```
    /// assert!(runtime::Handle::try_current().is_none());
    /// assert!(runtime::block_on(|| runtime::Handle::try_current().is_some()));
    /// ```
    pub fn try_current() -> Option<Handle> {
        Sched::current().map(|sched| Handle { sched })
    }

    /// As [`Runtime::spawn`].
    ///
    /// # Panics
    ///
    /// If the runtime has ended, or as for [`spawn`](crate::spawn). While it is being ended, the new thread is born cancelled.
    ///
    /// ```
    /// let handle = runtime::Handle::current();
    /// assert_eq!(handle.spawn(|| 3).join().unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&self, task: E) -> JoinHandle<E::Output>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        start::or_panic(start::spawn(Where::In(&self.sched), Spec::at(Location::caller()), task))
    }

    /// As [`Runtime::block_on`].
    ///
    /// # Panics
    ///
    /// A panic in `main` goes on in the caller. It also panics if the runtime has ended, or as for [`spawn`](crate::spawn).
    ///
    /// ```
    /// assert_eq!(runtime::Handle::current().block_on(|| 3), 3);
    /// ```
    #[track_caller]
    pub fn block_on<M, E>(&self, main: E) -> E::Output
    where
        E: Entry<M> + Send,
        E::Output: Send,
    {
        start::block_on(&self.sched, Location::caller(), main)
    }

    /// How many green threads run at the same moment.
    ///
    /// ```
    /// assert!(runtime::Handle::current().procs() >= 1);
    /// ```
    pub fn procs(&self) -> usize {
        self.sched.procs()
    }

    /// Sets how many green threads run at the same moment, while they run. It returns at once: with fewer, those that run
    /// now go on until they next park, yield or have had their time, and then what was queued with them goes to others.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for none, or too many; it says how many are allowed. `Unsupported` in a
    /// [forked child](crate#after-fork).
    ///
    /// ```
    /// let runtime = runtime::Builder::new().procs(1).build()?;
    /// runtime.handle().set_procs(4)?;
    /// assert_eq!(runtime.handle().procs(), 4);
    /// assert!(runtime.handle().set_procs(0).is_err());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn set_procs(&self, n: usize) -> io::Result<()> {
        self.sched.set_procs(n)
    }

    /// What this runtime has done and has.
    ///
    /// # Panics
    ///
    /// In a [forked child](crate#after-fork).
    ///
    /// ```
    /// let handle = runtime::Handle::current();
    /// handle.spawn(|| ()).join().unwrap();
    /// assert!(handle.metrics().spawned >= 1);
    /// ```
    pub fn metrics(&self) -> Snapshot {
        self.sched.metrics()
    }
}
