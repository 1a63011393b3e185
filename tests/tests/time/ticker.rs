//! `time::Ticker`: ticks at whole periods, slow receivers, stop and reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::{RecvTimeoutError, TryRecvError};
use runtime::time::{MissedTickBehavior, Ticker, Timer, tick};
use runtime::{select, thread};
use tests::{Random, everywhere, on_each, panics_with};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn all_ticks_are_whole_periods_apart() {
    everywhere(|| {
        let period = ms(2);
        let before = Instant::now();
        let ticker = Ticker::new(period);
        let made = Instant::now();
        let mut ticks: Vec<Instant> = Vec::new();
        for i in 0..12 {
            ticks.push(ticker.channel().recv().unwrap());
            if i % 4 == 3 {
                runtime::sleep(ms(5));
            }
        }
        // Late receivers have missed ticks. Each received tick is a whole number of periods after the first.
        let first = ticks[0];
        assert!((before + period..=made + period).contains(&first));
        for pair in ticks.windows(2) {
            assert!(pair[0] < pair[1], "a tick came twice");
        }
        for tick in ticks {
            assert_eq!((tick - first).as_nanos() % period.as_nanos(), 0, "the ticks drift");
        }
    });
}

#[test]
fn ticks_that_were_missed() {
    everywhere(|| {
        let period = ms(10);
        let late = |behavior| {
            let ticker = Ticker::new(period);
            ticker.set_missed_tick_behavior(behavior);
            assert_eq!(ticker.missed_tick_behavior(), behavior);
            runtime::sleep(ms(36));
            let before = Instant::now();
            let first = ticker.channel().try_recv().unwrap();
            (ticker, first, before)
        };
        let (ticker, first, before) = late(MissedTickBehavior::Burst);
        let mut last = first;
        for due in ticker.channel().try_iter() {
            assert_eq!(due - last, period, "no tick is left out");
            last = due;
        }
        assert!(last + period > before && last >= first + 2 * period);
        // The first tick was more than 25 ms late.
        let (ticker, first, before) = late(MissedTickBehavior::Delay);
        assert!(ticker.channel().recv().unwrap() >= before + period, "a new grid begins");
        ticker.reset(period);
        assert_eq!(ticker.missed_tick_behavior(), MissedTickBehavior::Delay);
        assert!(first < before);
        let (ticker, first, before) = late(MissedTickBehavior::Skip);
        let next = ticker.channel().recv().unwrap();
        assert!(next > before && (next - first).as_nanos() % period.as_nanos() == 0, "the grid stays");
    });
}

#[test]
fn a_slow_receiver_gets_a_single_waiting_tick() {
    everywhere(|| {
        let period = ms(3);
        let ticker = Ticker::new(period);
        let first = ticker.channel().recv().unwrap();
        let received = Instant::now();
        runtime::sleep(8 * period);
        let slept = Instant::now();
        assert_eq!(ticker.channel().len(), 1);
        let waiting = ticker.channel().try_recv().unwrap();
        assert!(first < waiting && waiting <= received + period, "the oldest tick waits");
        let next = ticker.channel().recv().unwrap();
        assert!(next > slept, "ticks during the sleep are dropped");
        assert_eq!((next - first).as_nanos() % period.as_nanos(), 0);
    });
}

#[test]
fn a_period_of_zero_panics() {
    everywhere(|| {
        panics_with("non-positive interval for Ticker::new", || Ticker::new(Duration::ZERO));
        let ticker = Ticker::new(HOUR);
        panics_with("non-positive interval for Ticker::reset", || ticker.reset(Duration::ZERO));
        assert_eq!(tick(Duration::ZERO).recv_timeout(ms(1)), Err(RecvTimeoutError::Timeout), "as in Go");
    });
}

#[test]
fn a_period_beyond_the_clock_never_comes() {
    everywhere(|| {
        let ticker = Ticker::new(Duration::MAX);
        assert_eq!(ticker.channel().recv_timeout(ms(1)), Err(RecvTimeoutError::Timeout));
        ticker.reset(ms(1));
        assert!(ticker.channel().recv().is_ok());
    });
}

#[test]
fn the_shortest_period() {
    everywhere(|| {
        let ticker = Ticker::new(Duration::from_nanos(1));
        let mut last = None;
        for tick in ticker.channel().iter().take(1000) {
            assert!(last < Some(tick) && tick <= Instant::now());
            last = Some(tick);
        }
    });
}

#[test]
fn a_stopped_ticker_sends_no_tick_until_reset() {
    everywhere(|| {
        let ticker = Ticker::new(ms(1));
        ticker.channel().recv().unwrap();
        runtime::sleep(ms(3));
        ticker.stop();
        assert_eq!(ticker.channel().try_recv(), Err(TryRecvError::Empty), "a tick from before the stop");
        assert_eq!(ticker.channel().recv_timeout(ms(5)), Err(RecvTimeoutError::Timeout));
        ticker.stop();
        let start = Instant::now();
        ticker.reset(ms(2));
        assert!(ticker.channel().recv().unwrap() >= start + ms(2));
        assert!(ticker.channel().recv().unwrap() >= start + ms(4));
    });
}

#[test]
fn reset_discards_earlier_ticks() {
    everywhere(|| {
        let ticker = Ticker::new(Duration::from_micros(1));
        for _ in 0..200 {
            runtime::sleep(Duration::from_micros(10));
            let start = Instant::now();
            ticker.reset(Duration::from_micros(50));
            assert!(ticker.channel().recv().unwrap() >= start + Duration::from_micros(50));
            ticker.reset(Duration::from_micros(1));
        }
    });
}

#[test]
fn a_waiting_receiver_sees_a_shorter_period() {
    everywhere(|| {
        let ticker = Ticker::new(HOUR);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| ticker.channel().iter().take(3).collect::<Vec<_>>());
            runtime::sleep(ms(2));
            let start = Instant::now();
            ticker.reset(ms(1));
            let ticks = receiver.join().unwrap();
            assert!((1..).zip(ticks).all(|(k, tick)| tick >= start + k * ms(1)));
        });
    });
}

#[test]
fn receivers_share_the_ticks() {
    on_each(|| {
        let ticker = Arc::new(Ticker::new(ms(1)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ticker = ticker.clone();
                runtime::spawn(move || ticker.channel().iter().take(5).collect::<Vec<_>>())
            })
            .collect();
        let mut ticks: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        ticks.sort();
        ticks.dedup();
        assert_eq!(ticks.len(), 20, "a tick came twice");
    });
}

#[test]
fn a_ticker_is_dropped_while_it_runs() {
    everywhere(|| {
        for _ in 0..3 {
            let ticker = Ticker::new(ms(1));
            ticker.channel().recv().unwrap();
            let channel = ticker.channel().clone();
            runtime::sleep(ms(2));
            drop(ticker);
            assert_eq!(channel.try_recv(), Err(TryRecvError::Empty));
        }
    });
}

#[test]
fn a_ticker_and_a_timer_in_a_select() {
    everywhere(|| {
        let (ticker, end) = (Ticker::new(ms(1)), Timer::new(ms(10)));
        let mut ticks = 0;
        loop {
            select! {
                recv(ticker.channel()) -> tick => ticks += usize::from(tick.is_ok()),
                recv(end.channel()) -> _ => break,
            }
        }
        assert!(!end.stop());
        // Both channels may have been ready at the last select.
        assert!(ticks >= 1 || ticker.channel().try_recv().is_ok());
    });
}

#[test]
fn a_ticker_in_a_future() {
    on_each(|| {
        let start = Instant::now();
        let last = runtime::spawn(async {
            let ticker = Ticker::new(ms(1));
            let mut last = None;
            for _ in 0..5 {
                last = Some(ticker.tick_async().await);
            }
            last.unwrap()
        });
        assert!(last.join().unwrap() >= start + ms(5));
    });
}

/// Each tick is received once and is not in the future, whatever other threads do to the ticker.
#[test]
fn stop_and_reset_race_with_receivers() {
    everywhere(|| {
        let ticker = Ticker::new(Duration::from_micros(20));
        let (over, got) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = None;
                    while !over.load(Ordering::Relaxed) {
                        if let Ok(tick) = ticker.channel().recv_timeout(ms(1)) {
                            assert!(tick <= Instant::now(), "early");
                            assert!(last != Some(tick), "the tick came twice");
                            last = Some(tick);
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            for seed in 0..2 {
                let ticker = &ticker;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..500 {
                        match random.below(4) {
                            0 => ticker.stop(),
                            n => ticker.reset(Duration::from_micros(1 + 20 * n)),
                        }
                        runtime::sleep(Duration::from_micros(random.below(40)));
                    }
                    // The last reset leaves the ticker running, for the receivers.
                    ticker.reset(Duration::from_micros(20));
                });
            }
            scope.spawn(|| {
                runtime::sleep(ms(10));
                tests::wait_until("a tick is received", || got.load(Ordering::Relaxed) > 10);
                over.store(true, Ordering::Relaxed);
            });
        });
    });
}
