//! The lateness of wake-ups: three histograms of sleeps.
//!
//! - *plain*: an OS thread that does nothing else. Its histogram measures the machine.
//! - *idle*: the only green thread of a runtime of its own. Only a late wake-up or the machine can delay this
//!   thread, so its check is strict, with sysmon and without.
//! - *soaked*: the sleeps that are operations. These sleepers queue behind computing and blocking green
//!   threads, for longer than a lost wake-up takes. So their check is lax: it fails only if many sleeps are
//!   late.
//!
//! A wake-up that is lost, and repaired by sysmon or by the next event, is late by [`LATE`] or more.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use ::tests::Random;
use runtime::{Builder, Runtime};

/// sysmon repairs a lost wake-up after 10 ms at most.
const LATE: Duration = Duration::from_micros(1 << LATE_BUCKET);
const LATE_BUCKET: usize = 13;
/// The longest sleep of the idle green thread and the plain thread.
const LONGEST_US: u64 = 1000;

/// The number of 1,000 sleeps that may be late.
struct Bound {
    always: u64,
    /// Added for each late sleep of 1,000 plain ones: the wake-up of a green thread takes several OS threads.
    for_each_plain: u64,
}

const IDLE_BOUND: Bound = Bound { always: 5, for_each_plain: 5 };
/// For runs without sysmon. With sysmon, some operations hog their Ps, and no bound would hold.
const SOAKED_BOUND: Bound = Bound { always: 50, for_each_plain: 20 };
/// The largest bound, however late the plain sleeps are.
const MOST_PER_MILLE: u64 = 900;

const BUCKETS: usize = 20;

/// The first bucket counts sleeps less than 1 us late. Each next bucket counts sleeps up to twice as late as
/// the bucket before.
struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    const fn new() -> Self {
        Histogram([const { AtomicU64::new(0) }; BUCKETS])
    }
}

static SOAKED: Histogram = Histogram::new();
static IDLE: Histogram = Histogram::new();
static PLAIN: Histogram = Histogram::new();
/// The runtime of the idle green thread.
static OWN: OnceLock<Runtime> = OnceLock::new();
/// While true, each wake-up of the idle green thread comes 10 ms late.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

impl Histogram {
    fn add(&self, late: Duration) {
        let bucket = (u128::BITS - late.as_micros().leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    fn counts(&self) -> [u64; BUCKETS] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}

/// Counts the sleep of a soaked green thread that was due at `due` and has just ended.
pub(crate) fn soaked(due: Instant) {
    SOAKED.add(due.elapsed());
}

/// Delays each further wake-up of the idle green thread by 10 ms, as if the wake-up were lost and sysmon
/// repaired it.
pub(crate) fn break_wake_ups() {
    IS_BROKEN.store(true, Relaxed);
}

/// Starts the idle green thread, in a runtime with or without sysmon, and the plain OS thread.
pub(crate) fn start(sysmon: bool) {
    let own = Builder::new().procs(2).thread_name("soak-idle").sysmon(sysmon).build().expect("a runtime");
    drop(own.spawn(|| {
        sleep_for_ever(&IDLE, |time| {
            let broken = if IS_BROKEN.load(Relaxed) { Duration::from_millis(10) } else { Duration::ZERO };
            runtime::sleep(time + broken);
        })
    }));
    assert!(OWN.set(own).is_ok(), "the sleepers start once");
    let plain = || sleep_for_ever(&PLAIN, thread::sleep);
    thread::Builder::new().name("soak-clock".into()).spawn(plain).expect("a thread");
}

fn sleep_for_ever(counts: &Histogram, sleep: impl Fn(Duration)) {
    let mut random = Random::new(1);
    loop {
        let time = Duration::from_micros(random.below(LONGEST_US));
        let due = Instant::now() + time;
        sleep(time);
        counts.add(due.elapsed());
    }
}

/// Returns the number of OS threads of the idle green thread's runtime.
pub(crate) fn threads() -> usize {
    OWN.get().map_or(0, |own| own.handle().metrics().threads)
}

/// Prints the histograms. Returns `Err` if green threads were late more often than the bounds allow.
pub(crate) fn judge(sysmon: bool) -> Result<(), String> {
    let all = [&SOAKED, &IDLE, &PLAIN].map(Histogram::counts);
    println!("\n{:>14} {:>12} {:>12} {:>12}", "late, below us", "soaked", "idle", "plain");
    for i in (0..BUCKETS).filter(|&i| all.iter().any(|counts| counts[i] > 0)) {
        let [soaked, idle, plain] = all.map(|counts| counts[i]);
        println!("{:14} {soaked:12} {idle:12} {plain:12}", 1u64 << i);
    }
    let [soaked, idle, plain] = all.map(|counts| late_per_mille(&counts));
    IDLE_BOUND.check("an idle", idle, plain)?;
    if sysmon { Ok(()) } else { SOAKED_BOUND.check("the soaked", soaked, plain) }
}

impl Bound {
    fn check(&self, whose: &str, late: u64, plain: u64) -> Result<(), String> {
        if late <= (self.always + self.for_each_plain * plain).min(MOST_PER_MILLE) {
            return Ok(());
        }
        Err(format!(
            "{late} of 1,000 sleeps of {whose} runtime were {LATE:?} late, and {plain} of a plain thread"
        ))
    }
}

fn late_per_mille(counts: &[u64; BUCKETS]) -> u64 {
    let all: u64 = counts.iter().sum();
    let late: u64 = counts[LATE_BUCKET + 1..].iter().sum();
    (late * 1000).div_ceil(all.max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, Histogram, IDLE_BOUND, LATE, late_per_mille};

    #[test]
    fn the_late_bucket_and_above_count_as_late() {
        let histogram = Histogram::new();
        let us = Duration::from_micros(1);
        for late in [Duration::ZERO, us, LATE - us, LATE, 10 * LATE, Duration::from_secs(9)] {
            histogram.add(late);
        }
        assert_eq!(histogram.counts()[..2], [1, 1]);
        assert_eq!(late_per_mille(&histogram.counts()), 500);
        assert_eq!(late_per_mille(&[0; BUCKETS]), 0);
    }

    #[test]
    fn late_wake_ups_exceed_the_bound_unless_the_plain_thread_is_late_too() {
        assert!(IDLE_BOUND.check("an idle", 1000, 0).is_err());
        assert!(IDLE_BOUND.check("an idle", 10, 0).is_err());
        assert!(IDLE_BOUND.check("an idle", 10, 1).is_ok());
        assert!(IDLE_BOUND.check("an idle", 1000, 1000).is_err());
    }
}
