//! An executor and a timer for `hyper` 1.x. (Feature `hyper`.)
//!
//! With this feature [`TcpStream`](crate::net::TcpStream) and the other streams implement hyper's `Read` and
//! `Write`:
//!
//! ```
//! # fn assert<T: hyper::rt::Read + hyper::rt::Write + Unpin>() {}
//! assert::<runtime::net::TcpStream>();
//! ```

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Hyper's executor: runs each future as a green thread of the caller's runtime. It panics where
/// [`spawn`](crate::spawn()) does.
///
/// ```
/// use hyper::rt::Executor as _;
/// let (sender, receiver) = runtime::channel::bounded(1);
/// runtime::hyper::Executor.execute(async move { sender.send(7) });
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(crate::spawn(future));
    }
}

/// Hyper's timer, by [`sleep_async`](crate::time::sleep_async).
///
/// ```
/// use hyper::rt::Timer as _;
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// runtime::block_on(async { runtime::hyper::Timer.sleep(Duration::from_millis(5)).await });
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep(Mutex::new(crate::time::sleep_async(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

/// The `Mutex` makes the future `Sync`, which hyper requires. It is never locked.
struct Sleep(Mutex<crate::time::Sleep>);

impl hyper::rt::Sleep for Sleep {}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self.0.get_mut().unwrap_or_else(PoisonError::into_inner)).poll(cx)
    }
}
