//! The errors of [`oneshot`](super), with the names and texts of tokio.

use std::error::Error;
use std::fmt;

/// The error of a receive: the value never comes.
///
/// ```
/// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
/// drop(sender);
/// assert_eq!(receiver.recv().unwrap_err().to_string(), "channel closed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvError(pub(super) ());

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
///
/// ```
/// use runtime::sync::oneshot::{self, error::TryRecvError};
/// let (_sender, receiver) = oneshot::channel::<i32>();
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The value was not sent yet.
    Empty,
    /// The value never comes.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("channel closed")
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "channel empty",
            TryRecvError::Closed => "channel closed",
        })
    }
}

impl Error for RecvError {}
impl Error for TryRecvError {}
