//! `JoinError`: why a green thread has no result, as an error.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use sched::Cancelled;

use super::ThreadId;

/// Why a green thread has no result: it panicked, or it was cancelled.
///
/// It has the methods of tokio's `JoinError`. [`JoinHandle::join`](crate::thread::JoinHandle::join) returns
/// the payload itself, as std does. The payload becomes a `JoinError` by `map_err(JoinError::from)`, or by
/// `?` in a function that returns a `JoinError`.
///
/// `Display` shows the message of the panic.
///
/// ```
/// use runtime::thread::JoinError;
/// let thread = runtime::spawn(|| { if true { panic!("no {}", "luck") } });
/// let error = thread.join().map_err(JoinError::from).unwrap_err();
/// assert!(error.is_panic());
/// assert_eq!(error.to_string(), "the green thread panicked: no luck");
/// ```
pub struct JoinError {
    thread: Option<ThreadId>,
    why: Why,
}

enum Why {
    Cancelled,
    /// The mutex makes the payload, which is only `Send`, `Sync`. It is locked only to take the payload.
    Panicked {
        payload: Mutex<Box<dyn Any + Send>>,
        message: Option<Cow<'static, str>>,
    },
}

impl JoinError {
    /// Returns the error of the green thread `thread`, which ended with `payload`.
    pub(crate) fn of(thread: ThreadId, payload: Box<dyn Any + Send>) -> JoinError {
        JoinError { thread: Some(thread), ..JoinError::from(payload) }
    }

    /// Returns `true` if the green thread was cancelled.
    ///
    /// ```
    /// use runtime::thread::{JoinError, park};
    /// let thread = runtime::spawn(park);
    /// thread.cancel();
    /// assert!(thread.join().map_err(JoinError::from).unwrap_err().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.why, Why::Cancelled)
    }

    /// Returns `true` if the green thread panicked.
    ///
    /// ```
    /// use runtime::thread::JoinError;
    /// let thread = runtime::spawn(|| { if true { panic!("oh") } });
    /// assert!(thread.join().map_err(JoinError::from).unwrap_err().is_panic());
    /// ```
    pub fn is_panic(&self) -> bool {
        !self.is_cancelled()
    }

    /// Returns the payload of the panic, for `std::panic::resume_unwind`.
    ///
    /// # Panics
    ///
    /// Panics if the green thread was cancelled. [`try_into_panic`](JoinError::try_into_panic) does not.
    ///
    /// ```
    /// use runtime::thread::JoinError;
    /// let thread = runtime::spawn(|| { if true { panic!("oh") } });
    /// let error = thread.join().map_err(JoinError::from).unwrap_err();
    /// assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "oh");
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        self.try_into_panic().expect("the green thread did not panic; ask `is_panic` first")
    }

    /// Returns the payload of the panic.
    ///
    /// # Errors
    ///
    /// Returns this error if the green thread was cancelled.
    ///
    /// ```
    /// use runtime::thread::{Cancelled, JoinError};
    /// assert!(JoinError::from(Cancelled).try_into_panic().unwrap_err().is_cancelled());
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        match self.why {
            Why::Cancelled => Err(self),
            Why::Panicked { payload, .. } => Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Returns the id of the green thread, or `None` if this error was made from a payload, which has no id.
    /// Errors of a [`JoinSet`](crate::thread::JoinSet) have one.
    ///
    /// ```
    /// use runtime::thread::{Cancelled, JoinError};
    /// assert_eq!(JoinError::from(Cancelled).id(), None);
    /// ```
    pub fn id(&self) -> Option<ThreadId> {
        self.thread
    }
}

impl From<Box<dyn Any + Send>> for JoinError {
    fn from(payload: Box<dyn Any + Send>) -> Self {
        if payload.is::<Cancelled>() {
            return Cancelled.into();
        }
        let message = match payload.downcast_ref::<&'static str>() {
            Some(&text) => Some(Cow::Borrowed(text)),
            None => payload.downcast_ref::<String>().map(|text| Cow::Owned(text.clone())),
        };
        JoinError { thread: None, why: Why::Panicked { payload: Mutex::new(payload), message } }
    }
}

impl From<Cancelled> for JoinError {
    fn from(_: Cancelled) -> Self {
        JoinError { thread: None, why: Why::Cancelled }
    }
}

impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> Self {
        std::io::Error::other(error)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Cancelled => Cancelled.fmt(f),
            Why::Panicked { message: Some(message), .. } => write!(f, "the green thread panicked: {message}"),
            Why::Panicked { message: None, .. } => f.write_str("the green thread panicked"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, message) = match &self.why {
            Why::Cancelled => ("JoinError::Cancelled", None),
            Why::Panicked { message, .. } => ("JoinError::Panicked", message.as_ref()),
        };
        let mut all = f.debug_struct(name);
        all.field("id", &self.thread);
        if let Some(message) = message {
            all.field("message", message);
        }
        all.finish_non_exhaustive()
    }
}

impl Error for JoinError {}
