//! Hogs: two green threads occupy both Ps while a third green thread ticks every millisecond. Are the ticks
//! on time?
//!
//! A P is the right to run green threads; here there are two. A hog either computes for 200 ms without a call
//! into the runtime, or blocks its OS thread for as long in `std::thread::sleep`. The monitor thread (sysmon)
//! takes the P of such a hog and gives it to another OS thread. That is a *rescue*.
//!
//! Look at the lateness with sysmon on and off, and at the list of rescues.
//!
//! ```sh
//! cargo run --release --example hog
//! cargo run --release --example hog -- --bursts 20 --procs 1
//! ```

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runtime::metrics::Rescue;
use runtime::{Builder, thread};
use support::{Args, Summary, ms};

mod support;

const USAGE: &str = "\
usage: hog [--procs P] [--hogs H] [--ms MS] [--bursts B]

  --procs P    number of green threads that run at the same time (default 2)
  --hogs H     number of hogs at the same time (default 2)
  --ms MS      length of a burst in milliseconds (default 200)
  --bursts B   number of bursts (default 5)";

const TICK: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
struct Load {
    procs: usize,
    hogs: usize,
    time: Duration,
    bursts: usize,
}

fn main() {
    let mut args = Args::new(USAGE);
    let load = Load {
        procs: args.number("--procs", 2, 1..=256) as usize,
        hogs: args.number("--hogs", 2, 1..=1_000) as usize,
        time: Duration::from_millis(args.number("--ms", 200, 1..=10_000)),
        bursts: args.number("--bursts", 5, 1..=1_000) as usize,
    };
    args.end();

    let Load { procs, hogs, time, bursts } = load;
    println!(
        "{hogs} hog(s) of {time:?} on {procs} P(s), {bursts} times; how late a 1 ms ticker was meanwhile, in ms"
    );
    println!();
    println!("hogs        sysmon        p50       p99       max     ticks");
    let mut rescues = Vec::new();
    for sysmon in [true, false] {
        for (kind, hog) in [("computing", compute as fn(Duration)), ("blocking", std::thread::sleep)] {
            match measure(load, sysmon, kind, hog) {
                Ok(report) => {
                    let (late, on) = (report.late, if sysmon { "on" } else { "off" });
                    let (p50, p99, max) = (ms(late.p50), ms(late.p99), ms(late.max));
                    println!("{kind:<11} {on:<6} {p50:>10.3} {p99:>9.3} {max:>9.3} {:>9}", report.ticks);
                    rescues.extend(report.rescues);
                }
                Err(error) => {
                    eprintln!("error: cannot start a runtime: {error}");
                    exit(1);
                }
            }
        }
    }
    println!();
    print_rescues(rescues);
}

struct Report {
    late: Summary,
    /// Ticks that overlap a burst.
    ticks: usize,
    rescues: Vec<Rescue>,
}

/// Starts a runtime, a ticker and several bursts of hogs. Returns the lateness during the bursts.
fn measure(load: Load, sysmon: bool, kind: &str, hog: fn(Duration)) -> io::Result<Report> {
    let runtime = Builder::new().procs(load.procs).sysmon(sysmon).build()?;
    let (ticks, bursts) = runtime.block_on(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let ticker = {
            let stop = Arc::clone(&stop);
            named("ticker".into(), move || tick_until(&stop))
        };
        runtime::sleep(PAUSE);
        let mut bursts = Vec::new();
        for _ in 0..load.bursts {
            let begin = Instant::now();
            let hogs: Vec<_> =
                (0..load.hogs).map(|_| named(format!("{kind} hog"), move || hog(load.time))).collect();
            hogs.into_iter().for_each(|hog| hog.join().expect("a hog does not panic"));
            bursts.push(begin..Instant::now());
            runtime::sleep(PAUSE);
        }
        stop.store(true, Ordering::Relaxed);
        (ticker.join().expect("the ticker does not panic"), bursts)
    });

    let during = |tick: &&Tick| bursts.iter().any(|burst| tick.from < burst.end && tick.to > burst.start);
    let during: Vec<_> = ticks.iter().filter(during).collect();
    let late = during.iter().flat_map(|tick| lateness(tick)).collect();
    Ok(Report { late: Summary::of(late), ticks: during.len(), rescues: runtime.handle().metrics().rescues })
}

/// A sleep of the ticker.
struct Tick {
    from: Instant,
    to: Instant,
}

fn tick_until(stop: &AtomicBool) -> Vec<Tick> {
    let mut ticks = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let from = Instant::now();
        runtime::sleep(TICK);
        ticks.push(Tick { from, to: Instant::now() });
    }
    ticks
}

/// Returns how late the tick was. A tick that is late by several ms stands for the ticks that it skipped:
/// late by 1 ms less, 2 ms less, ...
fn lateness(tick: &Tick) -> impl Iterator<Item = Duration> {
    let late = tick.to.duration_since(tick.from).saturating_sub(TICK);
    let swallowed = std::iter::successors(late.checked_sub(TICK), |late| late.checked_sub(TICK));
    std::iter::once(late).chain(swallowed.filter(|late| !late.is_zero()))
}

/// Computes for `time`, without any call except an occasional look at the clock.
fn compute(time: Duration) {
    let (start, mut x) = (Instant::now(), 1_u64);
    while start.elapsed() < time {
        for _ in 0..10_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        black_box(x);
    }
}

/// Spawns a named green thread. The list of rescues shows the name.
#[track_caller]
fn named<T: Send + 'static>(name: String, f: impl FnOnce() -> T + Send + 'static) -> runtime::JoinHandle<T> {
    thread::Builder::new().name(name).spawn(f).expect("the usual stack size is always allowed")
}

fn print_rescues(rescues: Vec<Rescue>) {
    if rescues.is_empty() {
        println!("no rescues");
        return;
    }
    println!("rescues: the hog that lost its P, what it was doing, and how long it had kept the P");
    let mut by_whom = BTreeMap::<_, Vec<Duration>>::new();
    for rescue in rescues {
        let doing = match rescue.blocked {
            Some(true) => "blocked",
            Some(false) => "computing",
            None => "unknown",
        };
        let name = rescue.name.unwrap_or_else(|| format!("id {}", rescue.id));
        by_whom.entry((name, rescue.spawned_at, doing)).or_default().push(rescue.away);
    }
    for ((name, place, doing), mut away) in by_whom {
        away.sort();
        let times = away.len();
        let (least, most) = (ms(away[0]), ms(away[times - 1]));
        println!(
            "  {name:<16} spawned at {place}  {doing:<9} {times:>3} x, after {least:.2} to {most:.2} ms"
        );
    }
}
