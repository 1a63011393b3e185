//! The loads that define the workloads: computing for a given time, and random deadlines.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Computes until `time` of wall time has passed, without a yield. Returns the time that passed.
pub fn spin(time: Duration) -> Duration {
    let steps = if time < Duration::from_millis(1) { 1_000 } else { 10_000 };
    let start = Instant::now();
    let mut x = 1u64;
    loop {
        for _ in 0..steps {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        x = black_box(x);
        let took = start.elapsed();
        if took >= time {
            return took;
        }
    }
}

/// The random numbers of a task.
pub struct Random(fastrand::Rng);

impl Random {
    /// Returns the generator of task `t`.
    pub fn of_task(t: u64) -> Random {
        Random(fastrand::Rng::with_seed(t))
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// Returns a random time of 1 to 60 s.
    pub fn deadline(&mut self) -> Duration {
        Duration::from_nanos(self.0.u64(1_000_000_000..60_000_000_000))
    }
}
