//! The errors of [`broadcast`](super), with the names and texts of tokio.

use std::error::Error;
use std::fmt;

/// The error of [`Sender::send`](super::Sender::send): there is no receiver. It has the value.
///
/// ```
/// let (sender, receiver) = runtime::sync::broadcast::channel(1);
/// drop(receiver);
/// assert_eq!(sender.send(2).unwrap_err().0, 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// The error of [`Receiver::recv`](super::Receiver::recv).
///
/// ```
/// use runtime::sync::broadcast::{self, error::RecvError};
/// let (sender, mut receiver) = broadcast::channel::<i32>(1);
/// drop(sender);
/// assert_eq!(receiver.recv(), Err(RecvError::Closed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All values were received, and all senders are gone.
    Closed,
    /// The receiver was too slow and missed so many values. The next receive gets the oldest value that is
    /// left.
    Lagged(u64),
}

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
///
/// ```
/// use runtime::sync::broadcast::{self, error::TryRecvError};
/// let (_sender, mut receiver) = broadcast::channel::<i32>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// All values were received; more may come.
    Empty,
    /// All values were received, and all senders are gone.
    Closed,
    /// The receiver was too slow and missed so many values. The next receive gets the oldest value that is
    /// left.
    Lagged(u64),
}

/// The error of [`Receiver::recv_timeout`](super::Receiver::recv_timeout).
///
/// ```
/// use runtime::sync::broadcast::{self, error::RecvTimeoutError};
/// let (_sender, mut receiver) = broadcast::channel::<i32>(1);
/// assert_eq!(receiver.recv_timeout(std::time::Duration::ZERO), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// No value came in time.
    Timeout,
    /// All values were received, and all senders are gone.
    Closed,
    /// The receiver was too slow and missed so many values. The next receive gets the oldest value that is
    /// left.
    Lagged(u64),
}

// `Debug` of an error with a value omits the value, which need not be `Debug`.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str("channel closed"),
            RecvError::Lagged(missed) => write!(f, "channel lagged by {missed}"),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => f.write_str("channel empty"),
            TryRecvError::Closed => f.write_str("channel closed"),
            TryRecvError::Lagged(missed) => write!(f, "channel lagged by {missed}"),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Timeout => f.write_str("timed out waiting on receive operation"),
            RecvTimeoutError::Closed => f.write_str("channel closed"),
            RecvTimeoutError::Lagged(missed) => write!(f, "channel lagged by {missed}"),
        }
    }
}

impl<T> Error for SendError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}

impl From<RecvError> for TryRecvError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Closed => TryRecvError::Closed,
            RecvError::Lagged(missed) => TryRecvError::Lagged(missed),
        }
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Closed => RecvTimeoutError::Closed,
            RecvError::Lagged(missed) => RecvTimeoutError::Lagged(missed),
        }
    }
}
