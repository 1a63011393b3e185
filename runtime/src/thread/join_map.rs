//! `JoinMap`: a group of green threads with a key each. A `JoinSet` runs them; this file knows their keys.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use sched::drop_contained;

use super::{AbortHandle, JoinError, JoinSet, ThreadId};
use crate::handles::Handle;
use crate::spawn::Entry;

/// A group of green threads, each with a key of its own. Results come with their keys, in the order in which
/// the green threads end.
///
/// It has the names of tokio-util's `JoinMap`, and the limit of a [`JoinSet`].
///
/// # Drop
///
/// The drop cancels all members and waits until they have ended, as that of a [`JoinSet`] does.
///
/// ```
/// use runtime::thread::JoinMap;
///
/// let mut lengths = JoinMap::new();
/// for word in ["one", "three"] {
///     lengths.spawn(word, move || word.len());
/// }
/// while let Some((word, length)) = lengths.join_next() {
///     assert_eq!(word.len(), length?);
/// }
/// # Ok::<(), runtime::thread::JoinError>(())
/// ```
#[must_use = "dropping a JoinMap cancels its members and waits for them"]
pub struct JoinMap<K, V> {
    /// The members, and the replaced ones that have not ended.
    set: JoinSet<V>,
    by_key: HashMap<K, AbortHandle>,
    /// The key of each member in `by_key`.
    keys: HashMap<ThreadId, K>,
}

impl<K, V> JoinMap<K, V> {
    /// Returns an empty map without a limit.
    ///
    /// ```
    /// let map = runtime::thread::JoinMap::<u8, ()>::new();
    /// assert!(map.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with(JoinSet::new())
    }

    /// Returns an empty map of which at most `limit` members run at once, as [`JoinSet::with_limit`] does.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is 0.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::with_limit(2);
    /// (0..10).for_each(|i| map.spawn(i, move || i * i));
    /// assert_eq!(map.len(), 10);
    /// ```
    #[track_caller]
    pub fn with_limit(limit: usize) -> Self {
        Self::with(JoinSet::with_limit(limit))
    }

    fn with(set: JoinSet<V>) -> Self {
        JoinMap { set, by_key: HashMap::new(), keys: HashMap::new() }
    }

    /// Returns the number of members with results that were not taken, ended or not.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || ());
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns `true` if the results of all members were taken.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || ());
    /// map.join_next();
    /// assert!(map.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns the keys of all members, in no order.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || ());
    /// assert_eq!(map.keys().collect::<Vec<_>>(), [&"a"]);
    /// ```
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.by_key.keys()
    }

    /// Cancels all members. They stay in the map: [`join_next`](JoinMap::join_next) returns their errors, and
    /// the results of members that have ended before. It returns at once.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", runtime::thread::park);
    /// map.cancel_all();
    /// assert!(map.join_next().unwrap().1.unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort_all")]
    pub fn cancel_all(&self) {
        self.set.cancel_all();
    }

    /// Cancels the members of which `matches` returns `true` for the key. They stay in the map.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// (0..4).for_each(|i| map.spawn(i, runtime::thread::park));
    /// map.cancel_matching(|i| i % 2 == 0);
    /// let (key, _) = map.join_next().unwrap();
    /// assert_eq!(key % 2, 0);
    /// ```
    #[doc(alias = "abort_matching")]
    pub fn cancel_matching(&self, mut matches: impl FnMut(&K) -> bool) {
        self.by_key.iter().filter(|(key, _)| matches(key)).for_each(|(_, member)| member.cancel());
    }

    /// Returns `true` if the member with this id is in the map.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || ());
    /// assert!(!map.contains_task(&runtime::thread::current().id()));
    /// ```
    pub fn contains_task(&self, id: &ThreadId) -> bool {
        self.keys.contains_key(id)
    }

    /// Cancels all members and waits until they have ended. Their results are dropped. The map is then empty
    /// and can be used again.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", runtime::thread::park);
    /// map.shutdown();
    /// assert!(map.is_empty());
    /// ```
    pub fn shutdown(&mut self) {
        self.forget_keys();
        self.set.shutdown();
    }

    /// Removes all members from the map and lets them go on. Their results are dropped.
    ///
    /// ```
    /// let (done, answer) = runtime::channel::bounded(1);
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", move || done.send(7).unwrap());
    /// map.detach_all();
    /// drop(map);
    /// assert_eq!(answer.recv(), Ok(7));
    /// ```
    pub fn detach_all(&mut self) {
        self.forget_keys();
        self.set.detach_all();
    }

    fn forget_keys(&mut self) {
        self.by_key.clear();
        self.keys.clear();
    }
}

impl<K: Hash + Eq, V> JoinMap<K, V> {
    /// Returns `true` if the map has a member with this key, ended or not.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn(String::from("a"), || ());
    /// assert!(map.contains_key("a") && !map.contains_key("b"));
    /// ```
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.by_key.contains_key(key)
    }

    /// Cancels the member with this key, which stays in the map. Returns `false` if there is none.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", runtime::thread::park);
    /// assert!(map.cancel("a") && !map.cancel("b"));
    /// let (key, result) = map.join_next().unwrap();
    /// assert!(key == "a" && result.unwrap_err().is_cancelled());
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.by_key.get(key).inspect(|member| member.cancel()).is_some()
    }

    /// Waits until a member has ended and returns its key and its result, or `None` if the map is empty.
    ///
    /// # Errors
    ///
    /// The result is an error if the member has panicked or was cancelled.
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
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || 7);
    /// let (key, result) = map.join_next().unwrap();
    /// assert_eq!((key, result.unwrap()), ("a", 7));
    /// assert!(map.join_next().is_none());
    /// ```
    pub fn join_next(&mut self) -> Option<(K, Result<V, JoinError>)> {
        while !self.is_empty() {
            let next = self.set.join_next_with_id()?;
            if let Some(member) = self.take(next) {
                return Some(member);
            }
        }
        None
    }

    /// Waits as [`join_next`](JoinMap::join_next) does, in a future. If the future is dropped before it is
    /// ready, no result is lost.
    ///
    /// # Errors
    ///
    /// As [`join_next`](JoinMap::join_next).
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", async { 7 });
    /// let (key, result) = runtime::block_on(map.join_next_async()).unwrap();
    /// assert_eq!((key, result.unwrap()), ("a", 7));
    /// ```
    pub async fn join_next_async(&mut self) -> Option<(K, Result<V, JoinError>)> {
        while !self.is_empty() {
            let next = self.set.join_next_with_id_async().await?;
            if let Some(member) = self.take(next) {
                return Some(member);
            }
        }
        None
    }

    /// Returns the key and the result of a member that has ended, or `None` if no member has. It never waits.
    ///
    /// # Errors
    ///
    /// As [`join_next`](JoinMap::join_next).
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", runtime::thread::park);
    /// assert!(map.try_join_next().is_none());
    /// ```
    pub fn try_join_next(&mut self) -> Option<(K, Result<V, JoinError>)> {
        while let Some(next) = self.set.try_join_next_with_id() {
            if let Some(member) = self.take(next) {
                return Some(member);
            }
        }
        None
    }

    /// Returns the key and the result of a member that has ended. Drops the result of a thread that was
    /// replaced.
    fn take(&mut self, ended: Result<(ThreadId, V), JoinError>) -> Option<(K, Result<V, JoinError>)> {
        let (id, result) = match ended {
            Ok((id, value)) => (id, Ok(value)),
            Err(error) => (error.id().expect("a set knows the ids of its members"), Err(error)),
        };
        let Some(key) = self.keys.remove(&id) else {
            drop_contained(result);
            return None;
        };
        self.by_key.remove(&key);
        Some((key, result))
    }

    /// Cancels the member with this key, if there is one, and removes it. Its result is dropped when it ends.
    fn replace(&mut self, key: &K) {
        if let Some(replaced) = self.by_key.remove(key) {
            self.keys.remove(&replaced.id());
            replaced.cancel();
        }
    }
}

impl<K: Hash + Eq + Clone, V: Send + 'static> JoinMap<K, V> {
    /// Starts a green thread that runs a closure or a future, in the caller's runtime, as the member with
    /// this key.
    ///
    /// A member that had this key is cancelled and removed: its result is dropped, and
    /// [`join_next`](JoinMap::join_next) returns no error of it. It waits while as many members run as the
    /// [limit](JoinMap::with_limit) allows. A removed member counts until it has ended.
    ///
    /// # Panics
    ///
    /// Panics if the green thread cannot be started: see [`runtime::spawn`](crate::spawn()). The map then has
    /// no member with this key.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait for the limit unwinds from here, and `task` is dropped.
    ///
    /// ```
    /// let mut map = runtime::thread::JoinMap::new();
    /// map.spawn("a", || { runtime::thread::park(); 1 });
    /// map.spawn("a", || 2);
    /// assert_eq!(map.join_next().unwrap().1.unwrap(), 2);
    /// assert!(map.is_empty());
    /// ```
    #[track_caller]
    pub fn spawn<M, E>(&mut self, key: K, task: E)
    where
        E: Entry<M, Output = V> + Send + 'static,
    {
        self.replace(&key);
        let member = self.set.spawn(task);
        self.keys.insert(member.id(), key.clone());
        self.by_key.insert(key, member);
    }

    /// Starts a green thread as [`spawn`](JoinMap::spawn) does, in the runtime of `handle`.
    ///
    /// # Panics
    ///
    /// As [`spawn`](JoinMap::spawn), and if that runtime has been shut down.
    ///
    /// ```
    /// use runtime::{Builder, thread::JoinMap};
    /// let runtime = Builder::new().procs(1).build()?;
    /// let mut map = JoinMap::new();
    /// map.spawn_on("a", || 7, &runtime.handle());
    /// assert_eq!(map.join_next().unwrap().1.unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn spawn_on<M, E>(&mut self, key: K, task: E, handle: &Handle)
    where
        E: Entry<M, Output = V> + Send + 'static,
    {
        self.replace(&key);
        let member = self.set.spawn_on(task, handle);
        self.keys.insert(member.id(), key.clone());
        self.by_key.insert(key, member);
    }
}

impl<K, V> Default for JoinMap<K, V> {
    fn default() -> Self {
        JoinMap::new()
    }
}

impl<K: fmt::Debug, V> fmt::Debug for JoinMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_key.keys()).finish()
    }
}
