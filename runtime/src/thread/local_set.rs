//! `LocalSet`: tasks of futures that are not `Send`.
//!
//! # What may move
//!
//! A future that is not `Send` may rely on its OS thread: it may share an `Rc` with a thread-local of std. So
//! all its polls and its drop must be on one OS thread. In tokio it is enough that `LocalSet` is not `Send`.
//! Here a closure may change its OS thread when it parks, together with all that lies on its stack. Three
//! things keep the futures of a set in their place:
//!
//! - A green thread with a set waits at home (`sched::park::stay`): it resumes on the same OS thread only,
//!   and other green threads run there while it waits. So a set that lies on a stack does not move.
//! - A poll or a drop of a task is a poll as those of spawned futures (`within_poll`), so it may park.
//! - The set compares the OS thread at each use (`fixed.rs`). A thread-local of std can carry a set from one
//!   green thread to another, which does not wait at home for that set. That green thread may then move. Its
//!   next use of the set panics, and a drop leaks the futures.
//!
//! Other threads have only what is `Sync`: the list of woken tasks, and the result of a task, by a handle
//! that is `Send` only if the result is.
//!
//! Rejected: *`thread::pin` in the place of the first*. Each set would take an OS thread while its green
//! thread waits. *Only to compare*. A closure that parks between two uses of a set would panic now and then.
//! *A green thread for each task*, bound to the M of its spawner. Plain OS threads have no M, and the tasks
//! would run while the set is not polled.

mod fixed;
mod job;
mod tasks;

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tasks::{CURRENT, LocalTask, Tasks};

use super::{Cancelled, Result};
use crate::sync::oneshot;

/// A set of tasks of futures that need not be `Send`. They run on one OS thread, while the set is polled.
///
/// The names and the semantics are those of tokio's `LocalSet`. The tasks run while [`run_until`] or the set
/// itself, which is a future too, is polled. The caller of that poll runs them, in turns. A waker of a task
/// may be called on any thread. Neither the set nor a future of [`run_until`] is `Send`, so
/// [`block_on_local`](crate::block_on_local()) runs these, on green threads and plain OS threads. In place of
/// tokio's `set.block_on(&runtime, future)` write
/// [`runtime.block_on_local(set.run_until(future))`](crate::Runtime::block_on_local).
///
/// A set belongs to the OS thread that has made it. A green thread that makes a set stays on its OS thread
/// until the set is dropped, also when it parks. Other green threads run there while it waits. If one of them
/// computes for long, the green thread waits for it.
///
/// A task may call what parks. The other tasks of the set then wait, too. A panic in a task ends that task
/// only, and its [`LocalJoinHandle`] returns it.
///
/// # Panics
///
/// A set that is in a variable of `std::thread_local!` may be used by green threads that did not make it, and
/// these may change their OS thread. A use of a set on another OS thread panics. A drop there panics too,
/// and leaks the futures. With [thread-locals of its own](crate::docs::moving#thread-locals-of-its-own) a set
/// belongs to its green thread in the place of the OS thread.
///
/// # Drop
///
/// The drop of the set drops the futures of all tasks, on the spot. The tasks have then been cancelled. If a
/// destructor panics, the panic hook reports that, and the panic goes no further.
///
/// ```
/// use runtime::thread::{LocalSet, spawn_local};
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let hits = Rc::new(Cell::new(0));
/// let set = LocalSet::new();
/// for _ in 0..3 {
///     let hits = hits.clone();
///     set.spawn_local(async move {
///         spawn_local(async move { hits.set(hits.get() + 1) }).await.unwrap();
///     });
/// }
/// runtime::block_on_local(set);
/// assert_eq!(hits.get(), 3);
/// ```
///
/// A set does not leave its thread:
///
/// ```compile_fail,E0277
/// let set = runtime::thread::LocalSet::new();
/// runtime::spawn(move || drop(set));
/// ```
///
/// [`run_until`]: LocalSet::run_until
#[must_use = "the tasks of a set run only while it is polled"]
pub struct LocalSet {
    tasks: Arc<Tasks>,
    /// Dropped after the tasks.
    _stays: Stays,
}

/// Keeps the green thread that has made it on its OS thread.
struct Stays {
    green_thread: u64,
    // It belongs to one thread.
    _here: PhantomData<*const ()>,
}

impl Drop for Stays {
    fn drop(&mut self) {
        sched::park::end_stay(self.green_thread);
    }
}

impl LocalSet {
    /// Returns a set without tasks. A green thread stays on its OS thread from now on, until the set is
    /// dropped.
    ///
    /// ```
    /// let set = runtime::thread::LocalSet::new();
    /// runtime::block_on_local(set);
    /// ```
    pub fn new() -> Self {
        let stays = Stays { green_thread: sched::park::stay(), _here: PhantomData };
        LocalSet { tasks: Tasks::new(), _stays: stays }
    }

    /// Adds a task that runs `future`, and returns its handle. The task runs when the set is next polled. It
    /// never waits.
    ///
    /// The handle may be dropped. The task then goes on.
    ///
    /// # Panics
    ///
    /// Panics on [another OS thread](LocalSet#panics) than that of the set.
    ///
    /// ```
    /// use std::rc::Rc;
    /// let set = runtime::thread::LocalSet::new();
    /// let word = Rc::new("local");
    /// let task = set.spawn_local(async move { word.len() });
    /// assert_eq!(runtime::block_on_local(set.run_until(task)).unwrap(), 5);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> LocalJoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn_into(&self.tasks, future)
    }

    /// Returns a future that polls `future` and the tasks of this set until `future` is ready. Its output is
    /// that of `future`. Tasks that have not ended then wait until the set is polled again.
    ///
    /// Within `future`, [`spawn_local`] adds tasks to this set. If several futures poll a set at a time, that
    /// of the last poll is woken for its tasks.
    ///
    /// # Panics
    ///
    /// A poll panics on [another OS thread](LocalSet#panics) than that of the set.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the tasks stay in the set. A poll unwinds if a task calls what parks, and
    /// that call unwinds because the caller was cancelled, or a time-out or a context around it is over. That
    /// task has then ended.
    ///
    /// ```
    /// use runtime::thread::{LocalSet, spawn_local};
    /// let set = LocalSet::new();
    /// let sum = runtime::block_on_local(set.run_until(async {
    ///     let tasks = [1, 2, 3].map(|n| spawn_local(async move { n }));
    ///     let mut sum = 0;
    ///     for task in tasks {
    ///         sum += task.await.unwrap();
    ///     }
    ///     sum
    /// }));
    /// assert_eq!(sum, 6);
    /// ```
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let poll = |cx: &mut Context<'_>| {
            self.tasks.wakes(cx);
            let first = || future.as_mut().poll(cx);
            if let Poll::Ready(output) = CURRENT.enter_if_possible(Arc::clone(&self.tasks), first) {
                return Poll::Ready(output);
            }
            self.poll_tasks(cx);
            Poll::Pending
        };
        poll_fn(poll).await
    }

    /// Lets [`spawn_local`] add tasks to this set on the calling green thread or plain OS thread, until the
    /// guard is dropped. The guard follows a green thread that parks.
    ///
    /// # Panics
    ///
    /// Panics in a destructor at the end of its thread.
    ///
    /// ```
    /// use runtime::thread::{LocalSet, spawn_local};
    /// let set = LocalSet::new();
    /// let guard = set.enter();
    /// let task = spawn_local(async { 42 });
    /// drop(guard);
    /// assert_eq!(runtime::block_on_local(set.run_until(task)).unwrap(), 42);
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard { before: CURRENT.replace(Some(Arc::clone(&self.tasks))), _here: PhantomData }
    }

    /// Polls woken tasks, and wakes `cx` if there may be more of them.
    fn poll_tasks(&self, cx: &Context<'_>) {
        if self.tasks.poll_some() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Its output comes when all tasks have ended. It may then be polled again, for new tasks.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.tasks.wakes(cx);
        self.poll_tasks(cx);
        if self.tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for LocalSet {
    #[track_caller]
    fn drop(&mut self) {
        self.tasks.close();
    }
}

// No code of the user runs while the set is half changed, and a panic of a task is contained.
impl UnwindSafe for LocalSet {}
impl RefUnwindSafe for LocalSet {}

impl Default for LocalSet {
    fn default() -> Self {
        LocalSet::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").finish_non_exhaustive()
    }
}

/// Adds a task to the [`LocalSet`] in which the caller is: in a task of it, in the future of its
/// [`run_until`](LocalSet::run_until), or under the guard of its [`enter`](LocalSet::enter). Returns the
/// handle of the task. It never waits.
///
/// If the set was dropped, the task is cancelled at once.
///
/// # Panics
///
/// Panics outside of a `LocalSet`, and on [another OS thread](LocalSet#panics) than that of the set.
///
/// ```
/// use runtime::thread::{LocalSet, spawn_local};
/// use std::rc::Rc;
/// let set = LocalSet::new();
/// let length = runtime::block_on_local(set.run_until(async {
///     let word = Rc::new("local");
///     spawn_local(async move { word.len() }).await.unwrap()
/// }));
/// assert_eq!(length, 5);
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> LocalJoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let Ok(tasks) = CURRENT.try_get() else { panic!("`spawn_local` is called outside of a `LocalSet`") };
    spawn_into(&tasks, future)
}

#[track_caller]
fn spawn_into<F>(tasks: &Arc<Tasks>, future: F) -> LocalJoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    crate::point();
    let (job, result) = job::new(future);
    LocalJoinHandle { task: tasks.add(job), result: Some(result) }
}

/// The guard of [`LocalSet::enter`].
///
/// ```
/// let set = runtime::thread::LocalSet::new();
/// let guard: runtime::thread::LocalEnterGuard = set.enter();
/// drop(guard);
/// ```
#[must_use = "the set is entered only while the guard lives"]
pub struct LocalEnterGuard {
    before: Option<Arc<Tasks>>,
    // It belongs to one thread.
    _here: PhantomData<*const ()>,
}

impl Drop for LocalEnterGuard {
    fn drop(&mut self) {
        CURRENT.replace_if_possible(self.before.take());
    }
}

impl UnwindSafe for LocalEnterGuard {}
impl RefUnwindSafe for LocalEnterGuard {}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

/// The handle of a task of a [`LocalSet`]: a future with its result. It is `Send` if the result is, so any
/// thread may await it.
///
/// The output is what [`JoinHandle::join`](crate::JoinHandle::join) returns: the output of the task, the
/// payload of its panic, or [`Cancelled`]. After that it must not be polled again.
///
/// Dropping the handle lets the task go on. Its result is then dropped when it ends.
///
/// ```
/// use runtime::thread::{LocalJoinHandle, LocalSet};
/// let set = LocalSet::new();
/// let task: LocalJoinHandle<i32> = set.spawn_local(async { 6 * 7 });
/// let waits = runtime::spawn(task);
/// runtime::block_on_local(set);
/// assert_eq!(waits.join().unwrap().unwrap(), 42);
/// ```
pub struct LocalJoinHandle<T> {
    task: Arc<LocalTask>,
    /// `None` once the result was returned.
    result: Option<oneshot::Receiver<Result<T>>>,
}

impl<T> LocalJoinHandle<T> {
    /// Asks the set to cancel the task. Its future is dropped when the set is next polled. It may be called
    /// on any thread, and never waits. It does nothing if the task has ended.
    ///
    /// ```
    /// use runtime::thread::{Cancelled, LocalSet};
    /// let set = LocalSet::new();
    /// let task = set.spawn_local(std::future::pending::<()>());
    /// task.cancel();
    /// let error = runtime::block_on_local(set.run_until(task)).unwrap_err();
    /// assert!(error.is::<Cancelled>());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        crate::point_in_drop();
        self.task.cancel();
    }

    /// Returns `true` if the task has ended. It never waits.
    ///
    /// ```
    /// let set = runtime::thread::LocalSet::new();
    /// let task = set.spawn_local(async {});
    /// assert!(!task.is_finished());
    /// runtime::block_on_local(set);
    /// assert!(task.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        crate::point();
        self.task.is_ended()
    }
}

impl<T> Future for LocalJoinHandle<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let receiver = self.result.as_mut().expect("a `LocalJoinHandle` is polled after it was ready");
        let received = ready!(Pin::new(receiver).poll(cx));
        self.result = None;
        // There is no result if the futures of the set were leaked.
        Poll::Ready(received.unwrap_or_else(|_| Err(Box::new(Cancelled))))
    }
}

// As for `JoinHandle`.
impl<T> UnwindSafe for LocalJoinHandle<T> {}
impl<T> RefUnwindSafe for LocalJoinHandle<T> {}

impl<T> fmt::Debug for LocalJoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalJoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
