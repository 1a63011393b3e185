//! The errors of [`watch`](super), with the names and texts of tokio.

use std::error::Error;
use std::fmt;

/// The error of [`Sender::send`](super::Sender::send): there is no receiver. It has the value.
///
/// ```
/// let (sender, receiver) = runtime::sync::watch::channel(1);
/// drop(receiver);
/// assert_eq!(sender.send(2).unwrap_err().0, 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// The error of a receiver's calls: all senders are gone.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::watch::channel(1);
/// drop(sender);
/// assert_eq!(receiver.changed().unwrap_err().to_string(), "channel closed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvError(pub(super) ());

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
        f.write_str("channel closed")
    }
}

impl<T> Error for SendError<T> {}
impl Error for RecvError {}
