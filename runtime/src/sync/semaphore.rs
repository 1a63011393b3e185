//! `Semaphore`, with tokio's API without the `.await`s.

mod permit;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use sched::Cancel;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::queue::{Guard, Lock, PassOn, Queue, WaitFuture, Wakes, wait};

pub use permit::{OwnedSemaphorePermit, SemaphorePermit};

/// A number of permits; whoever wants some waits until there are as many.
///
/// It is tokio's `Semaphore`: those who wait are served in the order in which they came, and nobody who wants few passes
/// one who wants many. `acquire` parks its caller; `acquire_async` is awaited instead.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) runs out, unwinds without a
/// permit, and what it was about to be given goes to the next. A future that is dropped does the same.
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
///             // Never more than two are here.
///             runtime::yield_now();
///         });
///     }
/// });
/// assert_eq!(SEATS.available_permits(), 2);
/// ```
pub struct Semaphore {
    state: Lock<State>,
}

struct State {
    permits: usize,
    closed: bool,
    queue: Queue<Request>,
}

struct Request {
    wants: usize,
    /// Else it was closed.
    given: bool,
}

fn queue(state: &mut State) -> &mut Queue<Request> {
    &mut state.queue
}

impl State {
    /// Takes so many, if that is nobody else's turn.
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

    /// Gives those who wait what there is, in order.
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

/// Serves those who wait, and releases the lock before they run.
fn serve(mut state: Guard<'_, State>) {
    let wakes = state.serve();
    drop(state);
    drop(wakes);
}

/// What a future was given and did not fetch goes to the others.
struct ToTheOthers;

impl PassOn<State, Request> for ToTheOthers {
    fn pass_on(&mut self, mut state: Guard<'_, State>, request: Request) {
        if request.given {
            state.permits += request.wants;
        }
        serve(state);
    }
}

impl Semaphore {
    /// The most permits that one can have.
    pub const MAX_PERMITS: usize = usize::MAX >> 3;

    /// One with so many permits.
    ///
    /// # Panics
    ///
    /// If that is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// ```
    /// assert_eq!(runtime::sync::Semaphore::new(3).available_permits(), 3);
    /// ```
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        Semaphore::const_new(permits)
    }

    /// [`new`](Self::new) for statics.
    ///
    /// ```
    /// static ONE: runtime::sync::Semaphore = runtime::sync::Semaphore::const_new(1);
    /// assert_eq!(ONE.available_permits(), 1);
    /// ```
    #[track_caller]
    pub const fn const_new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "a semaphore may not have more than MAX_PERMITS permits");
        Semaphore { state: Lock::new(State { permits, closed: false, queue: Queue::new() }) }
    }

    /// How many permits a newcomer could have: none while others wait.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let _one = semaphore.acquire().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        let state = self.state.lock();
        if state.queue.is_empty() { state.permits } else { 0 }
    }

    /// Adds so many permits; those who wait have them first.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS) then.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
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

    /// Takes up to so many permits away for good, and says how many those were.
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

    /// Takes one permit, waiting for it.
    ///
    /// # Errors
    ///
    /// The semaphore was closed, before or meanwhile.
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

    /// Takes so many permits at once, waiting for them.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    pub fn acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.wait_for(n).map(|()| SemaphorePermit::new(self, n))
    }

    fn wait_for(&self, n: u32) -> Result<(), AcquireError> {
        let wants = n as usize;
        loop {
            let mut state = self.state.lock();
            match state.take(wants) {
                Ok(()) => return Ok(()),
                Err(TryAcquireError::Closed) => return Err(AcquireError(())),
                Err(TryAcquireError::NoPermits) => {}
            }
            match wait(
                state,
                queue,
                Waiting::begin_for(sched::Why::Semaphore, Cancel::Ends),
                None,
                Request { wants, given: false },
            ) {
                Ok(request) if request.given => return Ok(()),
                Ok(_) => return Err(AcquireError(())),
                // Those behind it may want less.
                Err(ended) => serve(ended.guard),
            }
            unwind_if_cancelled();
        }
    }

    /// Takes one permit if it is to be had.
    ///
    /// # Errors
    ///
    /// There are none for a newcomer, or the semaphore was closed.
    ///
    /// ```
    /// use runtime::sync::{Semaphore, TryAcquireError};
    /// assert_eq!(Semaphore::new(0).try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes so many permits at once if they are to be had.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire).
    ///
    /// ```
    /// assert!(runtime::sync::Semaphore::new(2).try_acquire_many(3).is_err());
    /// ```
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.state.lock().take(n as usize).map(|()| SemaphorePermit::new(self, n))
    }

    /// [`acquire`](Self::acquire) with a permit that keeps the semaphore.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
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

    /// [`acquire_many`](Self::acquire_many) with a permit that keeps the semaphore.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
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

    /// [`try_acquire`](Self::try_acquire) with a permit that keeps the semaphore.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire).
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_owned().is_ok());
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// [`try_acquire_many`](Self::try_acquire_many) with a permit that keeps the semaphore.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire).
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// assert!(semaphore.try_acquire_many_owned(2).is_err());
    /// ```
    pub fn try_acquire_many_owned(self: Arc<Self>, n: u32) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.state.lock().take(n as usize)?;
        Ok(OwnedSemaphorePermit::new(self, n))
    }

    /// [`acquire`](Self::acquire) for futures.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
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

    /// [`acquire_many`](Self::acquire_many) for futures.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(2);
    /// let permit = runtime::block_on(async { semaphore.acquire_many_async(2).await.unwrap() });
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    pub async fn acquire_many_async(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        let wants = n as usize;
        // Dropped after the wait: those behind it may want less.
        let _serves = Serves(self);
        let mut waits = pin!(WaitFuture::new(&self.state, queue, ToTheOthers));
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

    /// [`acquire_owned`](Self::acquire_owned) for futures.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// ```
    /// let semaphore = std::sync::Arc::new(runtime::sync::Semaphore::new(1));
    /// runtime::spawn(async move { drop(semaphore.acquire_owned_async().await.unwrap()) }).join().unwrap();
    /// ```
    pub async fn acquire_owned_async(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned_async(1).await
    }

    /// [`acquire_many_owned`](Self::acquire_many_owned) for futures.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire).
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

    /// Closes it: all who wait, and all who come later, get an error. Permits that were given stay.
    ///
    /// ```
    /// let semaphore = runtime::sync::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().is_err());
    /// ```
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let mut wakes = Wakes::new();
        while let Some(wake) = state.queue.wake_first(|request| request.given = false) {
            wakes.add(wake);
        }
        drop(state);
        drop(wakes);
    }

    /// Whether it was closed.
    ///
    /// ```
    /// assert!(!runtime::sync::Semaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// Looks after those who wait when a future has left the queue.
struct Serves<'s>(&'s Semaphore);

impl Drop for Serves<'_> {
    fn drop(&mut self) {
        serve(self.0.state.lock());
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.available_permits()).finish_non_exhaustive()
    }
}

/// The semaphore was closed.
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

/// Why there was no permit without waiting.
///
/// ```
/// assert_eq!(runtime::sync::TryAcquireError::NoPermits.to_string(), "no permits available");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore was closed.
    Closed,
    /// There are none for a newcomer.
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
