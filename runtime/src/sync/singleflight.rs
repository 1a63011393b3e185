//! `singleflight`: one call for all threads that ask for the same thing at the same time. The semantics are
//! those of Go's `golang.org/x/sync/singleflight`.
//!
//! ```text
//!   a caller                                    the caller that runs the function
//!   lock the map: join the call of the key,     run it
//!     or begin one                              lock the map: take the call out; was it shared?
//!   run the function, or wait for the outcome   publish the outcome
//! ```
//!
//! So a caller that comes after the end of the function begins a new call. The outcome lies in a `OnceCell`,
//! which lets the next waiter run its own function if the first one was cancelled.

use std::any::Any;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

use sched::sync::Mutex;

use super::OnceCell;
use crate::context::Ended;
use crate::thread::Cancelled;
use crate::time::Elapsed;

/// A group of calls, each with a key. Callers with the same key at the same time share one call.
///
/// ```
/// use runtime::sync::singleflight::Group;
/// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
///
/// static LOADS: AtomicUsize = AtomicUsize::new(0);
/// let pages = Group::new();
/// runtime::scope(|s| {
///     for _ in 0..10 {
///         s.spawn(|| {
///             let page = pages.run("/index", || {
///                 LOADS.fetch_add(1, SeqCst);
///                 runtime::sleep(std::time::Duration::from_millis(20));
///                 String::from("<html>")
///             });
///             assert_eq!(page.value, "<html>");
///         });
///     }
/// });
/// assert!(LOADS.load(SeqCst) >= 1);
/// ```
pub struct Group<K, V> {
    calls: Mutex<HashMap<K, Arc<Call<V>>>>,
}

/// What [`Group::run`] returns.
///
/// ```
/// let flight = runtime::sync::singleflight::Group::new().run(1, || "one");
/// assert_eq!((flight.value, flight.shared), ("one", false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flight<V> {
    /// The value of the function.
    pub value: V,
    /// True if several callers got the value.
    pub shared: bool,
}

struct Call<V> {
    outcome: OnceCell<Outcome<V>>,
    /// The callers that have joined and not left. Used only under the lock of the map, so every access is
    /// relaxed.
    callers: AtomicUsize,
}

enum Outcome<V> {
    Value(V),
    /// The function panicked with this message.
    Panicked(String),
}

/// The part of a caller in a call. Its drop leaves the call.
struct Joined<'g, K: Eq + Hash, V> {
    group: &'g Group<K, V>,
    key: K,
    call: Arc<Call<V>>,
}

impl<K: Eq + Hash, V> Joined<'_, K, V> {
    /// Takes the call out of the map, so that no caller joins any more. Returns `true` if other callers have
    /// joined.
    fn finish(&self) -> bool {
        let mut calls = self.group.calls.lock();
        let removed = take_call(&mut calls, &self.key, &self.call);
        let shared = self.call.callers.load(Relaxed) > 1;
        drop(calls);
        drop(removed);
        shared
    }
}

impl<K: Eq + Hash, V> Drop for Joined<'_, K, V> {
    fn drop(&mut self) {
        let mut calls = self.group.calls.lock();
        let is_last = self.call.callers.fetch_sub(1, Relaxed) == 1;
        // The last caller leaves without an outcome, or after the call was taken out.
        let removed = if is_last { take_call(&mut calls, &self.key, &self.call) } else { None };
        drop(calls);
        drop(removed);
    }
}

/// Takes `call` out of the map, unless `forget` or a later call has replaced it. The caller drops the result
/// without the lock, because keys have destructors of the user's.
fn take_call<K: Eq + Hash, V>(
    calls: &mut HashMap<K, Arc<Call<V>>>,
    key: &K,
    call: &Arc<Call<V>>,
) -> Option<(K, Arc<Call<V>>)> {
    if calls.get(key).is_some_and(|present| Arc::ptr_eq(present, call)) {
        calls.remove_entry(key)
    } else {
        None
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Group<K, V> {
    /// Returns a group without calls.
    ///
    /// ```
    /// let group = runtime::sync::singleflight::Group::new();
    /// assert_eq!(group.run("key", || 7).value, 7);
    /// ```
    pub fn new() -> Self {
        Group { calls: Mutex::new(HashMap::new()) }
    }

    fn join(&self, key: K) -> Joined<'_, K, V> {
        let mut calls = self.calls.lock();
        let call = match calls.entry(key.clone()) {
            Entry::Occupied(call) => Arc::clone(call.get()),
            Entry::Vacant(place) => {
                let call = Call { outcome: OnceCell::new(), callers: AtomicUsize::new(0) };
                Arc::clone(place.insert(Arc::new(call)))
            }
        };
        call.callers.fetch_add(1, Relaxed);
        drop(calls);
        Joined { group: self, key, call }
    }

    /// Runs `f` and returns a clone of its value, or waits for the call with the same `key` that another
    /// thread runs, and returns a clone of that value. `f` is dropped then.
    ///
    /// A caller that comes after the end of the function runs its own. Use a cache for values that live
    /// longer.
    ///
    /// The keys and the clones of values are made by code of the user: `Hash`, `Eq` and `Clone` of `K` run
    /// under a lock and must not park. A call with the same key inside of `f` waits for ever.
    ///
    /// # Panics
    ///
    /// If the function that runs panics, that panic goes on in its caller. The callers that wait for it panic
    /// with its message.
    ///
    /// # Cancellation
    ///
    /// A green thread that is cancelled while it waits unwinds and leaves the others alone. If the caller
    /// that runs its function is cancelled, or a time-out or a context ends it, then the next caller that
    /// waits runs its own function.
    ///
    /// ```
    /// use runtime::sync::singleflight::Group;
    /// let group = Group::new();
    /// let first = group.run("a", || Ok::<_, String>(1));
    /// let second = group.run("a", || Err(String::from("not shared: the first call is over")));
    /// assert!(first.value.is_ok() && second.value.is_err());
    /// ```
    #[doc(alias = "do")]
    pub fn run(&self, key: K, f: impl FnOnce() -> V) -> Flight<V> {
        let joined = self.join(key);
        let (mut shared, mut panic) = (true, None);
        let outcome = joined.call.outcome.get_or_init(|| {
            let result = pass_ends(catch_unwind(AssertUnwindSafe(f)));
            shared = joined.finish();
            outcome_of(result, &mut panic)
        });
        flight(outcome, shared, panic)
    }

    /// As [`run`](Group::run), in a future. A call may be shared with callers of `run`. If the returned
    /// future is dropped, the next caller that waits runs its own function.
    ///
    /// # Panics
    ///
    /// As [`run`](Group::run).
    ///
    /// ```
    /// use runtime::sync::singleflight::Group;
    /// let group = Group::new();
    /// assert_eq!(runtime::block_on(group.run_async("key", async { 7 })).value, 7);
    /// ```
    pub async fn run_async(&self, key: K, future: impl IntoFuture<Output = V>) -> Flight<V> {
        let joined = self.join(key);
        let (mut shared, mut panic) = (true, None);
        let outcome = joined
            .call
            .outcome
            .get_or_init_async(|| async {
                let mut future = pin!(future.into_future());
                let result = std::future::poll_fn(|cx| {
                    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                        Ok(Poll::Pending) => Poll::Pending,
                        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
                        Err(payload) => Poll::Ready(Err(payload)),
                    }
                });
                let result = pass_ends(result.await);
                shared = joined.finish();
                outcome_of(result, &mut panic)
            })
            .await;
        flight(outcome, shared, panic)
    }

    /// Lets the next call with `key` begin anew, even if a call with that key runs. Those that wait for that
    /// call still get its value.
    ///
    /// ```
    /// let group = runtime::sync::singleflight::Group::<String, u8>::new();
    /// group.forget("key");
    /// ```
    pub fn forget<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        // In its own statement, so that the lock is released before destructors of the user run.
        let forgotten = self.calls.lock().remove_entry(key);
        drop(forgotten);
    }
}

/// The result of a function that was run by `catch_unwind`.
type Caught<V> = Result<V, Box<dyn Any + Send>>;

/// Unwinds further if the function was ended from outside. Returns the result of any other function.
fn pass_ends<V>(result: Caught<V>) -> Caught<V> {
    match result {
        Err(payload) if payload.is::<Cancelled>() || payload.is::<Elapsed>() || payload.is::<Ended>() => {
            resume_unwind(payload)
        }
        result => result,
    }
}

/// Returns the outcome for all callers, and puts the payload of a panic into `panic`.
fn outcome_of<V>(result: Caught<V>, panic: &mut Option<Box<dyn Any + Send>>) -> Outcome<V> {
    match result {
        Ok(value) => Outcome::Value(value),
        Err(payload) => {
            let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
                (Some(text), _) => (*text).to_string(),
                (None, Some(text)) => text.clone(),
                (None, None) => String::from("a payload that is no text"),
            };
            *panic = Some(payload);
            Outcome::Panicked(text)
        }
    }
}

/// Returns what a caller gets. `panic` is the payload if the caller itself has run the function.
fn flight<V: Clone>(outcome: &Outcome<V>, shared: bool, panic: Option<Box<dyn Any + Send>>) -> Flight<V> {
    match (outcome, panic) {
        (_, Some(payload)) => resume_unwind(payload),
        (Outcome::Value(value), None) => Flight { value: value.clone(), shared },
        (Outcome::Panicked(text), None) => {
            panic!("the call with this key panicked in another thread: {text}")
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Default for Group<K, V> {
    fn default() -> Self {
        Group::new()
    }
}

impl<K, V> UnwindSafe for Group<K, V> {}
impl<K, V> RefUnwindSafe for Group<K, V> {}

impl<K, V> fmt::Debug for Group<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("calls", &self.calls.lock().len()).finish_non_exhaustive()
    }
}
