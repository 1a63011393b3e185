//! How late wake-ups come: a histogram of the sleeps of green threads, and beside it one of a plain OS thread's sleeps.
//!
//! The second says how late the system itself is: on a busy machine both are late, and only the difference is the runtime's. A
//! wake-up that is lost, and made good by sysmon or by the next event, is [`LATE`] or later.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use ::tests::Random;

/// sysmon makes good for lost wake-ups after 10 ms at most.
const LATE: Duration = Duration::from_micros(1 << LATE_BUCKET);
const LATE_BUCKET: usize = 13;
/// So many late sleeps in a thousand are the queues' of a process that does much else.
const ALLOWED_PER_MILLE: u64 = 50;
/// So many times as many as of the plain thread's sleeps: a green thread waits for an OS thread, and for its turn.
const TIMES: u64 = 20;
/// More are never allowed.
const MOST_PER_MILLE: u64 = 900;

const BUCKETS: usize = 20;

/// The first bucket counts what is less than 1 us late, each other what is up to twice as late as the one before.
struct Histogram([AtomicU64; BUCKETS]);

static GREEN: Histogram = Histogram([const { AtomicU64::new(0) }; BUCKETS]);
static PLAIN: Histogram = Histogram([const { AtomicU64::new(0) }; BUCKETS]);

impl Histogram {
    fn add(&self, late: Duration) {
        let bucket = (u128::BITS - late.as_micros().leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    fn counts(&self) -> [u64; BUCKETS] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}

/// Counts a sleep of a green thread that was to end at `due` and has just ended.
pub(crate) fn green(due: Instant) {
    GREEN.add(due.elapsed());
}

/// Starts the plain thread whose sleeps are compared with; it sleeps as long as the others do.
pub(crate) fn start() {
    let sleeps = || {
        let mut random = Random::new(1);
        loop {
            let due = Instant::now() + Duration::from_micros(random.below(600));
            thread::sleep(due.saturating_duration_since(Instant::now()));
            PLAIN.add(due.elapsed());
        }
    };
    thread::Builder::new().name("soak-clock".into()).spawn(sleeps).expect("a thread");
}

/// Prints both histograms. `Err`: green threads were late more often than the system explains.
pub(crate) fn judge() -> Result<(), String> {
    let (green, plain) = (GREEN.counts(), PLAIN.counts());
    println!("\n{:>14} {:>12} {:>12}", "late, below us", "green", "plain");
    for (i, (green, plain)) in green.iter().zip(&plain).enumerate().filter(|(_, both)| both != &(&0, &0)) {
        println!("{:14} {green:12} {plain:12}", 1u64 << i);
    }
    let (of_green, of_plain) = (late_per_mille(&green), late_per_mille(&plain));
    if of_green <= (ALLOWED_PER_MILLE + TIMES * of_plain).min(MOST_PER_MILLE) {
        return Ok(());
    }
    Err(format!(
        "{of_green} of 1,000 sleeps of green threads were {LATE:?} late, and {of_plain} of a plain thread's"
    ))
}

fn late_per_mille(counts: &[u64; BUCKETS]) -> u64 {
    let all: u64 = counts.iter().sum();
    let late: u64 = counts[LATE_BUCKET + 1..].iter().sum();
    (late * 1000).div_ceil(all.max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::{BUCKETS, Histogram, LATE, late_per_mille};

    #[test]
    fn what_is_late_is_counted_so() {
        let histogram = Histogram([const { AtomicU64::new(0) }; BUCKETS]);
        let us = Duration::from_micros(1);
        for late in [Duration::ZERO, us, LATE - us, LATE, 10 * LATE, Duration::from_secs(9)] {
            histogram.add(late);
        }
        assert_eq!(histogram.counts()[..2], [1, 1]);
        assert_eq!(late_per_mille(&histogram.counts()), 500);
        assert_eq!(late_per_mille(&[0; BUCKETS]), 0);
    }
}
