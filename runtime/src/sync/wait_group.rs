//! `WaitGroup`: waiting until all clones of a value are dropped.

use std::fmt;
use std::sync::Arc;

use sched::Cancel;
use sched::park::{Waiting, unwind_if_cancelled};
use waits::queue::{Lock, Queue, Wakes, wait};

use super::wait::wait_for_async;

/// Waits until a group of threads has finished. Each thread has a clone and drops it at its end.
///
/// The API is that of `WaitGroup` in `crossbeam-utils`, which is Go's, counted by clones.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over,
/// unwinds. Its own clone has been dropped by then.
///
/// ```
/// use runtime::sync::WaitGroup;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let (group, done) = (WaitGroup::new(), Arc::new(AtomicU32::new(0)));
/// for _ in 0..4 {
///     let (group, done) = (group.clone(), done.clone());
///     runtime::spawn(move || {
///         done.fetch_add(1, Ordering::Relaxed);
///         drop(group);
///     });
/// }
/// group.wait();
/// assert_eq!(done.load(Ordering::Relaxed), 4);
/// ```
pub struct WaitGroup(Arc<Lock<Group>>);

struct Group {
    clones: usize,
    queue: Queue<()>,
}

impl WaitGroup {
    /// Returns the first member of a new group.
    ///
    /// ```
    /// runtime::sync::WaitGroup::new().wait();
    /// ```
    pub fn new() -> Self {
        WaitGroup(Arc::new(Lock::new(Group { clones: 1, queue: Queue::new() })))
    }

    /// Drops this clone, and waits until all other clones are dropped.
    ///
    /// ```
    /// let group = runtime::sync::WaitGroup::new();
    /// let other = group.clone();
    /// runtime::spawn(move || drop(other));
    /// group.wait();
    /// ```
    pub fn wait(self) {
        crate::point();
        let group = Arc::clone(&self.0);
        drop(self);
        loop {
            let state = group.lock();
            if state.clones == 0 {
                return;
            }
            match wait(
                state,
                |group| &mut group.queue,
                Waiting::begin_for(sched::Why::WaitGroup, Cancel::Ends),
                None,
                (),
            ) {
                Ok(()) => return,
                Err(ended) => drop(ended.guard),
            }
            unwind_if_cancelled();
        }
    }
}

impl WaitGroup {
    /// Drops this clone, and returns a future that waits until all other clones are dropped.
    ///
    /// The future works in any executor. Dropping it ends the wait.
    ///
    /// ```
    /// let group = runtime::sync::WaitGroup::new();
    /// let other = group.clone();
    /// runtime::spawn(async move { drop(other) });
    /// runtime::block_on(group.wait_async());
    /// ```
    pub fn wait_async(self) -> impl Future<Output = ()> + Send + 'static {
        let group = Arc::clone(&self.0);
        drop(self);
        async move {
            wait_for_async(&group, |group| &mut group.queue, |group| (group.clones == 0).then_some(())).await
        }
    }
}

impl Clone for WaitGroup {
    fn clone(&self) -> WaitGroup {
        crate::point();
        self.0.lock().clones += 1;
        WaitGroup(Arc::clone(&self.0))
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        crate::point_in_drop();
        let mut group = self.0.lock();
        group.clones -= 1;
        let mut wakes = Wakes::new();
        while group.clones == 0
            && let Some(wake) = group.queue.wake_first(|()| ())
        {
            wakes.add(wake);
        }
        drop(group);
        drop(wakes);
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.lock().clones;
        f.debug_struct("WaitGroup").field("count", &count).finish()
    }
}
