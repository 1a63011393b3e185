//! The histograms of the metrics against known truth. There are hogs of known length, timers that fire late
//! by a known time, and known numbers of wake-ups and polls.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use runtime::metrics::{AtPlace, Histogram, Snapshot, prometheus};
use runtime::{Builder, Runtime, sleep, spawn, thread, yield_now};
use tests::{on, wait_until, with_built};

/// Computes for `time`, without a call of the runtime.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

fn all(procs: usize) -> Builder {
    Builder::new().procs(procs).measure_all(true)
}

/// Returns a runtime without sysmon, so that a hog keeps its P.
fn without_sysmon() -> Runtime {
    all(1).sysmon(false).build().unwrap()
}

/// Returns the metrics once the last slice is recorded. `block_on` returns a moment earlier.
fn at_rest(runtime: &Runtime) -> Snapshot {
    let now = || runtime.handle().metrics();
    wait_until("each wake-up has led to a slice", || {
        let now = now();
        now.running == 0 && now.slices.count() + now.poll_times.count() == now.latency.count()
    });
    now()
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_hog_of_20_ms_delays_those_behind_it_by_as_much() {
    let runtime = without_sysmon();
    let before = runtime.handle().metrics();
    runtime.block_on(|| {
        let others: Vec<_> =
            (0..10).map(|i| if i == 0 { spawn(|| compute(millis(20))) } else { spawn(|| ()) }).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    let now = at_rest(&runtime);
    let latency = now.latency.since(&before.latency);
    // `main`, the ten others, and the wake-ups of `main`. Nine wait for the hog.
    assert!((11..=21).contains(&latency.count()), "{}", latency.count());
    assert!(latency.count_from(millis(16)) >= 9, "{latency:?}");
    assert!(latency.quantile(0.0).unwrap() < millis(16), "the hog itself did not wait: {latency:?}");
    let slices = now.slices.since(&before.slices);
    assert_eq!(slices.count(), latency.count(), "each wake-up leads to a slice");
    assert!(slices.count_from(millis(16)) >= 1 && slices.sum() >= millis(20), "{slices:?}");
    assert_eq!(now.poll_times.count(), 0);
}

#[test]
fn samples_stand_for_all_wake_ups() {
    for measure_all in [false, true] {
        let runtime = Builder::new().procs(1).sysmon(false).measure_all(measure_all).build().unwrap();
        runtime.block_on(|| {
            let other = spawn(|| (0..100_000).for_each(|_| yield_now()));
            (0..100_000).for_each(|_| yield_now());
            other.join().unwrap();
        });
        let now = at_rest(&runtime);
        let yields = now.yields;
        assert_eq!(yields, 200_000);
        // The last sample stands for up to 1024 wake-ups that are still to come.
        assert!(now.latency.count().abs_diff(yields) <= 1100, "{} of {yields}", now.latency.count());
        if measure_all {
            assert!((200_001..=200_004).contains(&now.latency.count()), "{}", now.latency.count());
        }
    }
}

#[test]
fn all_wake_ups_are_measured_on_many_ps_if_asked_for() {
    with_built(all(4), |runtime| {
        runtime.block_on(|| {
            let yielding: Vec<_> = (0..100).map(|_| spawn(|| (0..1000).for_each(|_| yield_now()))).collect();
            yielding.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let now = runtime.handle().metrics();
        // A green thread that has lost its P yields without being counted and measured.
        assert!((90_000..=100_400).contains(&now.latency.count()), "{}", now.latency.count());
        assert_eq!(now.latency.buckets().map(|(_, n)| n).sum::<u64>(), now.latency.count());
    });
}

#[test]
fn a_timer_behind_a_hog_fires_as_late_as_the_hog_ends() {
    let runtime = without_sysmon();
    runtime.block_on(|| {
        // They all sleep before the first is due, also on a loaded machine.
        let sleepers: Vec<_> = (0..5).map(|_| spawn(|| sleep(millis(200)))).collect();
        yield_now();
        compute(millis(241));
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
    let now = runtime.handle().metrics();
    assert_eq!((now.timers_fired, now.timer_lateness.count()), (5, 5));
    assert_eq!(now.timer_lateness.count_from(millis(32)), 5, "{:?}", now.timer_lateness);
}

#[test]
fn polls_are_counted_and_long_polls_are_seen() {
    let runtime = without_sysmon();
    runtime.block_on(|| {
        let mut left = 100;
        let polled = spawn(poll_fn(move |context| {
            left -= 1;
            if left % 10 == 0 {
                compute(millis(5));
            }
            context.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
        polled.join().unwrap();
    });
    let now = at_rest(&runtime);
    assert_eq!(now.polls, 100);
    let times = &now.poll_times;
    assert_eq!(times.count(), 100, "{times:?}");
    // A poll that the processor was taken from may be long too.
    assert!((10..=30).contains(&times.count_from(millis(4))), "{times:?}");
    assert!(times.quantile(0.5).unwrap() < millis(4), "{times:?}");
    assert!(times.sum() >= millis(50), "{times:?}");
}

fn at(places: &[AtPlace], line: u32) -> AtPlace {
    let here = |at: &&AtPlace| at.place.is_some_and(|place| place.file() == file!() && place.line() == line);
    places.iter().find(here).unwrap_or_else(|| panic!("line {line}: {places:#?}")).clone()
}

#[test]
fn each_place_shows_who_lives_and_how_long_they_ran_and_waited() {
    let runtime = without_sysmon();
    runtime.block_on(|| {
        let parks = line!() + 1;
        let parked: Vec<_> = (0..30).map(|_| spawn(thread::park)).collect();
        let computes = line!() + 1;
        let computing: Vec<_> = (0..3).map(|_| spawn(|| compute(millis(10)))).collect();
        computing.into_iter().for_each(|thread| thread.join().unwrap());
        let places = runtime::metrics::by_place();
        let (parks, computes) = (at(&places, parks), at(&places, computes));
        assert_eq!((parks.alive, parks.active, parks.spawned, parks.runs), (30, 0, 30, 30), "{parks:#?}");
        assert_eq!((computes.alive, computes.spawned, computes.runs), (0, 3, 3), "{computes:#?}");
        assert!(computes.ran >= millis(30) && parks.ran < computes.ran, "{places:#?}");
        // The second waits for the first, and the third for both.
        assert!(computes.delayed >= millis(30), "{computes:#?}");
        parked.iter().for_each(|thread| thread.cancel());
    });
}

#[test]
fn a_p_is_busy_while_it_computes_and_not_while_it_is_idle() {
    on(2, || {
        let busy = |now: &Snapshot| now.by_proc.iter().map(|p| p.busy).sum::<Duration>();
        let handle = runtime::Handle::current();
        let before = busy(&handle.metrics());
        let start = Instant::now();
        compute(millis(300));
        let (computed, within) = (busy(&handle.metrics()) - before, start.elapsed());
        if tests::has_sysmon() {
            // Sysmon looks every 10 ms, or later on a busy machine.
            assert!(computed >= millis(150) && computed <= 2 * within, "{computed:?} of {within:?}");
        }
        let before = busy(&handle.metrics());
        sleep(millis(300));
        let idle = busy(&handle.metrics()) - before;
        assert!(idle <= millis(150), "{idle:?}");
    });
}

#[test]
fn prometheus_reads_the_histograms() {
    let runtime = without_sysmon();
    runtime.block_on(|| (0..50).for_each(|_| sleep(Duration::from_micros(10))));
    let now = runtime.handle().metrics();
    let page = prometheus(&now);
    let of = |name: &str, histogram: &Histogram| {
        let value = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
        let lines = |suffix: &str| -> Vec<f64> {
            let start = format!("runtime_{name}_{suffix}");
            page.lines().filter(|line| line.starts_with(&start)).map(value).collect()
        };
        assert!(page.contains(&format!("# TYPE runtime_{name} histogram\n")), "{page}");
        let buckets = lines("bucket{le=");
        assert!(buckets.is_sorted() && buckets.len() > 20, "{name}: {buckets:?}");
        assert_eq!(lines("count"), [histogram.count() as f64], "{name}");
        assert_eq!(*buckets.last().unwrap(), histogram.count() as f64, "{name}");
        let sum = lines("sum")[0];
        assert!((sum - histogram.sum().as_secs_f64()).abs() < 1e-6, "{name}: {sum}");
    };
    assert_eq!(now.timer_lateness.count(), 50);
    of("timer_lateness_seconds", &now.timer_lateness);
    of("sched_latency_seconds", &now.latency);
    of("slice_seconds", &now.slices);
    of("poll_seconds", &now.poll_times);
    assert!(page.contains("_bucket{le=\"+Inf\"} 50\n"), "{page}");
}
