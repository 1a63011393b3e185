//! `Sleep` as a future that is set again, by its own task and by others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::sync::Mutex;
use runtime::time::{Sleep, sleep_async, sleep_until_async, timeout_at, timeout_at_async};
use runtime::{block_on, channel, sleep, spawn};
use tests::{everywhere, on_each};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Polls once, with a waker that does nothing.
fn is_ready(sleep: &mut Sleep) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_sleep_names_its_deadline() {
    everywhere(|| {
        let deadline = Instant::now() + ms(5);
        let mut sleep = sleep_until_async(deadline);
        assert_eq!(sleep.deadline(), deadline);
        assert!(!sleep.is_elapsed() && !is_ready(&mut sleep));
        block_on(&mut sleep);
        assert!(Instant::now() >= deadline && sleep.is_elapsed());
        assert_eq!(sleep.deadline(), deadline);
        let never = sleep_async(Duration::MAX);
        assert!(never.deadline() > Instant::now() + HOUR && !never.is_elapsed());
    });
}

#[test]
fn a_sleep_is_set_again_before_and_after_its_end() {
    everywhere(|| {
        let mut sleep = sleep_async(HOUR);
        assert!(!is_ready(&mut sleep));
        let deadline = Instant::now() + ms(3);
        sleep.reset(deadline);
        block_on(&mut sleep);
        assert!(Instant::now() >= deadline);
        assert!(is_ready(&mut sleep), "it stays ready");
        sleep.reset(Instant::now() + HOUR);
        assert!(!is_ready(&mut sleep) && !sleep.is_elapsed());
        sleep.reset(Instant::now());
        assert!(is_ready(&mut sleep));
    });
}

#[test]
fn a_task_sets_its_own_sleep_again() {
    on_each(|| {
        let start = Instant::now();
        let ended = spawn(async move {
            let mut sleep = sleep_async(HOUR);
            // Each poll arms the green thread's own timer.
            for wait in [ms(2), HOUR, ms(6), ms(4)] {
                std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready())).await;
                sleep.reset(start + wait);
            }
            sleep.await;
            Instant::now()
        });
        let ended = ended.join().unwrap();
        assert!(ended >= start + ms(4) && ended < start + HOUR);
    });
}

#[test]
fn a_timer_that_was_moved_away_wakes_its_task_at_the_new_time() {
    everywhere(|| {
        // The task polls, and another thread sets the sleep again: to an earlier and to a later time.
        for (first, second) in [(HOUR, ms(2)), (ms(2), ms(6))] {
            let start = Instant::now();
            let sleep = Arc::new(Mutex::new(sleep_async(first)));
            let (polled, has_polled) = channel::bounded(1);
            let task = spawn({
                let sleep = sleep.clone();
                async move {
                    std::future::poll_fn(|cx| {
                        let poll = Pin::new(&mut *sleep.lock()).poll(cx);
                        let _ = polled.try_send(());
                        poll
                    })
                    .await;
                    Instant::now()
                }
            });
            has_polled.recv().unwrap();
            sleep.lock().reset(start + second);
            let ended = task.join().unwrap();
            assert!(ended < start + HOUR);
            assert!(ended >= start + first.min(second), "it ended before both times");
        }
    });
}

/// A waker that is not that of a green thread, so that the sleep has an alarm.
struct Flag(AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn an_alarm_follows_its_sleep() {
    everywhere(|| {
        let (flag, mut later) = loop {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            let mut later = sleep_async(ms(20));
            let (first, waker) = (later.deadline(), Waker::from(flag.clone()));
            assert!(Pin::new(&mut later).poll(&mut Context::from_waker(&waker)).is_pending());
            later.reset(Instant::now() + HOUR);
            // On a busy machine the reset may come too late.
            if Instant::now() < first {
                break (flag, later);
            }
        };
        sleep(ms(30));
        assert!(!flag.0.load(SeqCst), "the waker of a sleep that was set later is not woken early");
        later.reset(Instant::now() + ms(2));
        tests::wait_until("the alarm fires", || flag.0.load(SeqCst));
        assert!(later.is_elapsed());
    });
}

#[test]
fn resets_race_with_the_end_and_lose_no_wake_up() {
    on_each(|| {
        for round in 0..100_u64 {
            let sleep = Arc::new(Mutex::new(sleep_async(Duration::from_micros(round * 7 % 300))));
            let task = spawn({
                let sleep = sleep.clone();
                std::future::poll_fn(move |cx| Pin::new(&mut *sleep.lock()).poll(cx))
            });
            runtime::sleep(Duration::from_micros(round * 11 % 200));
            sleep.lock().reset(Instant::now() + Duration::from_micros(round * 13 % 250));
            task.join().unwrap();
        }
    });
}

#[test]
fn a_deadline_limits_a_closure_and_a_future() {
    everywhere(|| {
        let deadline = Instant::now() + ms(3);
        assert!(timeout_at(deadline, || sleep(HOUR)).is_err());
        assert!(Instant::now() >= deadline);
        assert_eq!(timeout_at(deadline, || 7), Ok(7), "what does not wait runs after the deadline, too");
        assert!(timeout_at(deadline, || sleep(HOUR)).is_err());
        let deadline = Instant::now() + ms(3);
        assert!(block_on(timeout_at_async(deadline, sleep_async(HOUR))).is_err());
        assert!(Instant::now() >= deadline);
        assert_eq!(block_on(timeout_at_async(deadline, async { 7 })), Ok(7));
    });
}
