//! Each design fires each timer once, never early, and fires no cancelled timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::{ManyHeaps, OneHeap, PerP, Timers, Wheel};
use peer_common::load::Random;

const HOUR: Duration = Duration::from_secs(3600);
const TASKS: u64 = 8;
const TIMERS: usize = 500;

fn each(procs: usize, test: impl Test) {
    run(OneHeap::new(), procs, &test);
    run(ManyHeaps::new(procs), procs, &test);
    run(Wheel::new(), procs, &test);
    run(PerP, procs, &test);
}

trait Test: Sync {
    fn test<T: Timers>(&self, timers: &Arc<T>);
}

fn run<T: Timers>(timers: T, procs: usize, test: &impl Test) {
    let timers = Arc::new(timers);
    let runtime = runtime::Builder::new().procs(procs).build().expect("a runtime");
    runtime.block_on(|| test.test(&timers));
    timers.end();
}

/// The callback of a timer. Records the timer's deadline and the number of firings; an early firing adds
/// 1,000.
struct Probe {
    start: Instant,
    due_ns: AtomicU64,
    fired: AtomicU32,
}

impl Probe {
    fn due_in(&self, time: Duration) {
        self.due_ns.store((self.start.elapsed() + time).as_nanos() as u64, Ordering::Release);
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        let (due, now) = (self.due_ns.load(Ordering::Acquire), self.start.elapsed().as_nanos() as u64);
        // No assertion stands here, because the thread that fires the timer would catch the panic.
        self.fired.fetch_add(if now < due { 1_000 } else { 1 }, Ordering::Release);
    }
}

struct Mixture;

impl Test for Mixture {
    fn test<T: Timers>(&self, timers: &Arc<T>) {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let timers = Arc::clone(timers);
                runtime::spawn(move || mixture(&*timers, task))
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().expect("the task does not panic"));
    }
}

/// Timers of all kinds: left alone, cancelled long before their time, reset to a later or an earlier time.
fn mixture<T: Timers>(timers: &T, task: u64) {
    let mut random = Random::of_task(task);
    let mut armed = Vec::new();
    for _ in 0..TIMERS {
        let short = Duration::from_micros(random.below(20_000) as u64);
        let probe =
            Arc::new(Probe { start: Instant::now(), due_ns: AtomicU64::new(0), fired: AtomicU32::new(0) });
        let callback = Waker::from(Arc::clone(&probe));
        match random.below(4) {
            0 => {
                probe.due_in(short);
                armed.push((probe, 1, timers.add(short, &callback)));
            }
            1 => {
                probe.due_in(HOUR);
                timers.cancel(timers.add(HOUR, &callback));
                assert_eq!(probe.fired.load(Ordering::Acquire), 0);
            }
            2 => {
                let mut timer = timers.add(HOUR, &callback);
                probe.due_in(short);
                timers.reset(&mut timer, short, &callback);
                armed.push((probe, 1, timer));
            }
            _ => {
                let mut timer = timers.add(HOUR, &callback);
                probe.due_in(HOUR);
                timers.reset(&mut timer, 2 * HOUR, &callback);
                armed.push((probe, 0, timer));
            }
        }
        if random.below(16) == 0 {
            timers.sleep(Duration::from_micros(random.below(500) as u64));
        }
    }
    let start = Instant::now();
    while armed.iter().any(|(probe, times, _)| probe.fired.load(Ordering::Acquire) < *times) {
        assert!(start.elapsed() < Duration::from_secs(50), "a timer did not fire");
        timers.sleep(Duration::from_millis(1));
    }
    // A timer that would fire twice has time to do so.
    timers.sleep(Duration::from_millis(2));
    for (probe, times, timer) in armed {
        assert_eq!(
            probe.fired.load(Ordering::Acquire),
            times,
            "1000 or more: fired early; more than {times}: fired too often"
        );
        timers.cancel(timer);
    }
}

#[test]
fn each_timer_fires_once_never_early_and_cancelled_ones_never() {
    for procs in [1, 2, 8] {
        each(procs, Mixture);
    }
}

struct FiredAndArmedAgain;

impl Test for FiredAndArmedAgain {
    fn test<T: Timers>(&self, timers: &Arc<T>) {
        let probe =
            Arc::new(Probe { start: Instant::now(), due_ns: AtomicU64::new(0), fired: AtomicU32::new(0) });
        let callback = Waker::from(Arc::clone(&probe));
        let mut timer = timers.add(Duration::ZERO, &callback);
        for times in 1..=20 {
            while probe.fired.load(Ordering::Acquire) < times {
                runtime::yield_now();
            }
            let time = Duration::from_micros(u64::from(times) * 50);
            probe.due_in(time);
            timers.reset(&mut timer, time, &callback);
        }
        while probe.fired.load(Ordering::Acquire) < 21 {
            timers.sleep(Duration::from_micros(100));
        }
        timers.cancel(timer);
        assert_eq!(probe.fired.load(Ordering::Acquire), 21);
    }
}

#[test]
fn a_timer_that_has_fired_can_be_reset() {
    each(2, FiredAndArmedAgain);
}

struct EarlierThanAll;

impl Test for EarlierThanAll {
    fn test<T: Timers>(&self, timers: &Arc<T>) {
        let sleeper = {
            let timers = Arc::clone(timers);
            runtime::spawn(move || timers.sleep(HOUR))
        };
        // The thread that fires timers now waits for the timer of an hour.
        timers.sleep(Duration::from_millis(5));
        let start = Instant::now();
        timers.sleep(Duration::from_millis(5));
        assert!((5..60_000).contains(&start.elapsed().as_millis()));
        sleeper.cancel();
        assert!(sleeper.join().is_err());
    }
}

#[test]
fn an_earlier_timer_wakes_whoever_sleeps_for_a_later_one() {
    each(1, EarlierThanAll);
    each(2, EarlierThanAll);
}
