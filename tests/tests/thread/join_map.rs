//! `JoinMap`: results come with the keys of their green threads, and a key is given once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::bounded;
use runtime::thread::JoinMap;
use runtime::{block_on, sleep};
use tests::{everywhere, on_each, quiet_panics_on_purpose, wait_until};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn results_come_with_their_keys() {
    everywhere(|| {
        let mut map = JoinMap::new();
        for i in 0..50_u64 {
            map.spawn(i, move || {
                sleep(Duration::from_micros(i * 7 % 13));
                i * i
            });
        }
        assert_eq!((map.len(), map.contains_key(&7), map.contains_key(&50)), (50, true, false));
        let mut seen = BTreeSet::new();
        while let Some((key, result)) = map.join_next() {
            assert_eq!(result.unwrap(), key * key);
            assert!(seen.insert(key) && !map.contains_key(&key));
        }
        assert_eq!(seen, (0..50).collect());
        assert!(map.is_empty() && map.join_next().is_none() && map.try_join_next().is_none());

        map.spawn(1, async { 7 });
        let (key, result) = block_on(map.join_next_async()).unwrap();
        assert_eq!((key, result.unwrap()), (1, 7));
        assert!(block_on(map.join_next_async()).is_none());
    });
}

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_replaced_member_is_cancelled_and_gives_no_result() {
    everywhere(|| {
        let mut map = JoinMap::new();
        let ended = Arc::new(AtomicUsize::new(0));
        for round in 0..10 {
            let guard = Dropped(Arc::clone(&ended));
            map.spawn("a", move || {
                let _guard = guard;
                if round < 9 {
                    runtime::thread::park();
                }
                round
            });
            assert_eq!(map.len(), 1);
        }
        let (key, result) = map.join_next().unwrap();
        assert_eq!((key, result.unwrap()), ("a", 9));
        assert!(map.is_empty() && map.join_next().is_none());
        drop(map);
        assert_eq!(ended.load(SeqCst), 10);
    });
}

/// A result that was there before the replacement is dropped, too.
#[test]
fn the_result_of_a_replaced_member_is_dropped() {
    everywhere(|| {
        let mut map = JoinMap::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let value = Dropped(Arc::clone(&dropped));
        let (done, is_done) = bounded(1);
        map.spawn("a", move || {
            done.send(()).unwrap();
            value
        });
        is_done.recv().unwrap();
        let other = Arc::new(AtomicUsize::new(0));
        let value = Dropped(Arc::clone(&other));
        map.spawn("a", move || value);
        let (_, result) = map.join_next().unwrap();
        drop(result.unwrap());
        assert_eq!(other.load(SeqCst), 1);
        drop(map);
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

#[test]
fn members_are_cancelled_by_key() {
    quiet_panics_on_purpose();
    on_each(|| {
        let mut map = JoinMap::new();
        (0..6).for_each(|i| map.spawn(i, runtime::thread::park));
        assert!(map.cancel(&0) && !map.cancel(&6));
        map.cancel_matching(|i| i % 2 == 1);
        let mut ended = BTreeSet::new();
        for _ in 0..4 {
            let (key, result) = map.join_next().unwrap();
            assert!(result.unwrap_err().is_cancelled());
            ended.insert(key);
        }
        assert_eq!(ended, BTreeSet::from([0, 1, 3, 5]));
        assert!(map.try_join_next().is_none());
        assert_eq!(map.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([2, 4]));
        map.shutdown();
        assert!(map.is_empty() && map.join_next().is_none());

        let running = Arc::new(AtomicUsize::new(0));
        let guard = Dropped(Arc::clone(&running));
        let (go, goes) = bounded::<()>(1);
        map.spawn(7, move || {
            let _guard = guard;
            goes.recv().unwrap();
        });
        map.detach_all();
        assert!(map.is_empty());
        drop(map);
        assert_eq!(running.load(SeqCst), 0);
        go.send(()).unwrap();
        wait_until("the detached member ends", || running.load(SeqCst) == 1);
    });
}

#[test]
fn the_limit_counts_replaced_members_until_they_end() {
    on_each(|| {
        let mut map = JoinMap::with_limit(1);
        map.spawn("a", || {
            runtime::thread::park();
            1
        });
        // It waits for the end of the member that it replaces.
        map.spawn("a", || {
            sleep(MILLI);
            2
        });
        map.spawn("b", || 3);
        // An end frees the place before it gives the result, so the two may come in either order.
        let results: BTreeSet<_> =
            std::iter::from_fn(|| map.join_next()).map(|(key, result)| (key, result.unwrap())).collect();
        assert_eq!(results, BTreeSet::from([("a", 2), ("b", 3)]));
    });
}
