//! A ticker: a green thread that wakes every millisecond. The program prints how late the ticks are and what
//! each tick costs.
//!
//! The ticker sleeps until points of a grid (`start + k ms`), so lateness does not add up. The process does
//! nothing else, so its processor time is the cost of sleeping and waking.
//!
//! ```sh
//! cargo run --release --example ticker            # 3 seconds
//! cargo run --release --example ticker -- 10 --us 500
//! ```

use std::time::{Duration, Instant};

use support::{Args, Summary, commas, processor_time};

mod support;

const USAGE: &str = "\
usage: ticker [SECONDS] [--us PERIOD]

  SECONDS       length of the run (default 3)
  --us PERIOD   the time between ticks in microseconds (default 1000)";

fn main() {
    let mut args = Args::new(USAGE);
    let period = Duration::from_micros(args.number("--us", 1_000, 10..=1_000_000));
    let seconds =
        args.positional().map_or(3, |text| args.parse("SECONDS", &text.to_string_lossy(), 1..=3_600));
    args.end();

    println!("a tick every {period:?} for {seconds} s ...");
    let (late, missed, cost) = runtime::block_on(|| {
        // The first sleeps start OS threads and touch memory, so they are not measured.
        run(period, Duration::from_millis(20));
        let before = processor_time();
        let (late, missed) = run(period, Duration::from_secs(seconds));
        let cost = before.zip(processor_time()).map(|(before, after)| after.saturating_sub(before));
        (late, missed, cost)
    });

    let ticks = late.len();
    let late = Summary::of(late);
    println!("ticks          {} (points of the grid skipped: {missed})", commas(ticks));
    println!("lateness       p50 {:.1?}, p99 {:.1?}, max {:.1?}", late.p50, late.p99, late.max);
    match cost {
        Some(cost) => {
            println!("processor time {:.1?} in all, {:.1?} a tick", cost, cost / ticks.max(1) as u32)
        }
        None => println!("processor time n/a on this system"),
    }
}

/// Ticks for `time`. Returns how late each tick was, and how many points of the grid late ticks skipped.
fn run(period: Duration, time: Duration) -> (Vec<Duration>, u32) {
    let (start, mut late, mut missed) = (Instant::now(), Vec::new(), 0);
    let mut next = start + period;
    while next <= start + time {
        runtime::sleep_until(next);
        let lateness = Instant::now().duration_since(next);
        late.push(lateness);
        next += period;
        while lateness >= period && next <= Instant::now() {
            missed += 1;
            next += period;
        }
    }
    (late, missed)
}
