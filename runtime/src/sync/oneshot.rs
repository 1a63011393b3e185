//! `oneshot`: a channel for one value. The API is that of tokio.
//!
//! ```
//! use runtime::sync::oneshot;
//!
//! let (sender, receiver) = oneshot::channel();
//! runtime::spawn(move || sender.send(6 * 7).unwrap());
//! assert_eq!(receiver.recv(), Ok(42));
//! ```
//!
//! The receiver is a future. On a green thread or a plain OS thread, [`Receiver::recv`] waits.
//!
//! ```
//! use runtime::sync::oneshot;
//!
//! let (sender, receiver) = oneshot::channel();
//! runtime::spawn(move || sender.send("from a green thread").unwrap());
//! assert_eq!(runtime::block_on(receiver), Ok("from a green thread"));
//! ```
//!
//! # Cancellation and time-outs
//!
//! A green thread that is cancelled while it waits here, or whose [`timeout`](crate::time::timeout) is over,
//! unwinds and has taken nothing. A receiver that it has only borrowed can still receive the value.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sched::Why;
use waits::queue::{Lock, Queue};

use super::wait::{OwnedWait, all, wait_for, wait_for_async};
use crate::channel::RecvTimeoutError;
use error::{RecvError, TryRecvError};

pub mod error;

/// Returns a channel for one value.
///
/// ```
/// let (sender, receiver) = runtime::sync::oneshot::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { state: Lock::new(OneshotState::new()), value: Lock::new(None) });
    (Sender(Arc::clone(&shared)), Receiver { shared, waits: OwnedWait::new() })
}

struct Shared<T> {
    state: Lock<OneshotState>,
    /// Taken inside `state` only.
    value: Lock<Option<T>>,
}

struct OneshotState {
    stage: Stage,
    /// The receiver was closed or dropped.
    closed: bool,
    /// A receive has returned the value, or the error that none comes.
    terminated: bool,
    receivers: Queue<()>,
    senders: Queue<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The sender may still send.
    Open,
    /// The value waits for the receiver.
    Sent,
    /// The value was received, or the sender was dropped without sending.
    Over,
}

impl OneshotState {
    fn new() -> OneshotState {
        let (receivers, senders) = (Queue::new(), Queue::new());
        OneshotState { stage: Stage::Open, closed: false, terminated: false, receivers, senders }
    }
}

fn receivers(state: &mut OneshotState) -> &mut Queue<()> {
    &mut state.receivers
}

fn senders(state: &mut OneshotState) -> &mut Queue<()> {
    &mut state.senders
}

impl<T> Shared<T> {
    fn state(&self) -> &Lock<OneshotState> {
        &self.state
    }

    /// Takes the value. Returns an error if it never comes, and `None` if it may still come. *Runs on: the
    /// holder of the lock of `state`.*
    fn take(&self, state: &mut OneshotState) -> Option<Result<T, RecvError>> {
        let value = match state.stage {
            Stage::Open if !state.closed => return None,
            Stage::Sent => {
                state.stage = Stage::Over;
                self.value.lock().take()
            }
            Stage::Open | Stage::Over => None,
        };
        state.terminated = true;
        Some(value.ok_or(RecvError(())))
    }

    fn close(&self) {
        crate::point_in_drop();
        let mut state = self.state.lock();
        state.closed = true;
        let wakes = (all(&mut state.senders), all(&mut state.receivers));
        drop(state);
        drop(wakes);
    }
}

/// The sending side of a [`channel`]. [`send`](Self::send) consumes it.
///
/// If it is dropped without a send, the receiver gets an error.
///
/// ```
/// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
/// drop(sender);
/// assert!(receiver.recv().is_err());
/// ```
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the value if the receiver was closed or dropped. A value that was sent may still be dropped
    /// unreceived.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send("back"), Err("back"));
    /// ```
    pub fn send(self, value: T) -> Result<(), T> {
        crate::point();
        let mut state = self.0.state.lock();
        if state.closed {
            drop(state);
            return Err(value);
        }
        *self.0.value.lock() = Some(value);
        state.stage = Stage::Sent;
        let wakes = all(&mut state.receivers);
        drop(state);
        drop(wakes);
        Ok(())
    }

    /// Returns `true` if the receiver was closed or dropped. A send then fails.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
    /// assert!(!sender.is_closed());
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    /// Waits until the receiver is closed or dropped: the value is not needed any more.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
    /// runtime::spawn(move || drop(receiver));
    /// sender.closed();
    /// ```
    pub fn closed(&self) {
        wait_for(&self.0.state, senders, Why::Notification, None, |state| state.closed.then_some(()));
    }

    /// Waits until the receiver is closed or dropped, in a future.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
    /// runtime::spawn(move || drop(receiver));
    /// runtime::block_on(sender.closed_async());
    /// ```
    pub async fn closed_async(&self) {
        wait_for_async(&self.0.state, senders, |state| state.closed.then_some(())).await;
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.stage == Stage::Open {
            state.stage = Stage::Over;
            let wakes = all(&mut state.receivers);
            drop(state);
            drop(wakes);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// The receiving side of a [`channel`]: a future, and a handle with calls that park or never wait.
///
/// As a future it is `Unpin`, so a `select!` of futures can poll `&mut receiver`. It allocates when it first
/// has to wait; [`recv`](Self::recv) and [`recv_async`](Self::recv_async) do not.
///
/// ```
/// let (sender, receiver) = runtime::sync::oneshot::channel();
/// sender.send(1).unwrap();
/// assert_eq!(runtime::block_on(receiver), Ok(1));
/// ```
#[must_use = "as a future it does nothing unless polled"]
pub struct Receiver<T> {
    /// The wait of this receiver as a future.
    waits: OwnedWait<Shared<T>, OneshotState>,
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Receives the value. Waits until it is sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the sender was dropped without sending, or if this receiver was closed before the
    /// value came. Also returns an error if the value was received already.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. It has not taken the value.
    ///
    /// ```
    /// use runtime::time::{Duration, timeout};
    /// let (sender, receiver) = runtime::sync::oneshot::channel();
    /// assert!(timeout(Duration::from_millis(1), || receiver.recv()).is_err());
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    pub fn recv(&self) -> Result<T, RecvError> {
        crate::point();
        self.recv_until(None).unwrap_or(Err(RecvError(())))
    }

    /// Receives the value, and waits at most for `timeout`. A time beyond the clock's range means for ever.
    ///
    /// # Errors
    ///
    /// Returns `Timeout` if the time was up, and `Disconnected` where [`recv`](Self::recv) returns an error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. It has not taken the value.
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::oneshot::channel::<i32>();
    /// assert!(receiver.recv_timeout(std::time::Duration::from_millis(1)).unwrap_err().is_timeout());
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        crate::point();
        match self.recv_until(Instant::now().checked_add(timeout)) {
            Some(received) => received.map_err(|_| RecvTimeoutError::Disconnected),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    fn recv_until(&self, deadline: Option<Instant>) -> Option<Result<T, RecvError>> {
        wait_for(&self.shared.state, receivers, Why::Receive, deadline, |state| self.shared.take(state))
    }

    /// Receives the value in a future, which borrows the receiver. If the future is dropped before it is
    /// ready, the value is not lost.
    ///
    /// # Errors
    ///
    /// Returns an error where [`recv`](Self::recv) does.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel();
    /// runtime::spawn(move || sender.send(1).unwrap());
    /// assert_eq!(runtime::block_on(receiver.recv_async()), Ok(1));
    /// ```
    pub async fn recv_async(&self) -> Result<T, RecvError> {
        wait_for_async(&self.shared.state, receivers, |state| self.shared.take(state)).await
    }

    /// Receives the value without waiting.
    ///
    /// # Errors
    ///
    /// Returns `Empty` if the value may still come, and `Closed` where [`recv`](Self::recv) returns an error.
    ///
    /// ```
    /// use runtime::sync::oneshot::{self, error::TryRecvError};
    /// let (sender, receiver) = oneshot::channel();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        crate::point();
        match self.shared.take(&mut self.shared.state.lock()) {
            None => Err(TryRecvError::Empty),
            Some(received) => received.map_err(|_| TryRecvError::Closed),
        }
    }

    /// Returns `true` if no value waits to be received: it was not sent, or it was received. Never waits.
    ///
    /// A value may come after this call has returned `true`, unless the sender is gone or the receiver is
    /// closed.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel();
    /// assert!(receiver.is_empty());
    /// sender.send(1).unwrap();
    /// assert!(!receiver.is_empty());
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert!(receiver.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.state.lock().stage != Stage::Sent
    }

    /// Returns `true` if a receive of this receiver has returned the value, or an error because no value
    /// comes. A further receive returns an error at once. Never waits.
    ///
    /// The end of the sender and [`close`](Self::close) alone do not change it. It lets a `select!` in a loop
    /// leave out a receiver that has nothing more to give.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel::<i32>();
    /// drop(sender);
    /// assert!(!receiver.is_terminated());
    /// assert!(receiver.recv().is_err());
    /// assert!(receiver.is_terminated());
    /// ```
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.shared.state.lock().terminated
    }

    /// Closes the receiver: a later send fails. A value that was sent before can still be received.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::oneshot::channel();
    /// receiver.close();
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    pub fn close(&self) {
        crate::point_in_drop();
        self.shared.close();
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Receiver { shared, waits } = &mut *self;
        waits.poll(shared, Shared::state, receivers, cx, |state| shared.take(state))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.close();
        // No value comes after the close. A value that came before is dropped here, outside of the locks.
        let value = self.shared.value.lock().take();
        drop(value);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> std::panic::UnwindSafe for Receiver<T> {}
impl<T> std::panic::RefUnwindSafe for Receiver<T> {}
