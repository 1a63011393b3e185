//! `std::thread` with green threads: the same names, signatures and semantics, and [`JoinHandle::cancel`].

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use crate::local::{AccessError, LocalKey};
pub use crate::scope::{Scope, ScopedJoinHandle, scope};
pub use crate::time::{sleep, sleep_until};
pub use crate::yield_now;
pub use sched::Cancelled;
pub use std::thread::{Result, available_parallelism, panicking};

use sched::spawn::{Spec, Where};
use sched::{GHandle, Join};

use crate::entry::Entry;
use crate::{builder, start};

/// Starts a green thread: [`runtime::spawn`](crate::spawn) under std's name.
///
/// # Panics
///
/// As for [`runtime::spawn`](crate::spawn).
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

/// Makes a green thread with a name or a stack of its own.
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
    /// One with the runtime's values: no name, the runtime's stack size.
    ///
    /// ```
    /// runtime::thread::Builder::new().spawn(|| ())?.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new() -> Self {
        Builder::default()
    }

    /// Names it: for [`Thread::name`], for reports of overflows and rescues. As in std, no zero byte may be in it.
    ///
    /// ```
    /// let builder = runtime::thread::Builder::new().name("parser".into());
    /// ```
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// The stack in bytes of address space: from one page to less than 4 GiB. It is taken when the thread is spawned, so that
    /// [`spawn`](Builder::spawn) gives an error if there is no room for it; a future keeps it between polls, too. When the
    /// thread has ended the stack is kept for the next of about that size, until there is no room for one of another size; its
    /// memory goes back to the system. Sizes are rounded up, by a quarter at most.
    ///
    /// ```
    /// let builder = runtime::thread::Builder::new().stack_size(64 << 20);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Spawns it.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: the stack size cannot be (it says what can), or the name has a zero byte.
    /// - `Unsupported`: this is a [forked child](crate#after-fork).
    /// - `OutOfMemory`: the system has no address space for a stack (a limit such as `RLIMIT_AS`, `RLIMIT_DATA` or
    ///   `vm.max_map_count`), or no memory for another green thread. It says what is missing and what to do.
    /// - The default runtime, if this would be its first use, cannot be started: no threads, descriptors or memory.
    /// - The runtime has been shut down.
    ///
    /// What was to be run is dropped. Nobody else is disturbed, and a later call works as soon as another thread has left its stack, which is a moment after
    /// it can be joined, or the system has room again. Stacks leave some megabytes of address space to others, and so do OS
    /// threads: without any, memory allocation would end the process.
    ///
    /// A stack of the runtime's own size is taken when the thread first runs. That there is no more room becomes known when
    /// the last one is taken: from then on it is taken here, and this is an error if there is none. What had been spawned
    /// faster than it began waits until others end (one line on stderr says so, and `metrics().stackless` counts them). A
    /// future needs a stack only while it is polled; it waits for one, too, and is never refused for want of it.
    ///
    /// Address space is what is looked at; what the system promised and cannot keep it takes back its own way (on Linux, by
    /// the out-of-memory killer).
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
        start::spawn(Where::Here(builder::default_sched), spec, task)
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

/// The right to wait for a green thread and take its result; dropping it lets the thread go on by itself.
///
/// Whoever comes last drops a result that nobody takes: this handle if the thread has ended, else the thread.
///
/// It is a future too: awaiting it gives what [`join`](JoinHandle::join) gives. It panics as `join` does; once it has been
/// ready, neither poll nor join it again.
///
/// ```
/// let thread = runtime::spawn(|| 6);
/// let both = runtime::spawn(async { thread.await.unwrap() * 7 });
/// assert_eq!(both.join().unwrap(), 42);
/// ```
pub struct JoinHandle<T>(pub(crate) Join<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread's end and gives its result; `Err` has the payload of its panic, or [`Cancelled`].
    ///
    /// # Errors
    ///
    /// The thread has panicked or was cancelled.
    ///
    /// # Panics
    ///
    /// On the very thread that it waits for; if the handle has given its result already, when it was polled; and in a
    /// [forked child](crate#after-fork), unless the thread has ended.
    ///
    /// # Cancellation
    ///
    /// A cancelled caller unwinds from here; the other thread goes on by itself.
    ///
    /// ```
    /// let thread = runtime::spawn(|| { if true { panic!("oh") } });
    /// assert_eq!(*thread.join().unwrap_err().downcast::<&str>().unwrap(), "oh");
    /// ```
    #[inline(always)]
    pub fn join(self) -> Result<T> {
        self.0.join()
    }

    /// Whether the thread has ended (its stack may still be in use for a moment).
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// assert!(!thread.is_finished());
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// The thread.
    ///
    /// ```
    /// let thread = runtime::spawn(|| runtime::thread::current().id());
    /// let id = thread.thread().id();
    /// assert_eq!(thread.join().unwrap(), id);
    /// ```
    pub fn thread(&self) -> &Thread {
        Thread::from_handle(self.0.thread())
    }

    /// Makes the thread's current parking call, or its next one, unwind with [`Cancelled`] (no message is printed,
    /// destructors run), and every later one too, until it ends. One that has not begun never will. Code that does
    /// not park is not interrupted. Harmless when the thread has ended or was cancelled before.
    ///
    /// Which calls unwind a cancelled caller, and likewise one whose [`timeout`](crate::time::timeout) has run out:
    ///
    /// - those that wait by their nature, always, even if they would not have to wait this time: [`sleep`], [`sleep_until`],
    ///   [`park`], [`park_timeout`], [`join`](JoinHandle::join), the end of a [`scope`];
    /// - those that may be done at once, when they must wait: reading, writing and accepting on sockets, connecting, and
    ///   [`block_on`](crate::block_on) of a future on a green thread. What they do at once is done and not lost;
    /// - the others never: `spawn`, `yield_now`, `blocking`, `block_on` of another runtime, locks of std. A loop that calls
    ///   nothing else asks [`cancelled`].
    ///
    /// In destructors none does: see [where calls may be made](crate#where-calls-may-be-made).
    ///
    /// ```
    /// use std::time::Duration;
    /// let thread = runtime::spawn(|| runtime::sleep(Duration::from_secs(3600)));
    /// thread.cancel();
    /// assert!(thread.join().unwrap_err().is::<runtime::thread::Cancelled>());
    /// ```
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

// As std's: a panic leaves nothing half done that one could see through it.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

/// A thread, green or not: who it is, and waking it. Harmless when it has ended.
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
        // SAFETY: `Thread` is a transparent wrapper of exactly this type.
        unsafe { &*std::ptr::from_ref(handle).cast::<Thread>() }
    }

    /// Unique for ever among all threads, green or not.
    ///
    /// ```
    /// let (a, b) = (runtime::spawn(|| ()), runtime::spawn(|| ()));
    /// assert_ne!(a.thread().id(), b.thread().id());
    /// ```
    pub fn id(&self) -> ThreadId {
        ThreadId(NonZeroU64::new(self.0.id()).expect("ids begin at 1"))
    }

    /// Its name, if it was given one. A plain OS thread has that of `std`.
    ///
    /// ```
    /// assert_eq!(runtime::spawn(|| ()).thread().name(), None);
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Lets its current [`park`] return, or its next one. *Works from anywhere, at any time*; it does nothing when the thread
    /// has ended.
    ///
    /// ```
    /// let thread = runtime::spawn(runtime::thread::park);
    /// thread.thread().unpark();
    /// thread.join().unwrap();
    /// ```
    pub fn unpark(&self) {
        self.0.unpark();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Tells threads apart, green or not, for as long as the process lives.
///
/// ```
/// let id = runtime::thread::current().id();
/// assert_eq!(id, runtime::thread::current().id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(NonZeroU64);

/// The calling thread: the green one on a green thread, else the OS thread.
///
/// ```
/// let me = runtime::thread::current();
/// let other = runtime::block_on(|| runtime::thread::current().id());
/// assert_ne!(me.id(), other);
/// ```
pub fn current() -> Thread {
    Thread(GHandle::current())
}

/// Waits until somebody calls [`Thread::unpark`] on the calling thread, or has since its last `park`. As in std it
/// may return for no reason, so call it in a loop around what is waited for.
///
/// # Panics
///
/// In a [forked child](crate#after-fork), unless it may return at once.
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

/// [`park`], for `time` at most; a time beyond the clock's range means for ever.
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

/// Whether the calling green thread has been cancelled: for long computations that want to end early.
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

/// Keeps the calling green thread on its OS thread while the guard lives (Go's `LockOSThread`): for libraries that bind
/// something to the thread, such as a graphics context, or for code with thread-locals. Guards nest.
///
/// A pinned thread that parks blocks its OS thread, so no other green thread runs there meanwhile. The P goes to others.
/// Pinning many costs as many OS threads. On a plain OS thread the guard does nothing, and so it does with
/// [`Migration::BeforeStart`](crate::Migration::BeforeStart).
///
/// Inside a future's poll, which stays on its OS thread anyway, the guard keeps other green threads off that OS thread: for
/// code that parks within a scoped context of the thread, such as a tracing span or tokio's `EnterGuard`.
///
/// A future that has parked inside its poll on the same OS thread waits until the pinned thread parks no more. So a pinned
/// thread must not wait for such a future: let that future await instead.
///
/// Guards may be dropped in any order. One that is forgotten pins until its thread ends; one that ends up with another
/// thread, by way of a thread-local of std's, does nothing when it is dropped there.
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

/// Keeps a green thread on its OS thread; see [`pin`].
///
/// ```
/// let guard = runtime::thread::pin();
/// drop(guard);
/// ```
#[derive(Debug)]
#[must_use = "the green thread is pinned only while the guard lives"]
pub struct PinGuard {
    /// The id of the green thread; 0 on a plain one.
    pinned: u64,
    // Of its green thread alone.
    _here: PhantomData<*const ()>,
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        sched::park::unpin(self.pinned);
    }
}
