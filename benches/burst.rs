//! The memory and the lateness after a burst of green threads, which all wait for one semaphore and then
//! end. The program prints:
//!
//! - the cost of `metrics::snapshot` while the green threads wait and after they have ended;
//! - how late a 1 ms ticker is beside two green threads that compute, while sysmon gives the stacks back;
//! - how much more memory the process holds afterwards than before, with the kernel's page tables for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use clap::Parser;
use runtime::sync::Semaphore;
use runtime::thread::Builder;
use runtime::{Runtime, metrics, spawn};

const TICK: Duration = Duration::from_millis(1);
const OBSERVED: Duration = Duration::from_secs(12);
/// The time that a hog computes between two yields. After a yield the hog needs a P again, and keeps that P
/// until sysmon takes the P.
const COMPUTED: Duration = Duration::from_millis(300);

/// The memory and the lateness after a burst of green threads
#[derive(Parser)]
#[command(name = "burst")]
struct Options {
    /// Number of green threads
    #[arg(default_value_t = 1_000_000)]
    number: usize,
    /// They are futures, without stacks
    #[arg(long)]
    futures: bool,
    /// Size of each stack [default: the runtime's]
    stack_bytes: Option<usize>,
}

fn main() {
    let Options { number, futures, stack_bytes } = Options::parse();
    let runtime = runtime::Builder::new().procs(2).build().expect("a runtime");
    let before = resident_mib();
    burst(&runtime, number, futures, stack_bytes);
    println!(
        "all have ended: a snapshot takes {:.3} ms, {} MiB more than before",
        time_snapshots(&runtime),
        resident_mib() - before
    );
    runtime.block_on(|| tick_beside_hogs(before));
    let start = Instant::now();
    while resident_mib() > before + 20 + (number / 3000) as i64 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!(
        "idle for {:.1} s: {} MiB more than before",
        start.elapsed().as_secs_f64(),
        resident_mib() - before
    );
}

struct Gate {
    opens: Semaphore,
    waiting: AtomicUsize,
    passed: AtomicUsize,
}

fn burst(runtime: &Runtime, number: usize, futures: bool, stack_bytes: Option<usize>) {
    let (start, before) = (Instant::now(), resident_mib());
    let gate = Arc::new(Gate {
        opens: Semaphore::new(0),
        waiting: AtomicUsize::new(0),
        passed: AtomicUsize::new(0),
    });
    let one = |gate: Arc<Gate>| match futures {
        true => drop(spawn(async move {
            gate.waiting.fetch_add(1, SeqCst);
            gate.opens.acquire_async().await.expect("it is not closed").forget();
            gate.passed.fetch_add(1, SeqCst);
        })),
        false => {
            let builder = stack_bytes.map_or_else(Builder::new, |bytes| Builder::new().stack_size(bytes));
            let waiter = move || {
                gate.waiting.fetch_add(1, SeqCst);
                gate.opens.acquire().expect("it is not closed").forget();
                gate.passed.fetch_add(1, SeqCst);
            };
            drop(builder.spawn(waiter).expect("a stack"));
        }
    };
    runtime.block_on(|| (0..number).for_each(|_| one(gate.clone())));
    wait_until(|| gate.waiting.load(SeqCst) == number);
    println!(
        "{number} green threads wait after {:.1} s: a snapshot takes {:.3} ms, {} MiB more than before",
        start.elapsed().as_secs_f64(),
        time_snapshots(runtime),
        resident_mib() - before
    );
    let woken = Instant::now();
    gate.opens.add_permits(number);
    wait_until(|| gate.passed.load(SeqCst) == number);
    println!("all were woken and have ended after {:.1} s more", woken.elapsed().as_secs_f64());
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the time of the shortest of five snapshots, in ms.
fn time_snapshots(runtime: &Runtime) -> f64 {
    let one = || {
        let start = Instant::now();
        std::hint::black_box(runtime.handle().metrics());
        start.elapsed()
    };
    (0..5).map(|_| one()).min().expect("there are five calls").as_secs_f64() * 1000.0
}

fn tick_beside_hogs(before: i64) {
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            spawn(move || {
                while !stop.load(SeqCst) {
                    let start = Instant::now();
                    while start.elapsed() < COMPUTED {}
                    runtime::yield_now();
                }
            })
        })
        .collect();
    let (mut late, start) = (Vec::new(), Instant::now());
    while start.elapsed() < OBSERVED {
        let tick = Instant::now();
        runtime::sleep(TICK);
        late.push(tick.elapsed().saturating_sub(TICK));
    }
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|hog| hog.join().expect("a hog does not panic"));
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!(
        "beside two hogs: {} ticks, late p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms; {} MiB more than before",
        late.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        resident_mib() - before
    );
    let rescues = metrics::snapshot();
    println!("rescues {}, sysmon woke {} times", rescues.rescues_computing, rescues.sysmon_wakeups);
}

/// Returns `VmRSS` with `VmPTE`, the page tables, in MiB. Returns 0 if the system has no `/proc`.
fn resident_mib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<i64>().ok();
    let is_counted = |line: &&str| line.starts_with("VmRSS:") || line.starts_with("VmPTE:");
    status.lines().filter(is_counted).filter_map(kib).sum::<i64>() >> 10
}
