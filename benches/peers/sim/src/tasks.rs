//! The planted bugs as tasks, for madsim and turmoil. The crate root names the `tokio` that they use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::share::{TASKS, YIELDS};
use crate::tokio::sync::{Mutex, Notify, RwLock, mpsc};
use crate::tokio::task::yield_now;
use crate::tokio::time::{sleep, timeout};
use crate::tokio::{join, spawn};

const MS: Duration = Duration::from_millis(1);

/// Runs two tasks to their end.
async fn both(
    one: impl Future<Output = ()> + Send + 'static,
    two: impl Future<Output = ()> + Send + 'static,
) {
    let (one, two) = timeout(1000 * MS, async { join!(spawn(one), spawn(two)) }).await.expect("a deadlock");
    one.unwrap();
    two.unwrap();
}

/// The waiter looks at the flag and then waits. If the wake-up comes in between, the waiter waits for ever.
pub async fn lost_wake_up() {
    let pair = Arc::new((Mutex::new(false), Notify::new()));
    let other = pair.clone();
    both(
        async move {
            if !*pair.0.lock().await {
                pair.1.notified().await;
            }
        },
        async move {
            *other.0.lock().await = true;
            other.1.notify_waiters();
        },
    )
    .await;
}

pub async fn lock_order() {
    let locks = Arc::new((Mutex::new(()), Mutex::new(())));
    let other = locks.clone();
    both(
        async move {
            let _one = locks.0.lock().await;
            let _two = locks.1.lock().await;
        },
        async move {
            let _two = other.1.lock().await;
            let _one = other.0.lock().await;
        },
    )
    .await;
}

/// Two buyers each look whether the one ticket is left, and then buy it.
pub async fn check_then_act() {
    let left = Arc::new(RwLock::new(1_i32));
    let buy = |left: Arc<RwLock<i32>>| async move {
        if *left.read().await > 0 {
            *left.write().await -= 1;
        }
    };
    both(buy(left.clone()), buy(left.clone())).await;
    assert_eq!(*left.read().await, 0);
}

/// A worker stops as soon as the flag says so, although messages that were sent before the flag are still in
/// the channel.
pub async fn close_loses_messages() {
    let (s, mut r) = mpsc::unbounded_channel();
    let (closed, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (close, sees) = (closed.clone(), seen.clone());
    both(
        async move {
            while closed.load(SeqCst) == 0 {
                while r.try_recv().is_ok() {
                    sees.fetch_add(1, SeqCst);
                }
                yield_now().await;
            }
        },
        async move {
            (0..3).for_each(|n| s.send(n).unwrap());
            close.store(1, SeqCst);
        },
    )
    .await;
    assert_eq!(seen.load(SeqCst), 3);
}

/// The answer and the time-out may both come; the one that comes second must not count.
pub async fn time_out_race() {
    let (s, mut r) = mpsc::channel::<u8>(1);
    let ends = Arc::new(AtomicUsize::new(0));
    let counts = ends.clone();
    let ends2 = ends.clone();
    both(
        async move {
            if timeout(10 * MS, r.recv()).await.is_err() {
                counts.fetch_add(1, SeqCst);
            }
        },
        async move {
            sleep(10 * MS).await;
            ends2.fetch_add(1, SeqCst);
            let _ = s.try_send(1);
        },
    )
    .await;
    assert_eq!(ends.load(SeqCst), 1, "ended twice");
}

/// A message is sent again after a time without an acknowledgement, and handled twice if only the
/// acknowledgement was late.
pub async fn double_delivery() {
    let (s, mut r) = mpsc::unbounded_channel::<u32>();
    let (ack, mut acked) = mpsc::channel::<()>(4);
    let handled = Arc::new(AtomicUsize::new(0));
    let counts = handled.clone();
    both(
        async move {
            for _ in 0..3 {
                s.send(1).unwrap();
                if timeout(5 * MS, acked.recv()).await.is_ok() {
                    return;
                }
            }
        },
        async move {
            while r.recv().await.is_some() {
                sleep(5 * MS).await;
                counts.fetch_add(1, SeqCst);
                let _ = ack.try_send(());
            }
        },
    )
    .await;
    assert_eq!(handled.load(SeqCst), 1, "the message was handled twice");
}

pub async fn yields() {
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            spawn(async {
                for _ in 0..YIELDS {
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
