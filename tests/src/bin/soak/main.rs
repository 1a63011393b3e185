//! Soak test: random operations of the whole API on many green threads and some plain OS threads.
//!
//! ```text
//!   for each number of Ps and each kind of runtime, in rounds of some seconds (round.rs):
//!     start a runtime, a desk, a ring and an echo server (world.rs)
//!     workers choose an operation by weight, perform it, and repeat (actor.rs; operations: ops.rs, ops/)
//!     at the end every spawned thread has ended, every token is dropped, every question is answered; after the
//!       runtime ends, the process has as many threads and descriptors as before
//! ```
//!
//! Each operation checks its own results. Many operations perform others within themselves, and cancellations
//! and time-outs interrupt them. A failed check, or an operation that does not end (watch.rs), ends the
//! process. It prints the seed, what each actor was doing (board.rs) and the metrics. The seed decides the
//! sequence of operations that each worker chooses. It does not decide the scheduling, so a failure seldom
//! repeats at the next run.
//!
//! To add an operation, write a function of an [`Actor`](actor::Actor) and add a line to the table of
//! `ops.rs`.

mod actor;
mod board;
mod desk;
mod echo;
mod late;
mod mailbox;
mod mode;
mod ops;
mod ring;
mod round;
mod settings;
mod site;
mod stale;
mod watch;
mod world;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::Parser;
use round::Totals;
use settings::Settings;

/// The longest time of a round.
const ROUND: Duration = Duration::from_secs(10);

fn main() {
    let settings = Settings::parse();
    if settings.list { ops::show() } else { soak(&settings) }
}

/// Starts ThreadSanitizer's symbolizer before descriptors are counted. At the first suppressed report, its
/// two pipes would look like a leak.
#[cfg(tsan)]
fn start_symbolizer() {
    use std::ffi::{c_char, c_void};
    unsafe extern "C" {
        fn __sanitizer_symbolize_pc(pc: *const c_void, format: *const c_char, out: *mut c_char, size: usize);
    }
    let mut name = [0; 256];
    let pc = start_symbolizer as fn() as *const c_void;
    // SAFETY: the format ends with a zero, and the call writes at most as many bytes as `name` has.
    unsafe { __sanitizer_symbolize_pc(pc, c"%f".as_ptr(), name.as_mut_ptr(), name.len()) };
}

fn soak(settings: &Settings) {
    #[cfg(tsan)]
    start_symbolizer();
    println!("soak {}", settings.again());
    ops::set_menu(settings);
    mode::set_sysmon(settings.sysmon);
    late::start(settings.sysmon);
    watch::start(settings);
    // The default runtime stays until the process ends. It must exist before the first round counts threads
    // and descriptors.
    runtime::block_on(|| ());
    let (start, totals) = (Instant::now(), rounds(settings));
    print_operations(start.elapsed());
    if let Err(late) = late::judge(settings.sysmon) {
        panic!("{late}");
    }
    let Totals { operations, threads, refused } = totals;
    let secs = start.elapsed().as_secs_f64();
    println!(
        "ok: {secs:.0} s, {operations} operations, {threads} green threads, {refused} without a port, seed {}",
        settings.seed
    );
}

/// Runs rounds until the time is up. Each kind of runtime has the same number of rounds.
fn rounds(settings: &Settings) -> Totals {
    let kinds = (settings.procs.len() * settings.modes.len()) as u32;
    let laps = settings.time.div_duration_f64(ROUND * kinds).ceil().max(1.0) as u32;
    let (time, mut totals, mut seed) = (settings.time / (laps * kinds), Totals::default(), settings.seed);
    for _ in 0..laps {
        for &mode in &settings.modes {
            for &procs in &settings.procs {
                let round = round::run(settings, procs, mode, time, seed);
                totals.operations += round.operations;
                totals.threads += round.threads;
                totals.refused += round.refused;
                seed = seed.wrapping_add(1);
            }
        }
    }
    totals
}

fn print_operations(time: Duration) {
    println!(
        "\n{:20} {:>9} {:>9} {:>11} {:>10}",
        "operation", "finished", "a second", "interrupted", "longest ms"
    );
    for (op, counts) in ops::OPS.iter().zip(&board::COUNTS).filter(|(op, _)| ops::is_on_menu(op)) {
        let [finished, interrupted, longest] =
            [&counts.finished, &counts.interrupted, &counts.longest_ms].map(|count| count.load(Relaxed));
        let rate = finished as f64 / time.as_secs_f64();
        println!("{:20} {finished:9} {rate:9.1} {interrupted:11} {longest:10}", op.name);
    }
}
