//! Green threads with the API of `std::thread`, and their cancellation.
//!
//! Names, signatures and semantics are those of `std::thread`. [`JoinHandle::cancel`], [`cancelled`],
//! [`uncancellable`] and [`pin`] are additions. [`JoinSet`], [`JoinMap`], [`AbortHandle`], [`JoinError`] and
//! [`LocalSet`] are those of tokio.

mod join_map;
mod join_set;
mod local_set;
mod name_panics;

use std::io;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::{Duration, Instant};

pub use crate::handles::abort_handle::AbortHandle;
pub use crate::handles::join_error::JoinError;
pub use crate::handles::join_handle::JoinHandle;
pub use crate::handles::thread::{Thread, ThreadId};
pub use crate::scope::{Scope, ScopedJoinHandle, TryJoinHandle, TryScope, scope, try_scope};
pub use crate::thread_local::{AccessError, LocalKey, TaskLocal, TaskLocalError, TaskLocalFuture};
pub use crate::time::{sleep, sleep_until};
pub use crate::yield_now;
pub use join_map::JoinMap;
pub use join_set::{JoinSet, TrySpawnError};
pub use local_set::{LocalEnterGuard, LocalJoinHandle, LocalSet, spawn_local};
pub use name_panics::name_panics;
/// The payload with which a cancelled green thread unwinds, and the error that [`JoinHandle::join`] then
/// returns.
///
/// Code that catches unwinding sees it: see
/// [cancellation](crate::docs::cancellation#code-that-catches-unwinding).
///
/// ```
/// let thread = runtime::spawn(runtime::thread::park);
/// thread.cancel();
/// let payload = thread.join().unwrap_err();
/// assert_eq!(payload.downcast_ref(), Some(&runtime::thread::Cancelled));
/// ```
#[doc(inline)]
pub use sched::Cancelled;
pub use std::thread::{Result, available_parallelism, panicking};

use sched::GHandle;
use sched::spawn::{Spec, Where};

use crate::default;
use crate::handles::Handle;
use crate::spawn::{Entry, start};

/// Starts a green thread, as [`runtime::spawn`](crate::spawn()) does; the name is std's.
///
/// # Panics
///
/// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
///
/// ```
/// use runtime::thread;
/// assert_eq!(thread::spawn(|| 42).join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<M, E>(task: E) -> JoinHandle<E::Output>
where
    E: Entry<M> + Send + 'static,
    E::Output: Send + 'static,
{
    crate::spawn(task)
}

/// The settings of one green thread: its name and its stack size. [`spawn`](Builder::spawn) starts it.
///
/// ```
/// use runtime::thread;
/// let thread = thread::Builder::new().name("parser".into()).stack_size(1 << 20).spawn(|| {
///     thread::current().name().map(str::to_string)
/// })?;
/// assert_eq!(thread.join().unwrap().as_deref(), Some("parser"));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Default)]
#[must_use = "must eventually spawn the thread"]
pub struct Builder {
    name: Option<String>,
    stack_bytes: Option<usize>,
}

impl Builder {
    /// Returns a builder with no name and the stack size of the runtime.
    ///
    /// ```
    /// runtime::thread::Builder::new().spawn(|| ())?.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> Self {
        Builder::default()
    }

    /// Sets the name, which [`Thread::name`], [`dump`](crate::dump()), reports of overflows and rescues show.
    /// It must have no zero byte.
    ///
    /// ```
    /// let builder = runtime::thread::Builder::new().name("parser".into());
    /// ```
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the stack size in bytes of address space: from one page to less than 4 GiB. It is rounded up by a
    /// quarter at most.
    ///
    /// Such a stack is taken when the green thread is spawned, so [`spawn`](Builder::spawn) returns an error
    /// if there is no room. A future keeps it between polls. After the end of the green thread the stack is
    /// kept for another of about that size, without its memory. It is given up when there is no room for a
    /// stack of another size.
    ///
    /// ```
    /// let builder = runtime::thread::Builder::new().stack_size(64 << 20);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Starts a green thread with these settings, which runs a closure or a future, and returns its handle.
    ///
    /// # Errors
    ///
    /// If an error is returned, `task` is dropped, and other green threads are not disturbed.
    ///
    /// - `InvalidInput`: the stack size is not possible (the text says what is), or the name has a zero byte.
    /// - `Unsupported`: this is a [forked child](crate::docs::fork).
    /// - `OutOfMemory`: the system has no address space for a stack (a limit such as `RLIMIT_AS`,
    ///   `RLIMIT_DATA` or `vm.max_map_count`), or no memory for another green thread. The text says what is
    ///   missing and what to do.
    /// - Another kind: this is the first use of the default runtime, and it cannot be started; or the runtime
    ///   has ended.
    ///
    /// After `OutOfMemory` a later call succeeds when the system has room again. It also succeeds when
    /// another green thread has left its stack, which is a moment after it can be joined. See
    /// [stacks](crate::docs::stacks#no-more-room).
    ///
    /// ```
    /// let error = runtime::thread::Builder::new().stack_size(1).spawn(|| ()).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(self, task: E) -> io::Result<JoinHandle<E::Output>>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        let spec = self.into_spec(Location::caller())?;
        start::spawn(Where::Here(default::sched_of_plain_thread), spec, task)
    }

    /// Starts a green thread as [`spawn`](Builder::spawn) does, in the runtime of `handle`. It may be called
    /// on any thread.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Builder::spawn), and an error if the runtime has ended.
    ///
    /// ```
    /// use runtime::thread;
    /// let handle = runtime::Handle::current();
    /// let builder = thread::Builder::new().name("parser".into());
    /// let thread = builder.spawn_on(|| thread::current().name().map(str::to_string), &handle)?;
    /// assert_eq!(thread.join().unwrap().as_deref(), Some("parser"));
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_on<M, E>(self, task: E, handle: &Handle) -> io::Result<JoinHandle<E::Output>>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        let spec = self.into_spec(Location::caller())?;
        start::spawn(Where::In(handle.sched()), spec, task)
    }

    pub(crate) fn into_spec(self, place: &'static Location<'static>) -> io::Result<Spec> {
        if let Some(name) = self.name.as_ref().filter(|name| name.contains('\0')) {
            let text =
                format!("the thread name {name:?} contains a zero byte, which std does not take either");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Spec { name: self.name.map(String::into_boxed_str), stack_bytes: self.stack_bytes, place })
    }
}

/// Returns the calling thread: the green thread, or the OS thread if the caller is not a green thread.
///
/// ```
/// let me = runtime::thread::current();
/// let other = runtime::block_on(|| runtime::thread::current().id());
/// assert_ne!(me.id(), other);
/// ```
pub fn current() -> Thread {
    Thread(GHandle::current())
}

/// Waits until [`Thread::unpark`] is called for the calling thread. Returns at once if it was called since
/// the last `park`.
///
/// It may also return without a reason, as in std. So call it in a loop that checks the condition.
///
/// # Panics
///
/// Panics in a [forked child](crate::docs::fork) if it would have to wait.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// let flag = Arc::new(AtomicBool::new(false));
/// let seen = flag.clone();
/// let thread = runtime::spawn(move || {
///     while !seen.load(Ordering::Acquire) {
///         runtime::thread::park();
///     }
/// });
/// flag.store(true, Ordering::Release);
/// thread.thread().unpark();
/// thread.join().unwrap();
/// ```
#[inline(always)]
pub fn park() {
    sched::park::park(None);
}

/// Waits as [`park`] does, but at most for `time`. A time beyond the clock's range means for ever.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// while start.elapsed() < Duration::from_millis(2) {
///     runtime::thread::park_timeout(Duration::from_millis(2));
/// }
/// ```
pub fn park_timeout(time: Duration) {
    sched::park::park(Instant::now().checked_add(time));
}

/// Returns `true` if the calling green thread has been cancelled. A long computation asks this to end early.
///
/// ```
/// let thread = runtime::spawn(|| {
///     while !runtime::thread::cancelled() {
///         runtime::yield_now();
///     }
/// });
/// thread.cancel();
/// let _ = thread.join();
/// ```
pub fn cancelled() -> bool {
    sched::park::is_cancelled()
}

/// Runs `f`, in which no wait is ended from outside, and returns its value. (Kotlin: `NonCancellable`; Trio:
/// a shielded scope.)
///
/// A cancellation of the green thread and the end of its runtime do not end waits in `f`. Nor do a
/// [`timeout`](crate::time::timeout) or a [`Context::run`](crate::context::Context::run) around this call.
/// They take effect at the next wait after this call. This call itself does not look, so a value that `f`
/// returns is not lost.
///
/// Use it where an unwind would do harm:
///
/// - In a callback that C code calls, such as the comparison of `qsort`. A function that is `extern "C"` must
///   not unwind, so the process would end there.
/// - In steps that must all be done, or none.
///
/// Some details:
///
/// - A `timeout` or a `run` that begins in `f` works as always: it ends what is inside of it. So `f` can
///   bound its own waits.
/// - Calls nest. A panic in `f` goes on in the caller.
/// - [`cancelled`] still reports a cancellation.
/// - Its canceller may wait longer: a [`join`](JoinHandle::join), the drop of a [`JoinSet`] or of a
///   [`Runtime`](crate::Runtime) waits for the end of `f`.
///   [`shutdown_timeout`](crate::Runtime::shutdown_timeout) bounds that.
/// - In a future, it holds for code that parks inside of the poll, such as [`block_on`](crate::block_on). A
///   future that is dropped between two polls does not learn of it; spawn what must go on.
/// - [`Once`](crate::sync::Once) and [`LazyLock`](crate::sync::LazyLock) call their closures so.
///
/// The page on [cancellation](crate::docs::cancellation#what-must-not-be-ended) has an example with C.
///
/// ```
/// use runtime::{sleep, thread::uncancellable};
/// use std::time::Duration;
///
/// let (sender, saved) = runtime::channel::bounded(2);
/// let saver = runtime::spawn(move || {
///     uncancellable(|| {
///         sender.send("first half").unwrap();
///         sleep(Duration::from_millis(5));
///         sender.send("second half").unwrap();
///     });
///     sleep(Duration::from_secs(3600));
/// });
/// assert_eq!(saved.recv(), Ok("first half"));
/// saver.cancel();
/// assert_eq!(saved.recv(), Ok("second half"));
/// assert!(saver.join().unwrap_err().is::<runtime::thread::Cancelled>());
/// ```
pub fn uncancellable<T>(f: impl FnOnce() -> T) -> T {
    sched::uncancellable(f)
}

/// Keeps the calling green thread on its OS thread while the guard lives (`LockOSThread` in Go). Guards nest,
/// and may be dropped in any order.
///
/// Use it for libraries that bind something to the OS thread, such as a graphics context, and for code with
/// thread-locals of std.
///
/// A pinned green thread that parks blocks its OS thread: no other green thread runs there until it goes on.
/// Its P goes to another OS thread. So each pinned green thread takes one OS thread. On a plain OS thread,
/// and with [`Migration::BeforeStart`](crate::Migration::BeforeStart), the guard does nothing.
///
/// Inside a future's poll, which stays on its OS thread anyway, the guard keeps other green threads off that
/// OS thread. That is for code that parks within a scoped context of the OS thread, such as a tracing span or
/// tokio's `EnterGuard`.
///
/// A future that has parked inside its poll resumes on the OS thread where it parked. If that is the OS
/// thread of a pinned green thread, the future's poll goes on while the pinned green thread is parked. Of two
/// polls that are pinned on the same OS thread, the one that parked last resumes first, so that their scoped
/// contexts nest.
///
/// What a pinned green thread changes about its OS thread (its signal mask, its scheduling attributes,
/// `unshare` and then its working directory) stays there. The first pin of a runtime starts an OS thread that
/// starts all further ones, so that these inherit nothing from a pinned green thread. The green thread undoes
/// such changes before it drops the guard: other green threads run on the OS thread afterwards.
///
/// A guard that is forgotten pins until its green thread ends. A guard that is dropped on another thread
/// (through a thread-local of std) does nothing.
///
/// ```
/// use std::time::Duration;
/// runtime::block_on(|| {
///     let _pinned = runtime::thread::pin();
///     let here = std::thread::current().id();
///     runtime::sleep(Duration::from_millis(1));
///     assert_eq!(std::thread::current().id(), here);
/// });
/// ```
pub fn pin() -> PinGuard {
    PinGuard { pinned: sched::park::pin(), _here: PhantomData }
}

/// The guard of [`pin`]: its green thread stays on its OS thread until the guard is dropped.
///
/// ```
/// let guard = runtime::thread::pin();
/// drop(guard);
/// ```
#[derive(Debug)]
#[must_use = "the green thread is pinned only while the guard lives"]
pub struct PinGuard {
    /// The id of the pinned green thread; 0 on a plain OS thread.
    pinned: u64,
    // A guard belongs to one green thread, so it is neither `Send` nor `Sync`.
    _here: PhantomData<*const ()>,
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        sched::park::unpin(self.pinned);
    }
}
