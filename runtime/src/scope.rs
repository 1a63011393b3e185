//! Scoped green threads, as in `std::thread::scope`: they borrow from their spawner, which waits for their
//! end.

#![allow(unsafe_code)]

mod try_scope;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use sched::park::{Waiting, is_interrupted, unwind_if_cancelled};
use sched::spawn::{Spec, Where};
use sched::sync::Mutex;
use sched::{After, Awaited, Cancel, GHandle, Join, On, Outcome, Ticket};

use crate::default;
use crate::spawn::Entry;
use crate::spawn::start::or_panic;
use crate::sync::Semaphore;
use crate::thread::{AbortHandle, Builder, Result, Thread};

pub use try_scope::{TryJoinHandle, TryScope, try_scope};

/// The state that a spawner and its scoped threads share.
#[derive(Default)]
struct Family {
    state: Mutex<ScopeState>,
    /// A panic of a thread cancels the others.
    ends_by_panic: bool,
    /// One permit for each thread that may still be spawned. Empty without a limit. Set under the lock of the
    /// state while no thread runs, so each thread that takes a permit gives it back.
    slots: OnceLock<Semaphore>,
}

#[derive(Default)]
struct ScopeState {
    running: usize,
    /// The number of threads that panicked and were not joined. It wraps below 0 while a join comes before
    /// the count.
    panicked: usize,
    /// The spawner's wait, once it has begun.
    waits: Option<Ticket>,
    /// Threads that may still run, for a cancellation. Ended threads are removed when the list has doubled.
    members: Vec<GHandle>,
    prune_at: usize,
    /// The members have been cancelled. A member that is added later is cancelled at once.
    cancelled: bool,
}

impl Family {
    #[track_caller]
    fn set_limit(&self, limit: usize) {
        assert!(limit > 0, "a scope with a limit of 0 could never spawn; use at least 1");
        let state = self.state.lock();
        let set =
            state.running == 0 && self.slots.set(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))).is_ok();
        drop(state);
        assert!(set, "the limit of a scope is set once, while none of its green threads runs");
    }

    /// Waits until one more thread may run.
    fn take_slot(&self) {
        if let Some(slots) = self.slots.get() {
            slots.acquire().expect("the slots are never closed").forget();
        }
    }

    fn free_slot(&self) {
        if let Some(slots) = self.slots.get() {
            slots.add_permits(1);
        }
    }

    fn add_member(&self, member: &GHandle) {
        let mut state = self.state.lock();
        if state.cancelled {
            drop(state);
            return member.cancel();
        }
        if state.members.len() >= state.prune_at.max(16) {
            state.members.retain(|member| !member.is_done());
            state.prune_at = 2 * state.members.len();
        }
        state.members.push(member.clone());
    }

    /// Waits until all threads have ended. A cancelled spawner cancels them first.
    fn wait(&self) {
        if is_interrupted() {
            self.cancel();
        }
        let (on, mut cancel) = (On::new(self, Family::look), Cancel::Ends);
        loop {
            // SAFETY: `on` and the family last until this function returns, after the wait.
            let waiting = unsafe { Waiting::begin_on(sched::Why::Scope, &on, cancel) };
            {
                let mut state = self.state.lock();
                if state.running == 0 {
                    return;
                }
                state.waits = Some(waiting.ticket());
            }
            if waiting.park() == Outcome::Cancelled {
                self.cancel();
                cancel = Cancel::Waits;
            }
        }
    }

    /// Returns for a dump which members may still run. *Runs on: any thread.*
    fn look(&self) -> Option<Awaited> {
        let state = self.state.try_lock()?;
        // A cancelled family has no list any more.
        let threads = state.members.iter().filter(|member| !member.is_done()).map(GHandle::id).collect();
        Some(Awaited::Scope { threads })
    }

    fn cancel(&self) {
        let members = {
            let mut state = self.state.lock();
            state.cancelled = true;
            std::mem::take(&mut state.members)
        };
        // Not under the lock: a member that is woken may end at once, and its end takes the lock.
        members.iter().for_each(GHandle::cancel);
    }
}

/// Counts a thread that is about to start as running. Its drop takes the count back, because no thread has
/// started. The cause is an error, or a panic in the `clone` of a value that the thread would have inherited.
struct Starting<'f>(&'f Family);

impl<'f> Starting<'f> {
    fn begin(family: &'f Family) -> Self {
        family.take_slot();
        family.state.lock().running += 1;
        Starting(family)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.free_slot();
        self.0.state.lock().running -= 1;
    }
}

/// Runs when a scoped thread has ended, after it has dropped all that it borrowed.
struct MemberEnd(Arc<Family>);

impl After for MemberEnd {
    fn ended(self, panicked: bool) {
        if panicked && self.0.ends_by_panic {
            self.0.cancel();
        }
        self.0.free_slot();
        let waits = {
            let mut state = self.0.state.lock();
            state.panicked = state.panicked.wrapping_add(usize::from(panicked));
            state.running -= 1;
            if state.running == 0 { state.waits.take() } else { None }
        };
        if let Some(ticket) = waits {
            sched::wake(ticket);
        }
    }
}

/// A scope, in which threads are spawned that borrow from the caller of [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    family: Arc<Family>,
    // Invariant in both lifetimes, as in std: a scope must not be coerced to a shorter or a longer one.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f`, which may spawn green threads that borrow from the caller, and waits until all of them have
/// ended. Returns the value of `f`.
///
/// On a plain OS thread the green threads run in the default runtime.
///
/// # Panics
///
/// - If `f` panics, with that panic, after all threads have ended.
/// - If a thread panicked that was not joined.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits here cancels the scope's threads, waits for their end, and
/// unwinds. In a destructor that runs while it unwinds, it only waits for them.
///
/// ```
/// let mut counts = [0; 4];
/// let text = String::from("a b c d");
/// runtime::scope(|s| {
///     for count in &mut counts {
///         s.spawn(|| *count = text.split(' ').count());
///     }
/// });
/// assert_eq!(counts, [4; 4]);
/// ```
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { family: Arc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.family.wait();
    let panicked = scope.family.state.lock().panicked != 0;
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(value) if panicked => {
            sched::drop_contained(value);
            panic!("a scoped thread panicked");
        }
        Ok(value) => {
            unwind_if_cancelled();
            value
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Sets how many green threads of this scope run at once, at most. It is Go's `SetLimit` of an
    /// `errgroup`. Without it there is no limit.
    ///
    /// Each spawn in this scope waits while as many run. A green thread of the scope that spawns in it counts
    /// itself, so with a limit of 1 it would wait for its own end.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0, if a green thread of the scope runs, or if the limit was set before.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that waits for the limit in a spawn unwinds from there. The task is dropped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// let running = AtomicUsize::new(0);
    /// runtime::scope(|s| {
    ///     s.set_limit(3);
    ///     for _ in 0..10 {
    ///         s.spawn(|| {
    ///             assert!(running.fetch_add(1, SeqCst) < 3);
    ///             runtime::sleep(std::time::Duration::from_millis(1));
    ///             running.fetch_sub(1, SeqCst);
    ///         });
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn set_limit(&self, limit: usize) {
        self.family.set_limit(limit);
    }

    /// Starts a green thread of this scope that runs a closure or a future, and returns its handle.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
    ///
    /// ```
    /// let words = vec!["green", "thread"];
    /// let lengths = runtime::scope(|s| {
    ///     let a = s.spawn(|| words[0].len());
    ///     let b = s.spawn(async { words[1].len() });
    ///     (a.join().unwrap(), b.join().unwrap())
    /// });
    /// assert_eq!(lengths, (5, 6));
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&'scope self, task: E) -> ScopedJoinHandle<'scope, E::Output>
    where
        E: Entry<M> + Send + 'scope,
        E::Output: Send + 'scope,
    {
        or_panic(self.start(Spec::at(Location::caller()), task))
    }

    fn start<M, E>(&'scope self, spec: Spec, task: E) -> io::Result<ScopedJoinHandle<'scope, E::Output>>
    where
        E: Entry<M> + Send + 'scope,
        E::Output: Send + 'scope,
    {
        // SAFETY: what the task borrows lives for 'scope, and `add` explains why the thread does not outlive
        // 'scope.
        self.add(|at, end| unsafe { task.start(at, spec, end) })
    }

    /// Starts a green thread. Its result is what `map` makes of the result of `task`.
    fn start_mapped<M, E, U>(
        &'scope self,
        spec: Spec,
        task: E,
        map: impl FnOnce(E::Output) -> U + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, U>>
    where
        E: Entry<M> + Send + 'scope,
        U: Send + 'scope,
    {
        // SAFETY: what the task and `map` borrow lives for 'scope, and `add` explains why the thread does not
        // outlive 'scope.
        self.add(|at, end| unsafe { task.start_mapped(at, spec, end, map) })
    }

    /// Counts the thread that `start` starts as a member, and returns its handle.
    ///
    /// 'scope ends after `Family::wait` has seen `running` at 0. The thread decrements `running`
    /// (`MemberEnd`) after it has dropped its task and stored or dropped its result. A stored result belongs
    /// to the handle, which does not outlive 'scope.
    fn add<U>(
        &'scope self,
        start: impl FnOnce(Where<'static>, MemberEnd) -> io::Result<Join<U>>,
    ) -> io::Result<ScopedJoinHandle<'scope, U>> {
        let starting = Starting::begin(&self.family);
        let at = Where::Here(default::sched_of_plain_thread);
        match start(at, MemberEnd(Arc::clone(&self.family))) {
            Ok(join) => {
                std::mem::forget(starting);
                self.family.add_member(join.thread());
                Ok(ScopedJoinHandle { join, family: Arc::clone(&self.family), scope: PhantomData })
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.family.state.lock().running).finish_non_exhaustive()
    }
}

impl Builder {
    /// Starts a green thread of `scope` with these settings, and returns its handle.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::spawn`].
    ///
    /// ```
    /// let text = String::from("borrowed");
    /// let length = runtime::scope(|s| {
    ///     let builder = runtime::thread::Builder::new().name("counter".into());
    ///     builder.spawn_scoped(s, || text.len())?.join().map_err(|_| std::io::Error::other("panicked"))
    /// })?;
    /// assert_eq!(length, 8);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, M, E>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        task: E,
    ) -> io::Result<ScopedJoinHandle<'scope, E::Output>>
    where
        E: Entry<M> + Send + 'scope,
        E::Output: Send + 'scope,
    {
        scope.start(self.into_spec(Location::caller())?, task)
    }
}

/// The right to wait for a scoped green thread and to take its result. It is also a future with the same
/// output.
///
/// ```
/// let n = 20;
/// let sum = runtime::scope(|s| s.spawn(|| n + 22).join().unwrap());
/// assert_eq!(sum, 42);
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    join: Join<T>,
    family: Arc<Family>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the green thread's end and returns its result. A panic is then the caller's to handle, and
    /// [`scope`] does not report it.
    ///
    /// # Errors
    ///
    /// Returns the payload of the panic if the green thread has panicked, and
    /// [`Cancelled`](crate::thread::Cancelled) if it was cancelled.
    ///
    /// # Panics
    ///
    /// Panics if the caller is the green thread that it would wait for, and if the handle was polled and has
    /// returned the result already.
    ///
    /// # Cancellation
    ///
    /// A cancelled caller unwinds from here.
    ///
    /// ```
    /// let result = runtime::scope(|s| s.spawn(|| { if true { panic!("oh") } }).join());
    /// assert!(result.is_err());
    /// ```
    pub fn join(self) -> Result<T> {
        let result = self.join.join();
        Self::joined(&self.family, result)
    }

    /// Passes the result on. A panic that the joiner takes is no longer counted in the scope.
    fn joined(family: &Family, result: Result<T>) -> Result<T> {
        if matches!(&result, Err(payload) if !payload.is::<crate::thread::Cancelled>()) {
            // The thread counts its panic only after its result can be taken, so this decrement may come
            // first.
            let mut state = family.state.lock();
            state.panicked = state.panicked.wrapping_sub(1);
        }
        result
    }

    /// Returns `true` if the green thread has ended. Its stack may still be in use for a moment.
    ///
    /// ```
    /// runtime::scope(|s| {
    ///     let thread = s.spawn(|| ());
    ///     while !thread.is_finished() {
    ///         runtime::yield_now();
    ///     }
    /// });
    /// ```
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }

    /// Returns the [`Thread`] of this handle, for its id, its name and `unpark`.
    ///
    /// ```
    /// runtime::scope(|s| {
    ///     let thread = s.spawn(runtime::thread::park);
    ///     thread.thread().unpark();
    /// });
    /// ```
    pub fn thread(&self) -> &Thread {
        Thread::from_handle(self.join.thread())
    }

    /// Cancels the green thread, as [`JoinHandle::cancel`](crate::JoinHandle::cancel) does.
    ///
    /// ```
    /// runtime::scope(|s| s.spawn(runtime::thread::park).cancel());
    /// ```
    pub fn cancel(&self) {
        self.join.cancel();
    }

    /// Returns a handle that cancels the green thread, as
    /// [`JoinHandle::abort_handle`](crate::JoinHandle::abort_handle) does. It may outlive the scope.
    ///
    /// ```
    /// let handle = runtime::scope(|s| {
    ///     let handle = s.spawn(runtime::thread::park).abort_handle();
    ///     handle.cancel();
    ///     handle
    /// });
    /// assert!(handle.is_finished());
    /// ```
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle::new(self.join.thread())
    }
}

impl<T> Future for ScopedJoinHandle<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        Pin::new(&mut this.join).poll(cx).map(|result| Self::joined(&this.family, result))
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", self.thread()).finish_non_exhaustive()
    }
}

// As in std.
impl RefUnwindSafe for Scope<'_, '_> {}
impl<T> UnwindSafe for ScopedJoinHandle<'_, T> {}
impl<T> RefUnwindSafe for ScopedJoinHandle<'_, T> {}
