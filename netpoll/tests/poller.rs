//! The blocked poller: breaks, published times, and time-outs that are never early.

#![cfg(not(loom))]

use std::thread;
use std::time::{Duration, Instant};

use netpoll::{Netpoll, WakeBy};

/// Blocks as a caller with a clock that starts at `epoch`.
fn block_for(netpoll: &Netpoll, epoch: Instant, timeout: Duration) {
    let until = (epoch.elapsed() + timeout).as_nanos() as u64;
    let mut turn = netpoll.begin_block().unwrap();
    turn.publish(until);
    turn.block(until, Some(timeout), &mut Vec::new()).unwrap();
}

#[test]
fn a_time_out_is_never_early_and_comes_every_time() {
    let netpoll = Netpoll::new().unwrap();
    let epoch = Instant::now();
    for micros in [1, 50, 300, 999, 1000, 1001, 2500, 100, 7000, 20] {
        let timeout = Duration::from_micros(micros);
        for _ in 0..20 {
            let start = Instant::now();
            block_for(&netpoll, epoch, timeout);
            assert!(start.elapsed() >= timeout, "{:?} instead of {timeout:?}", start.elapsed());
        }
    }
    assert_eq!(netpoll.counters().polls, 200);
}

#[test]
fn an_alarm_that_a_break_overtook_still_rings_at_its_time() {
    let netpoll = Netpoll::new().unwrap();
    let start = Instant::now();
    let until = Duration::from_millis(30);
    netpoll.break_poll();
    // Each turn asks for the same time, so the alarm is set once and serves all turns.
    let mut turns = 0;
    while start.elapsed() < until {
        let mut turn = netpoll.begin_block().unwrap();
        turn.publish(until.as_nanos() as u64);
        turn.block(until.as_nanos() as u64, Some(until.saturating_sub(start.elapsed())), &mut Vec::new())
            .unwrap();
        turns += 1;
    }
    assert!((2..=4).contains(&turns), "{turns} turns: the time-out was early, or not at all");
}

#[test]
fn an_alarm_that_has_rung_is_set_anew() {
    let netpoll = Netpoll::new().unwrap();
    for _ in 0..2 {
        // A clock that stands still: the same time twice. The second wait hangs if it relies on the first
        // alarm.
        let mut turn = netpoll.begin_block().unwrap();
        turn.publish(100);
        turn.block(100, Some(Duration::from_millis(2)), &mut Vec::new()).unwrap();
    }
}

#[test]
fn an_earlier_time_out_after_a_later_one_counts() {
    let netpoll = Netpoll::new().unwrap();
    let epoch = Instant::now();
    netpoll.break_poll();
    block_for(&netpoll, epoch, Duration::from_secs(3600));
    // This wait would block for an hour if the alarm were left as it is.
    block_for(&netpoll, epoch, Duration::from_millis(2));
}

#[test]
fn the_longest_time_out_does_not_ring_at_once() {
    let netpoll = Netpoll::new().unwrap();
    thread::scope(|scope| {
        let blocker = scope.spawn(|| {
            let mut turn = netpoll.begin_block().unwrap();
            turn.publish(u64::MAX - 1);
            turn.block(u64::MAX - 1, Some(Duration::MAX), &mut Vec::new()).unwrap();
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!blocker.is_finished());
        netpoll.break_poll();
    });
}

#[test]
fn a_zero_time_out_does_not_block() {
    let netpoll = Netpoll::new().unwrap();
    let mut turn = netpoll.begin_block().unwrap();
    turn.publish(u64::MAX);
    turn.block(u64::MAX, Some(Duration::ZERO), &mut Vec::new()).unwrap();
}

#[test]
fn a_hundred_breaks_are_one_write_and_one_wake() {
    let netpoll = Netpoll::new().unwrap();
    for _ in 0..100 {
        netpoll.break_poll();
    }
    let counters = netpoll.counters();
    assert_eq!((counters.breaks_written, counters.breaks_saved), (1, 99));
    let epoch = Instant::now();
    block_for(&netpoll, epoch, Duration::from_secs(3600));
    // There was a single break, so the next wait runs its full time.
    let start = Instant::now();
    block_for(&netpoll, epoch, Duration::from_millis(10));
    assert!(start.elapsed() >= Duration::from_millis(10));
    netpoll.break_poll();
    assert_eq!(netpoll.counters().breaks_written, 2, "a noticed break saves no later write");
}

#[test]
fn a_break_that_poll_now_noticed_saves_no_later_write() {
    let netpoll = Netpoll::new().unwrap();
    for _ in 0..3 {
        netpoll.break_poll();
        let polled = netpoll.poll_now(usize::MAX, 0, &mut Vec::new()).unwrap();
        assert_eq!((polled.woken, polled.more), (0, false));
    }
    netpoll.break_poll();
    block_for(&netpoll, Instant::now(), Duration::from_secs(3600));
}

#[test]
fn wake_by_breaks_only_a_wait_that_would_end_too_late() {
    let netpoll = Netpoll::new().unwrap();
    assert_eq!(netpoll.wake_by(5), WakeBy::NobodyBlocks);
    let mut turn = netpoll.begin_block().unwrap();
    assert!(netpoll.begin_block().is_none());
    assert_eq!(netpoll.poll_now(usize::MAX, 0, &mut Vec::new()), None);
    assert_eq!(netpoll.wake_by(5), WakeBy::NobodyBlocks, "nothing has been published");
    turn.publish(100);
    assert_eq!(netpoll.last_poll(), u64::MAX);
    assert_eq!(netpoll.wake_by(100), WakeBy::Served);
    assert_eq!(netpoll.wake_by(101), WakeBy::Served);
    turn.publish(50);
    assert_eq!(netpoll.wake_by(50), WakeBy::Served);
    assert_eq!(netpoll.counters().breaks_written, 0);
    assert_eq!(netpoll.wake_by(49), WakeBy::Broken);
    assert_eq!(netpoll.wake_by(48), WakeBy::Broken);
    assert_eq!(netpoll.counters().breaks_written, 1);
    // This wait would block for an hour without the earlier break.
    turn.block(50, Some(Duration::from_secs(3600)), &mut Vec::new()).unwrap();
    assert_eq!(netpoll.wake_by(1), WakeBy::NobodyBlocks);
}

#[test]
fn a_dropped_turn_withdraws_its_time() {
    let netpoll = Netpoll::new().unwrap();
    netpoll.polled(77);
    let mut turn = netpoll.begin_block().unwrap();
    turn.publish(u64::MAX);
    drop(turn);
    assert_eq!(netpoll.wake_by(1), WakeBy::NobodyBlocks);
    assert_eq!(netpoll.last_poll(), 77);
    assert!(netpoll.begin_block().is_some());
}

#[test]
fn begin_block_succeeds_while_another_thread_polls_all_the_time() {
    const POLLS: u64 = 50_000;
    let netpoll = Netpoll::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while netpoll.counters().polls < POLLS {
                netpoll.poll_now(usize::MAX, 0, &mut Vec::new());
            }
        });
        while netpoll.counters().polls < POLLS {
            assert!(netpoll.begin_block().is_some(), "a thread in poll_now keeps others from blocking");
        }
    });
}
