//! `Builder`: the settings of a runtime, and starting it.

use std::io;
use std::sync::Arc;
use std::thread as os;

use parking_lot::Mutex;
use sched::{Around, Config, Monitor, Sched};

use super::Runtime;
use crate::bounded;

/// The default size of a green thread's stack, in bytes of address space. Memory is used page by page.
const STACK_BYTES: usize = 256 * 1024;

/// The settings of a [`Runtime`]; [`build`](Builder::build) starts it.
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
    blocking_threads: usize,
    sysmon: bool,
    thread_name: String,
    migration: Migration,
}

/// The OS threads on which a green thread may run: the setting of [`Builder::migration`].
///
/// ```
/// assert_eq!(runtime::Migration::default(), runtime::Migration::Anytime);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Migration {
    /// On any OS thread. A closure may resume on another one after each [call that
    /// parks](crate::docs::moving#calls-that-park), a future only between two polls. This is unsound for closures
    /// that keep something of their OS thread across such a call: see [moving](crate::docs::moving).
    #[default]
    Anytime,
    /// On any OS thread until the green thread starts, then on that one until it ends.
    BeforeStart,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// Returns a builder with the default settings.
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
            blocking_threads: bounded::DEFAULT,
            sysmon: true,
            thread_name: "green".into(),
            migration: Migration::Anytime,
        }
    }

    /// Sets how many green threads run at the same moment: the number of [Ps](crate::docs::glossary#p).
    ///
    /// The default is the value of the environment variable `RUNTIME_PROCS`, or the number of processors available to
    /// the process. [`Handle::set_procs`](crate::Handle::set_procs) changes it later.
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

    /// Sets the size of each green thread's stack, in bytes of address space. The default is 256 KiB.
    ///
    /// Memory is used page by page as the stack grows. See [stacks](crate::docs::stacks) for overflows and what
    /// stacks cost.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// Sets the largest number of OS threads that run green threads. The default is 10,000.
    ///
    /// At the limit, and while the system refuses a further OS thread, nothing fails, and one line on stderr says so.
    /// A green thread that computes or blocks then delays others until it parks or ends, because no OS thread can
    /// take its P.
    ///
    /// A new OS thread is started only when none is parked. So the number stays below the sum of these, at its
    /// highest:
    /// - one OS thread for each P;
    /// - one for each green thread that keeps its OS thread without a P:
    ///   - it computes or blocks although its P was taken,
    ///   - it waits for another P before it leaves a call,
    ///   - it is parked while it is pinned or unwinds,
    ///   - or it is in [`blocking`](crate::blocking);
    /// - one for each OS thread to which polls that have parked are bound, or, with [`Migration::BeforeStart`], green
    ///   threads that have started;
    /// - one that waits for the network and for timers, one spare, and those that are about to park (usually none or
    ///   one).
    ///
    /// An OS thread that has not been needed for five to ten seconds ends, except one for each P and a few more. See
    /// [blocking](crate::docs::blocking#os-threads) for programs with many green threads that compute for long. Each of
    /// them keeps an OS thread from its beginning to its next call that parks. On Linux most of these OS threads
    /// [sleep](crate::docs::blocking#paused-green-threads) at any moment.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().max_threads(64).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn max_threads(mut self, n: usize) -> Self {
        self.max_threads = n;
        self
    }

    /// Sets how many OS threads the blocking calls of this crate may use at once. The default is 512, as in tokio.
    ///
    /// It bounds the calls of [`fs`](crate::fs), look-ups of [host names](crate::net::lookup_host), starting a process, and
    /// reading standard input from a file. A green thread that makes a further such call waits in line, first come, first
    /// served. A cancellation or a time-out ends that wait. Calls of plain OS threads do not count.
    ///
    /// [`blocking`](crate::blocking) is not bounded: it runs code of yours, which may wait for other such code. To bound that,
    /// use a [`Semaphore`](crate::sync::Semaphore). If green threads fill all places with calls that end only after a further
    /// call of this kind (opening both ends of a FIFO), they wait for ever.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().blocking_threads(4).build()?;
    /// let lengths = runtime.block_on(|| {
    ///     let reads = (0..100).map(|_| runtime::spawn(|| runtime::fs::read("Cargo.toml").map(|bytes| bytes.len())));
    ///     reads.collect::<Vec<_>>().into_iter().map(|read| read.join().unwrap()).collect::<Result<Vec<_>, _>>()
    /// })?;
    /// assert_eq!(lengths.len(), 100);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn blocking_threads(mut self, n: usize) -> Self {
        self.blocking_threads = n;
        self
    }

    /// Sets whether the runtime has its monitor thread ([sysmon](crate::docs::glossary#sysmon)). The default is
    /// `true`.
    ///
    /// Without it, a green thread that computes or blocks for long holds up all green threads in the same run queue.
    /// Memory and OS threads that a burst has left behind are not given back. This setting is for showing what the
    /// monitor thread does.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().sysmon(false).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn sysmon(mut self, on: bool) -> Self {
        self.sysmon = on;
        self
    }

    /// Sets the name of the runtime's OS threads, to which a number is added. The default is "green".
    ///
    /// ```
    /// let runtime = runtime::Builder::new().thread_name("worker").build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// Sets on which OS threads a green thread may run. The default is [`Migration::Anytime`].
    ///
    /// The default is *unsound* for closures that keep something of their OS thread across a park: see
    /// [moving](crate::docs::moving). Ways out are futures, [`thread::pin`](crate::thread::pin), and
    /// [`Migration::BeforeStart`], called *strict mode*.
    ///
    /// In strict mode a green thread runs on one OS thread from its first line to its last. So values that are not
    /// [`Send`] stay on one OS thread while they live on its stack. [`thread::pin`](crate::thread::pin) changes
    /// nothing in this mode.
    ///
    /// **Other green threads run on the same OS thread** whenever one parks. So a thread-local keeps its address, but
    /// not its value. Scoped contexts (span stacks, enter guards) that are kept across a park are mixed up with those
    /// of other green threads, unless they [follow](crate::context_slot). A std lock that is kept across a park blocks the OS thread when another green thread
    /// there takes that lock.
    ///
    /// The costs of strict mode:
    ///
    /// - A green thread that has started is never run by another OS thread. If a green thread on the same OS thread
    ///   computes or blocks (in [`blocking`](crate::blocking), too), the others there wait until it parks, yields or
    ///   ends. Green threads that have not started, timers and the network are not delayed.
    /// - Load is balanced only when a green thread starts. If more OS threads have something to run than there are
    ///   [`procs`](Builder::procs), they take turns of a millisecond.
    /// - Waking a green thread of another OS thread may need a system call (microseconds). The default mode runs it
    ///   on the waker's OS thread.
    ///
    /// A spawned future may be polled by another OS thread each time, because it is `Send`. One poll stays on one OS
    /// thread, as in either mode.
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

    /// Starts the runtime with these settings.
    ///
    /// # Errors
    ///
    /// If an error is returned, nothing of the runtime is left behind.
    ///
    /// - `InvalidInput`: no Ps or too many, a stack below one page, no threads, no blocking threads, or a `RUNTIME_PROCS` that is not a
    ///   number. The text says what is allowed.
    /// - `Unsupported`: this is a [forked child](crate::docs::fork).
    /// - Another kind, from the system: no descriptors, no threads or no memory. A runtime has its first OS thread
    ///   and its first stack from the beginning.
    /// ```
    /// let error = runtime::Builder::new().procs(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        #[cfg(all(
            feature = "interpose",
            target_os = "linux",
            target_env = "gnu",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        crate::interpose::link();
        let procs = match self.procs {
            Some(n) => n,
            None => default_procs()?,
        };
        if self.blocking_threads == 0 {
            let text = "blocking_threads is 0: at least 1 is needed to read a file or to look up a name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let sched = Sched::new(Config {
            procs,
            stack_bytes: self.stack_bytes,
            max_threads: self.max_threads,
            thread_name: self.thread_name.clone(),
            strict: self.migration == Migration::BeforeStart,
            around_thread: around_thread()?,
            attached: bounded::places(self.blocking_threads),
        })?;
        // From here on, an error drops `runtime`, which ends what was started.
        let runtime = Runtime { sched, monitor: Mutex::new(None) };
        runtime.sched.start().map_err(no_thread)?;
        if self.sysmon {
            *runtime.monitor.lock() =
                Some(start_sysmon(&runtime.sched, &self.thread_name).map_err(no_thread)?);
        }
        Ok(runtime)
    }
}

/// Returns what surrounds the runtime's OS threads. It must exist before the first of them.
fn around_thread() -> io::Result<Option<Around>> {
    #[cfg(feature = "tokio")]
    return crate::tokio::start().map(|()| Some(crate::tokio::in_context as Around));
    #[cfg(not(feature = "tokio"))]
    Ok(None)
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
