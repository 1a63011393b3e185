//! Contexts, as Go has them: when to stop, told to everything that works on one task.
//!
//! A [`Context`] is given down, as an argument, to whatever works on a task. It tells them when the task is cancelled or its
//! time is up, and may carry values. Contexts form a tree: one that is made from another is cancelled with it.
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
//! Nothing is ended by a context itself: whoever has one looks at it, or waits for [`done`](Context::done) beside what it
//! waits for otherwise. (What ends a green thread is [`JoinHandle::cancel`](crate::JoinHandle::cancel), and
//! [`timeout`](crate::time::timeout).)

mod node;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{Receiver, never};
use node::Node;

/// When to stop, for all that work on one task: see the [module](self). Cloning it gives another handle of the same one.
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
    /// What cancels it: its own, or its parent's.
    node: Option<Arc<Node>>,
    deadline: Option<Instant>,
    value: Option<Box<dyn Any + Send + Sync>>,
}

/// Why a context is over.
///
/// ```
/// use runtime::context::ContextError;
/// assert_eq!(ContextError::Canceled.to_string(), "context canceled");
/// assert_eq!(ContextError::DeadlineExceeded.to_string(), "context deadline exceeded");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextError {
    /// It was cancelled.
    Canceled,
    /// Its time is up.
    DeadlineExceeded,
}

/// Cancels its context: by [`cancel`](CancelHandle::cancel), or when it is dropped, as with Go's `defer cancel()`.
///
/// ```
/// use runtime::context::{Context, ContextError};
/// let (context, cancel) = Context::background().with_cancel();
/// drop(cancel);
/// assert_eq!(context.err(), Some(ContextError::Canceled));
/// ```
#[must_use = "dropping it cancels the context"]
pub struct CancelHandle(Arc<Node>);

static NEVER: Receiver<()> = never();

impl Context {
    /// The root: never cancelled, without a deadline or values.
    ///
    /// ```
    /// let context = runtime::context::Context::background();
    /// assert!(context.err().is_none() && context.deadline().is_none());
    /// ```
    pub const fn background() -> Context {
        Context(None)
    }

    /// One below this one, with a handle that cancels it.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (parent, cancel) = Context::background().with_cancel();
    /// let (child, _cancel_child) = parent.with_cancel();
    /// cancel.cancel();
    /// assert_eq!(child.err(), Some(ContextError::Canceled));
    /// ```
    pub fn with_cancel(&self) -> (Context, CancelHandle) {
        let node = Node::below(self.node());
        (self.child(Some(Arc::clone(&node)), self.deadline(), None), CancelHandle(node))
    }

    /// One below this one that is over at `deadline` at the latest, and a handle that cancels it before. If this one ends
    /// earlier, so does that.
    ///
    /// Its timer goes when it is over; so drop or use the handle when the work is done.
    ///
    /// # Panics
    ///
    /// On a plain OS thread when the default runtime, whose clock it is, cannot be started; in a
    /// [forked child](crate#after-fork).
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
    pub fn with_deadline(&self, deadline: Instant) -> (Context, CancelHandle) {
        if self.deadline().is_some_and(|earlier| earlier <= deadline) {
            return self.with_cancel();
        }
        let node = Node::below(self.node());
        node.end_at(deadline);
        (self.child(Some(Arc::clone(&node)), Some(deadline), None), CancelHandle(node))
    }

    /// [`with_deadline`](Context::with_deadline), so long from now; beyond the clock's range means never.
    ///
    /// # Panics
    ///
    /// As for [`with_deadline`](Context::with_deadline).
    ///
    /// ```
    /// use runtime::context::Context;
    /// use std::time::Duration;
    /// let (context, _cancel) = Context::background().with_timeout(Duration::from_secs(1));
    /// assert!(context.deadline().is_some());
    /// ```
    #[track_caller]
    pub fn with_timeout(&self, time: Duration) -> (Context, CancelHandle) {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.with_deadline(deadline),
            None => self.with_cancel(),
        }
    }

    /// One below this one with a value, which is found by its type: so let the type be one of your own.
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

    /// A channel that is disconnected when the context is over: its `recv` then returns, always with an error. No message
    /// ever comes. For `select!`, or `done().recv_async().await`.
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

    /// Why it is over; `None` while it is not. Once it is some error it stays that.
    ///
    /// ```
    /// use runtime::context::{Context, ContextError};
    /// let (context, cancel) = Context::background().with_cancel();
    /// assert_eq!(context.err(), None);
    /// cancel.cancel();
    /// assert_eq!(context.err(), Some(ContextError::Canceled));
    /// ```
    pub fn err(&self) -> Option<ContextError> {
        self.node()?.error()
    }

    /// When it is over at the latest.
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

    /// The value of that type: its own, or the nearest one above.
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

impl Drop for Inner {
    fn drop(&mut self) {
        // One after the other: a chain of contexts may be longer than a stack is deep.
        let mut parent = self.parent.0.take();
        while let Some(mut inner) = parent.and_then(Arc::into_inner) {
            parent = inner.parent.0.take();
        }
    }
}

impl Default for Context {
    /// [`Context::background`].
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

impl CancelHandle {
    /// Cancels the context and all below it, unless it is over already. When this has returned, the context is over; those
    /// below it are too, or another thread, which ends it as well, is about to tell them.
    ///
    /// ```
    /// use runtime::context::Context;
    /// let (context, cancel) = Context::background().with_cancel();
    /// cancel.cancel();
    /// cancel.cancel();
    /// assert!(context.err().is_some());
    /// ```
    pub fn cancel(&self) {
        self.0.end(ContextError::Canceled);
    }
}

impl Drop for CancelHandle {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("err", &self.0.error()).finish_non_exhaustive()
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
