//! `DelayQueue`: values with a point in time each, which come out when their time has come.
//!
//! One [`Sleep`] waits for the first of them. The others are ordered in a tree.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use slab::Slab;

use super::{Sleep, sleep_until, sleep_until_async};

/// A queue of values with a point in time each. A value comes out when its time has come, the earliest first.
///
/// It has the names of tokio-util's `DelayQueue`. It serves for entries that expire, such as those of a cache
/// or idle connections: an entry can be removed, and its time can be set anew.
///
/// Each call takes a time that grows with the logarithm of the length. The queue has one timer.
///
/// ```
/// use runtime::time::{DelayQueue, Duration};
///
/// let mut queue = DelayQueue::new();
/// let late = queue.insert("late", Duration::from_secs(3600));
/// queue.insert("second", Duration::from_millis(2));
/// queue.insert("first", Duration::from_millis(1));
/// assert_eq!(queue.next_expired().unwrap().into_inner(), "first");
/// assert_eq!(queue.next_expired().unwrap().into_inner(), "second");
/// assert_eq!(queue.remove(&late).into_inner(), "late");
/// assert!(queue.next_expired().is_none());
/// ```
pub struct DelayQueue<T> {
    entries: Slab<Entry<T>>,
    /// The places in `entries`, by time. Equal times are in the order in which they were set.
    order: BTreeMap<Place, usize>,
    /// The number of the next entry, and of the next time that is set.
    next: u64,
    /// The wait of the last poll, until the first point in time.
    alarm: Option<Sleep>,
}

type Place = (Instant, u64);

struct Entry<T> {
    value: T,
    place: Place,
    number: u64,
}

/// Names an entry of a [`DelayQueue`], until the entry comes out or is removed.
///
/// ```
/// use runtime::time::{DelayQueue, Duration};
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("a", Duration::from_millis(1));
/// assert_eq!(queue.next_expired().unwrap().key(), key);
/// // The entry has come out. A later entry has another key.
/// queue.insert("b", Duration::from_millis(1));
/// assert!(queue.try_remove(&key).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: usize,
    number: u64,
}

/// An entry that has come out of a [`DelayQueue`], or was removed.
///
/// ```
/// use runtime::time::{DelayQueue, Instant};
/// let mut queue = DelayQueue::new();
/// let now = Instant::now();
/// queue.insert_at("a", now);
/// let expired = queue.next_expired().unwrap();
/// assert_eq!((expired.deadline(), *expired.get_ref()), (now, "a"));
/// ```
#[derive(Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// Returns a reference to the value.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// assert_eq!(*queue.next_expired().unwrap().get_ref(), 7);
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the value.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// *queue.next_expired().unwrap().get_mut() += 1;
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the value.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// assert_eq!(queue.next_expired().unwrap().into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the point in time of the entry.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// let now = runtime::time::Instant::now();
    /// queue.insert_at(7, now);
    /// assert_eq!(queue.next_expired().unwrap().deadline(), now);
    /// ```
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that the entry had.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// let key = queue.insert_at(7, runtime::time::Instant::now());
    /// assert_eq!(queue.next_expired().unwrap().key(), key);
    /// ```
    pub fn key(&self) -> Key {
        self.key
    }
}

impl<T> DelayQueue<T> {
    /// Returns an empty queue.
    ///
    /// ```
    /// assert!(runtime::time::DelayQueue::<u8>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        DelayQueue { entries: Slab::new(), order: BTreeMap::new(), next: 0, alarm: None }
    }

    /// Returns the number of entries, whether or not their time has come.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// assert_eq!(queue.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the queue has no entry.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Inserts a value that comes out after at least `timeout`. Returns its key. A time beyond the clock's
    /// range means in thirty years.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_millis(1));
    /// queue.insert("b", Duration::MAX);
    /// assert_eq!(queue.next_expired().unwrap().into_inner(), "a");
    /// ```
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_at(value, after(timeout))
    }

    /// Inserts a value that comes out at `when`, or at once if that is in the past. Returns its key.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at("now", runtime::time::Instant::now());
    /// assert!(queue.try_next_expired().is_some());
    /// ```
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        let place = (when, self.number());
        let number = place.1;
        let index = self.entries.insert(Entry { value, place, number });
        self.order.insert(place, index);
        self.set_alarm();
        Key { index, number }
    }

    /// Removes an entry.
    ///
    /// # Panics
    ///
    /// Panics if the entry has come out or was removed.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(3600));
    /// assert_eq!(queue.remove(&key).into_inner(), "a");
    /// ```
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        self.try_remove(key).expect("the entry with this key has left the queue")
    }

    /// Removes an entry, or returns `None` if it has come out or was removed.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(3600));
    /// assert!(queue.try_remove(&key).is_some());
    /// assert!(queue.try_remove(&key).is_none());
    /// ```
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        self.place(key)?;
        let expired = self.take(key.index);
        self.set_alarm();
        Some(expired)
    }

    /// Sets the time of an entry anew: it comes out after at least `timeout` from now.
    ///
    /// # Panics
    ///
    /// Panics if the entry has come out or was removed.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(3600));
    /// queue.reset(&key, Duration::from_millis(1));
    /// assert!(queue.next_expired().is_some());
    /// ```
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.reset_at(key, after(timeout));
    }

    /// Sets the time of an entry anew: it comes out at `when`.
    ///
    /// # Panics
    ///
    /// Panics if the entry has come out or was removed.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("a", Duration::from_secs(3600));
    /// queue.reset_at(&key, Instant::now());
    /// assert!(queue.try_next_expired().is_some());
    /// ```
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        let earlier = self.place(key).expect("the entry with this key has left the queue");
        self.order.remove(&earlier);
        let place = (when, self.number());
        self.entries[key.index].place = place;
        self.order.insert(place, key.index);
        self.set_alarm();
    }

    /// Returns the point in time of an entry.
    ///
    /// # Panics
    ///
    /// Panics if the entry has come out or was removed.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Instant};
    /// let mut queue = DelayQueue::new();
    /// let now = Instant::now();
    /// let key = queue.insert_at("a", now);
    /// assert_eq!(queue.deadline(&key), now);
    /// ```
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        self.place(key).expect("the entry with this key has left the queue").0
    }

    /// Returns the key of the entry that comes out next, or `None` if the queue is empty.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("late", Duration::from_secs(2));
    /// let first = queue.insert("early", Duration::from_secs(1));
    /// assert_eq!(queue.peek(), Some(first));
    /// ```
    pub fn peek(&self) -> Option<Key> {
        let (_, &index) = self.order.first_key_value()?;
        Some(Key { index, number: self.entries[index].number })
    }

    /// Removes all entries.
    ///
    /// ```
    /// # let mut queue = runtime::time::DelayQueue::new();
    /// queue.insert_at(7, runtime::time::Instant::now());
    /// queue.clear();
    /// assert!(queue.next_expired().is_none());
    /// ```
    pub fn clear(&mut self) {
        self.order.clear();
        self.set_alarm();
        self.entries.clear();
    }

    /// Waits until the time of the first entry has come, and returns the entry. Returns `None` if the queue
    /// is empty.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No entry is lost.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_millis(1));
    /// assert_eq!(queue.next_expired().unwrap().into_inner(), "a");
    /// assert!(queue.next_expired().is_none());
    /// ```
    pub fn next_expired(&mut self) -> Option<Expired<T>> {
        sleep_until(self.first()?);
        Some(self.take_first())
    }

    /// Waits as [`next_expired`](DelayQueue::next_expired) does, in a future, with any executor. If the
    /// future is dropped before it is ready, no entry is lost.
    ///
    /// # Panics
    ///
    /// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
    /// [`block_on`](crate::block_on).
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_millis(1));
    /// assert_eq!(runtime::block_on(queue.next_expired_async()).unwrap().into_inner(), "a");
    /// ```
    pub async fn next_expired_async(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Returns the first entry if its time has come, and else `None`. It never waits.
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_secs(3600));
    /// assert!(queue.try_next_expired().is_none());
    /// ```
    pub fn try_next_expired(&mut self) -> Option<Expired<T>> {
        (self.first()? <= Instant::now()).then(|| self.take_first())
    }

    /// Polls for the entry that [`next_expired`](DelayQueue::next_expired) returns, for futures that are
    /// written by hand. If it is pending, the waker of the last call is woken when the time of the first
    /// entry has come, also if that entry or its time is changed until then.
    ///
    /// It is ready with `None` if the queue is empty. No waker is woken by a later insert then.
    ///
    /// # Panics
    ///
    /// As [`next_expired_async`](DelayQueue::next_expired_async).
    ///
    /// ```
    /// use runtime::time::{DelayQueue, Duration};
    /// use std::future::poll_fn;
    /// let mut queue = DelayQueue::new();
    /// queue.insert("a", Duration::from_millis(1));
    /// let first = runtime::block_on(poll_fn(|cx| queue.poll_expired(cx)));
    /// assert_eq!(first.unwrap().into_inner(), "a");
    /// ```
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let Some(first) = self.first() else { return Poll::Ready(None) };
        let alarm = self.alarm.get_or_insert_with(|| sleep_until_async(first));
        ready!(Pin::new(alarm).poll(cx));
        Poll::Ready(Some(self.take_first()))
    }

    fn first(&self) -> Option<Instant> {
        self.order.first_key_value().map(|((when, _), _)| *when)
    }

    fn take_first(&mut self) -> Expired<T> {
        let (_, &index) = self.order.first_key_value().expect("the caller has seen an entry");
        let expired = self.take(index);
        self.set_alarm();
        expired
    }

    fn take(&mut self, index: usize) -> Expired<T> {
        let Entry { value, place, number } = self.entries.remove(index);
        let removed = self.order.remove(&place);
        debug_assert_eq!(removed, Some(index), "each entry has one place in the order");
        Expired { value, deadline: place.0, key: Key { index, number } }
    }

    /// Returns the place of an entry, or `None` if it has left the queue.
    fn place(&self, key: &Key) -> Option<Place> {
        self.entries.get(key.index).filter(|entry| entry.number == key.number).map(|entry| entry.place)
    }

    /// Sets the alarm of an earlier poll to the first point in time. It wakes the task of that poll then, and
    /// at once if the queue is empty, so that the task sees that.
    fn set_alarm(&mut self) {
        let first = self.first();
        let Some(alarm) = &mut self.alarm else { return };
        match first {
            Some(first) if alarm.deadline() != first => alarm.reset(first),
            None if !alarm.is_elapsed() => alarm.reset(Instant::now()),
            _ => {}
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Returns the point in time after `timeout`. tokio takes thirty years for what the clock cannot name.
fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 24 * 3600))
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        DelayQueue::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
