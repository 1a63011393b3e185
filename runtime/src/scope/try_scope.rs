//! `try_scope`: a scope of green threads that may fail, as Go's `errgroup`. The first error cancels the
//! others.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sched::drop_contained;
use sched::park::{is_interrupted, unwind_if_cancelled};
use sched::spawn::Spec;
use sched::sync::Mutex;

use super::{Family, Scope, ScopedJoinHandle};
use crate::spawn::Entry;
use crate::spawn::start::or_panic;
use crate::thread::{AbortHandle, Builder, Cancelled, Result, Thread};

/// A scope in which green threads are spawned that return a `Result`. [`try_scope`] makes it.
pub struct TryScope<'scope, 'env: 'scope, E> {
    scope: Scope<'scope, 'env>,
    /// The first error.
    error: Mutex<Option<E>>,
}

/// Runs `f`, which may spawn green threads that borrow from the caller and return a `Result`, and waits until
/// all of them have ended. Returns the value of `f`, or the first error of a green thread or of `f`.
///
/// The first error cancels all other green threads of the scope, as a `context` of Go's `errgroup` does. So
/// does a panic. Later members of the scope are then cancelled at once; one may begin before that. `f` itself
/// is not cancelled: it ends early when it [joins](TryJoinHandle::join) a green thread that has no value.
///
/// On a plain OS thread the green threads run in the default runtime.
///
/// # Errors
///
/// Returns the first error. Later errors, and values of `f`, are dropped.
///
/// # Panics
///
/// - If `f` panics, with that panic, after all green threads have been cancelled and have ended.
/// - If a green thread panicked that was not joined.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits here cancels the scope's green threads, waits for their
/// end, and unwinds. In a destructor that runs while it unwinds, it only waits for them.
///
/// ```
/// use std::num::ParseIntError;
///
/// fn sum(words: &[&str]) -> Result<i32, ParseIntError> {
///     runtime::try_scope(|s| {
///         let numbers: Vec<_> = words.iter().map(|word| s.spawn(|| word.parse::<i32>())).collect();
///         Ok(numbers.into_iter().map(|number| number.join()).sum())
///     })
/// }
/// assert_eq!(sum(&["1", "20", "300"]), Ok(321));
/// assert!(sum(&["1", "twenty", "300"]).is_err());
/// ```
pub fn try_scope<'env, F, T, E>(f: F) -> std::result::Result<T, E>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> std::result::Result<T, E>,
{
    let family = Arc::new(Family { ends_by_panic: true, ..Family::default() });
    let scope = Scope { family: Arc::clone(&family), scope: PhantomData, env: PhantomData };
    let scope = TryScope { scope, error: Mutex::new(None) };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope).map_err(|error| scope.fail(error))));
    if result.is_err() {
        family.cancel();
    }
    family.wait();
    let panicked = family.state.lock().panicked != 0;
    let error = scope.error.lock().take();
    match result {
        // A join has ended `f`, because a green thread has failed. Another payload is a panic or an end of
        // `f` itself.
        Err(payload) if !payload.is::<Cancelled>() || is_interrupted() || (error.is_none() && !panicked) => {
            drop_contained(error);
            resume_unwind(payload)
        }
        result if panicked => {
            drop_contained(result);
            drop_contained(error);
            panic!("a scoped thread panicked");
        }
        result => {
            unwind_if_cancelled();
            match (error, result) {
                (None, Ok(Ok(value))) => Ok(value),
                (Some(error), result) => {
                    drop_contained(result);
                    Err(error)
                }
                (None, _) => unreachable!("`f` has returned a value, or an error is kept"),
            }
        }
    }
}

impl<'scope, E> TryScope<'scope, '_, E> {
    /// Keeps the first error, and cancels all green threads of the scope.
    fn fail(&self, error: E) {
        let later = {
            let mut first = self.error.lock();
            if first.is_none() { first.replace(error) } else { Some(error) }
        };
        self.scope.family.cancel();
        // Its destructor is user code, so the lock is released before.
        drop_contained(later);
    }

    /// Sets how many green threads of this scope run at once, at most. It is Go's `SetLimit` of an
    /// `errgroup`. Without it there is no limit.
    ///
    /// Each spawn in this scope waits while as many run. A green thread of the scope that spawns in it counts
    /// itself, so with a limit of 1 it would wait for its own end.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0, if a green thread of the scope runs, or if the limit was set before.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that waits for the limit in a spawn unwinds from there. The task is dropped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// let running = AtomicUsize::new(0);
    /// let read = runtime::try_scope(|s| {
    ///     s.set_limit(3);
    ///     for _ in 0..10 {
    ///         s.spawn(|| {
    ///             assert!(running.fetch_add(1, SeqCst) < 3);
    ///             let text = runtime::fs::read_to_string("Cargo.toml");
    ///             running.fetch_sub(1, SeqCst);
    ///             text
    ///         });
    ///     }
    ///     Ok(())
    /// });
    /// assert!(read.is_ok());
    /// ```
    #[track_caller]
    pub fn set_limit(&self, limit: usize) {
        self.scope.family.set_limit(limit);
    }

    /// Starts a green thread of this scope that runs a closure or a future, and returns its handle. If it
    /// returns an error, the scope is cancelled.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
    ///
    /// ```
    /// use runtime::sleep;
    /// use std::time::Duration;
    /// let result = runtime::try_scope(|s| {
    ///     s.spawn(|| Ok(sleep(Duration::from_secs(3600))));
    ///     s.spawn(async { Err::<(), _>("no route") });
    ///     Ok(())
    /// });
    /// assert_eq!(result, Err("no route"));
    /// ```
    #[track_caller]
    pub fn spawn<M, W, R>(&'scope self, task: W) -> TryJoinHandle<'scope, R>
    where
        W: Entry<M, Output = std::result::Result<R, E>> + Send + 'scope,
        R: Send + 'scope,
        E: Send + 'scope,
    {
        or_panic(self.start(Spec::at(Location::caller()), task))
    }

    fn start<M, W, R>(&'scope self, spec: Spec, task: W) -> io::Result<TryJoinHandle<'scope, R>>
    where
        W: Entry<M, Output = std::result::Result<R, E>> + Send + 'scope,
        R: Send + 'scope,
        E: Send + 'scope,
    {
        let value = move |result: W::Output| result.map_err(|error| self.fail(error)).ok();
        self.scope.start_mapped(spec, task, value).map(TryJoinHandle)
    }
}

impl Builder {
    /// Starts a green thread of `scope` with these settings, and returns its handle.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::spawn`]. They do not cancel the scope.
    ///
    /// ```
    /// let length = runtime::try_scope(|s| {
    ///     let builder = runtime::thread::Builder::new().name("reader".into());
    ///     let thread = builder.try_spawn_scoped(s, || std::fs::read("Cargo.toml"))?;
    ///     Ok::<_, std::io::Error>(thread.join().len())
    /// })?;
    /// assert!(length > 0);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn try_spawn_scoped<'scope, 'env, M, W, R, E>(
        self,
        scope: &'scope TryScope<'scope, 'env, E>,
        task: W,
    ) -> io::Result<TryJoinHandle<'scope, R>>
    where
        W: Entry<M, Output = std::result::Result<R, E>> + Send + 'scope,
        R: Send + 'scope,
        E: Send + 'scope,
    {
        scope.start(self.into_spec(Location::caller())?, task)
    }
}

/// The right to wait for a green thread of a [`TryScope`] and to take its value. It is also a future with the
/// same output.
///
/// ```
/// let sum = runtime::try_scope(|s| Ok::<_, ()>(s.spawn(|| Ok(20)).join() + 22));
/// assert_eq!(sum, Ok(42));
/// ```
pub struct TryJoinHandle<'scope, R>(ScopedJoinHandle<'scope, Option<R>>);

impl<R> TryJoinHandle<'_, R> {
    /// Waits for the green thread's end and returns its value. If it has no value, the caller ends, too: it
    /// unwinds to its [`try_scope`], which returns the first error.
    ///
    /// A green thread has no value if it has returned an error or was cancelled. A green thread that was
    /// cancelled by its [`AbortHandle`] in a scope without an error unwinds the caller of `try_scope`, too,
    /// with [`Cancelled`].
    ///
    /// # Panics
    ///
    /// - If the green thread has panicked, with that panic.
    /// - If the caller is the green thread that it would wait for.
    /// - If the handle was polled and has returned the value already.
    ///
    /// # Cancellation
    ///
    /// A cancelled caller unwinds from here.
    ///
    /// ```
    /// let result = runtime::try_scope(|s| {
    ///     let number = s.spawn(|| "seven".parse::<i32>());
    ///     println!("the number is {}", number.join());
    ///     Ok(())
    /// });
    /// assert!(result.is_err());
    /// ```
    pub fn join(self) -> R {
        value_or_unwind(self.0.join())
    }

    /// Returns `true` if the green thread has ended. Its stack may still be in use for a moment.
    ///
    /// ```
    /// let scope = runtime::try_scope(|s| {
    ///     let thread = s.spawn(|| Ok::<_, ()>(7));
    ///     while !thread.is_finished() {
    ///         runtime::yield_now();
    ///     }
    ///     Ok(thread.join())
    /// });
    /// assert_eq!(scope, Ok(7));
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Returns the [`Thread`] of this handle, for its id, its name and `unpark`.
    ///
    /// ```
    /// let result = runtime::try_scope(|s| {
    ///     let thread = s.spawn(|| Ok::<_, ()>(runtime::thread::park()));
    ///     thread.thread().unpark();
    ///     Ok(thread.join())
    /// });
    /// assert_eq!(result, Ok(()));
    /// ```
    pub fn thread(&self) -> &Thread {
        self.0.thread()
    }

    /// Returns a handle that cancels this green thread alone.
    ///
    /// ```
    /// let result = runtime::try_scope(|s| {
    ///     s.spawn(|| Ok::<_, ()>(runtime::thread::park())).abort_handle().cancel();
    ///     Ok(7)
    /// });
    /// assert_eq!(result, Ok(7));
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        self.0.abort_handle()
    }
}

/// Returns the value of a green thread. Without one it unwinds: with the panic, or as cancelled.
fn value_or_unwind<R>(result: Result<Option<R>>) -> R {
    match result {
        Ok(Some(value)) => value,
        Ok(None) => resume_unwind(Box::new(Cancelled)),
        Err(payload) => resume_unwind(payload),
    }
}

impl<R> Future for TryJoinHandle<'_, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        Pin::new(&mut self.0).poll(cx).map(value_or_unwind)
    }
}

impl<E> fmt::Debug for TryScope<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryScope").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for TryJoinHandle<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryJoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

impl<E> std::panic::RefUnwindSafe for TryScope<'_, '_, E> {}
