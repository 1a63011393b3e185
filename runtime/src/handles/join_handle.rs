//! `JoinHandle`: the right to wait for a green thread.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::Result;

use sched::Join;

use super::abort_handle::AbortHandle;
use super::thread::Thread;

/// The right to wait for a green thread and to take its result. Dropping the handle lets the green thread go
/// on.
///
/// A result that is not taken is dropped by the handle if the green thread has ended, else by the green
/// thread at its end. If its destructor panics, the panic hook reports that, and the panic goes no further.
///
/// The handle is also a future. Its output is what [`join`](JoinHandle::join) returns. Polling panics where
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
    /// Returns the payload of the panic if the green thread has panicked, and
    /// [`Cancelled`](crate::thread::Cancelled) if it was cancelled. [`JoinError`](crate::thread::JoinError)
    /// separates the two: `thread.join().map_err(JoinError::from)`.
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

    /// Cancels the green thread: its current wait, or its next one, unwinds with
    /// [`Cancelled`](crate::thread::Cancelled), and so does every later wait.
    ///
    /// Destructors run, and no message is printed. A green thread that has not begun never begins. Code that
    /// does not park is not interrupted. A call for a green thread that has ended, or was cancelled before,
    /// does nothing. It returns at once and may be called on any thread.
    ///
    /// The page on [cancellation](crate::docs::cancellation#which-calls-it-ends) lists which calls unwind. A
    /// loop that calls none of these asks [`cancelled`](crate::thread::cancelled).
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

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}
