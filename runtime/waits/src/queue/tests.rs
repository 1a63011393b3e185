//! Tests of the queue with plain threads and futures. Green threads are tested with the primitives.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Guard, Lock, Queue, WaitFuture, Wakes, wait};
use sched::park::Waiting;
use sched::{Cancel, Outcome};

/// A count of permits, and the waiters for a permit. A waiter's payload is true if it was granted a permit.
#[derive(Default)]
struct Permits {
    left: usize,
    queue: Queue<bool>,
}

fn waiters(permits: &mut Permits) -> &mut Queue<bool> {
    &mut permits.queue
}

fn give(mut guard: Guard<'_, Permits>) {
    let wake = guard.queue.wake_first(|granted| *granted = true);
    if wake.is_none() {
        guard.left += 1;
    }
    drop(guard);
    drop(wake);
}

fn take(permits: &Lock<Permits>, deadline: Option<Instant>) -> Result<(), Outcome> {
    let mut guard = permits.lock();
    if guard.left > 0 {
        guard.left -= 1;
        return Ok(());
    }
    match wait(guard, waiters, Waiting::begin(Cancel::Ends), deadline, false) {
        Ok(granted) => {
            assert!(granted);
            Ok(())
        }
        Err(ended) => Err(ended.outcome),
    }
}

#[test]
fn waiters_get_one_permit_each_in_order() {
    static PERMITS: Lock<Permits> = Lock::new(Permits { left: 0, queue: Queue::new() });
    let served = Lock::new(Vec::new());
    std::thread::scope(|scope| {
        for i in 0..4 {
            let served = &served;
            scope.spawn(move || {
                take(&PERMITS, None).unwrap();
                served.lock().push(i);
            });
            while count(&PERMITS) <= i {
                std::thread::yield_now();
            }
        }
        for i in 0..4 {
            give(PERMITS.lock());
            while served.lock().len() <= i {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(*served.lock(), [0, 1, 2, 3]);
}

fn count(permits: &Lock<Permits>) -> usize {
    let mut n = 0;
    let _ = permits.lock().queue.find(|_| {
        n += 1;
        false
    });
    n
}

#[test]
fn a_waiter_that_timed_out_has_left() {
    let permits = Lock::new(Permits::default());
    let start = Instant::now();
    let deadline = start + Duration::from_millis(5);
    assert_eq!(take(&permits, Some(deadline)), Err(Outcome::TimedOut));
    assert!(start.elapsed() >= Duration::from_millis(5));
    assert_eq!(count(&permits), 0);
    give(permits.lock());
    assert_eq!(take(&permits, Some(deadline)), Ok(()), "the permit was not lost");
}

#[test]
fn all_are_woken_at_once() {
    let permits = Lock::new(Permits::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| take(&permits, None).unwrap());
        }
        while count(&permits) < 4 {
            std::thread::yield_now();
        }
        let mut guard = permits.lock();
        let mut wakes = Wakes::new();
        while let Some(wake) = guard.queue.wake_first(|granted| *granted = true) {
            wakes.add(wake);
        }
        drop(guard);
        drop(wakes);
    });
}

/// Permits are given and taken while waiters time out after a few microseconds.
#[test]
fn time_outs_and_grants_race() {
    let permits = Lock::new(Permits { left: 2, queue: Queue::new() });
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for i in 0..4u64 {
            let (permits, taken) = (&permits, &taken);
            scope.spawn(move || {
                for round in 0..2000 {
                    let patience = Duration::from_micros((round * 7 + i) % 30);
                    if take(permits, Some(Instant::now() + patience)).is_ok() {
                        assert!(taken.fetch_add(1, Ordering::SeqCst) < 2);
                        taken.fetch_sub(1, Ordering::SeqCst);
                        give(permits.lock());
                    }
                }
            });
        }
    });
    assert_eq!(count(&permits), 0);
    assert_eq!(permits.lock().left, 2);
}

struct Flag(AtomicUsize);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn regrant(guard: Guard<'_, Permits>, granted: bool) {
    assert!(granted);
    give(guard);
}

#[test]
fn a_future_is_granted_its_permit() {
    let permits = Lock::new(Permits::default());
    let flag = Arc::new(Flag(AtomicUsize::new(0)));
    let waker = Waker::from(flag.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(WaitFuture::new(&permits, waiters, regrant as fn(Guard<'_, Permits>, bool)));
    assert!(!future.is_waiting());
    future.as_mut().enter(permits.lock(), Waker::noop().clone(), false);
    assert_eq!(future.as_mut().poll_granted(&mut cx), Poll::Pending);
    give(permits.lock());
    assert_eq!(flag.0.load(Ordering::SeqCst), 1, "the last waker is called");
    assert_eq!(future.as_mut().poll_granted(&mut cx), Poll::Ready(true));
    assert!(!future.is_waiting());
}

#[test]
fn a_dropped_future_leaves_or_passes_on() {
    let permits = Lock::new(Permits::default());
    let (mut first, mut second) = (
        Box::pin(WaitFuture::new(&permits, waiters, regrant as fn(Guard<'_, Permits>, bool))),
        Box::pin(WaitFuture::new(&permits, waiters, regrant as fn(Guard<'_, Permits>, bool))),
    );
    first.as_mut().enter(permits.lock(), Waker::noop().clone(), false);
    second.as_mut().enter(permits.lock(), Waker::noop().clone(), false);
    give(permits.lock());
    drop(first);
    assert_eq!(second.as_mut().poll_granted(&mut Context::from_waker(Waker::noop())), Poll::Ready(true));
    second.as_mut().enter(permits.lock(), Waker::noop().clone(), false);
    drop(second);
    assert_eq!(count(&permits), 0);
    give(permits.lock());
    assert_eq!(permits.lock().left, 1);
}
