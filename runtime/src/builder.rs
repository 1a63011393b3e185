//! Runtimes: made with a builder, used through handles; and the default one.

use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::thread as os;
use std::time::Duration;

use parking_lot::Mutex;
use sched::spawn::{Spec, Where};
use sched::{Config, Monitor, Sched};

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
    /// the stack grows, and an overflow is reported by the green thread's name.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// The most OS threads that run green threads; 10,000 by default. At the limit, green threads that block their OS
    /// thread hold others up; nothing fails.
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
    /// for long holds up all that its P has queued: good for showing what the monitor does.
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

    /// Starts the runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that is not allowed, saying what is: no Ps or too many, a stack below one page, no
    /// threads, or a `RUNTIME_PROCS` that is no number. Else what the system says when it has no descriptors or
    /// threads left.
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
        })?;
        let monitor = if self.sysmon { Some(start_sysmon(&sched, &self.thread_name)?) } else { None };
        Ok(Runtime { sched, monitor: Mutex::new(monitor) })
    }
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
pub(crate) fn default_sched() -> &'static Arc<Sched> {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    let start = || Builder::new().build().unwrap_or_else(|error| panic!("cannot start the runtime: {error}"));
    &DEFAULT.get_or_init(start).sched
}

/// The runtime of the caller: that of its green thread, else the default one.
pub(crate) fn current_sched() -> Arc<Sched> {
    Sched::current().unwrap_or_else(|| Arc::clone(default_sched()))
}

/// A runtime of its own, with its own OS threads, netpoller and monitor.
///
/// Dropping it cancels its green threads, waits until they have unwound, and joins its OS threads. A green thread
/// that neither parks nor ends is waited for; [`shutdown_timeout`](Runtime::shutdown_timeout) does not.
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
    /// A panic in `main` goes on in the caller.
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

    /// Ends it like dropping it, but waits no longer than `time` for its green threads. `false`: some did not end in
    /// time; they and their OS threads are left to themselves.
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
        let Some(monitor) = self.take_monitor() else { return true };
        let ended = self.sched.shut_down(time);
        if let Some(monitor) = monitor {
            // A panic of sysmon's was reported when it happened.
            let _ = monitor.join();
        }
        ended
    }

    /// `None` if it was ended before; else its monitor, if it has one.
    fn take_monitor(&self) -> Option<Option<os::JoinHandle<()>>> {
        if self.sched.begin_closing() { Some(self.monitor.lock().take()) } else { None }
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
    /// When the default runtime cannot be started, with the reason.
    ///
    /// ```
    /// assert!(runtime::Handle::current().procs() >= 1);
    /// ```
    pub fn current() -> Handle {
        Handle { sched: current_sched() }
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
    /// If the runtime has been shut down. While it is being shut down, the new thread is born cancelled.
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
    /// A panic in `main` goes on in the caller. It also panics if the runtime has been shut down.
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
    /// `InvalidInput` for none, or too many; it says how many are allowed.
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
    /// ```
    /// let handle = runtime::Handle::current();
    /// handle.spawn(|| ()).join().unwrap();
    /// assert!(handle.metrics().spawned >= 1);
    /// ```
    pub fn metrics(&self) -> Snapshot {
        self.sched.metrics()
    }
}
