//! `JoinSet`: a group of green threads. Their results come in the order in which the green threads end.
//!
//! ```text
//!   a member's end (`MemberEnd`)             the owner of the set
//!   1 its result is stored in its G          1 spawns it, and keeps its `Join` under a key
//!   2 it gives its slot back                 2 takes a key from the channel: waits while there is none
//!   3 it sends its key on the channel        3 takes the result from the `Join` of that key, without waiting
//! ```
//!
//! The methods that spawn and join take `&mut self`. So the owner has kept the `Join` before it takes the
//! key.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sched::budget;
use sched::spawn::{Spec, Where};
use sched::{After, Join, drop_contained};
use slab::Slab;

use super::{AbortHandle, Builder, JoinError, Thread, ThreadId};
use crate::channel::{Receiver, RecvError, Sender, unbounded};
use crate::default;
use crate::handles::Handle;
use crate::spawn::{Entry, start};
use crate::sync::Semaphore;

/// A group of green threads with results of one type. The results come in the order in which the green
/// threads end.
///
/// It has the names of tokio's `JoinSet`, and a limit on the number of green threads that run at once
/// ([`with_limit`](JoinSet::with_limit)). An end and a [`join_next`](JoinSet::join_next) take the same time
/// however large the set is.
///
/// # Drop
///
/// No member outlives its set: the drop cancels all members and waits until they have ended. A cancellation
/// or a time-out of the caller does not end that wait. A member that computes, or that waits in a destructor,
/// is waited for. [`detach_all`](JoinSet::detach_all) lets the members go on instead. In two cases the drop
/// does not wait:
///
/// - A member that drops its own set is cancelled and not waited for.
/// - In a [forked child](crate::docs::fork) the drop does nothing.
///
/// The drop blocks its OS thread if it is a plain one. In a future it parks inside the poll. Call
/// [`join_next_async`](JoinSet::join_next_async) until the set is empty before such a drop, if it must not.
///
/// The set drops the results that are not taken. If a destructor of them panics, the panic hook reports that,
/// and the panic goes no further.
///
/// ```
/// use runtime::thread::JoinSet;
/// use std::time::Duration;
///
/// let mut set = JoinSet::new();
/// for millis in [30, 1, 15] {
///     set.spawn(move || { runtime::sleep(Duration::from_millis(millis)); millis });
/// }
/// let mut sum = 0;
/// while let Some(result) = set.join_next() {
///     sum += result?;
/// }
/// assert_eq!(sum, 46);
/// # Ok::<(), runtime::thread::JoinError>(())
/// ```
#[must_use = "dropping a JoinSet cancels its members and waits for them"]
pub struct JoinSet<T> {
    /// The members with results that were not taken, by their keys.
    members: Slab<Join<T>>,
    group: Arc<Group>,
    /// The keys of the members that have ended, with results that were not taken.
    ended: Receiver<usize>,
    limit: Option<usize>,
    /// The receive of `poll_join_next`, and the waker of its last poll. While it waits, no other receive may
    /// take a key.
    polled: Option<(NextKey, Waker)>,
}

type NextKey = Pin<Box<dyn Future<Output = Result<usize, RecvError>> + Send + Sync>>;

/// What the members share.
struct Group {
    ended: Sender<usize>,
    /// One permit for each member that may still be spawned. `None` without a limit.
    slots: Option<Semaphore>,
}

/// Reports to the group that a member has ended.
struct MemberEnd {
    group: Arc<Group>,
    key: usize,
}

impl After for MemberEnd {
    fn ended(self, _panicked: bool) {
        self.group.free_slot();
        // It fails if the set was dropped or has detached this member.
        let _ = self.group.ended.send(self.key);
    }
}

/// A slot of a member that has not started. The drop frees it: the start fails, or code of the user unwinds
/// in it.
struct Slot<'g>(&'g Group);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.free_slot();
    }
}

impl Group {
    fn new(limit: Option<usize>) -> (Arc<Group>, Receiver<usize>) {
        let (sender, receiver) = unbounded();
        (Arc::new(Group { ended: sender, slots: limit.map(Semaphore::new) }), receiver)
    }

    fn free_slot(&self) {
        if let Some(slots) = &self.slots {
            slots.add_permits(1);
        }
    }

    /// Takes a slot. Parks until there is one.
    fn take_slot(&self) {
        if let Some(slots) = &self.slots {
            slots.acquire().expect("the semaphore is never closed").forget();
        }
    }

    /// Takes a slot if there is one. Returns `false` if there is none.
    fn try_take_slot(&self) -> bool {
        let Some(slots) = &self.slots else { return true };
        slots.try_acquire().map(|permit| permit.forget()).is_ok()
    }
}

impl<T> JoinSet<T> {
    /// Returns an empty set without a limit.
    ///
    /// ```
    /// let set = runtime::thread::JoinSet::<u8>::new();
    /// assert!(set.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Returns an empty set of which at most `limit` members run at once. [`spawn`](JoinSet::spawn) waits
    /// while there are as many. A member counts until it has ended, not until its result was taken.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    ///
    /// ```
    /// use runtime::thread::JoinSet;
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// static RUNNING: AtomicUsize = AtomicUsize::new(0);
    ///
    /// let mut set = JoinSet::with_limit(3);
    /// for _ in 0..10 {
    ///     set.spawn(|| {
    ///         assert!(RUNNING.fetch_add(1, SeqCst) < 3);
    ///         runtime::sleep(std::time::Duration::from_millis(1));
    ///         RUNNING.fetch_sub(1, SeqCst);
    ///     });
    /// }
    /// assert_eq!(set.join_all().len(), 10);
    /// ```
    #[track_caller]
    pub fn with_limit(limit: usize) -> Self {
        assert!(limit > 0, "a JoinSet with a limit of 0 could never spawn; use at least 1");
        Self::with(Some(limit))
    }

    fn with(limit: Option<usize>) -> Self {
        let (group, ended) = Group::new(limit);
        JoinSet { members: Slab::new(), group, ended, limit, polled: None }
    }

    /// Returns the number of members with results that were not taken, ended or not.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(|| ());
    /// assert_eq!(set.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns `true` if the results of all members were taken.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(|| ());
    /// set.join_next();
    /// assert!(set.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Waits until a member has ended and returns its result, or `None` if the set is empty. The first member
    /// that has ended comes first.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled. [`JoinError::id`] names it.
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork) if it would have to wait.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No result is lost.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(|| 7);
    /// assert_eq!(set.join_next().unwrap().unwrap(), 7);
    /// assert!(set.join_next().is_none());
    /// ```
    pub fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.join_next_with_id().map(without_id)
    }

    /// Waits as [`join_next`](JoinSet::join_next) does, and returns the result with the id of the member that
    /// has ended. Returns `None` if the set is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled. [`JoinError::id`] names it.
    ///
    /// # Panics
    ///
    /// Panics in a [forked child](crate::docs::fork) if it would have to wait.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No result is lost.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// let member = set.spawn(|| 7);
    /// assert_eq!(set.join_next_with_id().unwrap().unwrap(), (member.id(), 7));
    /// assert!(set.join_next_with_id().is_none());
    /// ```
    pub fn join_next_with_id(&mut self) -> Option<Result<(ThreadId, T), JoinError>> {
        if self.is_empty() {
            return None;
        }
        self.polled = None;
        let key = self.ended.recv().expect("the set has a sender itself");
        Some(self.take(key))
    }

    /// Waits until a member has ended and returns its result, as [`join_next`](JoinSet::join_next) does, in a
    /// future.
    ///
    /// If the future is dropped before it is ready, no result is lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled.
    ///
    /// ```
    /// use runtime::thread::JoinSet;
    /// let sum = runtime::block_on(async {
    ///     let mut set = JoinSet::new();
    ///     (0..10).for_each(|i| drop(set.spawn(async move { i })));
    ///     let mut sum = 0;
    ///     while let Some(result) = set.join_next_async().await {
    ///         sum += result.unwrap();
    ///     }
    ///     sum
    /// });
    /// assert_eq!(sum, 45);
    /// ```
    pub async fn join_next_async(&mut self) -> Option<Result<T, JoinError>> {
        self.join_next_with_id_async().await.map(without_id)
    }

    /// Waits as [`join_next_with_id`](JoinSet::join_next_with_id) does, in a future.
    ///
    /// If the future is dropped before it is ready, no result is lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled. [`JoinError::id`] names it.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// let member = set.spawn(async { 7 });
    /// let next = runtime::block_on(set.join_next_with_id_async());
    /// assert_eq!(next.unwrap().unwrap(), (member.id(), 7));
    /// ```
    pub async fn join_next_with_id_async(&mut self) -> Option<Result<(ThreadId, T), JoinError>> {
        if self.is_empty() {
            return None;
        }
        self.polled = None;
        let key = self.ended.recv_async().await.expect("the set has a sender itself");
        Some(self.take(key))
    }

    /// Polls for the result that [`join_next`](JoinSet::join_next) returns, for futures that are written by
    /// hand. If it is pending, the waker of `cx` is woken when a member has ended.
    ///
    /// Only the waker of the last call is woken. A later call of `join_next` or `join_next_async` takes the
    /// wait over, and that waker is then not woken.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled.
    ///
    /// ```
    /// use runtime::thread::JoinSet;
    /// use std::future::poll_fn;
    /// let mut set = JoinSet::new();
    /// set.spawn(|| 7);
    /// let first = runtime::block_on(poll_fn(|cx| set.poll_join_next(cx)));
    /// assert_eq!(first.unwrap().unwrap(), 7);
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx).map(|next| next.map(without_id))
    }

    /// Polls for the result that [`join_next_with_id`](JoinSet::join_next_with_id) returns, as
    /// [`poll_join_next`](JoinSet::poll_join_next) does for that without an id.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled. [`JoinError::id`] names it.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// let mut set = runtime::thread::JoinSet::new();
    /// let member = set.spawn(|| 7);
    /// let first = runtime::block_on(poll_fn(|cx| set.poll_join_next_with_id(cx)));
    /// assert_eq!(first.unwrap().unwrap(), (member.id(), 7));
    /// ```
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(ThreadId, T), JoinError>>> {
        budget::poll(cx, |cx| self.poll_next(cx))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(ThreadId, T), JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        let waker = cx.waker().clone();
        let key = match &mut self.polled {
            Some((next, last)) => {
                *last = waker;
                next.as_mut().poll(cx)
            }
            None => match self.ended.try_recv() {
                Ok(key) => Poll::Ready(Ok(key)),
                Err(_) => {
                    let ended = self.ended.clone();
                    let mut next: NextKey = Box::pin(async move { ended.recv_async().await });
                    let key = next.as_mut().poll(cx);
                    self.polled = Some((next, waker));
                    key
                }
            },
        };
        key.map(|key| {
            self.polled = None;
            Some(self.take(key.expect("the set has a sender itself")))
        })
    }

    /// Returns the result of a member that has ended, or `None` if no member has. It never waits.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(runtime::thread::park);
    /// assert!(set.try_join_next().is_none());
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_join_next_with_id().map(without_id)
    }

    /// Returns the result of a member that has ended with the id of the member, or `None` if no member has
    /// ended. It never waits.
    ///
    /// # Errors
    ///
    /// Returns an error if the member has panicked or was cancelled. [`JoinError::id`] names it.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(runtime::thread::park);
    /// assert!(set.try_join_next_with_id().is_none());
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(ThreadId, T), JoinError>> {
        if let Some((_, waker)) = &self.polled {
            // The key may have been given to that wait.
            let waker = waker.clone();
            return match self.poll_join_next_with_id(&mut Context::from_waker(&waker)) {
                Poll::Ready(next) => next,
                Poll::Pending => None,
            };
        }
        let key = self.ended.try_recv().ok()?;
        Some(self.take(key))
    }

    /// Takes the result of a member that has ended.
    fn take(&mut self, key: usize) -> Result<(ThreadId, T), JoinError> {
        let join = self.members.remove(key);
        debug_assert!(join.is_finished(), "a member sends its key after its result was stored");
        let id = Thread::from_handle(join.thread()).id();
        join.join_surely().map(|value| (id, value)).map_err(|payload| JoinError::of(id, payload))
    }

    /// Waits for all members and returns their results, in the order in which the members ended.
    ///
    /// # Panics
    ///
    /// If a member panics, its panic goes on in the caller. If a member was cancelled, this panics. In both
    /// cases the other members are cancelled and waited for first. [`join_next`](JoinSet::join_next) returns
    /// errors instead.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait cancels all members, waits for their end, and unwinds.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// (0..10).for_each(|i| drop(set.spawn(move || i)));
    /// let mut all = set.join_all();
    /// all.sort();
    /// assert_eq!(all, (0..10).collect::<Vec<_>>());
    /// ```
    #[track_caller]
    pub fn join_all(mut self) -> Vec<T> {
        let mut all = Results(Vec::with_capacity(self.len()));
        while let Some(result) = self.join_next() {
            match result {
                Ok(value) => all.0.push(value),
                Err(error) => {
                    drop((self, all));
                    match error.try_into_panic() {
                        Ok(payload) => resume_unwind(payload),
                        Err(error) => panic!("join_all has no result of a member: {error}"),
                    }
                }
            }
        }
        std::mem::take(&mut all.0)
    }

    /// Cancels all members. They stay in the set: [`join_next`](JoinSet::join_next) returns their errors, and
    /// the results of members that have ended before. It returns at once.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(runtime::thread::park);
    /// set.cancel_all();
    /// assert!(set.join_next().unwrap().unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort_all")]
    pub fn cancel_all(&self) {
        self.members.iter().for_each(|(_, member)| member.cancel());
    }

    /// Cancels all members and waits until they have ended. Their results are dropped. The set is then empty
    /// and can be used again.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(runtime::thread::park);
    /// set.shutdown();
    /// assert!(set.is_empty());
    /// ```
    pub fn shutdown(&mut self) {
        self.cancel_all();
        while let Some(result) = self.join_next() {
            drop_contained(result);
        }
    }

    /// Removes all members from the set and lets them go on. Their results are dropped. They no longer count
    /// for the [limit](JoinSet::with_limit).
    ///
    /// ```
    /// let (done, answer) = runtime::channel::bounded(1);
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn(move || done.send(7).unwrap());
    /// set.detach_all();
    /// drop(set);
    /// assert_eq!(answer.recv(), Ok(7));
    /// ```
    pub fn detach_all(&mut self) {
        // The detached members keep the old group. The keys that they send there are not mistaken for those
        // of later members.
        self.polled = None;
        (self.group, self.ended) = Group::new(self.limit);
        self.members = Slab::new();
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Starts a green thread that runs a closure or a future, in the caller's runtime, as a member of this
    /// set. Returns a handle that cancels it.
    ///
    /// It waits while as many members run as the [limit](JoinSet::with_limit) allows.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()). In a [forked
    /// child](crate::docs::fork) it panics, too.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait for the limit unwinds from here, and `task` is dropped.
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::new();
    /// let member = set.spawn(|| 7);
    /// set.spawn(async { 7 });
    /// assert_eq!(set.join_all(), [7, 7]);
    /// assert!(member.is_finished());
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&mut self, task: E) -> AbortHandle
    where
        E: Entry<M, Output = T> + Send + 'static,
    {
        self.group.take_slot();
        let at = Where::Here(default::sched_of_plain_thread);
        start::or_panic(self.start(at, Spec::at(Location::caller()), task))
    }

    /// Starts a member as [`spawn`](JoinSet::spawn) does, in the runtime of `handle`.
    ///
    /// # Panics
    ///
    /// Panics if the runtime has ended, or if the green thread cannot be started: see
    /// [`runtime::spawn`](crate::spawn()).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait for the limit unwinds from here, and `task` is dropped.
    ///
    /// ```
    /// let runtime = runtime::Runtime::new()?;
    /// let mut set = runtime::thread::JoinSet::new();
    /// set.spawn_on(|| 7, &runtime.handle());
    /// assert_eq!(set.join_all(), [7]);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_on<M, E>(&mut self, task: E, handle: &Handle) -> AbortHandle
    where
        E: Entry<M, Output = T> + Send + 'static,
    {
        self.group.take_slot();
        start::or_panic(self.start(Where::In(handle.sched()), Spec::at(Location::caller()), task))
    }

    /// Starts a member as [`spawn`](JoinSet::spawn) does, unless it would have to wait for the limit.
    ///
    /// # Errors
    ///
    /// Returns `task` if as many members run as the [limit](JoinSet::with_limit) allows.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
    ///
    /// ```
    /// let mut set = runtime::thread::JoinSet::with_limit(1);
    /// let first = set.spawn(runtime::thread::park);
    /// assert!(set.try_spawn(|| ()).is_err());
    /// first.cancel();
    /// assert!(set.join_next().unwrap().is_err());
    /// assert!(set.try_spawn(|| ()).is_ok());
    /// ```
    #[track_caller]
    pub fn try_spawn<M, E>(&mut self, task: E) -> Result<AbortHandle, TrySpawnError<E>>
    where
        E: Entry<M, Output = T> + Send + 'static,
    {
        if !self.group.try_take_slot() {
            return Err(TrySpawnError(task));
        }
        let at = Where::Here(default::sched_of_plain_thread);
        Ok(start::or_panic(self.start(at, Spec::at(Location::caller()), task)))
    }

    /// Starts a member. The caller has taken a slot.
    fn start<M, E>(&mut self, at: Where<'_>, spec: Spec, task: E) -> io::Result<AbortHandle>
    where
        E: Entry<M, Output = T> + Send + 'static,
    {
        let place = self.members.vacant_entry();
        let end = MemberEnd { group: Arc::clone(&self.group), key: place.key() };
        let slot = Slot(&self.group);
        let join = start::spawn_then(at, spec, task, end)?;
        // From here on the member frees its slot when it ends.
        std::mem::forget(slot);
        let handle = AbortHandle::new(join.thread());
        place.insert(join);
        Ok(handle)
    }
}

impl Builder {
    /// Starts a green thread with these settings as a member of `set`. Returns a handle that cancels it.
    ///
    /// It waits while as many members run as the [limit](JoinSet::with_limit) allows.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::spawn`].
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait for the limit unwinds from here, and `task` is dropped.
    ///
    /// ```
    /// use runtime::thread::{Builder, JoinSet, current};
    /// let mut set = JoinSet::new();
    /// Builder::new().name("parser".into()).spawn_in(&mut set, || current().name().map(str::to_string))?;
    /// assert_eq!(set.join_all(), [Some("parser".to_string())]);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_in<M, E>(self, set: &mut JoinSet<E::Output>, task: E) -> io::Result<AbortHandle>
    where
        E: Entry<M> + Send + 'static,
        E::Output: Send + 'static,
    {
        let spec = self.into_spec(Location::caller())?;
        set.group.take_slot();
        set.start(Where::Here(default::sched_of_plain_thread), spec, task)
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        if self.members.is_empty() || sched::fork::is_forked() {
            return;
        }
        self.cancel_all();
        let caller = sched::park::on_green_thread().then(|| super::current().id());
        let is_caller = |member: &Join<T>| caller == Some(Thread::from_handle(member.thread()).id());
        let others = self.members.drain().filter(|member| !is_caller(member));
        others.for_each(|member| drop_contained(member.join_surely()));
    }
}

fn without_id<T>(result: Result<(ThreadId, T), JoinError>) -> Result<T, JoinError> {
    result.map(|(_, value)| value)
}

/// Collects futures into a set: each is [spawned](JoinSet::spawn) as a member of a set without a limit.
///
/// It has the panics of [`JoinSet::spawn`].
///
/// ```
/// use runtime::thread::JoinSet;
/// let set: JoinSet<i32> = (0..3).map(|i| async move { i }).collect();
/// assert_eq!(set.join_all().iter().sum::<i32>(), 3);
/// ```
impl<F> FromIterator<F> for JoinSet<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = JoinSet::new();
        set.extend(futures);
        set
    }
}

/// [Spawns](JoinSet::spawn) each future as a member. It waits while as many members run as the limit allows.
///
/// It has the panics and the cancellation of [`JoinSet::spawn`].
///
/// ```
/// let mut set = runtime::thread::JoinSet::with_limit(2);
/// set.extend((0..10).map(|i| async move { i }));
/// assert_eq!(set.join_all().len(), 10);
/// ```
impl<F> Extend<F> for JoinSet<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    #[track_caller]
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        for future in futures {
            self.spawn(future);
        }
    }
}

/// The results that `join_all` has taken. If it ends without returning them, it drops them.
struct Results<T>(Vec<T>);

impl<T> Drop for Results<T> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_contained);
    }
}

/// The error of [`JoinSet::try_spawn`]: as many members run as the limit allows. It has the task that was not
/// spawned.
///
/// ```
/// let mut set = runtime::thread::JoinSet::with_limit(1);
/// set.spawn(|| runtime::thread::park());
/// let task = set.try_spawn(|| println!("now here")).unwrap_err().0;
/// task();
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TrySpawnError<E>(pub E);

impl<E> fmt::Debug for TrySpawnError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrySpawnError(..)")
    }
}

impl<E> fmt::Display for TrySpawnError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as many members of the JoinSet run as its limit allows")
    }
}

impl<E> Error for TrySpawnError<E> {}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

// As for a `JoinHandle`: a panic of another thread leaves nothing half done that a caller could see through
// the set.
impl<T> UnwindSafe for JoinSet<T> {}
impl<T> RefUnwindSafe for JoinSet<T> {}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet")
            .field("len", &self.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
