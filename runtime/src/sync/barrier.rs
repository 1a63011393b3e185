//! `Barrier`: threads wait until a number of them have come. The API is that of std.

use std::fmt;
use std::pin::pin;
use std::task::Poll;

use sched::Cancel;
use sched::budget::poll_fn;
use sched::park::{Waiting, unwind_if_cancelled};
use waits::queue::{Guard, Lock, PassOn, Queue, WaitFuture, Wakes, wait};

/// A meeting point: threads wait until a number of them have come, and then all go on.
///
/// It has the API of `std::sync::Barrier`, and can be used again after each meeting.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over,
/// unwinds and is not counted. The others wait for one more thread. The same holds for a future that is
/// dropped.
///
/// ```
/// use runtime::sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// let leaders = runtime::sync::Mutex::new(0);
/// runtime::scope(|s| {
///     for _ in 0..3 {
///         s.spawn(|| {
///             if barrier.wait().is_leader() {
///                 *leaders.lock() += 1;
///             }
///         });
///     }
/// });
/// assert_eq!(leaders.into_inner(), 1);
/// ```
pub struct Barrier {
    n: usize,
    state: Lock<Arrived>,
}

/// The threads that have come and wait.
struct Arrived {
    /// The number of queued waiters.
    count: usize,
    /// A waiter's payload is `true` if all have met.
    queue: Queue<bool>,
}

impl Barrier {
    /// Returns a barrier for `n` threads. With 0, as with 1, no thread waits.
    ///
    /// ```
    /// static MEET: runtime::sync::Barrier = runtime::sync::Barrier::new(1);
    /// assert!(MEET.wait().is_leader());
    /// ```
    #[inline]
    pub const fn new(n: usize) -> Barrier {
        Barrier { n, state: Lock::new(Arrived { count: 0, queue: Queue::new() }) }
    }

    /// Waits until all threads have come. The last to come is the leader.
    ///
    /// ```
    /// let barrier = runtime::sync::Barrier::new(2);
    /// let leaders = runtime::scope(|s| {
    ///     let other = s.spawn(|| barrier.wait().is_leader());
    ///     [barrier.wait().is_leader(), other.join().unwrap()]
    /// });
    /// assert_ne!(leaders[0], leaders[1]);
    /// ```
    pub fn wait(&self) -> BarrierWaitResult {
        crate::point();
        loop {
            let Some(arrived) = self.arrive() else { return BarrierWaitResult(true) };
            match wait(
                arrived,
                |arrived| &mut arrived.queue,
                Waiting::begin_for(sched::Why::Barrier, Cancel::Ends),
                None,
                false,
            ) {
                Ok(_) => return BarrierWaitResult(false),
                Err(mut ended) => {
                    ended.guard.count -= usize::from(ended.was_queued);
                    drop(ended.guard);
                    unwind_if_cancelled();
                    if ended.payload {
                        return BarrierWaitResult(false);
                    }
                }
            }
        }
    }

    /// Waits as [`wait`](Barrier::wait) does, in a future, with any executor. The future counts as come from
    /// its first poll on.
    ///
    /// ```
    /// let barrier = runtime::sync::Barrier::new(2);
    /// let (a, b) = runtime::block_on(async { futures::join!(barrier.wait_async(), barrier.wait_async()) });
    /// assert_ne!(a.is_leader(), b.is_leader());
    /// ```
    pub async fn wait_async(&self) -> BarrierWaitResult {
        let mut waits = pin!(WaitFuture::new(&self.state, |arrived| &mut arrived.queue, NotCome));
        poll_fn(|cx| {
            if waits.is_waiting() {
                return waits.as_mut().poll_granted(cx).map(|_| BarrierWaitResult(false));
            }
            // Cloning a waker is user code, so not under the lock.
            let waker = cx.waker().clone();
            let Some(arrived) = self.arrive() else { return Poll::Ready(BarrierWaitResult(true)) };
            waits.as_mut().enter(arrived, waker, false);
            Poll::Pending
        })
        .await
    }

    /// Counts the caller. Wakes all and returns `None` if the caller is the last; else returns the guard,
    /// with which the caller enters the queue.
    fn arrive(&self) -> Option<Guard<'_, Arrived>> {
        let mut arrived = self.state.lock();
        if arrived.count + 1 >= self.n {
            // A waiter that was cancelled before may not have left yet. It is not counted.
            arrived.count -= arrived.queue.remove_ended();
        }
        if arrived.count + 1 < self.n {
            arrived.count += 1;
            return Some(arrived);
        }
        // A waiter that is cancelled from here on was there when all met.
        arrived.count = 0;
        let mut wakes = Wakes::new();
        while let Some(wake) = arrived.queue.wake_first(|met| *met = true) {
            wakes.add(wake);
        }
        drop(arrived);
        drop(wakes);
        None
    }
}

/// A future that waits and is dropped has not come.
struct NotCome;

impl PassOn<Arrived, bool> for NotCome {
    /// All have met: there is nothing to pass on.
    fn regrant(&mut self, _arrived: Guard<'_, Arrived>, _met: bool) {}

    fn left(&mut self, mut arrived: Guard<'_, Arrived>, _met: bool) {
        arrived.count -= 1;
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

/// The result of [`Barrier::wait`].
///
/// ```
/// let result = runtime::sync::Barrier::new(1).wait();
/// assert_eq!(format!("{result:?}"), "BarrierWaitResult { is_leader: true }");
/// ```
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns `true` for one of the threads that have met.
    ///
    /// ```
    /// assert!(runtime::sync::Barrier::new(1).wait().is_leader());
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
