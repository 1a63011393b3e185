//! How late wake-ups come: three histograms of sleeps.
//!
//! - *plain*: an OS thread that does nothing else. It measures the machine.
//! - *idle*: a green thread alone in a runtime of its own. No other green thread is before it, so only a late wake-up, or
//!   the machine, makes it late. The check of this one is strict, with sysmon and without.
//! - *soaked*: the sleeps that are operations. They wait for their turn behind computing and blocking green threads,
//!   for longer than a lost wake-up takes. So the check of these is lax: it finds only a runtime in which many are late.
//!
//! A wake-up that is lost, and made good by sysmon or by the next event, is [`LATE`] or later.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use ::tests::Random;
use runtime::{Builder, Runtime};

/// sysmon makes good for lost wake-ups after 10 ms at most.
const LATE: Duration = Duration::from_micros(1 << LATE_BUCKET);
const LATE_BUCKET: usize = 13;
/// The longest sleep of the idle green thread and the plain thread.
const LONGEST_US: u64 = 1000;

/// How many of 1,000 sleeps may be late.
struct Bound {
    always: u64,
    /// So many more for each late one of 1,000 plain sleeps: the wake-up of a green thread takes several OS threads.
    for_each_plain: u64,
}

const IDLE_BOUND: Bound = Bound { always: 5, for_each_plain: 5 };
/// Without sysmon. With it some operations hog their Ps, and no bound is honest.
const SOAKED_BOUND: Bound = Bound { always: 50, for_each_plain: 20 };
/// More are never allowed.
const MOST_PER_MILLE: u64 = 900;

const BUCKETS: usize = 20;

/// The first bucket counts what is less than 1 us late, each other what is up to twice as late as the one before.
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
/// From now on each wake-up of the idle green thread comes 10 ms late.
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

/// Counts a sleep of a soaked green thread that was to end at `due` and has just ended.
pub(crate) fn soaked(due: Instant) {
    SOAKED.add(due.elapsed());
}

/// Delays each wake-up of the idle green thread by 10 ms from now on, as sysmon does with a lost one.
pub(crate) fn break_wake_ups() {
    IS_BROKEN.store(true, Relaxed);
}

/// Starts the idle green thread, in a runtime with or without sysmon, and the plain thread.
pub(crate) fn start(sysmon: bool) {
    let own = Builder::new().procs(2).thread_name("soak-idle").sysmon(sysmon).build().expect("a runtime");
    drop(own.spawn(|| {
        sleep_for_ever(&IDLE, |time| {
            let broken = if IS_BROKEN.load(Relaxed) { Duration::from_millis(10) } else { Duration::ZERO };
            runtime::sleep(time + broken);
        })
    }));
    assert!(OWN.set(own).is_ok(), "it is started once");
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

/// How many OS threads the runtime of the idle green thread has now.
pub(crate) fn threads() -> usize {
    OWN.get().map_or(0, |own| own.handle().metrics().threads)
}

/// Prints the histograms. `Err`: green threads were late more often than the system explains.
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
    fn what_is_late_is_counted_so() {
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
    fn wake_ups_that_are_lost_break_the_bound_unless_the_machine_explains_them() {
        assert!(IDLE_BOUND.check("an idle", 1000, 0).is_err());
        assert!(IDLE_BOUND.check("an idle", 10, 0).is_err());
        assert!(IDLE_BOUND.check("an idle", 10, 1).is_ok());
        assert!(IDLE_BOUND.check("an idle", 1000, 1000).is_err());
    }
}
