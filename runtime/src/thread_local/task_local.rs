//! `task_local!` and `TaskLocal`: variables that have a value in a scope, which is a future or a closure.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::LocalKey;

/// Declares variables that have a value in a scope alone.
///
/// A scope is a future that [`TaskLocal::scope`] wraps, or a closure that [`TaskLocal::sync_scope`] calls.
/// The syntax and the semantics are those of tokio's macro.
///
/// The value of a future goes with it: from poll to poll, on whatever thread polls it. The closure of
/// `sync_scope` may park. Threads that are spawned in a scope begin without a value.
///
/// ```
/// runtime::task_local! {
///     static REQUEST: u32;
///     static USER: String;
/// }
///
/// fn log() -> String {
///     format!("request {}", REQUEST.get())
/// }
///
/// let future = runtime::spawn(REQUEST.scope(1, async { log() }));
/// let closure = runtime::spawn(|| REQUEST.sync_scope(2, log));
/// assert_eq!((future.join().unwrap(), closure.join().unwrap()), ("request 1".into(), "request 2".into()));
/// assert!(USER.try_with(|_| {}).is_err(), "it is in no scope");
/// ```
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty $(; $($rest:tt)*)?) => {
        $(#[$attr])* $vis static $name: $crate::thread::TaskLocal<$t> = $crate::thread::TaskLocal::new();
        $crate::task_local!($($($rest)*)?);
    };
}

/// The key of a variable that [`task_local!`](macro@crate::task_local) declares.
///
/// ```
/// runtime::task_local!(static DEPTH: u32);
/// let depths = DEPTH.sync_scope(1, || (DEPTH.get(), DEPTH.sync_scope(2, || DEPTH.get()), DEPTH.get()));
/// assert_eq!(depths, (1, 2, 1));
/// ```
pub struct TaskLocal<T: 'static> {
    /// The value of the innermost scope in which the calling thread is.
    value: LocalKey<RefCell<Option<T>>>,
}

/// Why the value of a key cannot be changed.
enum Refused {
    /// A caller of `with` uses it.
    Borrowed,
    /// The calling thread is ending.
    Destroyed,
}

impl Refused {
    #[track_caller]
    fn panic(&self) -> ! {
        match self {
            Refused::Borrowed => panic!("cannot enter a scope of a task-local variable while it is used"),
            Refused::Destroyed => {
                panic!("cannot enter a scope of a task-local variable in a thread that ends")
            }
        }
    }
}

impl<T: 'static> TaskLocal<T> {
    /// For the macro only.
    #[doc(hidden)]
    #[allow(clippy::new_without_default, reason = "a key is a static")]
    pub const fn new() -> Self {
        TaskLocal { value: LocalKey::new(|| RefCell::new(None)) }
    }

    /// Returns a future that polls `future` with `value` as the value of this variable, and drops it so, too.
    /// The value is dropped with the returned future.
    ///
    /// # Panics
    ///
    /// A poll panics inside of [`with`](Self::with) of the same key.
    ///
    /// ```
    /// runtime::task_local!(static NAME: &'static str);
    /// let greeting = NAME.scope("you", async { NAME.with(|name| format!("hello {name}")) });
    /// assert_eq!(runtime::block_on(greeting), "hello you");
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture { key: self, value: Some(value), future: Some(future) }
    }

    /// Calls `f` with `value` as the value of this variable, and returns what `f` returns. `f` may park.
    ///
    /// # Panics
    ///
    /// Panics inside of [`with`](Self::with) of the same key.
    ///
    /// ```
    /// runtime::task_local!(static NAME: &'static str);
    /// let length = NAME.sync_scope("you", || {
    ///     runtime::yield_now();
    ///     NAME.with(|name| name.len())
    /// });
    /// assert_eq!(length, 3);
    /// ```
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        match self.enter(&mut Some(value), f) {
            Ok(result) => result,
            Err(refused) => refused.panic(),
        }
    }

    /// Calls `f` with the value and returns what `f` returns.
    ///
    /// # Panics
    ///
    /// Panics outside of a scope.
    ///
    /// ```
    /// runtime::task_local!(static WORDS: Vec<&'static str>);
    /// assert_eq!(WORDS.sync_scope(vec!["a"], || WORDS.with(|words| words.len())), 1);
    /// ```
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("cannot access a task-local variable: {error}"),
        }
    }

    /// Calls `f` with the value and returns what `f` returns.
    ///
    /// # Errors
    ///
    /// Returns an error outside of a scope, or if the calling thread is ending.
    ///
    /// ```
    /// runtime::task_local!(static ID: u32);
    /// assert!(ID.try_with(|id| *id).is_err());
    /// assert_eq!(ID.sync_scope(7, || ID.try_with(|id| *id)), Ok(7));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, TaskLocalError> {
        let used = self.value.try_with(|value| value.borrow().as_ref().map(f));
        used.ok().flatten().ok_or(TaskLocalError(()))
    }

    /// Returns a clone of the value.
    ///
    /// # Panics
    ///
    /// Panics outside of a scope.
    ///
    /// ```
    /// runtime::task_local!(static ID: u32);
    /// assert_eq!(ID.sync_scope(7, || ID.get()), 7);
    /// ```
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Returns a clone of the value.
    ///
    /// # Errors
    ///
    /// Returns an error outside of a scope, or if the calling thread is ending.
    ///
    /// ```
    /// runtime::task_local!(static ID: u32);
    /// assert!(ID.try_get().is_err());
    /// ```
    pub fn try_get(&'static self) -> Result<T, TaskLocalError>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }

    /// Calls `f` with `value` as the value of this variable, or as it is if the value cannot be changed. The
    /// calling thread is ending then.
    pub(crate) fn enter_if_possible<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut f = Some(f);
        let mut call = || f.take().expect("it is called once")();
        match self.enter(&mut Some(value), &mut call) {
            Ok(result) => result,
            Err(_) => call(),
        }
    }

    /// Gives the variable the value `value`, or none. Returns the value before.
    ///
    /// # Panics
    ///
    /// Panics inside of [`with`](Self::with) of the same key, and in a thread that ends.
    #[track_caller]
    pub(crate) fn replace(&'static self, mut value: Option<T>) -> Option<T> {
        if let Err(refused) = self.swap(&mut value) {
            refused.panic();
        }
        value
    }

    /// Does what `replace` does, or nothing where `replace` panics.
    pub(crate) fn replace_if_possible(&'static self, mut value: Option<T>) {
        let _ = self.swap(&mut value);
    }

    /// Calls `f` while the key has the value of `inner`. Then, also if `f` unwinds, the key has the value of
    /// before, and `inner` has its own again.
    fn enter<R>(&'static self, inner: &mut Option<T>, f: impl FnOnce() -> R) -> Result<R, Refused> {
        struct Leave<'a, T: 'static>(&'static TaskLocal<T>, &'a mut Option<T>);
        impl<T: 'static> Drop for Leave<'_, T> {
            fn drop(&mut self) {
                // The key had a value when the scope began, and no borrow of it outlives `with`.
                let _ = self.0.swap(self.1);
            }
        }
        self.swap(inner)?;
        let _leave = Leave(self, inner);
        Ok(f())
    }

    fn swap(&'static self, other: &mut Option<T>) -> Result<(), Refused> {
        let swapped = self.value.try_with(|value| match value.try_borrow_mut() {
            Ok(mut value) => {
                mem::swap(&mut *value, other);
                Ok(())
            }
            Err(_) => Err(Refused::Borrowed),
        });
        swapped.unwrap_or(Err(Refused::Destroyed))
    }
}

impl<T: 'static> fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocal").finish_non_exhaustive()
    }
}

/// The future that [`TaskLocal::scope`] returns.
///
/// ```
/// use runtime::thread::TaskLocalFuture;
///
/// runtime::task_local!(static ID: u32);
/// let future: TaskLocalFuture<u32, _> = ID.scope(7, async { ID.get() + 1 });
/// assert_eq!(runtime::block_on(future), 8);
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct TaskLocalFuture<T: 'static, F> {
    key: &'static TaskLocal<T>,
    /// The value, but during a poll.
    value: Option<T>,
    /// Pinned with this future. `None` once it has ended.
    future: Option<F>,
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out of the future. Returns `None` if it was taken before. The future then goes on
    /// without a value.
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// runtime::task_local!(static ID: u32);
    /// let mut future = pin!(ID.scope(7, async { ID.try_get().is_ok() }));
    /// assert_eq!(future.as_mut().take_value(), Some(7));
    /// assert!(!runtime::block_on(future));
    /// ```
    #[must_use = "the value may be left to the future"]
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        // SAFETY: `future`, which alone is pinned, is not touched.
        unsafe { self.get_unchecked_mut() }.value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned because this future is. It is polled and dropped in its place.
        let TaskLocalFuture { key, value, future } = unsafe { self.get_unchecked_mut() };
        let polled = key.enter(value, || {
            let running = future.as_mut().expect("a future that has ended is not polled");
            // SAFETY: as above.
            let polled = unsafe { Pin::new_unchecked(running) }.poll(cx);
            if polled.is_ready() {
                // Its destructor sees the value.
                *future = None;
            }
            polled
        });
        match polled {
            Ok(polled) => polled,
            Err(refused) => refused.panic(),
        }
    }
}

impl<T: 'static, F> Drop for TaskLocalFuture<T, F> {
    fn drop(&mut self) {
        if self.future.is_some() {
            let TaskLocalFuture { key, value, future } = self;
            // The future is dropped in its place. If the scope is refused, it is dropped without a value.
            let _ = key.enter(value, || *future = None);
        }
    }
}

impl<T: 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").finish_non_exhaustive()
    }
}

/// The error of [`TaskLocal::try_with`]: the caller is in no scope of the key, or its thread is ending.
///
/// ```
/// runtime::task_local!(static ID: u32);
/// let answer: Result<u32, runtime::thread::TaskLocalError> = ID.try_get();
/// assert_eq!(answer.unwrap_err().to_string(), "the task-local variable has no value here");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLocalError(());

impl fmt::Display for TaskLocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task-local variable has no value here")
    }
}

impl std::error::Error for TaskLocalError {}
