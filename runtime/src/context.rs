//! Contexts as in Go: cancellation, deadlines and values for all functions that work on one task.
//!
//! A [`Context`] is passed down as an argument. It says whether the task is cancelled or its time is up, and
//! may carry values. Contexts form a tree: a context that is made from another one is cancelled with it.
//!
//! ```
//! use runtime::context::{Context, ContextError};
//! use runtime::select;
//! use std::time::Duration;
//!
//! fn fetch(context: &Context) -> Result<u32, ContextError> {
//!     select! {
//!         recv(context.done()) -> _ => Err(context.err().unwrap()),
//!         recv(runtime::time::after(Duration::from_secs(3600))) -> _ => Ok(42),
//!     }
//! }
//!
//! let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(5));
//! assert_eq!(fetch(&context), Err(ContextError::DeadlineExceeded));
//! ```
//!
//! A function checks a context ([`err`](Context::err)), or waits for [`done`](Context::done) beside what it
//! waits for. Or the function runs in [`Context::run`], which ends every wait when the context is over.
//!
//! | here | Go |
//! | --- | --- |
//! | [`with_cancel`](Context::with_cancel), [`with_deadline`](Context::with_deadline), [`with_timeout`](Context::with_timeout), [`with_value`](Context::with_value) | the same names |
//! | [`with_cancel_cause`](Context::with_cancel_cause), [`with_deadline_cause`](Context::with_deadline_cause), [`with_timeout_cause`](Context::with_timeout_cause), [`cause`](Context::cause) | the same names |
//! | [`after_func`](Context::after_func), [`without_cancel`](Context::without_cancel) | the same names |
//! | [`run`](Context::run), [`run_async`](Context::run_async) | |

mod after_func;
mod node;
mod run;

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{Receiver, never};
use node::{Cause, End, Node};

pub use after_func::AfterFunc;
pub use run::Ended;

/// A task's cancellation, deadline and values: see the [module](self). A clone refers to the same context.
///
/// ```
/// use runtime::context::Context;
/// let (context, cancel) = Context::background().with_cancel();
/// let worker = runtime::spawn(move || context.done().recv().is_err());
/// cancel.cancel();
/// assert!(worker.join().unwrap());
/// ```
#[derive(Clone)]
#[must_use]
pub struct Context(Option<Arc<Inner>>);

struct Inner {
    parent: Context,
    /// The node that cancels this context: its own, or that of the nearest ancestor with one.
    node: Option<Arc<Node>>,
    deadline: Option<Instant>,
    value: Option<Box<dyn Any + Send + Sync>>,
}

/// The reason why a context is over.
///
/// ```
/// use runtime::context::ContextError;
/// assert_eq!(ContextError::Canceled.to_string(), "context canceled");
/// assert_eq!(ContextError::DeadlineExceeded.to_string(), "context deadline exceeded");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextError {
    /// The context was cancelled.
    Canceled,
    /// The deadline of the context has passed.
    DeadlineExceeded,
}

/// Cancels its context: by [`cancel`](CancelOnDrop::cancel), or when it is dropped, as Go's `defer cancel()`
/// does.
///
/// ```
/// use runtime::context::{Context, ContextError};
/// let (context, cancel) = Context::background().with_cancel();
/// drop(cancel);
/// assert_eq!(context.err(), Some(ContextError::Canceled));
/// ```
#[must_use = "dropping it cancels the context"]
pub struct CancelOnDrop(Arc<Node>);

/// Cancels its context as [`CancelOnDrop`] does, and may tell why. [`Context::with_cancel_cause`] returns it.
///
/// ```
/// use runtime::context::{Context, ContextError};
/// let (context, cancel) = Context::background().with_cancel_cause();
/// drop(cancel);
/// assert_eq!(context.cause().unwrap().downcast_ref(), Some(&ContextError::Canceled));
/// ```
#[must_use = "dropping it cancels the context"]
pub struct CancelCauseOnDrop(CancelOnDrop);

static NEVER: Receiver<()> = never();

impl Context {
    /// Returns the root: a context that is never cancelled, without a deadline or values.
    ///
    /// ```
    /// let context = runtime::context::Context::background();
    /// assert!(context.err().is_none() && context.deadline().is_none());
    /// ```
    pub const fn background() -> Context {
        Context(None)
    }

    /// Returns a child of this context, and a handle that cancels that child.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (parent, cancel) = Context::background().with_cancel();
    /// let (child, _cancel_child) = parent.with_cancel();
    /// cancel.cancel();
    /// assert_eq!(child.err(), Some(ContextError::Canceled));
    /// ```
    pub fn with_cancel(&self) -> (Context, CancelOnDrop) {
        let node = Node::below(self.node());
        (self.child(Some(Arc::clone(&node)), self.deadline(), None), CancelOnDrop(node))
    }

    /// Returns a child of this context, and a handle that cancels that child and may tell why.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// use std::io::{Error, ErrorKind};
    /// let (context, cancel) = Context::background().with_cancel_cause();
    /// cancel.cancel(Error::from(ErrorKind::ConnectionReset));
    /// assert_eq!(context.err(), Some(ContextError::Canceled));
    /// let cause = context.cause().unwrap();
    /// assert_eq!(cause.downcast_ref::<Error>().unwrap().kind(), ErrorKind::ConnectionReset);
    /// ```
    pub fn with_cancel_cause(&self) -> (Context, CancelCauseOnDrop) {
        let (context, handle) = self.with_cancel();
        (context, CancelCauseOnDrop(handle))
    }

    /// Returns a child of this context that is over at `deadline` at the latest, and a handle that cancels it
    /// before. The child is over earlier if this context is.
    ///
    /// The child's timer exists until the child is over. So drop or use the handle when the work is done.
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork), and on a plain OS thread if the default runtime, whose
    /// timers it uses, cannot be started.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// use std::time::{Duration, Instant};
    /// let soon = Instant::now() + Duration::from_millis(5);
    /// let (context, _cancel) = Context::background().with_deadline(soon);
    /// assert!(context.done().recv().is_err());
    /// assert!(Instant::now() >= soon);
    /// assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
    /// ```
    #[track_caller]
    pub fn with_deadline(&self, deadline: Instant) -> (Context, CancelOnDrop) {
        self.until(deadline, None)
    }

    /// Returns what [`with_deadline`](Context::with_deadline) returns. If the child is over because
    /// `deadline` has passed, its [`cause`](Context::cause) is `cause`. The returned handle sets no cause.
    ///
    /// # Panics
    ///
    /// Panics where [`with_deadline`](Context::with_deadline) does.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let now = std::time::Instant::now();
    /// let (context, _cancel) = Context::background().with_deadline_cause(now, "the shop closes");
    /// assert_eq!(context.err(), Some(ContextError::DeadlineExceeded));
    /// assert_eq!(context.cause().unwrap().to_string(), "the shop closes");
    /// ```
    #[track_caller]
    pub fn with_deadline_cause(
        &self,
        deadline: Instant,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> (Context, CancelOnDrop) {
        self.until(deadline, Some(cause.into().into()))
    }

    #[track_caller]
    fn until(&self, deadline: Instant, cause: Option<Cause>) -> (Context, CancelOnDrop) {
        if self.deadline().is_some_and(|earlier| earlier <= deadline) {
            return self.with_cancel();
        }
        let node = Node::below(self.node());
        node.end_at(deadline, cause);
        (self.child(Some(Arc::clone(&node)), Some(deadline), None), CancelOnDrop(node))
    }

    /// Returns a child of this context that is over after `time` at the latest, as
    /// [`with_deadline`](Context::with_deadline) does. A time beyond the clock's range means never.
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork), and on a plain OS thread if the default runtime, whose
    /// timers it uses, cannot be started.
    ///
    /// ```
    /// use runtime::context::Context;
    /// use std::time::Duration;
    /// let (context, _cancel) = Context::background().with_timeout(Duration::from_secs(1));
    /// assert!(context.deadline().is_some());
    /// ```
    #[track_caller]
    pub fn with_timeout(&self, time: Duration) -> (Context, CancelOnDrop) {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.with_deadline(deadline),
            None => self.with_cancel(),
        }
    }

    /// Returns what [`with_timeout`](Context::with_timeout) returns. If the child is over because `time` is
    /// over, its [`cause`](Context::cause) is `cause`. The returned handle sets no cause.
    ///
    /// # Panics
    ///
    /// Panics where [`with_timeout`](Context::with_timeout) does.
    ///
    /// ```
    /// use runtime::context::Context;
    /// use std::time::Duration;
    /// let (context, _cancel) = Context::background().with_timeout_cause(Duration::from_millis(2), "no answer in time");
    /// assert!(context.done().recv().is_err());
    /// assert_eq!(context.cause().unwrap().to_string(), "no answer in time");
    /// ```
    #[track_caller]
    pub fn with_timeout_cause(
        &self,
        time: Duration,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> (Context, CancelOnDrop) {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.with_deadline_cause(deadline, cause),
            None => self.with_cancel(),
        }
    }

    /// Returns a context with the values of this context that is not over when this context is. It has no
    /// deadline.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_value("request 7").with_cancel();
    /// cancel.cancel();
    /// let clean_up = context.without_cancel();
    /// assert!(clean_up.err().is_none() && clean_up.cause().is_none() && clean_up.deadline().is_none());
    /// assert_eq!(clean_up.value(), Some(&"request 7"));
    /// ```
    pub fn without_cancel(&self) -> Context {
        self.child(None, None, None)
    }

    /// Returns a child of this context with a value. [`value`](Context::value) finds it by its type, so let
    /// the type be one of your own.
    ///
    /// ```
    /// use runtime::context::Context;
    /// #[derive(Debug, PartialEq)]
    /// struct RequestId(u64);
    /// let context = Context::background().with_value(RequestId(7));
    /// assert_eq!(context.value(), Some(&RequestId(7)));
    /// ```
    pub fn with_value<T: Any + Send + Sync>(&self, value: T) -> Context {
        self.child(self.node().cloned(), self.deadline(), Some(Box::new(value)))
    }

    fn child(
        &self,
        node: Option<Arc<Node>>,
        deadline: Option<Instant>,
        value: Option<Box<dyn Any + Send + Sync>>,
    ) -> Context {
        Context(Some(Arc::new(Inner { parent: self.clone(), node, deadline, value })))
    }

    fn node(&self) -> Option<&Arc<Node>> {
        self.0.as_ref()?.node.as_ref()
    }

    /// Returns a channel that is disconnected when the context is over. No message is ever sent on it, so
    /// `recv` returns an error then. Use it in `select!`, or as `done().recv_async().await`.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_cancel();
    /// cancel.cancel();
    /// assert!(context.done().recv().is_err());
    /// ```
    pub fn done(&self) -> &Receiver<()> {
        self.node().map_or(&NEVER, |node| node.done())
    }

    /// Returns why the context is over, or `None` if it is not. Once there is an error, it stays the same.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, cancel) = Context::background().with_cancel();
    /// assert_eq!(context.err(), None);
    /// cancel.cancel();
    /// assert_eq!(context.err(), Some(ContextError::Canceled));
    /// ```
    pub fn err(&self) -> Option<ContextError> {
        self.ended().map(|end| end.error)
    }

    /// Returns the cause for which the context is over, or `None` if it is not over. Once there is a cause,
    /// it stays the same.
    ///
    /// The first end of this context or of an ancestor sets the cause. It is what that end was given:
    /// by a [`CancelCauseOnDrop`], [`with_deadline_cause`](Context::with_deadline_cause) or
    /// [`with_timeout_cause`](Context::with_timeout_cause). Without such a cause it is the [`ContextError`].
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, cancel) = Context::background().with_cancel();
    /// assert!(context.cause().is_none());
    /// cancel.cancel();
    /// assert_eq!(context.cause().unwrap().downcast_ref(), Some(&ContextError::Canceled));
    /// ```
    pub fn cause(&self) -> Option<Arc<dyn Error + Send + Sync>> {
        self.ended().map(End::into_cause)
    }

    fn ended(&self) -> Option<End> {
        self.node()?.ended()
    }

    /// Returns the deadline of the context, or `None` if it has none.
    ///
    /// ```
    /// use runtime::context::Context;
    /// use std::time::{Duration, Instant};
    /// let soon = Instant::now() + Duration::from_secs(1);
    /// let (parent, _cancel) = Context::background().with_deadline(soon);
    /// let (child, _cancel) = parent.with_deadline(soon + Duration::from_secs(1));
    /// assert_eq!(child.deadline(), Some(soon));
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline
    }

    /// Returns the value of type `T` of this context, or of the nearest ancestor that has one.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let context = Context::background().with_value(1u8).with_value("one");
    /// assert_eq!((context.value::<u8>(), context.value::<i64>()), (Some(&1), None));
    /// ```
    pub fn value<T: Any + Send + Sync>(&self) -> Option<&T> {
        let mut context = self;
        while let Some(inner) = &context.0 {
            if let Some(value) = inner.value.as_ref().and_then(|value| value.downcast_ref()) {
                return Some(value);
            }
            context = &inner.parent;
        }
        None
    }
}

// A panic leaves no context half-changed: values are never changed, and locks are released before user code
// runs.
impl UnwindSafe for Context {}
impl RefUnwindSafe for Context {}
impl UnwindSafe for CancelOnDrop {}
impl RefUnwindSafe for CancelOnDrop {}

impl Drop for Inner {
    fn drop(&mut self) {
        // In a loop and not by recursion: a chain of contexts may be longer than a stack is deep.
        let mut parent = self.parent.0.take();
        while let Some(mut inner) = parent.and_then(Arc::into_inner) {
            parent = inner.parent.0.take();
        }
    }
}

impl Default for Context {
    /// Returns [`Context::background`].
    fn default() -> Self {
        Context::background()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("err", &self.err())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

impl CancelOnDrop {
    /// Cancels the context and its descendants, unless it is over already. When this returns, the context is
    /// over. A descendant is over, too, or another thread that ended it at the same time is about to
    /// disconnect its `done`.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_cancel();
    /// cancel.cancel();
    /// cancel.cancel();
    /// assert!(context.err().is_some());
    /// ```
    pub fn cancel(&self) {
        crate::point_in_drop();
        self.0.end(ContextError::Canceled);
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for CancelOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelOnDrop")
            .field("err", &self.0.ended().map(|end| end.error))
            .finish_non_exhaustive()
    }
}

impl CancelCauseOnDrop {
    /// Cancels the context as [`CancelOnDrop::cancel`] does, with a cause that [`Context::cause`] returns.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_cancel_cause();
    /// cancel.cancel("the client has gone");
    /// cancel.cancel("too late");
    /// assert_eq!(context.cause().unwrap().to_string(), "the client has gone");
    /// ```
    pub fn cancel(&self, cause: impl Into<Box<dyn Error + Send + Sync>>) {
        crate::point_in_drop();
        self.0.0.end(End { error: ContextError::Canceled, cause: Some(cause.into().into()) });
    }
}

impl fmt::Debug for CancelCauseOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelCauseOnDrop").field(&self.0).finish()
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContextError::Canceled => "context canceled",
            ContextError::DeadlineExceeded => "context deadline exceeded",
        })
    }
}

impl std::error::Error for ContextError {}
