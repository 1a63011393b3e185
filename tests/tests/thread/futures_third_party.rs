//! Futures of other crates: channels, locks and combinators of `futures`, and `async-channel`. They run in
//! spawned futures and in `block_on`, mixed with the runtime's own waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::channel::{mpsc, oneshot};
use futures::future::{AbortHandle, Abortable, FutureExt, join_all, select_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{SinkExt, pin_mut};
use runtime::channel::{bounded, unbounded};
use runtime::context::Context;
use runtime::sync::{Notify, Semaphore};
use runtime::thread::pin;
use runtime::time::{Ticker, Timer, sleep_async, timeout_async};
use runtime::{block_on, spawn};
use tests::{on, on_each};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn channels_of_the_futures_crate() {
    on_each(|| {
        let (tx, mut rx) = mpsc::channel::<u64>(4);
        for i in 0..8 {
            let mut tx = tx.clone();
            spawn(async move {
                for n in 0..100 {
                    tx.send(100 * i + n).await.unwrap();
                }
            });
        }
        drop(tx);
        let sum = spawn(async move {
            let mut sum = 0;
            while let Some(n) = rx.next().await {
                sum += n;
            }
            sum
        });
        assert_eq!(sum.join().unwrap(), (0..800).sum::<u64>());
    });
}

/// A future waits for a green thread and for a plain OS thread, and a plain OS thread waits for a future.
#[test]
fn a_oneshot_between_futures_green_and_plain_threads() {
    on_each(|| {
        let (tx, rx) = oneshot::channel();
        spawn(move || {
            runtime::sleep(ms(1));
            tx.send(1).unwrap();
        });
        assert_eq!(block_on(rx), Ok(1));
        let (tx, rx) = oneshot::channel();
        std::thread::spawn(move || tx.send(2).unwrap());
        assert_eq!(spawn(rx).join().unwrap(), Ok(2));
        let (tx, rx) = oneshot::channel();
        let plain = std::thread::spawn(move || futures::executor::block_on(rx));
        spawn(async move { tx.send(3).unwrap() });
        assert_eq!(plain.join().unwrap(), Ok(3));
        let (tx, rx) = oneshot::channel::<u8>();
        drop(tx);
        assert!(block_on(rx).is_err());
    });
}

#[test]
fn async_channel() {
    on_each(|| {
        let (tx, rx) = async_channel::bounded::<u64>(2);
        let producers: Vec<_> = (0..4)
            .map(|i| {
                let tx = tx.clone();
                spawn(async move {
                    for n in 0..250 {
                        tx.send(250 * i + n).await.unwrap();
                    }
                })
            })
            .collect();
        drop(tx);
        // The crate's blocking calls would block an OS thread; `block_on` parks a green thread.
        let consumers: Vec<_> = (0..4)
            .map(|i| {
                let rx = rx.clone();
                let take = async move {
                    let mut sum = 0;
                    while let Ok(n) = rx.recv().await {
                        sum += n;
                    }
                    sum
                };
                if i % 2 == 0 { spawn(take) } else { spawn(move || block_on(take)) }
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(consumers.into_iter().map(|c| c.join().unwrap()).sum::<u64>(), (0..1000).sum::<u64>());
    });
}

#[test]
fn combinators_over_futures_of_the_runtime() {
    on_each(|| {
        block_on(async {
            let start = Instant::now();
            let (a, b) = futures::join!(sleep_async(ms(2)).map(|()| 1), async {
                sleep_async(ms(4)).await;
                2
            });
            assert!(a + b == 3 && start.elapsed() >= ms(4));

            let sums = join_all((0..50).map(|i| spawn(async move { i }))).await;
            assert_eq!(sums.into_iter().map(Result::unwrap).sum::<i32>(), 1225);
            assert!(
                try_join_all((0..5).map(|i| async move { if i == 3 { Err(i) } else { Ok(i) } })).await
                    == Err(3)
            );

            let (first, _, rest) =
                select_all([HOUR, ms(1), HOUR].map(|time| sleep_async(time).map(move |()| time).boxed()))
                    .await;
            assert_eq!((first, rest.len()), (ms(1), 2));

            let mut unordered: FuturesUnordered<_> =
                [3, 1, 2].into_iter().map(|time| sleep_async(ms(4 * time)).map(move |()| time)).collect();
            let mut all = Vec::new();
            while let Some(time) = unordered.next().await {
                all.push(time);
            }
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);

            let (tx, rx) = unbounded();
            let never = sleep_async(HOUR).fuse();
            let message = rx.recv_async().fuse();
            pin_mut!(never, message);
            spawn(move || tx.send("here").unwrap());
            futures::select! {
                () = never => panic!("the hour has not passed"),
                message = message => assert_eq!(message, Ok("here")),
            }
        });
    });
}

#[test]
fn abortable_and_shared_futures() {
    on_each(|| {
        let (handle, registration) = AbortHandle::new_pair();
        let task = spawn(Abortable::new(sleep_async(HOUR), registration));
        spawn(move || {
            runtime::sleep(ms(1));
            handle.abort();
        });
        assert!(task.join().unwrap().is_err());

        let polled = Arc::new(AtomicUsize::new(0));
        let its = polled.clone();
        let shared = async move {
            its.fetch_add(1, Ordering::SeqCst);
            sleep_async(ms(2)).await;
            42
        };
        let shared = shared.boxed().shared();
        let tasks: Vec<_> = (0..20).map(|_| spawn(shared.clone())).collect();
        assert!(tasks.into_iter().all(|task| task.join().unwrap() == 42));
        assert_eq!(polled.load(Ordering::SeqCst), 1, "the shared future is polled by a single task");
    });
}

#[test]
fn the_mutex_of_the_futures_crate() {
    on_each(|| {
        let count = Arc::new(futures::lock::Mutex::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let count = count.clone();
                spawn(async move {
                    for i in 0..200 {
                        let mut count = count.lock().await;
                        let seen = *count;
                        if i % 50 == 0 {
                            sleep_async(Duration::from_micros(10)).await;
                        }
                        *count = seen + 1;
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(block_on(async { *count.lock().await }), 1600);
    });
}

/// Each asynchronous call of the runtime works in `block_on`, in a spawned future and in a foreign executor.
#[test]
fn each_asynchronous_call_in_each_executor() {
    let all = || async {
        let (tx, rx) = bounded(0);
        let echo = spawn(move || rx.recv().unwrap());
        tx.send_async(7).await.unwrap();
        assert_eq!(echo.await.unwrap(), 7);
        let (tx, rx) = bounded(1);
        tx.send_async(8).await.unwrap();
        assert_eq!(rx.recv_async().await, Ok(8));

        let timer = Timer::new(ms(1));
        timer.fired_async().await;
        assert!(!timer.stop());
        let ticker = Ticker::new(ms(1));
        assert!(ticker.tick_async().await < ticker.tick_async().await);

        let notify = Arc::new(Notify::new());
        let its = notify.clone();
        spawn(move || its.notify_one());
        notify.notified_async().await;
        let semaphore = Semaphore::new(1);
        let permit = semaphore.acquire_async().await.unwrap();
        assert!(timeout_async(ms(1), semaphore.acquire_async()).await.is_err());
        drop(permit);

        let (context, cancel) = Context::background().with_timeout(HOUR);
        cancel.cancel();
        assert!(context.done().recv_async().await.is_err());
    };
    on_each(|| {
        block_on(all());
        spawn(all()).join().unwrap();
        let _pin = pin();
        futures::executor::block_on(all());
    });
    futures::executor::block_on(all());
}

/// A foreign executor on a green thread parks the OS thread, and other green threads run on. Its waker is in
/// a thread-local of that OS thread, so the green thread must be pinned.
#[test]
fn a_foreign_executor_on_a_green_thread() {
    on(2, || {
        let (tx, rx) = oneshot::channel();
        let waits = spawn(move || {
            let _pin = pin();
            futures::executor::block_on(rx)
        });
        spawn(move || {
            runtime::sleep(ms(5));
            tx.send(5).unwrap();
        });
        assert_eq!(waits.join().unwrap(), Ok(5));
        let _pin = pin();
        let mut pool = futures::executor::LocalPool::new();
        let (tx, rx) = unbounded();
        spawn(move || (0..10).for_each(|i| tx.send(i).unwrap()));
        let sum = pool.run_until(async {
            let mut sum = 0;
            while let Ok(n) = rx.recv_async().await {
                sum += n;
            }
            sum
        });
        assert_eq!(sum, 45);
    });
}
