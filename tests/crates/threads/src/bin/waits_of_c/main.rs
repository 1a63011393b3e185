//! Waits of C that are no mutex and no condition variable, by the name in the first argument. What is printed
//! is the same for green threads and for OS threads.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use libc::timespec;

mod all_wait;
mod barrier;
mod c11;
mod once;
mod semaphore;

runtime::interpose!(threads);

const MILLI: Duration = Duration::from_millis(1);

/// Returns the time of the clock in `ms`.
fn after(clock: libc::clockid_t, ms: i64) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `now`.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let ns = now.tv_nsec + ms * 1_000_000;
    timespec { tv_sec: now.tv_sec + ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// Waits until `count` is at least `number`.
fn wait_for(count: &AtomicUsize, number: usize) {
    while count.load(SeqCst) < number {
        thread::sleep(MILLI);
    }
}

/// Prints how many OS threads the process has, for the test.
fn report_os_threads() {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads of this process").count();
    eprintln!("OS threads: {threads}");
}

fn main() {
    match std::env::args().nth(1).expect("the name of a program").as_str() {
        "semaphore-pool" => semaphore::pool(),
        "semaphore-turns" => semaphore::turns(),
        "semaphore-waiting" => semaphore::waiting(),
        "semaphore-results" => semaphore::results(),
        "semaphore-freed" => semaphore::freed(),
        "semaphore-handler" => semaphore::handler(),
        "semaphore-storm" => semaphore::storm(),
        "semaphore-meet" => semaphore::meet(),
        "semaphore-forks" => semaphore::forks(),
        "semaphore-late" => semaphore::late(),
        "barrier-rounds" => barrier::rounds(),
        "barrier-crowd" => barrier::crowd(),
        "barrier-waiting" => barrier::waiting(),
        "barrier-freed" => barrier::freed(),
        "once" => once::once(),
        "once-waiting" => once::waiting(),
        "once-exits" => once::exits(),
        "once-forks" => once::forks(),
        "spin" => once::spin(),
        "c11-threads" => c11::threads(),
        "c11-locks" => c11::locks(),
        "c11-waiting" => c11::waiting(),
        program => all_wait::run(program),
    }
}
