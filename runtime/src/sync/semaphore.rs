//! `Semaphore`: a number of permits, for which callers park or await. The API is that of tokio.

mod permit;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use sched::Cancel;
use sched::budget::poll_fn;
use sched::park::{Waiting, unwind_if_cancelled};
use waits::queue::{Guard, Lock, PassOn, Queue, WaitFuture, Wakes, wait};

pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

/// A number of permits. A thread that wants some waits until there are as many.
///
/// It has the API of `tokio::sync::Semaphore`. Waiters are served in the order in which they came: a waiter
/// that wants few permits never passes one that wants many. [`acquire`](Self::acquire) parks its caller;
/// [`acquire_async`](Self::acquire_async) is awaited.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over,
/// unwinds without a permit. Permits that were on their way to it go to the next waiter. The same holds for a
/// future that is dropped.
///
/// ```
/// use runtime::sync::Semaphore;
///
/// static SEATS: Semaphore = Semaphore::const_new(2);
///
/// runtime::scope(|s| {
///     for _ in 0..8 {
///         s.spawn(|| {
///             let _seat = SEATS.acquire().unwrap();
///             // At most two threads are here.
///             runtime::yield_now();
///         });
///     }
/// });
/// assert_eq!(SEATS.available_permits(), 2);
/// ```
pub struct Semaphore {
    state: Lock<SemaphoreState>,
}

struct SemaphoreState {
    permits: usize,
    closed: bool,
    queue: Queue<Request>,
}

struct Request {
    wants: usize,
    /// The waiter has its permits. If it was woken without them, the semaphore was closed.
    given: bool,
}

fn queue(state: &mut SemaphoreState) -> &mut Queue<Request> {
    &mut state.queue
}

impl SemaphoreState {
    /// Takes `wants` permits. Returns an error if there are fewer, if others wait, or if the semaphore is
    /// closed.
    fn take(&mut self, wants: usize) -> Result<(), TryAcquireError> {
        if self.closed {
            return Err(TryAcquireError::Closed);
        }
        if wants > self.permits || wants > 0 && !self.queue.is_empty() {
            return Err(TryAcquireError::NoPermits);
        }
        self.permits -= wants;
        Ok(())
    }

    /// Gives free permits to the waiters, in order. Returns the wake-ups of those that have all of theirs.
    fn serve(&mut self) -> Wakes {
        let mut wakes = Wakes::new();
        while let Some(mut first) = self.queue.first() {
            let wants = first.payload().wants;
            if wants > self.permits {
                break;
            }
            first.payload().given = true;
            if let Ok(wake) = first.wake() {
                self.permits -= wants;
                wakes.add(wake);
            }
        }
        wakes
    }
}

/// Gives free permits to the waiters, and releases the lock before it wakes them.
fn serve(mut state: Guard<'_, SemaphoreState>) {
    let wakes = state.serve();
    drop(state);
    drop(wakes);
}

/// Passes on the permits of a future that was dropped.
struct PassToOthers;

impl PassOn<SemaphoreState, Request> for PassToOthers {
    fn regrant(&mut self, mut state: Guard<'_, SemaphoreState>, request: Request) {
        if request.given {
            state.permits += request.wants;
        }
        serve(state);
    }

    /// Waiters behind the future may want fewer permits.
    fn left(&mut self, state: Guard<'_, SemaphoreState>, _request: Request) {
        serve(state);
    }
}

impl Semaphore {
    /// The largest number of permits that a semaphore can have.
    pub const MAX_PERMITS: usize = usize::MAX >> 3;

    /// Returns a semaphore with `permits` permits.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is larger than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// ```
    /// assert_eq!(runtime::sync::Semaphore::new(3).available_permits(), 3);
    /// ```
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        Semaphore::const_new(permits)
    }

    /// Returns a semaphore with `permits` permits, for statics.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is larger than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// ```
    /// static ONE: runtime::sync::Semaphore = runtime::sync::Semaphore::const_new(1);
    /// assert_eq!(ONE.available_permits(), 1);
    /// ```
    #[track_caller]
    pub const fn const_new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "a semaphore may not have more than MAX_PERMITS permits");
        Semaphore { state: Lock::new(SemaphoreState { permits, closed: false, queue: Queue::new() }) }
    }

    /// Returns the number of permits that a new caller could have: 0 while others wait.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let _one = semaphore.acquire().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        crate::point();
        let state = self.state.lock();
        if state.queue.is_empty() { state.permits } else { 0 }
    }

    /// Adds `n` permits. Waiters get them first.
    ///
    /// # Panics
    ///
    /// Panics if the semaphore then had more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        crate::point_in_drop();
        if n == 0 {
            return;
        }
        let mut state = self.state.lock();
        let sum = state.permits.checked_add(n).filter(|&sum| sum <= Self::MAX_PERMITS);
        let Some(sum) = sum else {
            drop(state);
            panic!("number of added permits ({n}) would overflow MAX_PERMITS ({})", Self::MAX_PERMITS);
        };
        state.permits = sum;
        serve(state);
    }

    /// Removes up to `n` permits for good. Returns how many were removed.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!((semaphore.forget_permits(2), semaphore.forget_permits(2)), (2, 1));
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        let mut state = self.state.lock();
        let gone = n.min(state.permits);
        state.permits -= gone;
        gone
    }

    /// Takes one permit. Waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// let permit = semaphore.acquire().unwrap();
    /// assert!(semaphore.try_acquire().is_err());
    /// drop(permit);
    /// assert!(semaphore.try_acquire().is_ok());
    /// ```
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Takes `n` permits at once. Waits until there are as many.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    pub fn acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        crate::point();
        self.wait_for(n).map(|()| SemaphorePermit::new(self, n))
    }

    fn wait_for(&self, n: u32) -> Result<(), AcquireError> {
        loop {
            if let Some(result) = self.wait_once(n) {
                return result;
            }
            unwind_if_cancelled();
        }
    }

    /// Takes one permit as `acquire` does, but never unwinds. Returns `None` if the caller's wait was
    /// interrupted.
    #[cfg(all(
        feature = "interpose",
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    pub(crate) fn acquire_unless_interrupted(&self) -> Option<Result<SemaphorePermit<'_>, AcquireError>> {
        self.wait_once(1).map(|result| result.map(|()| SemaphorePermit::new(self, 1)))
    }

    /// Waits for `n` permits. Returns `None` if the wait was interrupted.
    fn wait_once(&self, n: u32) -> Option<Result<(), AcquireError>> {
        let wants = n as usize;
        let mut state = self.state.lock();
        match state.take(wants) {
            Ok(()) => return Some(Ok(())),
            Err(TryAcquireError::Closed) => return Some(Err(AcquireError(()))),
            Err(TryAcquireError::NoPermits) => {}
        }
        match wait(
            state,
            queue,
            Waiting::begin_for(sched::Why::Semaphore, Cancel::Ends),
            None,
            Request { wants, given: false },
        ) {
            Ok(request) if request.given => Some(Ok(())),
            Ok(_) => Some(Err(AcquireError(()))),
            Err(ended) => {
                // Waiters behind this one may want fewer permits.
                serve(ended.guard);
                None
            }
        }
    }

    /// Takes one permit without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if no permit is free for a new caller, or if the semaphore was closed.
    ///
    /// ```
    /// use runtime::sync::{Semaphore, TryAcquireError};
    /// assert_eq!(Semaphore::new(0).try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits at once without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer permits are free for a new caller, or if the semaphore was closed.
    ///
    /// ```
    /// assert!(runtime::sync::Semaphore::new(2).try_acquire_many(3).is_err());
    /// ```
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        crate::point();
        self.state.lock().take(n as usize).map(|()| SemaphorePermit::new(self, n))
    }

    /// Takes one permit, which keeps the `Arc` of the semaphore. Waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// use runtime::sync::Semaphore;
    /// use std::sync::Arc;
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().unwrap();
    /// runtime::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1)
    }

    /// Takes `n` permits at once, which keep the `Arc` of the semaphore. Waits until there are as many.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// use runtime::sync::Semaphore;
    /// let semaphore = std::sync::Arc::new(Semaphore::new(2));
    /// assert_eq!(semaphore.acquire_many_owned(2).unwrap().num_permits(), 2);
    /// ```
    pub fn acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.wait_for(n)?;
        Ok(OwnedSemaphorePermit::new(self, n))
    }

    /// Takes one permit, which keeps the `Arc` of the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if no permit is free for a new caller, or if the semaphore was closed.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_owned().is_ok());
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Takes `n` permits at once, which keep the `Arc` of the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer permits are free for a new caller, or if the semaphore was closed.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_many_owned(2).is_err());
    /// ```
    pub fn try_acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.state.lock().take(n as usize)?;
        Ok(OwnedSemaphorePermit::new(self, n))
    }

    /// Takes one permit, in a future, which waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// runtime::block_on(async {
    ///     let _permit = semaphore.acquire_async().await.unwrap();
    ///     assert_eq!(semaphore.available_permits(), 0);
    /// });
    /// ```
    pub async fn acquire_async(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_async(1).await
    }

    /// Takes `n` permits at once, in a future, which waits until there are as many.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let permit = runtime::block_on(async { semaphore.acquire_many_async(2).await.unwrap() });
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    pub async fn acquire_many_async(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        let wants = n as usize;
        let mut waits = pin!(WaitFuture::new(&self.state, queue, PassToOthers));
        let given = poll_fn(|cx| {
            if waits.is_waiting() {
                return waits.as_mut().poll_granted(cx).map(|request| request.given);
            }
            let waker = cx.waker().clone();
            let mut state = self.state.lock();
            match state.take(wants) {
                Ok(()) => Poll::Ready(true),
                Err(TryAcquireError::Closed) => Poll::Ready(false),
                Err(TryAcquireError::NoPermits) => {
                    waits.as_mut().enter(state, waker, Request { wants, given: false });
                    Poll::Pending
                }
            }
        });
        if given.await { Ok(SemaphorePermit::new(self, n)) } else { Err(AcquireError(())) }
    }

    /// Takes one permit, which keeps the `Arc` of the semaphore, in a future, which waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// runtime::spawn(async move { drop(semaphore.acquire_owned_async().await.unwrap()) }).join().unwrap();
    /// ```
    pub async fn acquire_owned_async(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned_async(1).await
    }

    /// Takes `n` permits at once, which keep the `Arc` of the semaphore, in a future, which waits until there
    /// are as many.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore was closed, before or while this waited.
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(2));
    /// let permit = runtime::block_on(semaphore.acquire_many_owned_async(2)).unwrap();
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    pub async fn acquire_many_owned_async(
        self: Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_async(n).await?.forget();
        Ok(OwnedSemaphorePermit::new(self, n))
    }

    /// Closes the semaphore: waiters, and all later callers, get an error. Permits that were given stay
    /// valid.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().is_err());
    /// ```
    pub fn close(&self) {
        crate::point_in_drop();
        let mut state = self.state.lock();
        state.closed = true;
        let mut wakes = Wakes::new();
        while let Some(wake) = state.queue.wake_first(|request| request.given = false) {
            wakes.add(wake);
        }
        drop(state);
        drop(wakes);
    }

    /// Returns `true` if the semaphore was closed.
    ///
    /// ```
    /// assert!(!runtime::sync::Semaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.available_permits()).finish_non_exhaustive()
    }
}

/// The error of [`Semaphore::acquire`] and its like: the semaphore was closed.
///
/// ```
/// let semaphore = runtime::sync::Semaphore::new(0);
/// semaphore.close();
/// assert_eq!(semaphore.acquire().unwrap_err().to_string(), "semaphore closed");
/// ```
#[derive(Debug)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("semaphore closed")
    }
}

impl std::error::Error for AcquireError {}

/// The error of [`Semaphore::try_acquire`] and its like.
///
/// ```
/// assert_eq!(runtime::sync::TryAcquireError::NoPermits.to_string(), "no permits available");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore was closed.
    Closed,
    /// Too few permits are free for a new caller.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "semaphore closed",
            TryAcquireError::NoPermits => "no permits available",
        })
    }
}

impl std::error::Error for TryAcquireError {}
