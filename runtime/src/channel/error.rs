//! The errors of channel operations, with the types, texts and traits of `crossbeam_channel`.

use std::error::Error;
use std::fmt;

const SEND_DISCONNECTED: &str = "sending on a disconnected channel";
const SEND_FULL: &str = "sending on a full channel";
const SEND_TIMED_OUT: &str = "timed out waiting on send operation";
const RECV_EMPTY: &str = "receiving on an empty channel";
const RECV_DISCONNECTED: &str = "receiving on an empty and disconnected channel";
const RECV_TIMED_OUT: &str = "timed out waiting on receive operation";
const RECV_TIMEOUT_DISCONNECTED: &str = "channel is empty and disconnected";

/// The error of [`Sender::send`](super::Sender::send): all receivers are gone. It has the message.
///
/// ```
/// use runtime::channel::{SendError, unbounded};
/// let (s, r) = unbounded();
/// drop(r);
/// assert_eq!(s.send(1), Err(SendError(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// The error of [`Sender::try_send`](super::Sender::try_send). It has the message.
///
/// ```
/// use runtime::channel::{TrySendError, bounded};
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
/// drop(r);
/// assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel has no room. On a channel of capacity 0: no receiver waits.
    Full(T),
    /// All receivers are gone.
    Disconnected(T),
}

/// The error of [`Sender::send_timeout`](super::Sender::send_timeout) and `send_deadline`. It has the
/// message.
///
/// ```
/// use runtime::channel::{SendTimeoutError, bounded};
/// use std::time::Duration;
/// let (s, r) = bounded(0);
/// assert_eq!(s.send_timeout(1, Duration::from_millis(1)), Err(SendTimeoutError::Timeout(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The channel had no room in time. On a channel of capacity 0: no receiver came in time.
    Timeout(T),
    /// All receivers are gone.
    Disconnected(T),
}

/// The error of [`Receiver::recv`](super::Receiver::recv): the channel is empty and all senders are gone.
///
/// ```
/// use runtime::channel::{RecvError, unbounded};
/// let (s, r) = unbounded::<i32>();
/// drop(s);
/// assert_eq!(r.recv(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
///
/// ```
/// use runtime::channel::{TryRecvError, unbounded};
/// let (s, r) = unbounded::<i32>();
/// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
/// drop(s);
/// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The channel has no message. On a channel of capacity 0: no sender waits.
    Empty,
    /// The channel has no message, and all senders are gone.
    Disconnected,
}

/// The error of [`Receiver::recv_timeout`](super::Receiver::recv_timeout) and `recv_deadline`.
///
/// ```
/// use runtime::channel::{RecvTimeoutError, unbounded};
/// use std::time::Duration;
/// let (_s, r) = unbounded::<i32>();
/// assert_eq!(r.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// No message came in time.
    Timeout,
    /// The channel has no message, and all senders are gone.
    Disconnected,
}

/// The error of [`Select::try_select`](super::Select::try_select): no operation was ready.
///
/// ```
/// assert!(runtime::channel::Select::new().try_select().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrySelectError;

/// The error of [`Select::select_timeout`](super::Select::select_timeout) and `select_deadline`: no operation
/// was ready in time.
///
/// ```
/// use std::time::Duration;
/// assert!(runtime::channel::Select::new().select_timeout(Duration::from_millis(1)).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectTimeoutError;

/// The error of [`Select::try_ready`](super::Select::try_ready): no operation was ready.
///
/// ```
/// use runtime::channel::{Select, TryReadyError};
/// assert_eq!(Select::new().try_ready(), Err(TryReadyError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryReadyError;

/// The error of [`Select::ready_timeout`](super::Select::ready_timeout) and `ready_deadline`: no operation
/// was ready in time.
///
/// ```
/// use runtime::channel::{ReadyTimeoutError, Select};
/// use std::time::Duration;
/// assert_eq!(Select::new().ready_timeout(Duration::from_millis(1)), Err(ReadyTimeoutError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyTimeoutError;

impl<T> SendError<T> {
    /// Returns the message.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// drop(r);
    /// assert_eq!(s.send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// Returns the message.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(0);
    /// assert_eq!(s.try_send("back").unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        }
    }

    /// Returns `true` if the channel had no room.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(0);
    /// assert!(s.try_send(1).unwrap_err().is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Returns `true` if all receivers are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(0);
    /// drop(r);
    /// assert!(s.try_send(1).unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the message.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(0);
    /// assert_eq!(s.send_timeout("back", std::time::Duration::ZERO).unwrap_err().into_inner(), "back");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }

    /// Returns `true` if the time was up.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(0);
    /// assert!(s.send_timeout(1, std::time::Duration::ZERO).unwrap_err().is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Returns `true` if all receivers are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(0);
    /// drop(r);
    /// assert!(s.send_timeout(1, std::time::Duration::ZERO).unwrap_err().is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }
}

impl TryRecvError {
    /// Returns `true` if the channel had no message.
    ///
    /// ```
    /// assert!(runtime::channel::TryRecvError::Empty.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        *self == TryRecvError::Empty
    }

    /// Returns `true` if all senders are gone.
    ///
    /// ```
    /// assert!(runtime::channel::TryRecvError::Disconnected.is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        *self == TryRecvError::Disconnected
    }
}

impl RecvTimeoutError {
    /// Returns `true` if the time was up.
    ///
    /// ```
    /// assert!(runtime::channel::RecvTimeoutError::Timeout.is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        *self == RecvTimeoutError::Timeout
    }

    /// Returns `true` if all senders are gone.
    ///
    /// ```
    /// assert!(runtime::channel::RecvTimeoutError::Disconnected.is_disconnected());
    /// ```
    pub fn is_disconnected(&self) -> bool {
        *self == RecvTimeoutError::Disconnected
    }
}

// `Debug` of an error with a message omits the message, which need not be `Debug`.

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendTimeoutError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SEND_DISCONNECTED)
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => SEND_FULL,
            TrySendError::Disconnected(_) => SEND_DISCONNECTED,
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SendTimeoutError::Timeout(_) => SEND_TIMED_OUT,
            SendTimeoutError::Disconnected(_) => SEND_DISCONNECTED,
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(RECV_DISCONNECTED)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TryRecvError::Empty => RECV_EMPTY,
            TryRecvError::Disconnected => RECV_DISCONNECTED,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RecvTimeoutError::Timeout => RECV_TIMED_OUT,
            RecvTimeoutError::Disconnected => RECV_TIMEOUT_DISCONNECTED,
        })
    }
}

impl fmt::Display for TrySelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("all operations in select would block")
    }
}

impl fmt::Display for SelectTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("timed out waiting on select")
    }
}

impl<T: Send> Error for SendError<T> {}
impl<T: Send> Error for TrySendError<T> {}
impl<T: Send> Error for SendTimeoutError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}
impl Error for TrySelectError {}
impl Error for SelectTimeoutError {}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(SendError(message): SendError<T>) -> Self {
        TrySendError::Disconnected(message)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(SendError(message): SendError<T>) -> Self {
        SendTimeoutError::Disconnected(message)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> Self {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        RecvTimeoutError::Disconnected
    }
}
