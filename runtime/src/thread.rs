//! Green threads with the API of `std::thread`, and their cancellation.
//!
//! Names, signatures and semantics are those of `std::thread`. [`JoinHandle::cancel`], [`cancelled`],
//! [`uncancellable`] and [`pin`] are additions. [`JoinSet`], [`AbortHandle`] and [`JoinError`] are those of
//! tokio.

#![allow(unsafe_code)]

mod abort_handle;
mod join_error;
mod join_set;
mod name_panics;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use crate::scope::{Scope, ScopedJoinHandle, TryJoinHandle, TryScope, scope, try_scope};
pub use crate::thread_local::{AccessError, LocalKey};
pub use crate::time::{sleep, sleep_until};
pub use crate::yield_now;
pub use abort_handle::AbortHandle;
pub use join_error::JoinError;
pub use join_set::{JoinSet, TrySpawnError};
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

use sched::spawn::{Spec, Where};
use sched::{GHandle, Join};

use crate::default;
use crate::runtime::Handle;
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
    /// After `OutOfMemory` a later call succeeds when another green thread has left its stack, a moment after
    /// it can be joined, or when the system has room again. See [stacks](crate::docs::stacks#no-more-room).
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

/// The right to wait for a green thread and to take its result. Dropping the handle lets the green thread go
/// on.
///
/// A result that is not taken is dropped by the handle if the green thread has ended, else by the green
/// thread at its end. If its destructor panics, the panic hook reports that, and the panic goes no further.
///
/// The handle is also a future, whose output is what [`join`](JoinHandle::join) returns. Polling panics where
/// `join` does. After it was ready, it must be neither polled nor joined.
///
/// ```
/// let thread = runtime::spawn(|| 6);
/// let both = runtime::spawn(async { thread.await.unwrap() * 7 });
/// assert_eq!(both.join().unwrap(), 42);
/// ```
pub struct JoinHandle<T>(pub(crate) Join<T>);

impl<T> JoinHandle<T> {
    /// Waits for the green thread's end and returns its result.
    ///
    /// # Errors
    ///
    /// Returns the payload of the panic if the green thread has panicked, and [`Cancelled`] if it was
    /// cancelled. [`JoinError`] tells them apart: `thread.join().map_err(JoinError::from)`.
    ///
    /// # Panics
    ///
    /// - If the caller is the green thread that it would wait for.
    /// - If the handle was polled and has returned the result already.
    /// - In a [forked child](crate::docs::fork), unless the green thread has ended.
    ///
    /// # Cancellation
    ///
    /// A cancelled caller unwinds from here. The green thread that it waited for goes on.
    ///
    /// ```
    /// let thread = runtime::spawn(|| { if true { panic!("oh") } });
    /// assert_eq!(*thread.join().unwrap_err().downcast::<&str>().unwrap(), "oh");
    /// ```
    #[inline(always)]
    pub fn join(self) -> Result<T> {
        self.0.join()
    }

    /// Returns `true` if the green thread has ended. Its stack may still be in use for a moment.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// assert!(!thread.is_finished());
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    pub fn is_finished(&self) -> bool {
        crate::point();
        self.0.is_finished()
    }

    /// Returns the [`Thread`] of this handle, for its id, its name and `unpark`.
    ///
    /// ```
    /// let thread = runtime::spawn(|| runtime::thread::current().id());
    /// let id = thread.thread().id();
    /// assert_eq!(thread.join().unwrap(), id);
    /// ```
    pub fn thread(&self) -> &Thread {
        Thread::from_handle(self.0.thread())
    }

    /// Cancels the green thread: its current wait, or its next one, unwinds with [`Cancelled`], and so does
    /// every later wait.
    ///
    /// Destructors run, and no message is printed. A green thread that has not begun never begins. Code that
    /// does not park is not interrupted. A call for a green thread that has ended, or was cancelled before,
    /// does nothing. It returns at once and may be called on any thread.
    ///
    /// The page on [cancellation](crate::docs::cancellation#which-calls-it-ends) lists which calls unwind. A
    /// loop that calls none of these asks [`cancelled`].
    ///
    /// ```
    /// use std::time::Duration;
    /// let thread = runtime::spawn(|| runtime::sleep(Duration::from_secs(3600)));
    /// thread.cancel();
    /// assert!(thread.join().unwrap_err().is::<runtime::thread::Cancelled>());
    /// ```
    pub fn cancel(&self) {
        crate::point_in_drop();
        self.0.cancel();
    }

    /// Returns a handle that cancels the green thread. It can be cloned, and is usable after this handle was
    /// joined.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// let handle = thread.abort_handle();
    /// runtime::spawn(move || handle.cancel());
    /// assert!(thread.join().is_err());
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.0.thread())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

// As for std's handle: a panic of another thread leaves nothing half done that a caller could see through the
// handle.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

/// A reference to a thread, green or not: its id, its name, and waking it. It may be kept after the thread's
/// end.
///
/// ```
/// let main = runtime::thread::current();
/// runtime::spawn(move || main.unpark());
/// runtime::thread::park();
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Thread(GHandle);

impl Thread {
    pub(crate) fn from_handle(handle: &GHandle) -> &Thread {
        // SAFETY: `Thread` is `repr(transparent)` over `GHandle`, so both references have the same layout and
        // lifetime.
        unsafe { &*std::ptr::from_ref(handle).cast::<Thread>() }
    }

    /// Returns the thread's id, which no other thread of this process ever has, green or not.
    ///
    /// ```
    /// let (a, b) = (runtime::spawn(|| ()), runtime::spawn(|| ()));
    /// assert_ne!(a.thread().id(), b.thread().id());
    /// ```
    pub fn id(&self) -> ThreadId {
        ThreadId(NonZeroU64::new(id_of(&self.0)).expect("ids begin at 1"))
    }

    /// Returns the thread's name, or `None` if it has none. The name of a plain OS thread is that of `std`.
    ///
    /// ```
    /// assert_eq!(runtime::spawn(|| ()).thread().name(), None);
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Makes the thread's current [`park`] return, or its next one. Does nothing if the thread has ended.
    ///
    /// It may be called anywhere and at any time. It never waits.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    pub fn unpark(&self) {
        crate::point_in_drop();
        self.0.unpark();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Formats the thread for lines of a log, as dumps do: `'parser'` if it has a name, else its id, such as
/// `green thread 7`. A plain OS thread without a name is `thread 7`.
///
/// ```
/// use runtime::thread::{Builder, current};
/// let parser = Builder::new().name("parser".into()).spawn(|| current().to_string())?;
/// assert_eq!(parser.join().unwrap(), "'parser'");
/// assert!(runtime::block_on(|| current().to_string()).starts_with("green thread "));
/// # std::io::Result::Ok(())
/// ```
impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "'{}'", name.escape_debug()),
            None => write!(f, "{}thread {}", if self.0.is_green() { "green " } else { "" }, id_of(&self.0)),
        }
    }
}

/// Returns the id of a thread as users see it: that of a green thread of a simulation is its number there.
pub(crate) fn id_of(thread: &GHandle) -> u64 {
    #[cfg(feature = "sim")]
    return sched::simulation::shown(thread.id());
    #[cfg(not(feature = "sim"))]
    thread.id()
}

/// The id of a thread, green or not. Ids are never used again while the process lives, but each
/// simulation (feature `sim`) numbers its green threads from 1 on.
///
/// ```
/// let id = runtime::thread::current().id();
/// assert_eq!(id, runtime::thread::current().id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(NonZeroU64);

impl ThreadId {
    /// Returns the id as a number, as [dumps](mod@crate::dump) show it.
    ///
    /// ```
    /// let one = runtime::thread::current().id();
    /// let other = runtime::block_on(|| runtime::thread::current().id());
    /// assert_ne!(one.as_u64(), other.as_u64());
    /// ```
    pub fn as_u64(self) -> NonZeroU64 {
        self.0
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
/// A cancellation of the green thread, the end of its runtime, and a [`timeout`](crate::time::timeout) or a
/// [`Context::run`](crate::context::Context::run) around this call do not end waits in `f`. They take effect
/// at the next wait after this call. This call itself does not look, so a value that `f` returns is not lost.
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
/// - [`cancelled`] still tells of a cancellation.
/// - Its canceller may wait longer: a [`join`](JoinHandle::join), the drop of a [`JoinSet`] or of a
///   [`Runtime`](crate::Runtime) waits for the end of `f`.
///   [`shutdown_timeout`](crate::Runtime::shutdown_timeout) bounds that.
/// - In a future, it holds for code that parks inside of the poll, such as [`block_on`](crate::block_on). A
///   future that is dropped between two polls is not told; spawn what must go on.
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
/// A pinned green thread that parks blocks its OS thread: no other green thread runs there meanwhile. Its P
/// goes to another OS thread. So each pinned green thread takes one OS thread. On a plain OS thread, and with
/// [`Migration::BeforeStart`](crate::Migration::BeforeStart), the guard does nothing.
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
