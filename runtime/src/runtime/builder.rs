//! `Builder`: the settings of a runtime, and starting it.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread as os;
use std::time::Duration;

use sched::sync::Mutex;
use sched::{Around, Config, MAX_PROCS, Monitor, Sched, SpawnStacks, ThreadCalls, starting};

use super::{Runtime, environment, processors, trace};
use crate::bounded;
use crate::default::{self, DefaultRuntime, StartAtFirstUse};
use inspect::dump;
#[cfg(unix)]
use inspect::dump::trigger;
use inspect::metrics::{Calls, Hog, LateWake, Notes, start_reader};
use inspect::trace::trigger::{self as traces, Triggers};

/// The default size of a green thread's stack, in bytes of address space. Memory is used page by page.
/// In debug builds frames are several times as large.
const STACK_BYTES: usize =
    if cfg!(all(debug_assertions, target_pointer_width = "64")) { 1 << 20 } else { 256 << 10 };

/// The default of [`Builder::max_threads`].
const MAX_THREADS: usize = 10_000;

/// The settings of a [`Runtime`]; [`build`](Builder::build) starts it.
/// [`build_global`](Builder::build_global) starts the default runtime.
///
/// A setting that the program does not set is taken from an [environment variable](crate::docs::settings),
/// such as `RUNTIME_PROCS`.
///
/// ```
/// let runtime = runtime::Builder::new().procs(2).thread_name("crawler").build()?;
/// assert_eq!(runtime.block_on(|| 1 + 1), 2);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    procs: Option<usize>,
    follow_processors: Option<bool>,
    stack_bytes: Option<usize>,
    max_threads: Option<usize>,
    blocking_threads: Option<usize>,
    sysmon: Option<bool>,
    measure_all: Option<bool>,
    spawn_stacks: Option<usize>,
    await_stacks: Option<bool>,
    late_wake: Option<Duration>,
    calls: Calls,
    #[cfg(unix)]
    dump_on: Option<i32>,
    track_locks: bool,
    find_deadlocks: Option<Duration>,
    trace_to: Option<PathBuf>,
    thread_name: Option<String>,
    thread_calls: ThreadCalls,
    migration: Option<Migration>,
    thread_locals: Option<ThreadLocals>,
    late_libraries: Option<bool>,
    tokio: Option<bool>,
    simulation: Option<Arc<dyn sched::simulation::Simulation>>,
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
    /// parks](crate::docs::moving#calls-that-park), a future only between two polls. This is unsound for
    /// closures that keep something of their OS thread across such a call: see [moving](crate::docs::moving).
    #[default]
    Anytime,
    /// On any OS thread until the green thread starts, then on that one until it ends.
    BeforeStart,
}

/// To whom thread-locals belong: the setting of [`Builder::thread_locals`].
///
/// ```
/// assert_eq!(runtime::ThreadLocals::default(), runtime::ThreadLocals::OfOsThread);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadLocals {
    /// To the OS thread. What a closure keeps of them across a park may be unsound: see
    /// [moving](crate::docs::moving).
    #[default]
    OfOsThread,
    /// To the green thread, if it is a closure. What it keeps of them across a park stays its own on whatever
    /// OS thread it goes on.
    OfGreenThread,
}

impl Builder {
    /// Returns a builder without settings. Settings that are not set are taken from the
    /// [environment](crate::docs::settings), or are the defaults.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> Self {
        Builder::default()
    }

    /// Sets how many green threads run at the same moment: the number of [Ps](crate::docs::glossary#p).
    ///
    /// The default is the number of processors available to the process, at most 4,096, as
    /// `std::thread::available_parallelism` returns it. A CPU quota of a cgroup counts, rounded down. The
    /// default [follows](Builder::follow_processors) a change of that number.
    /// [`Handle::set_procs`](crate::Handle::set_procs) changes it later.
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

    /// Sets whether the number of Ps follows the number of processors available to the process. The default is
    /// `true`. The environment variable is `RUNTIME_FOLLOW_PROCESSORS` (`on` or `off`).
    ///
    /// It has an effect while the number of Ps is the default: neither [`procs`](Builder::procs) nor
    /// `RUNTIME_PROCS` has set it, nor [`Handle::set_procs`](crate::Handle::set_procs) later. On Linux, the
    /// CPU quota of a cgroup counts, and the set of processors of all OS threads. A change of them has an
    /// effect within about a second while green threads run. An idle process is not woken for it. Then the effect
    /// comes soon after green threads run again. While the quota cannot be read, for example without a free
    /// descriptor, the number does not grow.
    ///
    /// It needs [`sysmon`](Builder::sysmon), which asks the system once a second: some reads of small files.
    /// A simulation does not follow.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().follow_processors(false).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn follow_processors(mut self, follow: bool) -> Self {
        self.follow_processors = Some(follow);
        self
    }

    /// Sets the size of each green thread's stack, in bytes of address space. The default is 256 KiB, and 1
    /// MiB where the runtime is compiled with debug assertions for 64 bits.
    ///
    /// Memory is used page by page as the stack grows. See [stacks](crate::docs::stacks) for overflows and
    /// what stacks cost.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets the largest number of OS threads that run green threads. The default is 10,000.
    ///
    /// At the limit, and while the system refuses a further OS thread, nothing fails, and one line on stderr
    /// says so. A green thread that computes or blocks then delays others until it parks or ends, because no
    /// OS thread can take its P.
    ///
    /// A new OS thread is started only when none is parked. So the number stays below the sum of these, at
    /// its highest:
    /// - one OS thread for each P;
    /// - one for each green thread that keeps its OS thread without a P:
    ///   - it computes or blocks although its P was taken,
    ///   - it waits for another P before it leaves a call,
    ///   - it is parked while it is pinned or unwinds,
    ///   - or it is in [`blocking`](crate::blocking);
    /// - one for each OS thread to which polls that have parked are bound, or, with
    ///   [`Migration::BeforeStart`], green threads that have started;
    /// - one that waits for the network and for timers, one spare, and OS threads that are about to park
    ///   (usually none or one).
    ///
    /// An OS thread that has not been needed for five to ten seconds ends, except one for each P and a few
    /// more. See [blocking](crate::docs::blocking#os-threads) for programs with many green threads that
    /// compute for long. Each of them keeps an OS thread from its beginning to its next call that parks. On
    /// Linux most of these OS threads [sleep](crate::docs::blocking#paused-green-threads) at any moment.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().max_threads(64).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn max_threads(mut self, n: usize) -> Self {
        self.max_threads = Some(n);
        self
    }

    /// Sets how many OS threads the blocking calls of this crate may use at once. The default is 512, as in
    /// tokio.
    ///
    /// It bounds the calls of [`fs`](crate::fs), look-ups of [host names](crate::net::lookup_host), starting
    /// a process, and reading standard input from a file. A green thread that makes a further such call waits
    /// in line, first come, first served. A cancellation or a time-out ends that wait. Calls of plain OS
    /// threads do not count.
    ///
    /// With the feature `interpose` the same holds for look-ups by libc's `getaddrinfo`.
    ///
    /// [`blocking`](crate::blocking) is not bounded: it runs code of yours, which may wait for other such
    /// code. To bound that, use a [`Semaphore`](crate::sync::Semaphore). If green threads fill all places
    /// with calls that end only after a further call of this kind, they wait for ever. An example is opening
    /// both ends of a FIFO.
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
        self.blocking_threads = Some(n);
        self
    }

    /// Sets whether the runtime has its monitor thread ([sysmon](crate::docs::glossary#sysmon)). The default
    /// is `true`.
    ///
    /// Without it, a green thread that computes or blocks for long holds up all green threads in the same run
    /// queue. Memory and OS threads that a burst has left behind are not given back. This setting is for
    /// showing what the monitor thread does.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().sysmon(false).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn sysmon(mut self, on: bool) -> Self {
        self.sysmon = Some(on);
        self
    }

    /// Lets the runtime report each hog to `call`. A hog is a green thread that lost its P because it
    /// computed or blocked for long while others waited.
    ///
    /// `call` gets one hog of each spawn place in a second, and ten in a second in all.
    /// [`metrics::hogs`](crate::metrics::hogs()) counts all. With the feature `dump-stacks` the report has
    /// the stack of the hog. `call` runs on a plain OS thread of its own and may take its time. Up to 64
    /// reports that come during a call wait. A panic of `call` is printed and otherwise ignored.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().on_hog(|hog| eprintln!("{hog}")).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_hog(mut self, call: impl Fn(&Hog) + Send + Sync + 'static) -> Self {
        self.calls.hog = Some(Arc::new(call));
        self
    }

    /// Lets the runtime report to `call` each green thread that waited for a P for `bound` or longer after it
    /// was woken or spawned.
    ///
    /// `call` gets ten in a second at most. `call` runs as that of [`on_hog`](Builder::on_hog) does. Each
    /// wake-up is then measured: see [`measure_all`](Builder::measure_all), which says what that costs.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let told = |late: &runtime::metrics::LateWake| eprintln!("{}: {:?} late", late.spawned_at, late.late);
    /// let runtime = runtime::Builder::new().on_late_wake(Duration::from_millis(5), told).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_late_wake(mut self, bound: Duration, call: impl Fn(&LateWake) + Send + Sync + 'static) -> Self {
        self.late_wake = Some(bound);
        self.calls.late = Some(Arc::new(call));
        self
    }

    /// Sets whether each wake-up is measured for the [metrics](crate::metrics), and not only samples. The
    /// default is `false`.
    ///
    /// Then the histograms and [`metrics::by_place`](crate::metrics::by_place) count each run of a green
    /// thread, as long as no more than 65,536 green threads live at once. It costs about 100 ns for each run.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().procs(1).measure_all(true).build()?;
    /// runtime.block_on(|| (0..100).for_each(|_| runtime::yield_now()));
    /// assert!(runtime.handle().metrics().latency.count() >= 100);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn measure_all(mut self, all: bool) -> Self {
        self.measure_all = Some(all);
        self
    }

    /// Keeps for one spawned green thread in `every` the stack on which it was spawned, the first included. 1
    /// keeps each, and 0, the default, none. [Dumps](crate::docs::dumps) show it below the stack of the green
    /// thread itself. The environment variable is `RUNTIME_SPAWN_STACKS`.
    ///
    /// The place of a spawn is always known. The stack shows more where many callers share that place: a
    /// server's `spawn_worker`. Up to 48 frames are kept, until the green thread's end. A spawn that is kept
    /// takes about 2 µs more for a short stack. While `every` is not 0, each other spawn takes 8 ns more, and
    /// each wake-up 2 ns.
    ///
    /// It has an effect with the feature `dump-stacks`, where dumps show stacks.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().spawn_stacks(1).build()?;
    /// let text = runtime.block_on(|| {
    ///     let one = runtime::spawn(|| runtime::thread::park());
    ///     let text = runtime::dump::Snapshot::take().unwrap().to_string();
    ///     one.thread().unpark();
    ///     text
    /// });
    /// assert_eq!(text.contains("  spawned by\n"), cfg!(feature = "dump-stacks"));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spawn_stacks(mut self, every: u32) -> Self {
        self.spawn_stacks = Some(every as usize);
        self
    }

    /// Keeps for each spawned future the stack at which it waits, so that [dumps](crate::docs::dumps#futures)
    /// show it. The default is `false`. The environment variable is `RUNTIME_AWAIT_STACKS`.
    ///
    /// A future has no stack while it waits. With this setting the stack is kept when the future's waker is
    /// cloned. At that moment the chain of polls is on the stack, from the future that was spawned to the one
    /// that waits. Up to 48 frames are kept. Each wait of a future then takes some microseconds more. Other
    /// green threads pay nothing.
    ///
    /// It has an effect with the feature `dump-stacks`, where dumps show stacks.
    ///
    /// ```
    /// use runtime::dump::Snapshot;
    ///
    /// async fn asks(answer: runtime::sync::oneshot::Receiver<u32>) -> u32 {
    ///     answer.await.unwrap()
    /// }
    ///
    /// let runtime = runtime::Builder::new().await_stacks(true).build()?;
    /// let text = runtime.block_on(|| {
    ///     let (sender, answer) = runtime::sync::oneshot::channel();
    ///     let asker = runtime::spawn(asks(answer));
    ///     runtime::sleep(std::time::Duration::from_millis(20));
    ///     let text = Snapshot::take().unwrap().to_string();
    ///     sender.send(7).unwrap();
    ///     assert_eq!(asker.join().unwrap(), 7);
    ///     text
    /// });
    /// assert_eq!(text.contains("\n    "), cfg!(feature = "dump-stacks"), "{text}");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn await_stacks(mut self, keep: bool) -> Self {
        self.await_stacks = Some(keep);
        self
    }

    /// Sets the name of the runtime's OS threads, to which a number is added. The default is "green".
    ///
    /// Linux keeps the first 15 bytes of a name of an OS thread. A name of at most 8 bytes leaves room for
    /// the longest ending, `-sysmon`. The page about [debuggers](crate::docs::debuggers#perf) lists the
    /// endings.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().thread_name("worker").build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// Lets each OS thread that runs green threads call `call` at its start, before it runs any. The default
    /// is no call. A second setting takes the place of the first.
    ///
    /// `call` prepares what belongs to the OS thread: its set of processors, its priority, or thread-locals of
    /// a C library. Calls of several OS threads may run at once. The first is made when the runtime is built.
    /// Later ones come whenever a further OS thread is needed, and the green thread for which it was started
    /// may wait until `call` returns. Other threads of the runtime, such as [`sysmon`](Builder::sysmon), call
    /// nothing.
    ///
    /// `call` runs as on a plain OS thread. So [`spawn`](crate::spawn()) there uses the default runtime, and
    /// what parks elsewhere blocks the OS thread. `call` must not wait for a green thread of this runtime,
    /// which might need that OS thread to go on.
    ///
    /// # Panics
    ///
    /// A panic of `call` is printed and otherwise ignored: the OS thread runs green threads all the same.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let threads = Arc::new(AtomicUsize::new(0));
    /// let counter = threads.clone();
    /// let builder = runtime::Builder::new();
    /// let runtime = builder.on_thread_start(move || _ = counter.fetch_add(1, Relaxed)).build()?;
    /// runtime.block_on(|| assert!(threads.load(Relaxed) >= 1));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// A runtime that uses only some processors, such as those of one NUMA node, has as many Ps. With the
    /// crate rustix and its feature `thread`:
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    ///
    /// let allowed = sched_getaffinity(None)?;
    /// let mut first = CpuSet::new();
    /// first.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap());
    /// let builder = runtime::Builder::new().procs(first.count() as usize);
    /// let stays = move || sched_setaffinity(None, &first).unwrap();
    /// let runtime = builder.on_thread_start(stays).build()?;
    /// runtime.block_on(|| assert_eq!(sched_getaffinity(None).unwrap().count(), 1));
    /// # }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_start(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_calls.start = Some(Arc::new(call));
        self
    }

    /// Lets each OS thread that runs green threads call `call` at its end, after it has run its last one. The
    /// default is no call. A second setting takes the place of the first.
    ///
    /// An OS thread ends when it was [not needed](Builder::max_threads) for a while, and when its runtime
    /// ends. Dropping a [`Runtime`] returns after these calls, unless the drop is made on a green thread of
    /// that runtime. The OS threads of the default runtime that are left at the end of the process call
    /// nothing. Destructors of the OS thread's thread-locals run after `call`.
    ///
    /// `call` runs as that of [`on_thread_start`](Builder::on_thread_start) does.
    ///
    /// # Panics
    ///
    /// A panic of `call` is printed and otherwise ignored.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
    ///
    /// let threads = Arc::new(AtomicIsize::new(0));
    /// let (started, ended) = (threads.clone(), threads.clone());
    /// let runtime = runtime::Builder::new()
    ///     .on_thread_start(move || _ = started.fetch_add(1, Relaxed))
    ///     .on_thread_stop(move || _ = ended.fetch_sub(1, Relaxed))
    ///     .build()?;
    /// runtime.block_on(|| assert!(threads.load(Relaxed) >= 1));
    /// drop(runtime);
    /// assert_eq!(threads.load(Relaxed), 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_thread_stop(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_calls.stop = Some(Arc::new(call));
        self
    }

    /// Sets on which OS threads a green thread may run. The default is [`Migration::Anytime`].
    ///
    /// The default is *unsound* for closures that keep something of their OS thread across a park: see
    /// [moving](crate::docs::moving). Ways out are futures, [`thread::pin`](crate::thread::pin), and
    /// [`Migration::BeforeStart`], called *strict mode*.
    ///
    /// In strict mode a green thread runs on one OS thread from its first line to its last. So values that
    /// are not [`Send`] stay on one OS thread while they live on its stack.
    /// [`thread::pin`](crate::thread::pin) changes nothing in this mode.
    ///
    /// **Other green threads run on the same OS thread** whenever one parks. So a thread-local keeps its
    /// address, but not its value. Scoped contexts (span stacks, enter guards) that are kept across a park
    /// are mixed up with those of other green threads, unless they [follow](crate::context_slot). Scoped
    /// contexts that keep references (`scoped-tls`) are
    /// [unsound](crate::docs::moving#types-that-must-not-be-kept-across-a-park). A std lock that is kept
    /// across a park blocks the OS thread when another green thread there takes that lock.
    ///
    /// The costs of strict mode:
    ///
    /// - A green thread that has started is never run by another OS thread. If a green thread on the same OS
    ///   thread computes or blocks (in [`blocking`](crate::blocking), too), the others there wait until it
    ///   parks, yields or ends. Green threads that have not started, timers and the network are not delayed.
    /// - Load is balanced only when a green thread starts. If more OS threads have something to run than
    ///   there are [`procs`](Builder::procs), they take turns of a millisecond.
    /// - Waking a green thread of another OS thread may need a system call (microseconds). The default mode
    ///   runs it on the waker's OS thread.
    ///
    /// A spawned future may be polled by another OS thread each time, because it is `Send`. One poll stays on
    /// one OS thread, as in either mode.
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
        self.migration = Some(migration);
        self
    }

    /// Sets to whom thread-locals belong while a closure runs. The default is [`ThreadLocals::OfOsThread`],
    /// or the environment variable `RUNTIME_THREAD_LOCALS` (`os` or `green`).
    ///
    /// With [`ThreadLocals::OfGreenThread`] each closure has a block of thread-locals of its own, as an OS
    /// thread has. The block has `std::thread_local!`, `thread_local` of C, `errno`, and the values of
    /// pthread's keys. It is switched together with the stack. So a closure that parks may keep a guard of a
    /// std lock, a borrow inside of `LocalKey::with`, `rand::rng()` or an entered context. Safe code is
    /// [sound when it moves](crate::docs::moving), by the argument that makes `std::thread::spawn` sound.
    /// Destructors run at its end, before its join returns.
    ///
    /// What it needs, what it costs, and what it does not cover is on the page
    /// [moving](crate::docs::moving#thread-locals-of-its-own).
    ///
    /// # Errors
    ///
    /// [`build`](Builder::build) returns `Unsupported` and the reason if this machine, C library or program
    /// cannot have such blocks.
    ///
    /// ```
    /// use runtime::{Builder, ThreadLocals};
    /// use std::cell::Cell;
    /// use std::time::Duration;
    ///
    /// std::thread_local! { static REQUEST: Cell<u64> = const { Cell::new(0) } }
    ///
    /// let Ok(runtime) = Builder::new().thread_locals(ThreadLocals::OfGreenThread).build() else {
    ///     return; // Not on this system.
    /// };
    /// runtime.block_on(|| {
    ///     runtime::scope(|s| {
    ///         for id in 1..=100 {
    ///             s.spawn(move || {
    ///                 assert_eq!(REQUEST.replace(id), 0);
    ///                 runtime::sleep(Duration::from_millis(1));
    ///                 assert_eq!(REQUEST.get(), id);
    ///             });
    ///         }
    ///     });
    /// });
    /// ```
    pub fn thread_locals(mut self, thread_locals: ThreadLocals) -> Self {
        self.thread_locals = Some(thread_locals);
        self
    }

    /// Sets whether libraries that need a place in each thread's block of thread-locals can be opened
    /// (`dlopen`) after this runtime was built. It has an effect with [`ThreadLocals::OfGreenThread`] only.
    /// The default is `false`, or the environment variable `RUNTIME_LATE_LIBRARIES` (`on` or `off`).
    ///
    /// glibc keeps room in each block for such libraries: those with thread-locals of the initial-exec model,
    /// as libgomp and some memory allocators have. With `false` the runtime takes that room: a parked closure
    /// then needs 4 KB of memory less, and starts in less time. An attempt to open such a library fails, and
    /// `dlerror` says "cannot allocate memory in static TLS block". All other libraries can be opened with
    /// either setting. So can all libraries before the first runtime with such thread-locals.
    ///
    /// The first runtime of the process with `ThreadLocals::OfGreenThread` decides for all. After one with
    /// `true` the setting `false` changes nothing. In programs with `runtime::interpose!(threads)` the
    /// default is `true`.
    ///
    /// # Errors
    ///
    /// [`build`](Builder::build) returns `Unsupported` for `true` after a runtime with `false`.
    ///
    /// ```
    /// use runtime::{Builder, ThreadLocals};
    ///
    /// let builder = Builder::new().thread_locals(ThreadLocals::OfGreenThread).late_libraries(true);
    /// let Ok(runtime) = builder.build() else {
    ///     return; // Not on this system.
    /// };
    /// // A library of OpenMP can be opened here.
    /// ```
    pub fn late_libraries(mut self, late_libraries: bool) -> Self {
        self.late_libraries = Some(late_libraries);
        self
    }

    /// Sets whether tokio's crates work in this runtime's green threads. Its OS threads then run in the
    /// context of [tokio's reactor](crate::tokio), which starts with the first such runtime. The default is
    /// `false`, or the environment variable `RUNTIME_TOKIO`. (Feature `tokio`, which changes nothing by
    /// itself.)
    ///
    /// A [deadlock](crate::docs::deadlock) is not reported any more once the reactor has started, because the
    /// reactor might wake any green thread.
    ///
    /// # Errors
    ///
    /// [`build`](Builder::build) fails if the reactor cannot be started: no descriptors, or no threads.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().tokio(true).build()?;
    /// runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(1)).await });
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, on: bool) -> Self {
        self.tokio = Some(on);
        self
    }

    /// Lets `signal`, such as [`SIGQUIT`](crate::signal::SIGQUIT), write a dump of all green threads to
    /// stderr, as [`dump()`](crate::dump()) does. The program goes on. The default is no signal, or the
    /// environment variable `RUNTIME_DUMP`: `QUIT`, `HUP`, `USR1` or `USR2`.
    ///
    /// This holds for the process from the start of this runtime on, also after the runtime's end. The signal
    /// no longer has its default effect. A plain OS thread writes the dump, so it comes even while green
    /// threads keep every P. That thread does not hide a [deadlock](crate::docs::deadlock). A green thread
    /// that [overflows its stack](crate::docs::stacks) gets a dump, too, before the process ends.
    ///
    /// Unix only.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().dump_on(runtime::signal::SIGQUIT).build()?;
    /// // The dump is on its way when this returns.
    /// signal_hook::low_level::raise(runtime::signal::SIGQUIT)?;
    /// # std::io::Result::Ok(())
    /// ```
    #[cfg(unix)]
    pub fn dump_on(mut self, signal: i32) -> Self {
        self.dump_on = Some(signal);
        self
    }

    /// Lets each [`Mutex`](crate::sync::Mutex) and each writer of an [`RwLock`](crate::sync::RwLock) record
    /// the thread that locks it. A [dump](mod@crate::dump) then names the holder of each lock that is waited
    /// for, and finds green threads that wait for each other's locks. The default is `false`;
    /// [`dump_on`](Builder::dump_on) and [`find_deadlocks`](Builder::find_deadlocks) switch it on too.
    ///
    /// This holds for the process from the start of this runtime on. A lock that was taken before has no
    /// record. Locking and unlocking a mutex then takes about 65 instructions instead of 16, which is 3 ns
    /// more.
    ///
    /// ```
    /// let runtime = runtime::Builder::new().track_locks(true).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn track_locks(mut self, track: bool) -> Self {
        self.track_locks = track;
        self
    }

    /// Looks for green threads that wait for each other each time `interval` has passed, and writes them to
    /// stderr with their stacks (feature `dump-stacks`), once. The program goes on.
    /// [`dump::on_deadlock`] takes them instead. The default is no search, or the
    /// environment variable `RUNTIME_DEADLOCK`: an interval in ms.
    ///
    /// This finds circles over mutexes, read-write locks, joins and scopes, and locks that leaked, while
    /// other green threads go on. The page about [deadlocks](crate::docs::deadlock#of-some) says what it
    /// finds and what not. A circle is reported if two looks have found it unchanged, so between one and two
    /// intervals after it arose.
    ///
    /// This holds for the process from the start of this runtime on, also after the runtime's end. A plain OS
    /// thread looks, so it finds them even while green threads keep every P. If several runtimes set it, the
    /// shortest interval holds. A look takes a few microseconds for each green thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// let runtime = runtime::Builder::new().find_deadlocks(Duration::from_secs(1)).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn find_deadlocks(mut self, interval: Duration) -> Self {
        self.find_deadlocks = Some(interval);
        self
    }

    /// Starts the [flight recorder](crate::trace) with this runtime. Writes a trace to `path` when a green
    /// thread panics, when one keeps its P, and when a timer fires late. The default is not to, or the
    /// environment variable `RUNTIME_TRACE`.
    ///
    /// The environment variable `RUNTIME_TRACE_ON` says what writes a trace: a list of `panic`, `hog` and
    /// `late=10ms`. Without it all three do, with `late=100ms`. A name that ends with `.html` gives a page,
    /// any other name a file for Perfetto (feature `perfetto`).
    ///
    /// No file is overwritten, also none of an earlier process. If the name is taken, the next free number is
    /// used: `trace-2.html`, and so on to `trace-100.html`. If all are taken, no trace is written, and a line
    /// on stderr says so. A process writes at most ten files for panics and ten for hogs and late timers. The
    /// line about the tenth says that it is the last. Two files of these tens are a second apart or more.
    ///
    /// A plain OS thread writes the file. The end of a `block_on` or `block_on_local` and the end of a
    /// runtime wait for it, for ten seconds at most. A process that ends otherwise may end before the file is
    /// there. Such an end is [`std::process::exit`], or the panic of a `main` that has joined a green thread
    /// outside of `block_on`. The process can leave an incomplete file with a name that begins with a dot.
    ///
    /// This holds for the process, and the first runtime that asks for it decides.
    ///
    /// ```
    /// let path = std::env::temp_dir().join("trace.html");
    /// let runtime = runtime::Builder::new().trace_to(path).build()?;
    /// assert!(runtime::trace::is_on());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn trace_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace_to = Some(path.into());
        self
    }

    /// Starts the runtime with these settings.
    ///
    /// # Errors
    ///
    /// If an error is returned, nothing of the runtime is left behind.
    ///
    /// - `InvalidInput`: no Ps or too many, a stack below one page, no threads, no blocking threads, or a
    ///   dump signal that cannot be received. Also if an [environment variable](crate::docs::settings) has a
    ///   value that is not allowed. The text says what is allowed.
    /// - `Unsupported`: this is a [forked child](crate::docs::fork).
    /// - Another kind, from the system: no descriptors, no threads or no memory. A runtime has its first OS
    ///   thread and its first stack from the beginning.
    ///
    /// ```
    /// let error = runtime::Builder::new().procs(0).build().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        self.build_of(None)
    }

    /// As `build`. The scheduler takes over what another one has left.
    fn build_of(mut self, remains: Option<sched::Remains>) -> io::Result<Runtime> {
        #[cfg(all(
            feature = "interpose",
            target_os = "linux",
            target_env = "gnu",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        interpose::note(&crate::interposed::HOST);
        let sysmon = or_else(self.sysmon, || environment::switch("RUNTIME_SYSMON"), || true)?;
        #[cfg(unix)]
        let dump_on = match self.dump_on {
            None => environment::read("RUNTIME_DUMP", trigger::EXPECTED, trigger::signal_of)?,
            chosen => chosen,
        };
        let path = || environment::read("RUNTIME_TRACE", "the name of a file", |path| Some(path.into()));
        let trace_to = self.trace_to.clone().map_or_else(path, |path| Ok(Some(path)))?;
        let trace_on = environment::read("RUNTIME_TRACE_ON", traces::EXPECTED, Triggers::parse)?;
        let find_deadlocks = match self.find_deadlocks {
            None => environment::ms("RUNTIME_DEADLOCK")?,
            chosen => chosen.map(|interval| interval.max(Duration::from_millis(1))),
        };
        let track_locks = self.track_locks;
        let calls = std::mem::take(&mut self.calls);
        // A simulation has no sysmon, which finds hogs; and a thread for each of many short runs costs much.
        let notes = (calls.need_reader() && !self.is_simulated()).then(Arc::<Notes>::default);
        let (config, trace) = (self.into_config(notes.clone())?, trace::wanted()?);
        #[cfg(unix)]
        dump_on.map_or(Ok(()), |signal| trigger::dump_on(signal, crate::signal::wake_for_ever))?;
        if track_locks {
            waits::locks::track();
        }
        find_deadlocks.map_or(Ok(()), dump::find_deadlocks)?;
        if let Some(path) = trace_to {
            traces::write_to(&path, trace_on.unwrap_or_default())?;
        }
        let thread_name = config.thread_name.clone();
        sched::set_report(dump::report);
        // From here on, an error drops `runtime`, which ends what was started.
        let runtime = Runtime {
            sched: Sched::new_of(config, remains)?,
            monitor: Mutex::new(None),
            trace: Mutex::new(None),
            hogs: Mutex::new(None),
        };
        runtime.sched.start().map_err(no_thread)?;
        if sysmon {
            *runtime.monitor.lock() = Some(start_sysmon(&runtime.sched, &thread_name).map_err(no_thread)?);
        }
        if let Some(notes) = notes {
            *runtime.hogs.lock() = Some(start_reader(&runtime.sched, notes, calls).map_err(no_thread)?);
        }
        if let Some(wanted) = trace {
            *runtime.trace.lock() = Some(trace::start(&runtime.sched, wanted).map_err(no_thread)?);
        }
        Ok(runtime)
    }

    fn is_simulated(&self) -> bool {
        self.simulation.is_some()
    }

    /// Starts a runtime for which `simulation` makes the choices.
    #[allow(dead_code, reason = "not used where simulations do not work")]
    pub(crate) fn build_simulated(
        mut self,
        simulation: Arc<dyn sched::simulation::Simulation>,
        remains: Option<sched::Remains>,
    ) -> io::Result<Runtime> {
        self.simulation = Some(simulation);
        self.build_of(remains)
    }

    /// Starts the default runtime with these settings. It is the runtime of [`block_on`](crate::block_on) and
    /// [`spawn`](crate::spawn()) on plain OS threads, and lives as long as the process.
    ///
    /// It must be called before the first use of the default runtime, best at the beginning of `main`.
    /// [`#[runtime::main]`](macro@crate::main) calls it for a program.
    ///
    /// # Errors
    ///
    /// - `AlreadyExists`: the default runtime has been started, by its first use or by this function. It
    ///   keeps its settings.
    /// - The errors of [`build`](Builder::build). A later call, or the first use, then starts the default
    ///   runtime.
    ///
    /// ```
    /// runtime::Builder::new().procs(3).build_global()?;
    /// assert_eq!(runtime::block_on(|| runtime::Handle::current().procs()), 3);
    ///
    /// let error = runtime::Builder::new().build_global().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn build_global(self) -> io::Result<()> {
        if start_default(self)? {
            return Ok(());
        }
        let text = "the default runtime has been started before: call `build_global` once, before the first use of this crate";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
    }

    /// Returns what the scheduler needs: the settings of the program, then those of the environment, then the
    /// defaults.
    fn into_config(self, hogs: Option<Arc<Notes>>) -> io::Result<Config> {
        let blocking_threads = or_else(
            self.blocking_threads,
            || environment::number("RUNTIME_BLOCKING_THREADS", 1..=usize::MAX),
            || bounded::DEFAULT,
        )?;
        if blocking_threads == 0 {
            let text = "blocking_threads is 0: at least 1 is needed to read a file or to look up a name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let migration =
            or_else(self.migration, || environment::migration("RUNTIME_MIGRATION"), Migration::default)?;
        let thread_locals = or_else(
            self.thread_locals,
            || environment::thread_locals("RUNTIME_THREAD_LOCALS"),
            ThreadLocals::default,
        )?;
        let given = match self.procs {
            None => environment::number("RUNTIME_PROCS", 1..=MAX_PROCS)?,
            given => given,
        };
        let follow =
            or_else(self.follow_processors, || environment::switch("RUNTIME_FOLLOW_PROCESSORS"), || true)?;
        let own_name = || environment::read("RUNTIME_THREAD_NAME", "a name", |name| Some(name.to_string()));
        Ok(Config {
            procs: given.unwrap_or_else(processors::available),
            wanted_procs: (given.is_none() && follow).then_some(processors::available_now),
            stack_bytes: or_else(
                self.stack_bytes,
                || environment::bytes("RUNTIME_STACK_SIZE", sched::ALLOWED_STACK_BYTES),
                || STACK_BYTES,
            )?,
            max_threads: or_else(
                self.max_threads,
                || environment::number("RUNTIME_MAX_THREADS", 1..=usize::MAX),
                || MAX_THREADS,
            )?,
            thread_name: or_else(self.thread_name, own_name, || "green".into())?,
            hogs: hogs.map(|notes| notes as _),
            late_wake: self.late_wake,
            measure_all: self.late_wake.is_some()
                || or_else(self.measure_all, || environment::switch("RUNTIME_MEASURE_ALL"), || false)?,
            spawn_stacks: spawn_stacks(or_else(
                self.spawn_stacks,
                || environment::number("RUNTIME_SPAWN_STACKS", 0..=u32::MAX as usize),
                || 0,
            )?),
            await_stacks: or_else(
                self.await_stacks,
                || environment::switch("RUNTIME_AWAIT_STACKS"),
                || false,
            )?
            .then(inspect::take_of_spawner)
            .flatten(),
            strict: migration == Migration::BeforeStart,
            own_locals: thread_locals == ThreadLocals::OfGreenThread,
            late_libraries: or_else(
                self.late_libraries,
                || environment::switch("RUNTIME_LATE_LIBRARIES"),
                || false,
            )?,
            around_thread: around_thread(self.tokio)?,
            thread_calls: self.thread_calls,
            simulation: self.simulation,
            attached: bounded::places(blocking_threads),
        })
    }
}

impl StartAtFirstUse for DefaultRuntime {
    fn start_at_first_use() -> io::Result<bool> {
        start_default(Builder::new())
    }

    fn start_for_threads(stack_bytes: usize) -> io::Result<bool> {
        if environment::threads_are_green()? == Some(false) {
            return Ok(false);
        }
        // Nothing of this was run on another processor.
        if cfg!(not(target_arch = "x86_64")) {
            let text = "the threads of a program are green threads on x86-64 only";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let asked = environment::bytes("RUNTIME_STACK_SIZE", sched::ALLOWED_STACK_BYTES)?;
        // Such a program opens what it always has.
        let late = environment::switch("RUNTIME_LATE_LIBRARIES")?.unwrap_or(true);
        let builder = Builder::new().stack_size(asked.unwrap_or(stack_bytes)).late_libraries(late);
        start_default(builder.thread_locals(ThreadLocals::OfGreenThread))
    }
}

/// Starts the default runtime with the settings of `builder`, unless it is there. Returns `true` if this call
/// started it.
fn start_default(builder: Builder) -> io::Result<bool> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    default::start(|| {
        let runtime = builder.build()?;
        Ok(Arc::clone(&RUNTIME.get_or_init(|| runtime).sched))
    })
}

/// Returns what keeps one stack of a spawner in `every`; `None` if `every` is 0, and where stacks cannot be
/// taken.
fn spawn_stacks(every: usize) -> Option<SpawnStacks> {
    let every = NonZeroU32::new(u32::try_from(every).ok()?)?;
    inspect::take_of_spawner().map(|take| SpawnStacks { every, take })
}

/// Returns the setting of the program if there is one, else that of the environment, else the default.
fn or_else<T>(
    set: Option<T>,
    environment: impl FnOnce() -> io::Result<Option<T>>,
    default: impl FnOnce() -> T,
) -> io::Result<T> {
    match set {
        Some(value) => Ok(value),
        None => Ok(environment()?.unwrap_or_else(default)),
    }
}

/// Returns what surrounds the runtime's OS threads. It must exist before the first of them.
fn around_thread(tokio: Option<bool>) -> io::Result<Option<Around>> {
    #[cfg(feature = "tokio")]
    if or_else(tokio, || environment::switch("RUNTIME_TOKIO"), || false)? {
        return crate::tokio::start().map(|()| Some(crate::tokio::in_context as Around));
    }
    let _ = tokio;
    Ok(None)
}

fn no_thread(error: io::Error) -> io::Error {
    let advice = "raise the limits on threads (RLIMIT_NPROC, the control group's pids.max) or memory";
    io::Error::new(error.kind(), format!("cannot start an OS thread: {error}; {advice}"))
}

fn start_sysmon(sched: &Arc<Sched>, name: &str) -> io::Result<os::JoinHandle<()>> {
    let sched = Arc::clone(sched);
    starting::start(os::Builder::new().name(format!("{name}-sysmon")), move || {
        sysmon::run(&Monitor::new(sched))
    })
}
