//! A 1 ms ticker beside hogs that call the runtime all the time and never park. Measures how late the ticker
//! is, and whether the green threads run that the hogs spawn.
//!
//! Measures each kind on one P and on two, with as many hogs as Ps. `--help` shows the options.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use runtime::channel::{TryRecvError, unbounded};
use runtime::{Builder, Runtime, sync::Mutex, thread, time};

const TICK: Duration = Duration::from_millis(1);

/// The state that all hogs of a run share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The number of green threads that the hogs have spawned, or of messages that they have sent.
    made: AtomicU64,
    /// The number of these green threads that have run, or of messages that have arrived.
    done: AtomicU64,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

type Hog = fn(&Arc<Shared>);

const KINDS: [(&str, Hog); 13] = [
    ("computes", |shared| while shared.goes_on() {}),
    ("spawns", |shared| {
        while shared.goes_on() {
            let theirs = Arc::clone(shared);
            shared.made.fetch_add(1, Ordering::Relaxed);
            drop(runtime::spawn(move || theirs.done.fetch_add(1, Ordering::Relaxed)));
        }
    }),
    ("spawns-and-computes", |shared| {
        while shared.goes_on() {
            let theirs = Arc::clone(shared);
            shared.made.fetch_add(1, Ordering::Relaxed);
            drop(runtime::spawn(move || theirs.done.fetch_add(1, Ordering::Relaxed)));
            spin(Duration::from_micros(50));
        }
    }),
    ("spawns-futures", |shared| {
        while shared.goes_on() {
            let theirs = Arc::clone(shared);
            shared.made.fetch_add(1, Ordering::Relaxed);
            drop(runtime::spawn(async move { theirs.done.fetch_add(1, Ordering::Relaxed) }));
        }
    }),
    ("sends", |shared| {
        let (tx, rx) = unbounded();
        let theirs = Arc::clone(shared);
        let receiver = runtime::spawn(move || {
            while rx.recv().is_ok() {
                theirs.done.fetch_add(1, Ordering::Relaxed);
            }
        });
        while shared.goes_on() {
            shared.made.fetch_add(1, Ordering::Relaxed);
            tx.send(1u8).expect("the receiver lives");
        }
        drop(tx);
        receiver.join().expect("the receiver ends");
    }),
    ("try-receives", |shared| {
        let (_tx, rx) = unbounded::<u8>();
        while shared.goes_on() {
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        }
    }),
    ("locks", |shared| {
        let mutex = Mutex::new(0u64);
        while shared.goes_on() {
            *mutex.lock() += 1;
        }
        black_box(mutex.into_inner());
    }),
    ("resets", |shared| {
        let timer = time::after_func(Duration::from_secs(3600), || ());
        while shared.goes_on() {
            timer.reset(Duration::from_secs(3600));
        }
    }),
    ("sleeps-zero", |shared| {
        while shared.goes_on() {
            runtime::sleep(Duration::ZERO);
        }
    }),
    ("unparks-itself", |shared| {
        let me = thread::current();
        while shared.goes_on() {
            me.unpark();
            thread::park();
        }
    }),
    ("unparks-another", |shared| {
        let theirs = Arc::clone(shared);
        let other = runtime::spawn(move || {
            while theirs.goes_on() {
                thread::park();
                theirs.done.fetch_add(1, Ordering::Relaxed);
            }
        });
        while shared.goes_on() {
            other.thread().unpark();
        }
        other.thread().unpark();
        other.join().expect("the other green thread ends");
    }),
    ("yields", |shared| {
        while shared.goes_on() {
            runtime::yield_now();
        }
    }),
    ("blocks", |shared| {
        runtime::blocking(|| {
            drop(runtime::spawn(|| ()));
            while shared.goes_on() {
                std::thread::sleep(TICK);
            }
        });
    }),
];

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

/// How late a 1 ms ticker is beside hogs that call the runtime all the time
#[derive(Parser)]
#[command(name = "hog-calls")]
struct Options {
    /// Time of a measurement, in s
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "1.5")]
    secs: Duration,
    /// The kinds of hogs [default: all]
    #[arg(value_name = "KIND", value_parser = KINDS.map(|(name, _)| name))]
    kinds: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let secs = text.parse().map_err(|_| "a number is expected")?;
    Duration::try_from_secs_f64(secs).map_err(|error| error.to_string())
}

fn main() {
    let Options { secs, kinds } = Options::parse();
    println!(
        "{:<20} {:>2} {:>6} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>7} {:>8}",
        "hogs", "Ps", "ticks", "p50 us", "p99 us", "max us", "made", "done", "most", "threads", "rescues"
    );
    for (name, hog) in KINDS {
        if kinds.is_empty() || kinds.iter().any(|one| one == name) {
            [1, 2].into_iter().for_each(|procs| measure(name, hog, procs, secs));
        }
    }
}

/// Prints a line with the lateness of the ticker, the counts `made` and `done`, and their greatest difference
/// at the end of a tick.
fn measure(name: &str, hog: Hog, procs: usize, time: Duration) {
    let runtime = Builder::new().procs(procs).build().expect("a runtime");
    let shared = Arc::new(Shared::default());
    let hogs: Vec<_> = (0..procs)
        .map(|_| {
            let shared = Arc::clone(&shared);
            runtime.spawn(move || hog(&shared))
        })
        .collect();
    let (mut late, most) = tick(&runtime, &shared, time);
    let (made, done) = (shared.made.load(Ordering::Relaxed), shared.done.load(Ordering::Relaxed));
    let metrics = runtime.handle().metrics();
    shared.stop.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("a hog ends"));
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_micros();
    println!(
        "{name:<20} {procs:>2} {:>6} {:>8} {:>8} {:>8} {made:>9} {done:>9} {most:>8} {:>7} {:>8}",
        late.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        metrics.threads,
        metrics.rescues_computing + metrics.rescues_blocked,
    );
}

/// Runs a green thread that sleeps 1 ms in a loop. Returns the lateness of each tick, and the greatest `made`
/// minus `done`.
fn tick(runtime: &Runtime, shared: &Arc<Shared>, time: Duration) -> (Vec<Duration>, u64) {
    let shared = Arc::clone(shared);
    let ticker = runtime.spawn(move || {
        let (start, mut late, mut most) = (Instant::now(), Vec::with_capacity(10_000), 0);
        while start.elapsed() < time {
            let before = Instant::now();
            runtime::sleep(TICK);
            late.push(before.elapsed() - TICK);
            let done = shared.done.load(Ordering::Relaxed);
            most = most.max(shared.made.load(Ordering::Relaxed).saturating_sub(done));
        }
        (late, most)
    });
    ticker.join().expect("the ticker ends")
}
