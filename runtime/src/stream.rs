//! Receivers as streams, for code that takes a `Stream` (feature `stream`).
//!
//! | method | items | ends |
//! | --- | --- | --- |
//! | [`channel::Receiver::into_stream`](crate::channel::Receiver::into_stream) | messages | when all senders are gone |
//! | [`Ticker::into_stream`](crate::time::Ticker::into_stream) | the times of the ticks | never |
//! | [`watch::Receiver::into_stream`](crate::sync::watch::Receiver::into_stream) | the present value, then each new one | when all senders are gone |
//! | [`broadcast::Receiver::into_stream`](crate::sync::broadcast::Receiver::into_stream) | values, or how many were missed | when all senders are gone |
//! | `signal::Signals::into_stream` | signal numbers | when its runtime ends |
//! | [`TcpListener::incoming`](crate::net::TcpListener::incoming), then `into_stream`; also of Unix sockets | connections, with its pauses after errors | never |
//!
//! A stream works in any executor, with any waker. It is `Unpin`. A drop loses no message of a channel that
//! another receiver can still receive.
//!
//! ```
//! use runtime::stream::Stream;
//! use std::future::poll_fn;
//! use std::pin::Pin;
//!
//! let (s, r) = runtime::channel::unbounded();
//! runtime::spawn(move || (1..=4).for_each(|n| s.send(n).unwrap()));
//! let sum = runtime::block_on(async {
//!     let (mut stream, mut sum) = (r.into_stream(), 0);
//!     // With the crate `futures`: `stream.next().await`.
//!     while let Some(n) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
//!         sum += n;
//!     }
//!     sum
//! });
//! assert_eq!(sum, 10);
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

#[doc(no_inline)]
pub use futures_core::Stream;
use futures_core::stream::FusedStream;

use crate::channel;
use crate::sync::broadcast::{self, error::RecvError};
use crate::sync::watch;
use crate::time::Ticker;

/// The stream of the items of the futures that `next` returns. Such a future gets the state and gives it back
/// with an item.
struct Unfold<S, N, F> {
    next: N,
    /// `None` while a future has the state, and after the end.
    state: Option<S>,
    /// In one box for all items.
    future: Pin<Box<Option<F>>>,
}

/// Makes a stream of `state`. It ends when a future gives no item.
fn unfold<S, T, F>(state: S, next: impl FnMut(S) -> F + Unpin) -> impl FusedStream<Item = T> + Unpin
where
    S: Unpin,
    F: Future<Output = Option<(T, S)>>,
{
    Unfold { next, state: Some(state), future: Box::pin(None) }
}

impl<S: Unpin, T, N: FnMut(S) -> F + Unpin, F: Future<Output = Option<(T, S)>>> Stream for Unfold<S, N, F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        if let Some(state) = this.state.take() {
            this.future.set(Some((this.next)(state)));
        }
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let next = ready!(future.poll(cx));
        this.future.set(None);
        Poll::Ready(next.map(|(item, state)| {
            this.state = Some(state);
            item
        }))
    }
}

impl<S: Unpin, T, N: FnMut(S) -> F + Unpin, F: Future<Output = Option<(T, S)>>> FusedStream
    for Unfold<S, N, F>
{
    fn is_terminated(&self) -> bool {
        self.state.is_none() && self.future.is_none()
    }
}

impl<T> channel::Receiver<T> {
    /// Returns a stream of the messages. It ends when the channel has no message and all senders are gone.
    ///
    /// ```
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// let (s, r) = runtime::channel::bounded(1);
    /// s.send(7).unwrap();
    /// let mut stream = r.into_stream();
    /// assert_eq!(runtime::block_on(poll_fn(|cx| Pin::new(&mut stream).poll_next(cx))), Some(7));
    /// ```
    pub fn into_stream(self) -> impl FusedStream<Item = T> + Unpin + Send
    where
        T: Send,
    {
        unfold(self, |receiver| async move {
            let message = receiver.recv_async().await.ok()?;
            Some((message, receiver))
        })
    }
}

impl Ticker {
    /// Returns a stream of the times at which ticks were due. It never ends.
    ///
    /// ```
    /// use runtime::stream::Stream;
    /// use runtime::time::{Duration, Instant, Ticker};
    /// use std::{future::poll_fn, pin::Pin};
    /// let mut ticks = Ticker::new(Duration::from_millis(1)).into_stream();
    /// let tick = runtime::block_on(poll_fn(|cx| Pin::new(&mut ticks).poll_next(cx)));
    /// assert!(tick.unwrap() <= Instant::now());
    /// ```
    pub fn into_stream(self) -> impl FusedStream<Item = Instant> + Unpin + Send {
        unfold(self, |ticker| async move { Some((ticker.tick_async().await, ticker)) })
    }
}

impl<T> watch::Receiver<T> {
    /// Returns a stream of the present value and then of each new one. A value that is replaced before it was
    /// received is left out. The stream ends when all senders are gone.
    ///
    /// ```
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// let (_sender, receiver) = runtime::sync::watch::channel("first");
    /// let mut stream = receiver.into_stream();
    /// assert_eq!(runtime::block_on(poll_fn(|cx| Pin::new(&mut stream).poll_next(cx))), Some("first"));
    /// ```
    pub fn into_stream(mut self) -> impl FusedStream<Item = T> + Unpin + Send
    where
        T: Clone + Send + Sync,
    {
        self.mark_changed();
        unfold(self, |mut receiver| async move {
            receiver.changed_async().await.ok()?;
            let value = receiver.borrow_and_update().clone();
            Some((value, receiver))
        })
    }
}

impl<T: Clone> broadcast::Receiver<T> {
    /// Returns a stream of the values. It ends when all values were received and all senders are gone.
    ///
    /// # Errors
    ///
    /// An item is [`RecvError::Lagged`] if the stream was too slow and missed values. The next item is the
    /// oldest value that is left.
    ///
    /// ```
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// let (sender, receiver) = runtime::sync::broadcast::channel(4);
    /// let mut stream = receiver.into_stream();
    /// sender.send(7).unwrap();
    /// assert_eq!(runtime::block_on(poll_fn(|cx| Pin::new(&mut stream).poll_next(cx))), Some(Ok(7)));
    /// ```
    pub fn into_stream(self) -> impl FusedStream<Item = Result<T, RecvError>> + Unpin + Send
    where
        T: Send + Sync,
    {
        unfold(self, |mut receiver| async move {
            match receiver.recv_async().await {
                Err(RecvError::Closed) => None,
                item => Some((item, receiver)),
            }
        })
    }
}

impl<'a> crate::net::Incoming<'a> {
    /// Returns a stream of the connections, with the pauses of the iterator. It never ends. Dropping it loses
    /// no connection.
    ///
    /// ```
    /// use runtime::net::{TcpListener, TcpStream};
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let mut incoming = listener.incoming().into_stream();
    /// let accepted = runtime::block_on(poll_fn(|cx| Pin::new(&mut incoming).poll_next(cx))).unwrap()?;
    /// assert_eq!(accepted.peer_addr()?, client.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn into_stream(
        self,
    ) -> impl FusedStream<Item = std::io::Result<crate::net::TcpStream>> + Unpin + Send + 'a {
        unfold(self, |mut incoming| async move { Some((incoming.next_async().await, incoming)) })
    }
}

#[cfg(unix)]
impl<'a> crate::net::unix::Incoming<'a> {
    /// Returns a stream of the connections, with the pauses of the iterator. It never ends. Dropping it loses
    /// no connection.
    ///
    /// ```
    /// use runtime::net::unix::{UnixListener, UnixStream};
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// # let path = std::env::temp_dir().join(format!("incoming-{}", std::process::id()));
    /// let listener = UnixListener::bind(&path)?;
    /// let _client = UnixStream::connect(&path)?;
    /// # std::fs::remove_file(&path)?;
    /// let mut incoming = listener.incoming().into_stream();
    /// assert!(runtime::block_on(poll_fn(|cx| Pin::new(&mut incoming).poll_next(cx))).unwrap().is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn into_stream(
        self,
    ) -> impl FusedStream<Item = std::io::Result<crate::net::unix::UnixStream>> + Unpin + Send + 'a {
        unfold(self, |mut incoming| async move { Some((incoming.next_async().await, incoming)) })
    }
}

#[cfg(unix)]
impl crate::signal::Signals {
    /// Returns a stream of the signals. It ends when its runtime ends.
    ///
    /// ```
    /// use runtime::signal::{self, SIGUSR2};
    /// use runtime::stream::Stream;
    /// use std::{future::poll_fn, pin::Pin};
    /// let mut signals = signal::notify(&[SIGUSR2])?.into_stream();
    /// signal_hook::low_level::raise(SIGUSR2)?;
    /// assert_eq!(runtime::block_on(poll_fn(|cx| Pin::new(&mut signals).poll_next(cx))), Some(SIGUSR2));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn into_stream(self) -> impl FusedStream<Item = i32> + Unpin + Send {
        unfold(self, |signals| async move {
            let signal = signals.recv_async().await.ok()?;
            Some((signal, signals))
        })
    }
}
