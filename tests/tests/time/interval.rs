//! `time::Interval`: the first tick at once, whole periods, late ticks, and resets.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::sync::Mutex;
use runtime::time::{Interval, MissedTickBehavior, interval, interval_at, timeout, timeout_async};
use runtime::{block_on, channel, sleep, spawn};
use tests::{everywhere, on_each, panics_with};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Ticks in one of the ways that wait.
fn tick(way: usize, interval: &mut Interval) -> Instant {
    match way % 3 {
        0 => interval.tick(),
        1 => block_on(interval.tick_async()),
        _ => block_on(std::future::poll_fn(|cx| interval.poll_tick(cx))),
    }
}

#[test]
fn the_ticks_are_whole_periods_apart() {
    everywhere(|| {
        let start = Instant::now() + ms(1);
        let mut interval = interval_at(start, ms(2));
        for k in 0..9 {
            assert_eq!(tick(k, &mut interval), start + ms(2) * k as u32);
            assert!(Instant::now() >= start + ms(2) * k as u32);
        }
        assert_eq!(interval.period(), ms(2));
    });
}

#[test]
fn late_ticks_come_in_a_burst_unless_it_was_set() {
    everywhere(|| {
        let start = Instant::now();
        let mut interval = interval_at(start, ms(10));
        assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
        interval.tick();
        sleep(ms(35));
        let due: Vec<_> = (0..3).map(|way| tick(way, &mut interval) - start).collect();
        assert_eq!(due, [ms(10), ms(20), ms(30)]);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        sleep(ms(25));
        interval.tick();
        let next = interval.tick();
        assert_eq!((next - start).as_nanos() % ms(10).as_nanos(), 0);
        assert!(next - start > ms(50), "missed ticks are left out");
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sleep(ms(25));
        interval.tick();
        let now = Instant::now();
        assert!(interval.tick() >= now + ms(5), "the next tick is one period after the late one");
    });
}

#[test]
fn an_interval_is_set_again() {
    everywhere(|| {
        for way in 0..3 {
            let mut interval = interval(HOUR);
            let start = Instant::now();
            interval.reset_after(ms(2));
            assert!(tick(way, &mut interval) >= start + ms(2));
            interval.reset_at(start);
            assert_eq!(tick(way, &mut interval), start, "a moment in the past is due at once");
            interval.reset_immediately();
            assert!(tick(way, &mut interval) > start);
            interval.reset();
            assert!(timeout(ms(2), || interval.tick()).is_err(), "one period is to pass");
            interval.reset_after(Duration::MAX);
            let waits = timeout_async(ms(2), interval.tick_async());
            assert!(block_on(waits).is_err(), "beyond the clock's range is never");
            interval.reset_immediately();
            tick(way, &mut interval);
        }
    });
}

#[test]
fn a_tick_that_was_not_taken_is_not_lost() {
    everywhere(|| {
        let start = Instant::now() + ms(300);
        let mut interval = interval_at(start, HOUR);
        assert!(timeout(ms(1), || interval.tick()).is_err());
        let mut polled = Box::pin(interval.tick_async());
        assert!(polled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(polled);
        assert_eq!(interval.tick(), start);
    });
}

#[test]
fn a_task_that_waits_sees_a_reset_by_another() {
    on_each(|| {
        let shared = Arc::new(Mutex::new(interval_at(Instant::now() + HOUR, HOUR)));
        let (polled, has_polled) = channel::bounded(1);
        let task = spawn({
            let shared = shared.clone();
            std::future::poll_fn(move |cx: &mut Context<'_>| -> Poll<Instant> {
                let poll = Pin::new(&mut *shared.lock()).get_mut().poll_tick(cx);
                let _ = polled.try_send(());
                poll
            })
        });
        has_polled.recv().unwrap();
        let next = Instant::now() + ms(2);
        shared.lock().reset_at(next);
        assert_eq!(task.join().unwrap(), next);
    });
}

#[test]
fn a_period_of_zero_panics() {
    panics_with("`period` must be non-zero.", || interval(Duration::ZERO));
}
