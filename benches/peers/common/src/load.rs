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

/// The random numbers of a task, by xorshift64.
pub struct Random(u64);

impl Random {
    /// Returns the generator of task `t`.
    pub fn of_task(t: u64) -> Random {
        Random(0x9E37_79B9_7F4A_7C15 + t)
    }

    /// Returns the next number.
    #[allow(clippy::should_implement_trait, reason = "the sequence never ends, and no code iterates over it")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a random time of 1 to 60 s.
    pub fn deadline(&mut self) -> Duration {
        Duration::from_nanos(1_000_000_000 + self.next() % 59_000_000_000)
    }
}
