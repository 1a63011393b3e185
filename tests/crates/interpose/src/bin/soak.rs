//! Performs random operations of std and C on green threads, and compares each result with that of the same
//! operation on plain OS threads. Green threads with 1, 2 and 8 Ps, in both migration modes, with and without
//! sysmon, take turns.
//!
//! ```sh
//! cargo run --release -p interpose --bin soak -- SECONDS [SEED]
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use interpose::crowd::raise_limit_of_descriptors;
use interpose::soak::{GREEN_ONLY, OPERATIONS, Operation, Random, Side};
use runtime::{Migration, Runtime};

runtime::interpose!();

/// Each operation is done with so many seeds.
const SEEDS: u64 = 24;
/// How many green threads do operations at once.
const WORKERS: u64 = 40;
/// An operation that takes longer has lost a wake-up.
const LOST: Duration = Duration::from_secs(120);

/// What plain OS threads got, by the operation's name and seed.
type Expected = BTreeMap<(&'static str, u64), String>;

/// How often the main thread looks for an operation that hangs.
const LOOK: Duration = Duration::from_millis(20);

/// The operations that are under way, by worker, each with the number of looks at which it began. Looks tell
/// the time: while the whole process is stopped, there are none.
#[derive(Default)]
struct UnderWay {
    operations: Mutex<BTreeMap<u64, (u64, &'static str, u64)>>,
    looks: AtomicU64,
}

impl UnderWay {
    fn set(&self, worker: u64, what: Option<(&'static str, u64)>) {
        let mut all = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Some((name, seed)) => all.insert(worker, (self.looks.load(Ordering::Relaxed), name, seed)),
            None => all.remove(&worker),
        };
    }

    fn check(&self) {
        let all = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: no operation that is found has begun after `now`.
        let now = self.looks.fetch_add(1, Ordering::Relaxed);
        let lost = (LOST.as_nanos() / LOOK.as_nanos()) as u64;
        if let Some((worker, (_, name, seed))) = all.iter().find(|(_, (began, ..))| now - began > lost) {
            eprintln!("worker {worker} hangs in `{name}` with seed {seed}");
            let _ = runtime::dump(&mut std::io::stderr());
            std::process::abort();
        }
    }
}

fn expect() -> Expected {
    let mut expected = Expected::new();
    for &(name, operation) in OPERATIONS {
        for seed in 0..SEEDS {
            let result = std::thread::spawn(move || operation(Side::Plain, seed)).join();
            expected.insert((name, seed), result.unwrap_or_else(|_| panic!("`{name}` with seed {seed}")));
        }
    }
    expected
}

fn work(worker: u64, seed: u64, ends: Instant, expected: &Expected, under_way: &UnderWay, done: &AtomicU64) {
    let mut random = Random::new(seed ^ worker << 32);
    let all: Vec<(&'static str, Operation)> = OPERATIONS.iter().chain(GREEN_ONLY).copied().collect();
    while Instant::now() < ends {
        let (name, operation) = all[random.below(all.len() as u64) as usize];
        let seed = random.below(SEEDS);
        under_way.set(worker, Some((name, seed)));
        let result = operation(Side::Green, seed);
        under_way.set(worker, None);
        if let Some(expected) = expected.get(&(name, seed)) {
            assert_eq!(result, *expected, "`{name}` with seed {seed}");
        } else {
            assert_eq!(result, "", "`{name}` with seed {seed}");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn run(runtime: &Runtime, seed: u64, time: Duration, expected: &Arc<Expected>) -> u64 {
    let (under_way, done) = (Arc::new(UnderWay::default()), Arc::new(AtomicU64::new(0)));
    let ends = Instant::now() + time;
    let workers = (0..WORKERS).map(|worker| {
        let (expected, under_way, done) = (expected.clone(), under_way.clone(), done.clone());
        runtime.spawn(move || work(worker, seed, ends, &expected, &under_way, &done))
    });
    let workers: Vec<_> = workers.collect();
    while workers.iter().any(|worker| !worker.is_finished()) {
        std::thread::sleep(LOOK);
        under_way.check();
    }
    workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
    done.load(Ordering::Relaxed)
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let seconds = args.next().unwrap_or(30);
    let seed = args.next().unwrap_or_else(|| u64::from(std::process::id()));
    raise_limit_of_descriptors();
    println!("seed {seed}");
    let expected = Arc::new(expect());
    println!("{} results of OS threads", expected.len());
    let ends = Instant::now() + Duration::from_secs(seconds);
    let time = Duration::from_millis((seconds * 1000 / 12).clamp(1000, 10_000));
    let mut done = 0;
    for round in 0.. {
        for (at, procs) in [1, 2, 8].into_iter().enumerate() {
            for (mode, migration) in [Migration::default(), Migration::BeforeStart].into_iter().enumerate() {
                for sysmon in [true, false] {
                    if Instant::now() >= ends {
                        println!("{done} operations, each as on OS threads");
                        return;
                    }
                    let builder = runtime::Builder::new().procs(procs).migration(migration).sysmon(sysmon);
                    let runtime = builder.build().expect("a runtime");
                    let number = round * 12 + (at * 4 + mode * 2 + usize::from(sysmon)) as u64;
                    let some = run(&runtime, seed ^ number << 48, time, &expected);
                    println!("{procs} Ps, {migration:?}, sysmon {sysmon}: {some} operations");
                    done += some;
                }
            }
        }
    }
}
