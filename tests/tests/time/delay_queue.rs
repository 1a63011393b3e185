//! `DelayQueue`: each entry comes out at its time and never before, and a change wakes the task that waits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use runtime::thread::Cancelled;
use runtime::time::delay_queue::Expired;
use runtime::time::{DelayQueue, Duration, Instant, sleep_async, timeout, timeout_async};
use runtime::{block_on, spawn};
use tests::{Random, everywhere, on_each, until_it_waits, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn is_late_enough<T>(expired: &Expired<T>) -> bool {
    Instant::now() >= expired.deadline()
}

#[test]
fn entries_come_out_in_the_order_of_their_times() {
    everywhere(|| {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for i in [7, 3, 9, 1, 5] {
            queue.insert_at(i, start + i * MILLI);
        }
        // The same time: in the order in which they were inserted.
        queue.insert_at(100, start + 3 * MILLI);
        queue.insert_at(101, start + 3 * MILLI);
        let mut order = Vec::new();
        while let Some(expired) = queue.next_expired() {
            assert!(is_late_enough(&expired));
            order.push(expired.into_inner());
        }
        assert_eq!(order, [1, 3, 100, 101, 5, 7, 9]);
        assert!(queue.is_empty() && queue.next_expired().is_none() && queue.try_next_expired().is_none());
    });
}

#[test]
fn entries_are_removed_and_set_anew() {
    everywhere(|| {
        let mut queue = DelayQueue::new();
        let late = queue.insert("late", HOUR);
        let gone = queue.insert("gone", MILLI);
        let other = queue.insert("other", 2 * MILLI);
        assert_eq!((queue.len(), queue.peek()), (3, Some(gone)));
        assert_eq!(queue.remove(&gone).into_inner(), "gone");
        assert_eq!(queue.peek(), Some(other));
        queue.reset(&other, HOUR + HOUR);
        assert_eq!(queue.peek(), Some(late));
        let when = Instant::now() + MILLI;
        queue.reset_at(&late, when);
        assert_eq!(queue.deadline(&late), when);
        let expired = queue.next_expired().unwrap();
        assert!(is_late_enough(&expired) && expired.key() == late && *expired.get_ref() == "late");
        // The place of an entry that has left is used again, under another key.
        let next = queue.insert("next", HOUR);
        assert!(queue.try_remove(&late).is_none() && queue.try_remove(&gone).is_none() && next != late);
        assert!(timeout(MILLI, || queue.next_expired()).is_err());
        assert_eq!(queue.len(), 2);
        queue.clear();
        assert!(queue.is_empty() && queue.peek().is_none());
    });
}

/// Counts its wake-ups.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_change_wakes_the_task_that_has_polled() {
    on_each(|| {
        let mut queue = DelayQueue::new();
        let late = queue.insert("late", HOUR);
        let count = Arc::new(Counts::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(queue.poll_expired(&mut cx).is_pending());
        // An earlier entry.
        queue.insert("early", MILLI);
        wait_until("the earlier time wakes the task", || {
            let first = queue.peek().map(|key| queue.deadline(&key));
            count.0.load(SeqCst) > 0 && first.is_some_and(|first| first <= Instant::now())
        });
        let Poll::Ready(Some(first)) = queue.poll_expired(&mut cx) else { panic!("its time has come") };
        assert_eq!(first.into_inner(), "early");
        assert!(queue.poll_expired(&mut cx).is_pending());
        // The time of an entry is set anew.
        let before = count.0.load(SeqCst);
        queue.reset(&late, MILLI);
        let mut polled = Poll::Pending;
        wait_until("the new time wakes the task", || count.0.load(SeqCst) > before);
        while polled.is_pending() {
            polled = queue.poll_expired(&mut cx);
            runtime::sleep(MILLI / 10);
        }
        assert!(matches!(polled, Poll::Ready(Some(_))));
        // The last entry is removed.
        let last = queue.insert("last", HOUR);
        assert!(queue.poll_expired(&mut cx).is_pending());
        let before = count.0.load(SeqCst);
        queue.remove(&last);
        wait_until("the end wakes the task", || count.0.load(SeqCst) > before);
        assert!(matches!(queue.poll_expired(&mut cx), Poll::Ready(None)));
    });
}

#[test]
fn a_future_and_a_dropped_future_lose_nothing() {
    everywhere(|| {
        block_on(async {
            let mut queue = DelayQueue::new();
            let kept = queue.insert("kept", HOUR);
            assert!(timeout_async(MILLI, queue.next_expired_async()).await.is_err());
            queue.insert("first", 2 * MILLI);
            assert_eq!(queue.next_expired_async().await.unwrap().into_inner(), "first");
            // An alarm for an hour was set by the first future. The queue has no entry in between.
            queue.remove(&kept);
            assert!(queue.next_expired_async().await.is_none());
            sleep_async(MILLI).await;
            queue.insert("second", MILLI);
            assert_eq!(queue.next_expired_async().await.unwrap().into_inner(), "second");
            assert!(queue.next_expired_async().await.is_none());
        });
    });
}

#[test]
fn a_cancelled_wait_unwinds_and_keeps_the_entries() {
    on_each(|| {
        let waits = spawn(|| {
            let mut queue = DelayQueue::new();
            queue.insert((), HOUR);
            queue.next_expired();
        });
        until_it_waits(&waits);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
    });
}

/// Many random changes, beside a list that is searched.
#[test]
fn it_agrees_with_a_list() {
    on_each(|| {
        let mut random = Random::new(7);
        let (mut queue, mut list) = (DelayQueue::new(), Vec::new());
        let start = Instant::now();
        for i in 0..2000_u64 {
            let when = start + Duration::from_micros(random.below(3000));
            let any = random.below(list.len().max(1) as u64) as usize;
            match random.below(5) {
                0 | 1 => list.push((queue.insert_at(i, when), when, i)),
                2 if !list.is_empty() => {
                    let (key, was, value) = list.swap_remove(any);
                    let removed = queue.remove(&key);
                    assert_eq!((removed.deadline(), removed.into_inner()), (was, value));
                }
                3 if !list.is_empty() => {
                    list[any].1 = when;
                    queue.reset_at(&list[any].0, when);
                }
                _ => {
                    let first = list.iter().map(|(_, when, _)| *when).min();
                    if let Some(expired) = queue.try_next_expired() {
                        assert_eq!(Some(expired.deadline()), first);
                        list.retain(|(key, ..)| *key != expired.key());
                    }
                }
            }
            assert_eq!(queue.len(), list.len());
        }
        let mut polled = 0;
        let rest = list.len();
        block_on(async {
            while let Some(expired) = queue.next_expired_async().await {
                assert!(is_late_enough(&expired));
                polled += 1;
            }
        });
        assert_eq!(polled, rest);
        let mut empty = Box::pin(queue.next_expired_async());
        assert!(Pin::new(&mut empty).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    });
}
